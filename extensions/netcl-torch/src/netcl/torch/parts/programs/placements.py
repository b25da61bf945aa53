"""torch.distributed.tensor: the values that name how a tensor would be spread; nothing is spread over processes."""

from __future__ import annotations

from dataclasses import dataclass

TORCH_NAMES = ("Partial", "Placement", "Replicate", "Shard")


class Placement:
    """States how a tensor is spread over the processes of a mesh."""

    def is_shard(self, dim: int | None = None) -> bool:
        """True for a tensor that is split, along ``dim`` if it is given."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """True for a tensor that each process has."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """True for a tensor that is reduced from parts, by ``reduce_op`` if it is given."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """Split along a dimension."""

    dim: int


@dataclass(frozen=True)
class Replicate(Placement):
    """The same in each process."""


@dataclass(frozen=True)
class Partial(Placement):
    """Parts that are to be reduced."""

    reduce_op: str = "sum"
