"""Folder -> documents -> chunks -> knowledge bank."""
