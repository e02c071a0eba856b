"""Question -> bank -> retrieval -> writer -> answer with its sources."""
