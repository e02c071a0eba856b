"""From evidence to an answer in words: prompt, decoding, citations."""
