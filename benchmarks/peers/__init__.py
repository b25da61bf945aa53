"""The work of each peer for a row or a training step, in a separate process (see peer_processes.py)."""
