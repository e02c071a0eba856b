"""Prefill with KV reuse: loading, borrowing, computing and storing segments."""
