"""Execution plans: the launches of a call, noted once and repeated on other tensors."""
