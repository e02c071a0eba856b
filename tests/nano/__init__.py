"""`make nano`: trains a tiny language model from scratch that answers questions from made-up mail.

The demo and the tests run on it. Its data is generated, its tokenizer and weights are its own; it learns to copy an
answer and to name the message that has it.
"""
