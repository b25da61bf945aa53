"""Attention: the kernels of CPUs, of GPUs and of matrix units."""
