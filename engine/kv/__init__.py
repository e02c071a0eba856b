"""Prefill with KV reuse: what to load, borrow, compute and store."""
