"""KV of several LoRA adapters as differences from one of them (MobiLoRA), measured. Nothing of it is in pkb."""
