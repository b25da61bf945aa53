"""Selecting from rows, and stream compaction."""
