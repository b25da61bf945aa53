"""Products on GPUs without matrix units."""
