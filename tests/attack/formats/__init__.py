"""Hostile files: a grammar-aware mutator for each format, and crafted files that ask for far more than they hold."""
