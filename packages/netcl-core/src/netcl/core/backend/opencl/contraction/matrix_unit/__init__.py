"""Products and convolutions on matrix units, and the trial of a unit."""
