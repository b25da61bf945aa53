"""Sorting rows, and searching in sorted ones."""
