"""One text file per prompt, read through importlib.resources."""
