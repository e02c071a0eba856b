"""Retrieval: finds candidates in the knowledge bank, ranks them, and returns the evidence for a question."""
