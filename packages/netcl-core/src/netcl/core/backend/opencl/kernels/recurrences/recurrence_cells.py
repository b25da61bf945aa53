"""The state algebra of recurrent cells in OpenCL C, and the unrolled rows of contract_recurrence.cl.

The statements of a cell use ``u``, the first unit of a vector; ``now``, the time step; ``e0`` .., the biases; ``here``,
``at`` and ``gate``, the places of a unit in the state, in the output of a step and in its gates.
"""

from __future__ import annotations

from dataclasses import dataclass
from string import Template

from netcl.core.backend.opencl.templates import filled

__all__ = ["CELLS", "Cell", "backward_parts", "forward_parts", "shared_parts"]


@dataclass(frozen=True)
class Cell:
    """One kind of cell: the number of its gates and its statements.

    ``forward`` ends a step for all gates of the row ``$row`` from the accumulators ``$sum_0`` ..; a cell of one gate
    ends it for each accumulator ``$sum``, with the bias ``$bias``, at the unit ``u + $place``. ``backward`` writes the
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
    const long at = (now * g.n + $row) * g.hidden + u, gate = (now * g.n + $row) * GATES * g.hidden + u;
    const REALV in = logistic($sum_0 + e0 + GLOAD(x + gate));
    const REALV forget = logistic($sum_1 + e1 + GLOAD(x + gate + g.hidden));
    const REALV fresh = tanh($sum_2 + e2 + GLOAD(x + gate + 2 * g.hidden));
    const REALV show = logistic($sum_3 + e3 + GLOAD(x + gate + 3 * g.hidden));
    const REALV c = forget * GLOAD(cell_before + $row * g.hidden + u) + in * fresh;
    GSTORE(c, cells + at);
    GSTORE(show * tanh(c), out + at);
    GSTORE(in, kept + gate); GSTORE(forget, kept + gate + g.hidden);
    GSTORE(fresh, kept + gate + 2 * g.hidden); GSTORE(show, kept + gate + 3 * g.hidden);
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
    const long at = (now * g.n + $row) * g.hidden + u, gate = at + (now * g.n + $row) * 2 * g.hidden;
    const long keep = at + (now * g.n + $row) * 3 * g.hidden;
    const REALV reset = logistic($sum_0 + e0 + GLOAD(x + gate));
    const REALV stay = logistic($sum_1 + e1 + GLOAD(x + gate + g.hidden));
    const REALV own = $sum_2 + e2;
    const REALV fresh = tanh(GLOAD(x + gate + 2 * g.hidden) + reset * own);
    GSTORE((1 - stay) * fresh + stay * GLOAD(before + $row * g.hidden + u), out + at);
    GSTORE(reset, kept + keep); GSTORE(stay, kept + keep + g.hidden);
    GSTORE(fresh, kept + keep + 2 * g.hidden); GSTORE(own, kept + keep + 3 * g.hidden);
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
    """Returns a cell of one gate, by its activation of a sum and the gradient by the sum from ``dh`` and the output
    ``h``.
    """
    value = activation.format("$sum + $bias + GLOAD(x + at)")
    forward = f"{{\n    const long at = (now * g.n + $row) * g.hidden + u + $place;\n    GSTORE({value}, out + at);\n}}"
    return Cell(1, forward, f"const REALV h = GLOAD(out + at); GSTORE({gradient}, by_sum + gate);")


CELLS = {
    "lstm": _LSTM,
    "gru": _GRU,
    "tanh": _elman("tanh({})", "dh * (1 - h * h)"),
    "relu": _elman("fmax(({}), (REALV)(0))", "h > 0 ? dh : (REALV)(0)"),
}

_GRADIENT = """\
{
    const long unit_at = u + $place, here = $row * g.hidden + unit_at, at = now * plane + here;
    const long gate = (now * g.n + $row) * GATES * g.hidden + unit_at;
    REALV dh = $sum;
    $carried
    if (s < 0) { $first }
    else {
        if (g.by_out) dh += GLOAD(by_out + at);
        $backward
    }
}"""


def forward_parts(cell: Cell, rows: int, wide: int, lanes: int) -> dict[str, str]:
    """Returns the parts of the kernel ``forward`` for ``rows`` rows times ``wide`` vectors: one for each gate, or
    neighbouring units if there is one gate.
    """
    places = [f"(({j}) * {lanes if cell.gates == 1 else 'g.hidden'})" for j in range(wide)]
    weights = places if cell.gates == 1 else [f"{j} * g.weight_gate" for j in range(wide)]
    finish = Template(cell.forward)
    if cell.gates == 1:
        results = [
            finish.substitute(row=f"row{i}", sum=f"c{i}_{j}", bias=f"e{j}", place=places[j])
            for i in range(rows)
            for j in range(wide)
        ]
    else:
        sums = [{f"sum_{j}": f"c{i}_{j}" for j in range(wide)} for i in range(rows)]
        results = [finish.substitute(row=f"row{i}", **sums[i]) for i in range(rows)]
    return {
        "before": cell.before,
        "biases": "\n".join(
            f"const REALV e{j} = g.biased ? GLOAD(bias + u + {place}) : (REALV)(0);" for j, place in enumerate(places)
        ),
        "rows": _rows("before", "g.hidden", rows),
        "zeros": _zeros(rows, wide),
        "weights": "\n".join(f"const REALV b{j} = GLOAD(w + {place});" for j, place in enumerate(weights)),
        "products": _products(rows, wide),
        "results": "\n".join(results),
    }


def backward_parts(cell: Cell, rows: int, wide: int, lanes: int) -> dict[str, str]:
    """Returns the parts of the kernel ``backward`` for ``rows`` rows times ``wide`` vectors of neighbouring units."""
    gradient = Template(filled(_GRADIENT, {"carried": cell.carried, "backward": cell.backward}).rstrip())
    gradients = [
        gradient.substitute(row=f"row{i}", sum=f"c{i}_{j}", place=f"{j} * {lanes}", first=cell.first)
        for i in range(rows)
        for j in range(wide)
    ]
    return {
        "before_back": cell.before_back,
        "rows_back": _rows("after", "GATES * g.hidden", rows),
        "zeros_back": _zeros(rows, wide),
        "weights_back": "\n".join(f"const REALV b{j} = GLOAD(w + {j} * {lanes});" for j in range(wide)),
        "products_back": _products(rows, wide),
        "gradients": "\n".join(gradients),
    }


def shared_parts(rows: int, gates: int, split: int) -> dict[str, str]:
    """Returns the parts of contract_recurrence_groups.cl that add the sums of the work-items of a unit, in order."""
    parts: dict[str, str] = {}
    for name, wide in (("", gates), ("_back", 1)):
        sums = [(f"c{i}_{j}", f"[{i * wide + j}][u]") for i in range(rows) for j in range(wide)]
        stores = " ".join(f"shared[part - 1]{place} = {value};" for value, place in sums)
        share = f"if (part > 0) {{ {stores} }}\nbarrier(CLK_LOCAL_MEM_FENCE);"
        add = "\n".join(
            f"{value} += {' + '.join(f'shared[{other}]{place}' for other in range(split - 1))};"
            for value, place in sums
        )
        parts |= {f"share{name}": share if split > 1 else "", f"add{name}": add if split > 1 else ""}
    return parts


def _rows(source: str, length: str, rows: int) -> str:
    """Returns the number of each row of a tile and the pointer to its numbers."""
    return "\n".join(
        f"const long row{i} = min(r + {i}, rows_end - 1); __global const REAL* p{i} = {source} + row{i} * {length};"
        for i in range(rows)
    )


def _zeros(rows: int, wide: int) -> str:
    return "\n".join(" ".join(f"REALV c{i}_{j} = 0;" for j in range(wide)) for i in range(rows))


def _products(rows: int, wide: int) -> str:
    return "\n".join(
        f"{{ const REAL a = p{i}[k]; {' '.join(f'c{i}_{j} += a * b{j};' for j in range(wide))} }}" for i in range(rows)
    )
