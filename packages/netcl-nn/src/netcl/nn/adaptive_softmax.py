"""AdaptiveLogSoftmaxWithLoss: a softmax over many classes in clusters by frequency."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.errors import ShapeError
from netcl.nn.container import ModuleList, Sequential
from netcl.nn.linear import Linear
from netcl.nn.module import Module


class ASMoutput(NamedTuple):
    """The log probability of each target, and the mean of their negatives."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """log softmax of x (N, in_features) over ``n_classes`` in order of decreasing frequency (Grave et al. 2017).

    The first ``cutoffs[0]`` classes and one entry per cluster are the head; cluster i has the classes up to the next
    cutoff and a projection to in_features / div_value^(i + 1). ``layer(x, target)`` returns (output, loss). Every
    cluster is computed for the whole batch, without a host read.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        bounds = list(cutoffs)
        if not bounds or bounds != sorted(set(bounds)) or min(bounds) <= 0 or max(bounds) > n_classes - 1:
            raise ValueError(f"expected increasing cutoffs from 1 to {n_classes - 1}, got {bounds}")
        self.in_features: int = in_features
        self.n_classes: int = n_classes
        self.cutoffs: list[int] = [*bounds, n_classes]
        self.div_value: float = div_value
        self.head_bias: bool = head_bias
        self.shortlist_size: int = bounds[0]
        self.n_clusters: int = len(bounds)
        self.head_size: int = self.shortlist_size + self.n_clusters
        place: dict[str, Any] = {"device": device, "dtype": dtype}
        self.head: Linear = Linear(in_features, self.head_size, bias=head_bias, **place)
        self.tail: ModuleList = ModuleList()
        for at, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            hidden = int(in_features // div_value ** (at + 1))
            projection = Linear(in_features, hidden, bias=False, **place)
            self.tail.append(Sequential(projection, Linear(hidden, high - low, bias=False, **place)))

    def reset_parameters(self) -> None:
        """Initializes the parameters again."""
        self.head.reset_parameters()
        for cluster in self.tail:
            for layer in cluster:
                layer.reset_parameters()

    def log_prob(self, input: Tensor) -> Tensor:
        """Returns the log probabilities of all classes, (N, n_classes)."""
        head = ag.log_softmax(self.head(input), axis=1)
        parts = [ag.narrow(head, 1, 0, self.shortlist_size)]
        for at, cluster in enumerate(self.tail):
            of_cluster = ag.narrow(head, 1, self.shortlist_size + at, 1)
            parts.append(ag.add(ag.log_softmax(cluster(input), axis=1), of_cluster))
        return ag.cat(parts, axis=1)

    def forward(self, input_: Tensor, target_: Tensor) -> ASMoutput:
        single = input_.ndim == 1
        x, target = (ag.unsqueeze(input_, 0), ag.reshape(target_, (1,))) if single else (input_, target_)
        if x.ndim != 2 or target.shape != x.shape[:1] or x.shape[1] != self.in_features:
            raise ShapeError(
                f"{type(self).__name__}: expected x (N, {self.in_features}) and targets (N,), got {input_.shape} and "
                f"{target_.shape}",
                op=type(self).__name__,
            )
        rows = ag.gather(self.log_prob(x), 1, ag.unsqueeze(ag.cast(target, dtype="int64"), 1))
        output = ag.squeeze(rows, 1)
        loss = ag.neg(ag.mean(output))
        return ASMoutput(ag.squeeze(output, 0) if single else output, loss)

    def predict(self, input: Tensor) -> Tensor:
        """Returns the most probable class of each row, (N,)."""
        return ag.argmax(self.log_prob(input), axis=1)
