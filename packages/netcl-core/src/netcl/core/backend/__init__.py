"""Backends: the engines that compute on tensors, one package each with the same files."""
