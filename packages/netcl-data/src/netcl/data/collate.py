"""default_collate: stacks samples into a batch of NumPy arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from netcl.data.tree import rebuild


def default_collate(samples: Sequence[Any]) -> Any:
    """Returns the batch of ``samples``, which have the same structure; n samples give arrays with first axis n.

    | leaf of a sample | leaf of the batch |
    |-|-|
    | array, NumPy scalar, anything with ``__array__``, shape s | array (n, *s), dtype kept, of several PyTorch's |
    | bool, int, float, complex | bool, int64, float64, complex128 array (n,) |
    | str, bytes | list of n |
    | tuple, named tuple, list, dict | the same container of batched leaves |

    Raises:
        ValueError: there are no samples, their shapes, lengths or keys differ, or their integer dtypes have none in
        common (uint64 and int64). TypeError: a leaf has another type.

    An integer among float32 gives float32, as in PyTorch; NumPy alone would make it float64.
    """
    if not len(samples):
        raise ValueError("cannot make a batch of no samples")
    first = samples[0]
    if isinstance(first, (str, bytes)):
        return list(samples)
    if isinstance(first, np.ndarray):
        return _stack(samples)
    if isinstance(first, (bool, int, float, complex, np.generic)):
        return _stack([np.asarray(sample, np.int64 if type(sample) is int else None) for sample in samples])
    if isinstance(first, Mapping):
        return _collate_mappings(samples)
    if isinstance(first, (tuple, list)):
        return _collate_sequences(samples)
    if hasattr(first, "__array__"):
        return _stack([np.asarray(sample) for sample in samples])
    raise TypeError(
        f"default_collate joins arrays, numbers, texts, tuples, lists and dicts, got {type(first).__name__}; "
        "give DataLoader a collate_fn"
    )


def _stack(arrays: Sequence[Any]) -> np.ndarray[Any, Any]:
    shape = arrays[0].shape
    for position, array in enumerate(arrays):
        if np.shape(array) != shape:
            raise ValueError(
                f"samples of one batch must have one shape: sample 0 has {shape}, sample {position} has "
                f"{np.shape(array)}; crop or resize them in the dataset or by transforms, or give a collate_fn"
            )
    dtypes = {np.asarray(array).dtype for array in arrays}
    return np.stack(arrays) if len(dtypes) == 1 else np.stack(arrays, dtype=_common(dtypes), casting="unsafe")


def _common(dtypes: set[np.dtype[Any]]) -> np.dtype[Any]:
    """Returns the dtype of a batch: of its floating samples alone if there are any, as in PyTorch."""
    floating = {dtype for dtype in dtypes if dtype.kind in "fc"}
    common = np.result_type(*(floating or dtypes))
    if not floating and common.kind == "f":
        names = " and ".join(sorted(map(str, dtypes)))
        raise ValueError(f"samples of one batch have the dtypes {names}, which no integer dtype holds; convert them")
    return common


def _collate_mappings(samples: Sequence[Any]) -> dict[Any, Any]:
    keys = samples[0].keys()
    for position, sample in enumerate(samples):
        if sample.keys() != keys:
            raise ValueError(
                f"samples of one batch must have the same keys: sample 0 has {list(keys)}, "
                f"sample {position} has {list(sample)}"
            )
    return {key: default_collate([sample[key] for sample in samples]) for key in keys}


def _collate_sequences(samples: Sequence[Any]) -> Any:
    length = len(samples[0])
    for position, sample in enumerate(samples):
        if len(sample) != length:
            raise ValueError(
                f"samples of one batch must have one length: sample 0 has {length} fields, "
                f"sample {position} has {len(sample)}"
            )
    return rebuild(samples[0], [default_collate([sample[field] for sample in samples]) for field in range(length)])
