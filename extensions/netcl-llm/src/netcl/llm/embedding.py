"""Embeddings of texts by a decoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import netcl.autograd as ag
from netcl.core import Tensor

if TYPE_CHECKING:
    from netcl.llm.model import Model

__all__ = ["embed"]


def embed(model: Model, ids: Sequence[int]) -> np.ndarray[Any, Any]:
    """Returns the mean of a prompt's states behind the last norm, scaled to length 1: (hidden_size,) of float32."""
    rows = Tensor.from_host(model.decoder.queue, np.array([ids], np.int32))
    with ag.no_grad():
        states = model.decoder.states(rows).astype("float32").numpy()
    mean = states[0].mean(axis=0, dtype=np.float64)
    return np.asarray(mean / max(float(np.linalg.norm(mean)), 1e-12), np.float32)
