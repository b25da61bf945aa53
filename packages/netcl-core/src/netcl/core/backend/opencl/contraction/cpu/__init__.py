"""Products on CPUs."""
