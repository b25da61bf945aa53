"""Keys of ``x[key]``."""

import numpy as np


def is_array(item):
    """True if an entry is a mask or has indices."""
    return isinstance(item, (list, np.ndarray)) or hasattr(item, "engine")


def spread(op, key, shape):
    """One entry for each axis, with Nones in between; lists become arrays."""
    items = [np.asarray(one) if isinstance(one, list) else one for one in (key if isinstance(key, tuple) else (key,))]
    taken = sum(one.ndim if is_array(one) and one.dtype == "bool" else one is not None for one in items)
    places = [place for place, one in enumerate(items) if one is Ellipsis]
    at = places[0] if places else len(items)
    items[at : at + 1] = [slice(None)] * (len(shape) - taken + len(places))
    return items
