"""The command line: the only package that prints."""

import gc

gc.set_threshold(20_000)  # imports make that many objects and no garbage: at Python's 700 a tenth of a warm search
