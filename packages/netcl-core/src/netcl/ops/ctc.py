"""Connectionist temporal classification (CTC): the sum over alignments, and its gradient in closed form.

A sample's states are its labels with a blank before, between and after them, L = 2 S + 1. From one step to the next a
path stays, advances by one state, or skips a blank between different labels (Graves et al. 2006). The engine's
alpha-beta recursion sums over the paths, forward and backward, always in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netcl.core.dtypes import is_floating
from netcl.core.errors import ArgumentError, DTypeError, ShapeError
from netcl.core.expr import Const, Expr, Index, Load, apply, reduce, size_of
from netcl.core.expr import cast as cast_expr
from netcl.core.tensor import Tensor
from netcl.ops.arrange import narrow
from netcl.ops.domains import Cases, compared
from netcl.ops.elementwise import cast, div, isinf, maximum, where
from netcl.ops.index import gather
from netcl.ops.reduce import mean
from netcl.ops.reduce import sum as sum_op
from netcl.ops.shape import cat, expand, reshape, stack
from netcl.ops.table import composite, computed, engine_of

_NEVER = float("-inf")


# -- cases and their references in NumPy -------------------------------------------------------------------------------


def _states(targets: Any, blank: int) -> Any:
    states = np.full((targets.shape[0], 2 * targets.shape[1] + 1), blank)
    states[:, 1::2] = targets
    return states


def _jumps(states: Any, blank: int) -> Any:
    before = np.concatenate([np.full((len(states), 2), -1), states], 1)[:, : states.shape[1]]
    return (states != blank) & (states != before)


def _alphas(emissions: Any, jumps: Any) -> Any:
    with np.errstate(divide="ignore"):
        steps, n, width = emissions.shape
        alpha = np.full((steps, n, width + 2), _NEVER)
        alpha[0, :, 2:4] = emissions[0, :, :2]
        for t in range(1, steps):
            last = np.exp(alpha[t - 1])
            total = last[:, 2:] + last[:, 1:-1] + np.where(jumps, last[:, :-2], 0)
            alpha[t, :, 2:] = np.log(total) + emissions[t]
        return alpha[:, :, 2:]


def _paths_reference(emissions: Any, jumps: Any, lengths: Any, labels: Any) -> Any:
    alpha = _alphas(emissions, jumps)
    total = []
    for n, (steps, count) in enumerate(zip(lengths[:, 0], labels[:, 0])):
        ends = alpha[steps - 1, n, max(2 * count - 1, 0) : 2 * count + 1]
        total.append(-np.logaddexp.reduce(ends))
    return np.array(total), alpha


def _paths_sample(rng: np.random.Generator) -> tuple[Any, ...]:
    states = _states(np.array([[1, 2, 2], [3, 1, 0]]), 0)
    emissions = rng.uniform(-2, -0.5, (7, 2, 7))
    emissions[..., 0::2] = emissions[..., :1]
    return emissions, _jumps(states, 0), np.array([[7], [5]]), np.array([[3], [2]])


def _paths_cases(rng: np.random.Generator) -> Cases:
    yield _paths_sample(rng), {}


def _occupancy_cases(rng: np.random.Generator) -> Cases:
    sample = _paths_sample(rng)
    loss, alpha = _paths_reference(*sample)
    yield (*sample, loss, alpha), {}


def _occupancy_reference(emissions: Any, jumps: Any, lengths: Any, labels: Any, loss: Any, alpha: Any) -> Any:
    """Computes differences of the loss over four points: the occupancy is its negative gradient."""
    result, step = np.zeros(emissions.shape), 2e-3
    for at in np.ndindex(*emissions.shape):
        for factor, distance in ((1, -2), (-8, -1), (8, 1), (-1, 2)):
            moved = emissions.copy()
            moved[at] += distance * step
            result[at] -= factor * _paths_reference(moved, jumps, lengths, labels)[0][at[1]] / (12 * step)
    return result


# -- sums over paths ---------------------------------------------------------------------------------------------------


def _run(engine: Any, expression: Expr, inputs: Sequence[Tensor], shape: Sequence[int]) -> Tensor:
    return engine.run((expression,), tuple(inputs), shapes=(tuple(shape),))[0]  # type: ignore[no-any-return]


def _ended(engine: Any, lengths: Expr, labels: Expr) -> Expr:
    """Masks the states at the end of a path: at a sample's last step, the blank after its last label, or that label.
    A length beyond the tensor's raises the flag.
    """
    places = []
    most = size_of((0,), "int32"), apply("right_shift", size_of((2,), "int32"), 1)
    for value, low, high, what in ((lengths, 1, most[0], "steps"), (labels, 0, most[1], "labels")):
        length = cast_expr(value, "int32")
        code = engine.flag_code(
            f"ctc_loss: sample {{position}} has {{value}} {what}, where {low} to {{size}} are possible"
        )
        inside = (length >= low) & (length <= high)
        places.append(apply("require", inside, length, Const(code, "int32"), high))
    steps, end = places[0], places[1] * 2
    return apply("eq", Index(0), steps - 1) & (apply("eq", Index(2), end) | apply("eq", Index(2), end - 1))


def _states_cases(rng: np.random.Generator) -> Cases:
    yield (np.array([[1, 2, 2], [3, 1, 9]]), np.array([[3], [2]])), {}
    yield (np.zeros((2, 0), np.int64), np.array([[0], [0]])), {"blank": 1}


def _states_reference(targets: Any, labels: Any, blank: int = 0) -> Any:
    states = _states(np.where(np.arange(targets.shape[1]) < labels, targets, blank), blank)
    return states, _jumps(states, blank)


@computed(domain=compared(_states_cases, _states_reference, gradient=False))
def ctc_states(targets: Tensor, labels: Tensor, blank: int = 0) -> tuple[Tensor, Tensor]:
    """Returns the states (n, 2 S + 1), int64, of targets (n, S) padded after ``labels`` (n, 1), and a bool for each:
    True if it may follow the state two before it.
    """
    n, longest = targets.shape
    engine = targets.engine
    blanks = engine.empty((n, longest + 1), "int64")
    engine.fill(blanks, blank)
    if not longest:
        return blanks, engine.zeros((n, 1), "bool")
    label = cast_expr(Load(0, targets.dtype), "int64")
    known = apply("where", Index(1) < cast_expr(Load(1, labels.dtype), "int32"), label, Const(blank, "int64"))
    own = _run(engine, known, (targets, labels), targets.shape)
    pairs = stack([narrow(blanks, 1, 0, longest), own], 2).reshape(n, 2 * longest)
    states = cat([pairs, narrow(blanks, 1, longest, 1)], 1)
    outside = engine.empty((n, 2), "int64")
    engine.fill(outside, -1)
    before = cat([outside, narrow(states, 1, 0, 2 * longest - 1)], 1)
    differs = apply("ne", Load(0, "int64"), blank) & apply("ne", Load(0, "int64"), Load(1, "int64"))
    return states, _run(engine, differs, (states, before), states.shape)


@computed(dtypes="floating", amp="float32", domain=compared(_paths_cases, _paths_reference, gradient=False))
def ctc_paths(emissions: Tensor, jumps: Tensor, lengths: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Returns (-log of the sum over paths (n,), the sums so far (T, n, L)) for log-probabilities of states (T, n, L).

    ``jumps`` (n, L), bool: states that may follow the state two before them. ``lengths`` and ``labels`` (n, 1): steps
    and labels of each sample. Infinite if no path fits. Only the first result has a gradient.
    """
    engine = engine_of("ctc_paths", emissions, jumps, lengths, labels)
    n = emissions.shape[1]
    if n == 0:
        return engine.zeros((0,), emissions.dtype), engine.zeros(emissions.shape, emissions.dtype)
    alpha: Tensor = engine.ctc(emissions, jumps)
    ended = _ended(engine, Load(1, lengths.dtype), Load(2, labels.dtype))
    terms = apply("where", ended, Load(0, alpha.dtype), _NEVER)
    top = reduce("max", terms, (0, 2))
    finite = apply("where", apply("eq", top, _NEVER), 0.0, top)
    total = -(apply("log", reduce("sum", apply("exp", terms - finite), (0, 2))) + finite)
    loss = _run(engine, total, (alpha, lengths, labels), (1, n, 1))
    return loss.reshape(n), alpha


@computed(dtypes="floating", amp="float32", domain=compared(_occupancy_cases, _occupancy_reference, gradient=False))
def ctc_occupancy(
    emissions: Tensor, jumps: Tensor, lengths: Tensor, labels: Tensor, loss: Tensor, alpha: Tensor
) -> Tensor:
    """Returns the probability (T, n, L) that a path is in a state at a step: the negative gradient of ``ctc_paths`` by
    its emissions, from its results ``loss`` and ``alpha``; 0 if no path fits.
    """
    engine = engine_of("ctc_occupancy", emissions, jumps, lengths, labels, loss, alpha)
    dtype, shape, n = emissions.dtype, emissions.shape, emissions.shape[1]
    if n == 0:
        return engine.zeros(shape, dtype)  # type: ignore[no-any-return]
    ended = _ended(engine, Load(0, lengths.dtype), Load(1, labels.dtype))
    begins = _run(engine, apply("where", ended, Const(0.0, dtype), _NEVER), (lengths, labels, emissions), shape)
    beta = engine.ctc(emissions, jumps, begins)
    both = Load(0, dtype) + Load(1, dtype)
    share = apply("where", apply("eq", both, _NEVER), 0.0, apply("exp", both + Load(2, dtype)))
    return _run(engine, share, (alpha, beta, loss.reshape(n, 1)), shape)


# -- the loss ----------------------------------------------------------------------------------------------------------


def _loss_reference(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Any:
    losses = []
    for n, (steps, count) in enumerate(zip(input_lengths, target_lengths)):
        states = _states(targets[n : n + 1, :count], blank)
        emissions = log_probs[:, n : n + 1][:, :, states[0]]
        unit = np.array([[1]])
        losses.append(_paths_reference(emissions, _jumps(states, blank), unit * steps, unit * count)[0][0])
    values = np.array(losses)
    if zero_infinity:
        values = np.where(np.isinf(values), 0, values)
    if reduction == "mean":
        return np.mean(values / np.maximum(target_lengths, 1))
    return values.sum() if reduction == "sum" else values


def _loss_cases(rng: np.random.Generator) -> Cases:
    log_probs = rng.uniform(-3, -0.5, (7, 3, 5))
    targets = np.array([[1, 2, 2], [3, 1, 4], [2, 0, 0]])
    for attributes in ({}, {"reduction": "sum"}, {"reduction": "none"}):
        yield (log_probs, targets, np.array([7, 6, 4]), np.array([3, 2, 1])), attributes
    yield (log_probs, targets % 4, np.array([7, 2, 4]), np.array([3, 3, 0])), {"blank": 4, "zero_infinity": True}


def _column(what: str, lengths: Any, low: int, high: int, like: Tensor) -> Tensor:
    """Returns ``lengths`` as a tensor (n, 1); host values are checked here, device values on the device."""
    n = like.shape[1]
    if not isinstance(lengths, Tensor):
        host_lengths = np.asarray(lengths, dtype=np.int64).reshape(-1)
        if host_lengths.shape != (n,):
            raise ShapeError(f"ctc_loss: {len(host_lengths)} {what} for {n} samples", parameter=what)
        if n and not low <= host_lengths.min() <= host_lengths.max() <= high:
            raise ArgumentError(f"ctc_loss: expected {what} in {low} .. {high}, got {host_lengths.tolist()}")
        lengths = Tensor.from_host(like.queue, host_lengths)
    if lengths.size != n or is_floating(lengths.dtype):
        raise ShapeError(
            f"ctc_loss: {what} {lengths.shape} of {lengths.dtype}; expected whole numbers, ({n},)", parameter=what
        )
    return reshape(lengths, (n, 1))  # type: ignore[no-any-return]


def _padded(targets: Tensor, target_lengths: Any, n: int) -> Tensor:
    """Returns the labels of all samples in a row as a tensor (n, longest); their lengths must be known on the host."""
    counts = np.asarray(target_lengths.to_host() if isinstance(target_lengths, Tensor) else target_lengths).reshape(-1)
    if len(counts) != n or counts.sum() != targets.size:
        raise ShapeError(
            f"ctc_loss: {targets.size} targets in a row for target_lengths {counts.tolist()} of {n} samples"
        )
    longest = int(counts.max(initial=0))
    places = np.cumsum(counts)[:, None] - counts[:, None] + np.arange(longest)
    inside = np.minimum(places, max(targets.size - 1, 0))
    if not targets.size:
        return reshape(targets, (n, 0))  # type: ignore[no-any-return]
    return gather(targets, 0, Tensor.from_host(targets.queue, inside.reshape(-1))).reshape(n, longest)  # type: ignore[no-any-return]


@composite(amp="float32", domain=compared(_loss_cases, _loss_reference, second=False))
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor | Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Returns -log of the probability that a path of labels and blanks yields the target (Graves et al. 2006).

    log_probs (T, N, C), as from ``log_softmax``, or (T, C); targets (N, S) or (S,), a tensor or host array of class ids
    padded to the longest, or all in a row (sum of lengths,); input_lengths and target_lengths (N,), tensors or
    sequences of integers. The mean divides each loss by its target's length first, as PyTorch's does. Infinite if there
    are too few steps, and then without a gradient; ``zero_infinity`` makes it 0. The gradient is by log_probs as they
    are, without a normalization. Raises ShapeError and ValueError for invalid arguments; an invalid length or id on the
    device raises IndexError when the loss is read.
    """
    if reduction not in ("mean", "sum", "none"):
        raise ArgumentError(f"reduction: expected 'mean', 'sum' or 'none', got {reduction!r}")
    if not isinstance(targets, Tensor):
        targets = Tensor.from_host(log_probs.queue, targets)
    if not is_floating(log_probs.dtype) or is_floating(targets.dtype) or targets.dtype == "bool":
        raise DTypeError(f"ctc_loss: log_probs of {log_probs.dtype} and targets of {targets.dtype}")
    single = log_probs.ndim == 2
    if single:
        log_probs = reshape(log_probs, (log_probs.shape[0], 1, log_probs.shape[1]))
        targets = reshape(targets, (1, -1))
    if log_probs.ndim != 3 or not log_probs.shape[0]:
        raise ShapeError(f"ctc_loss: log_probs {log_probs.shape}; expected (T, N, C), T at least 1")
    steps, n, classes = log_probs.shape
    if not 0 <= blank < classes:
        raise ArgumentError(f"ctc_loss: blank {blank} is none of {classes} classes")
    if targets.ndim == 1:
        targets = _padded(targets, target_lengths, n)
    if targets.ndim != 2 or targets.shape[0] != n:
        raise ShapeError(f"ctc_loss: targets {targets.shape} for log_probs {log_probs.shape}; expected ({n}, S)")
    longest = targets.shape[1]
    lengths = _column("input_lengths", input_lengths, 1, steps, log_probs)
    labels = _column("target_lengths", target_lengths, 0, longest, log_probs)
    states, jumps = ctc_states(targets, labels, blank)
    wide = log_probs if log_probs.dtype in ("float32", "float64") else cast(log_probs, dtype="float32")
    emissions = gather(wide, 2, expand(reshape(states, (1, *states.shape)), (steps, *states.shape)))
    loss, _ = ctc_paths(emissions, jumps, lengths, labels)
    if zero_infinity:
        loss = where(isinf(loss), 0.0, loss)
    if reduction == "mean":
        return mean(div(loss, maximum(reshape(labels, (n,)), 1)))  # type: ignore[no-any-return]
    loss = sum_op(loss) if reduction == "sum" else loss
    return reshape(loss, ()) if single else loss  # type: ignore[no-any-return]
