"""Padding, and its gradient."""
