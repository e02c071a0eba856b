"""Keeps: LanceDB for what is searched, SQLite for what is counted and looked up by key. Imports nothing of ours."""
