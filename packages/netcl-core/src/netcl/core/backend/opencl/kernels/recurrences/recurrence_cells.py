"""The state algebra of recurrent cells in OpenCL C, and the unrolled rows of contract_recurrence.cl, as parts of
templates.

The statements of a cell use ``u``, the first unit of a vector; ``now``, the time step; ``e0`` .., the biases; ``here``,
``at`` and ``gate``, the places of a unit in the state, in the output of a step and in its gates.
"""

from __future__ import annotations

from dataclasses import dataclass

from netcl.core.backend.opencl.template_text import filled


@dataclass(frozen=True)
class Cell:
    """One kind of cell: the number of its gates and its statements.

    ``forward`` ends a step for row ${i} of a tile from its accumulators, one for each gate; a cell of one gate
    has WIDE accumulators, for neighbouring units. ``backward`` writes the
    gradients by the gates from ``dh``, the gradient by h[t]; ``carried`` adds the gradient from the next step to it.
    ``first`` writes the gradients by the states before the first step. ``before`` and ``before_back`` declare the state
    before a step.
    """

    gates: int
    forward: str
    backward: str
    carried: str = ""
    first: str = "GSTORE(dh, by_state + here);"
    before: str = ""
    before_back: str = ""


_LSTM = Cell(
    gates=4,
    before="__global const REAL* cell_before = s == 0 ? cell : cells + past * plane;",
    forward="""\
{
    const long at = (now * g.n + row${i}) * g.hidden + u, gate = (now * g.n + row${i}) * GATES * g.hidden + u;
    const REALV in = logistic(c${i}_0 + e0 + GLOAD(x + gate));
    const REALV forget = logistic(c${i}_1 + e1 + GLOAD(x + gate + g.hidden));
    const REALV fresh = tanh(c${i}_2 + e2 + GLOAD(x + gate + 2 * g.hidden));
    const REALV show = logistic(c${i}_3 + e3 + GLOAD(x + gate + 3 * g.hidden));
    const REALV c = forget * GLOAD(cell_before + row${i} * g.hidden + u) + in * fresh;
    GSTORE(c, cells + at);
    GSTORE(show * tanh(c), out + at);
    if (g.keeps) {
        GSTORE(in, kept + gate); GSTORE(forget, kept + gate + g.hidden);
        GSTORE(fresh, kept + gate + 2 * g.hidden); GSTORE(show, kept + gate + 3 * g.hidden);
    }
}""",
    before_back="__global const REAL* cell_before = s <= 0 ? cell : cells + past * plane;",
    carried="REALV dc = s < g.steps - 1 ? GLOAD(carried + here) : (REALV)(0);",
    first="GSTORE(dh, by_state + here); GSTORE(dc, by_cell + here);",
    backward="""\
const REALV in = GLOAD(kept + gate), forget = GLOAD(kept + gate + g.hidden);
const REALV fresh = GLOAD(kept + gate + 2 * g.hidden), show = GLOAD(kept + gate + 3 * g.hidden);
const REALV c = tanh(GLOAD(cells + at));
if (g.by_cells) dc += GLOAD(by_cells + at);
dc += dh * show * (1 - c * c);
GSTORE(dc * fresh * in * (1 - in), by_sum + gate);
GSTORE(dc * GLOAD(cell_before + here) * forget * (1 - forget), by_sum + gate + g.hidden);
GSTORE(dc * in * (1 - fresh * fresh), by_sum + gate + 2 * g.hidden);
GSTORE(dh * c * show * (1 - show), by_sum + gate + 3 * g.hidden);
GSTORE(dc * forget, carry_on + here);""",
)

_GRU = Cell(
    gates=3,
    forward="""\
{
    const long at = (now * g.n + row${i}) * g.hidden + u, gate = at + (now * g.n + row${i}) * 2 * g.hidden;
    const long keep = at + (now * g.n + row${i}) * 3 * g.hidden;
    const REALV reset = logistic(c${i}_0 + e0 + GLOAD(x + gate));
    const REALV stay = logistic(c${i}_1 + e1 + GLOAD(x + gate + g.hidden));
    const REALV own = c${i}_2 + e2;
    const REALV fresh = tanh(GLOAD(x + gate + 2 * g.hidden) + reset * own);
    GSTORE((1 - stay) * fresh + stay * GLOAD(before + row${i} * g.hidden + u), out + at);
    if (g.keeps) {
        GSTORE(reset, kept + keep); GSTORE(stay, kept + keep + g.hidden);
        GSTORE(fresh, kept + keep + 2 * g.hidden); GSTORE(own, kept + keep + 3 * g.hidden);
    }
}""",
    before_back="__global const REAL* before = s <= 0 ? state : out + past * plane;",
    carried="if (s < g.steps - 1) dh += GLOAD(carried + here);",
    backward="""\
const long keep = (now * g.n * g.hidden + here - unit_at) * 4 + unit_at;
const REALV reset = GLOAD(kept + keep), stay = GLOAD(kept + keep + g.hidden);
const REALV fresh = GLOAD(kept + keep + 2 * g.hidden), own = GLOAD(kept + keep + 3 * g.hidden);
const REALV dn = dh * (1 - stay) * (1 - fresh * fresh), dr = dn * own * reset * (1 - reset);
const REALV dz = dh * (GLOAD(before + here) - fresh) * stay * (1 - stay);
GSTORE(dr, by_x + gate); GSTORE(dz, by_x + gate + g.hidden); GSTORE(dn, by_x + gate + 2 * g.hidden);
GSTORE(dr, by_sum + gate); GSTORE(dz, by_sum + gate + g.hidden); GSTORE(dn * reset, by_sum + gate + 2 * g.hidden);
GSTORE(dh * stay, carry_on + here);""",
)


def _elman(activation: str, gradient: str) -> Cell:
    """Returns a cell of one gate, by its activation of a sum and the gradient by it from ``dh`` and the output ``h``"""
    value = activation.format("c${i}_${j} + e${j} + GLOAD(x + at)")
    return Cell(
        1, filled(_ELMAN, {"value": value}), f"const REALV h = GLOAD(out + at); GSTORE({gradient}, by_sum + gate);"
    )


_ELMAN = """\
$for j < WIDE
{
    const long at = (now * g.n + row${i}) * g.hidden + u + PLACE(${j});
    GSTORE(${value}, out + at);
}
$end"""

CELLS = {
    "lstm": _LSTM,
    "gru": _GRU,
    "tanh": _elman("tanh({})", "dh * (1 - h * h)"),
    "relu": _elman("fmax(({}), (REALV)(0))", "h > 0 ? dh : (REALV)(0)"),
}

_FORWARD = {
    "biases": """\
$for j < WIDE
const REALV e${j} = g.biased ? GLOAD(bias + u + PLACE(${j})) : (REALV)(0);
$end""",
    "weights": """\
$for j < WIDE
const REALV b${j} = GLOAD(w + WEIGHT(${j}));
$end""",
}
_BACKWARD = {
    "weights_back": """\
$for j < BACK_WIDE
const REALV b${j} = GLOAD(w + ${j} * VECTOR);
$end""",
    "gradients": """\
$for i < BACK_ROWS
$for j < BACK_WIDE
{
    const long unit_at = u + ${j} * VECTOR, here = row${i} * g.hidden + unit_at, at = now * plane + here;
    const long gate = (now * g.n + row${i}) * GATES * g.hidden + unit_at;
    REALV dh = c${i}_${j};
    ${carried}
    if (s < 0) { ${first} }
    else {
        if (g.by_out) dh += GLOAD(by_out + at);
        ${backward}
    }
}
$end
$end""",
}
# The parts of both directions: a tile of ROWS x WIDE accumulators over the rows of ``SOURCE``.
_TILE = {
    "rows": """\
$for i < ROWS
const long row${i} = min(r + ${i}, rows_end - 1); __global const REAL* p${i} = ${source} + row${i} * ${length};
$end""",
    "zeros": """\
$for i < ROWS
$for j < WIDE
REALV c${i}_${j} = 0;
$end
$end""",
    "products": """\
$for i < ROWS
{
    const REAL a = p${i}[k];
    $for j < WIDE
    c${i}_${j} += a * b${j};
    $end
}
$end""",
    "share": """\
$if OTHERS
if (part > 0) {
    $for i < ROWS
    $for j < WIDE
    shared[part - 1][${i} * WIDE + ${j}][u] = c${i}_${j};
    $end
    $end
}
barrier(CLK_LOCAL_MEM_FENCE);
$end""",
    "add": """\
$for i < ROWS
$for j < WIDE
$if OTHERS
c${i}_${j} += shared[0][${i} * WIDE + ${j}][u]
$for k < MORE
    + shared[${k} + 1][${i} * WIDE + ${j}][u]
$end
    ;
$end
$end
$end""",
}


def cell_parts(cell: Cell) -> dict[str, str]:
    """Returns the parts of the kernels ``forward`` and ``backward`` of a cell."""
    forward = {name: filled(text, {"source": "before", "length": "g.hidden"}) for name, text in _TILE.items()}
    of_back = {"source": "after", "length": "GATES * g.hidden"}
    backward = {
        f"{name}_back": filled(text, of_back).replace("ROWS", "BACK_ROWS").replace("WIDE", "BACK_WIDE")
        for name, text in _TILE.items()
    }
    gradient = {"carried": cell.carried, "first": cell.first, "backward": cell.backward}
    return {
        "before": cell.before,
        "before_back": cell.before_back,
        "results": f"$for i < ROWS\n{cell.forward}\n$end",
        **_FORWARD,
        **forward,
        **backward,
        **{name: filled(text, gradient) for name, text in _BACKWARD.items()},
    }
