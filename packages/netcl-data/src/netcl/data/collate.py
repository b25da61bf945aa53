"""default_collate: stacks samples into a batch of NumPy arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from netcl.data.tree import rebuild

__all__ = ["default_collate"]


def default_collate(samples: Sequence[Any]) -> Any:
    """Returns the batch of ``samples``, which have the same structure; n samples give arrays with first axis n.

    | leaf of a sample | leaf of the batch |
    |-|-|
    | array, NumPy scalar, anything with ``__array__``, shape s | array (n, *s), dtype kept |
    | bool, int, float, complex | bool, int64, float64, complex128 array (n,) |
    | str, bytes | list of n |
    | tuple, named tuple, list, dict | the same container of batched leaves |

    Raises:
        ValueError: there are no samples, or their shapes, lengths or keys differ. TypeError: a leaf has another type.
    """
    if not len(samples):
        raise ValueError("cannot make a batch of no samples")
    first = samples[0]
    if isinstance(first, (str, bytes)):
        return list(samples)
    if isinstance(first, np.ndarray):
        return _stack(samples)
    if isinstance(first, (bool, np.bool_)):
        return np.array(samples, np.bool_)
    if isinstance(first, np.generic):
        return np.array(samples, np.result_type(*{np.asarray(sample).dtype for sample in samples}))
    if isinstance(first, int):
        return np.array(samples, np.float64 if any(isinstance(sample, float) for sample in samples) else np.int64)
    if isinstance(first, (float, complex)):
        return np.array(samples)
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
    return np.stack(arrays)


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
