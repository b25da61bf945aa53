"""Pooling, and images as columns."""
