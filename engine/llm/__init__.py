"""From evidence to an answer in words: prompt, prefill with KV reuse, decoding, citations."""
