"""Fuzzing of everything that reads what others wrote: targets, a driver, and a small corpus for each."""
