"""The engine and its registry."""
