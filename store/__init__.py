"""Storage: LanceDB for search, SQLite for lookups by key, files for the KV cache. Imports no other package."""
