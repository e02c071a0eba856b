"""Trains the reader: a difference of low rank on all-MiniLM-L6-v2 that marks answers in windows of text.

`make reader` runs it; docs/reader.md says what it learns from, and how good it is.
"""
