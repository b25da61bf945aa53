"""What each peer does for a row or a training step, in a process of its own (see peer_processes.py)."""
