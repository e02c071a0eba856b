"""Tests of what is made of kept keys and values."""
