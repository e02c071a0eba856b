"""The resident process, and how commands reach it: client.py asks it, resident.py is it, wire.py is between them."""
