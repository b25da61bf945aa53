"""The autocast policy of each op, from its row of the op table: half, float32 or widest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import netcl.autograd  # noqa: F401  registers the losses
from netcl.core.ops_table.dispatch import TABLE, row_of


def policy(op: str) -> str:
    """Returns ``half`` if floating inputs are cast to autocast's dtype (on CPUs if that is faster), ``float32`` if half
    inputs are cast to float32, ``widest`` if inputs are not cast.

    Raises UnsupportedError for an unknown op.
    """
    return row_of(op).amp


class _Policies(Mapping[str, str]):
    def __getitem__(self, op: str) -> str:
        if op not in TABLE:
            raise KeyError(op)
        return policy(op)

    def __iter__(self) -> Iterator[str]:
        return iter(TABLE)

    def __len__(self) -> int:
        return len(TABLE)


POLICY: Mapping[str, str] = _Policies()
