"""Attacks on saving: a fault at each call to the system, kills at any moment, and several savers of one file."""
