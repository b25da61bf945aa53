"""Engines: one per queue."""
