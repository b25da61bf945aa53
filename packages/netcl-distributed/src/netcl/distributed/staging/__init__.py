"""Gradients that pass between the ranks of a host by page-locked memory and are summed on the devices."""
