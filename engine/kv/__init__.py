"""When to load KV, and when to compute it."""
