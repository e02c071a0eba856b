"""Attacks on one real home: its cache, its clock, who sent what, the parsers, the terminal; and poisoned mail."""
