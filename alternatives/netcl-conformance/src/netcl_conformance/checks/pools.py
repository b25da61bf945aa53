"""Level pools: sizes of pooled memory."""

from __future__ import annotations

from netcl.core import Tensor
from netcl.core.memory import empty_cache, memory_summary
from netcl_conformance.registry import check


@check("pools")
def summaries_are_texts_and_caches_are_emptied() -> None:
    made = Tensor.zeros((1000,))
    assert isinstance(str(memory_summary()), str)
    assert str(memory_summary())
    empty_cache()
    assert made.numpy().sum() == 0, "memory in use stays"
