"""Hostile processes: environments, threads, signals, and caches that others have written."""
