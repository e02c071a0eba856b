"""KV streaming of layers and head groups (SparKV): planned, carried out and simulated. Nothing of it is in pkb."""
