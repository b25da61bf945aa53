"""Advice on drivers."""


def advice():
    """What to install; this core needs nothing."""
    return "nothing is missing: this netcl-core computes with NumPy"
