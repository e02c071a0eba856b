"""Embedders and language models behind two protocols."""
