"""Workarounds for single drivers: probes, and changes of their environment, threads and programs."""
