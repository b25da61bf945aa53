"""Modes of the calling thread."""
