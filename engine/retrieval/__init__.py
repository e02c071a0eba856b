"""Retrieval: candidates from the knowledge bank, ranked, and made into the evidence of a question."""
