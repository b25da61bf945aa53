"""Recurrent nets, and CTC."""
