"""Trains the adapter of SmolLM2 for pkb's roles; see README.md beside this."""
