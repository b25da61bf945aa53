"""Replays of recorded launches: their memory accesses, groups of them that are merged, command buffers."""
