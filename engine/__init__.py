"""Decides: parsing, retrieval, answering. Knows no terminal and no file formats of the store."""
