"""Poisoned memory (NETCL_POISON=1): memory of undefined content is filled with values that show in every result.

An engine fills each new tensor, fresh or recycled, before the first launch that uses it; a captured step does so in
every replay. A kernel that reads what nothing has written then gives NaN or a huge number, on any driver, each time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# NaN in every floating dtype, whether it reads one word, half of one or two, and the largest int32.
PATTERN: np.uint32 = np.uint32(0x7FFFFFFF)


def poison_array(array: np.ndarray[Any, Any]) -> None:
    """Fills a C-contiguous array of any dtype with PATTERN, as many of its bytes as the last element needs.

    >>> x = np.zeros(3, np.float16)
    >>> poison_array(x)
    >>> bool(np.isnan(x).all())
    True
    """
    content = array.reshape(-1).view(np.uint8)
    content[...] = np.resize(PATTERN.reshape(1).view(np.uint8), content.size)
