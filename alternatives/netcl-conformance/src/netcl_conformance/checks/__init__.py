"""Checks by level, one module each, imported if the core declares the level."""
