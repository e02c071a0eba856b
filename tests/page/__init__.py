"""Tests of the page: its files, and the page in a browser."""
