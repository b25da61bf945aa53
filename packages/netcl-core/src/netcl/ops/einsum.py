"""Einstein summation: parses the equation, and contracts pairs of operands as matrix products."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from netcl.core.errors import ShapeError
from netcl.core.tensor import Tensor
from netcl.ops.domains import Cases, compared
from netcl.ops.linalg import matmul
from netcl.ops.reduce import sum as sum_op
from netcl.ops.shape import permute, reshape, strided_slice
from netcl.ops.table import composite

_EINSUMS: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...] = (
    ("ij,jk->ik", ((3, 4), (4, 5))),
    ("bij,bkj->bik", ((2, 3, 4), (2, 5, 4))),
    ("i,j->ji", ((3,), (4,))),
    ("ii->i", ((4, 4),)),
    ("ii", ((4, 4),)),
    ("ijk->kj", ((2, 3, 4),)),
    ("...ij,jk->...ik", ((2, 3, 4), (4, 5))),
    ("ab,bc,cd->ad", ((2, 3), (3, 4), (4, 2))),
    ("bhqd,bhkd->bhqk", ((2, 2, 3, 4), (2, 2, 5, 4))),
    ("ij,kj->", ((2, 3), (4, 3))),
    ("...ij,...jk", ((5, 1, 2, 3), (4, 3, 2))),
    ("iijj->ji", ((2, 2, 3, 3),)),
    ("ba", ((2, 3),)),
    ("ij,jk->ik", ((3, 1), (4, 5))),
    (",i->i", ((), (3,))),
    ("i...->...", ((4, 2, 3),)),
    ("ij,j,i", ((3, 4), (4,), (3,))),
)


def _einsum_cases(rng: np.random.Generator) -> Cases:
    for equation, shapes in _EINSUMS:
        yield (equation, *(rng.uniform(-1, 1, shape) for shape in shapes)), {}


@composite(amp="half", domain=compared(_einsum_cases, np.einsum))
def einsum(equation: str, *operands: Tensor) -> Tensor:
    """Returns Einstein's sum, ``einsum("bij,bjk->bik", a, b)``: pairs in opt_einsum's order, each a matmul of permuted
    operands.

    Ellipsis and repeated labels are supported as in NumPy, and lengths of 1 broadcast; without ``->`` the output has
    the labels that occur once, sorted. Raises ShapeError, which names the label or term.
    """
    import opt_einsum

    if not operands:
        raise TypeError(f"einsum {equation!r}: no operands are given")
    terms, output = _labels(equation, [x.shape for x in operands])
    sizes: dict[str, int] = {}
    for term, x in zip(terms, operands):
        for label, size in zip(term, x.shape):
            sizes[label] = size if sizes.get(label, 1) == 1 else sizes[label]
    left = [_diagonal(*_spread(equation, term, x, sizes)) for term, x in zip(terms, operands)]
    path, _ = opt_einsum.contract_path(
        ",".join(term for term, _ in left) + "->" + output, *[np.broadcast_to(0.0, x.shape) for _, x in left]
    )
    for picks in path:
        chosen = [left.pop(i) for i in sorted(picks, reverse=True)]
        wanted = set(output).union(*(term for term, _ in left))
        labels, value = chosen.pop()
        while chosen:
            after = wanted.union(*(term for term, _ in chosen[:-1]))
            labels, value = _contract((labels, value), chosen.pop(), after)
        left.append((labels, value))
    labels, value = _summed(*left[0], set(output))
    return permute(value, [labels.index(label) for label in output])  # type: ignore[no-any-return]


def _labels(equation: str, shapes: Sequence[tuple[int, ...]]) -> tuple[list[str], str]:
    """Returns the labels of each operand and of the output, the ellipsis expanded."""
    text = equation.replace(" ", "")
    inputs, arrow, output = text.partition("->")
    terms = inputs.split(",")
    fresh = [chr(code) for code in range(192, 240) if chr(code) not in text]
    if len(terms) != len(shapes):
        raise ShapeError(f"einsum {equation!r}: {len(terms)} terms for {len(shapes)} operands", op="einsum")
    spans = [len(shape) - len(term.replace("...", "")) for term, shape in zip(terms, shapes)]
    widest = max((span for term, span in zip(terms, spans) if "..." in term), default=0)
    for i, (term, span) in enumerate(zip(terms, spans)):
        if (
            span < 0
            or (span and "..." not in term)
            or not term.replace("...", "A").isalpha()
            and term not in ("", "...")
        ):
            raise ShapeError(f"einsum {equation!r}: term {term!r} does not describe shape {shapes[i]}", op="einsum")
        terms[i] = term.replace("...", "".join(fresh[widest - span : widest]))
    if not arrow:
        joined = "".join(terms)
        lead = "".join(fresh[:widest])
        output = lead + "".join(sorted(c for c in set(joined) - set(lead) if joined.count(c) == 1))
    output = output.replace("...", "".join(fresh[:widest]))
    unknown = set(output) - set("".join(terms))
    if unknown or len(set(output)) != len(output):
        raise ShapeError(f"einsum {equation!r}: the output names a label twice or one that no operand has", op="einsum")
    return terms, output


def _spread(equation: str, labels: str, x: Tensor, sizes: dict[str, int]) -> tuple[str, Tensor]:
    """Returns ``x`` without the axes of length 1 that are longer in other operands: it is broadcast along them."""
    for label, size in zip(labels, x.shape):
        if size not in (1, sizes[label]) or labels.count(label) > 1 and size != sizes[label]:
            raise ShapeError(f"einsum {equation!r}: label {label!r} has lengths {sizes[label]} and {size}", op="einsum")
    kept = [axis for axis, label in enumerate(labels) if x.shape[axis] == sizes[label]]
    if len(kept) == x.ndim:
        return labels, x
    return "".join(labels[axis] for axis in kept), reshape(x, [x.shape[axis] for axis in kept])


def _diagonal(labels: str, x: Tensor) -> tuple[str, Tensor]:
    """Returns ``x`` with every repeated label as one axis, the diagonal of its axes."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first, second = labels.index(label), labels.rindex(label)
            rest = [a for a in range(x.ndim) if a not in (first, second)]
            n, lead = x.shape[first], [x.shape[a] for a in rest]
            flat = reshape(permute(x, [*rest, first, second]), (*lead, n * n))
            x = strided_slice(flat, [0] * len(flat.shape), [1] * len(lead) + [n + 1], [*lead, n])
            labels = "".join(labels[a] for a in rest) + label
    return labels, x


def _summed(labels: str, x: Tensor, wanted: set[str]) -> tuple[str, Tensor]:
    """Returns ``x`` summed over the labels that no other operand or the output has."""
    gone = tuple(a for a, label in enumerate(labels) if label not in wanted)
    kept = "".join(label for label in labels if label in wanted)
    return kept, sum_op(x, axis=gone) if gone else x


def _contract(first: tuple[str, Tensor], second: tuple[str, Tensor], wanted: set[str]) -> tuple[str, Tensor]:
    """Returns the product of two operands, summed over the labels that no later operand or output has."""
    (a_labels, a), (b_labels, b) = _summed(*first, wanted | set(second[0])), _summed(*second, wanted | set(first[0]))
    both = [label for label in a_labels if label in b_labels]
    batch = [label for label in both if label in wanted]
    inner = [label for label in both if label not in wanted]
    a_free = [label for label in a_labels if label not in both]
    b_free = [label for label in b_labels if label not in both]
    size = dict(zip(a_labels + b_labels, a.shape + b.shape))

    def arranged(labels: str, x: Tensor, *groups: list[str]) -> Tensor:
        order = [label for group in (batch, *groups) for label in group]
        moved = permute(x, [labels.index(label) for label in order]) if "".join(order) != labels else x
        lengths = [math.prod(size[label] for label in group) for group in groups]
        return reshape(moved, (*(size[label] for label in batch), *lengths))  # type: ignore[no-any-return]

    result = matmul(arranged(a_labels, a, a_free, inner), arranged(b_labels, b, inner, b_free))
    labels = [*batch, *a_free, *b_free]
    return "".join(labels), reshape(result, tuple(size[label] for label in labels))
