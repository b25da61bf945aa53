"""The policy of each op under autocast, as its row of the op table says: half, float32 or widest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import netcl.autograd  # noqa: F401  its losses are rows too
from netcl.core.dispatch import TABLE, row_of


def policy(op: str) -> str:
    """``half``: floating inputs are cast to autocast's dtype; ``float32``: half inputs are cast to float32;
    ``widest``: inputs stay.

    UnsupportedError names an op that is not there.
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
