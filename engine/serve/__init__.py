"""The resident process, and how a command reaches it."""
