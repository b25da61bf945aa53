"""Gradients of expression rows: derived from the program of the op, or stated in closed form."""
