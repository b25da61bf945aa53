"""Running combinations."""
