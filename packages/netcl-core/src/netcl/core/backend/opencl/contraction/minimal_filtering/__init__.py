"""Convolutions of 3 x 3 by minimal filtering (Winograd)."""
