"""Gradients in closed form, registered by the name of the op; all other expression rows are differentiated.

A closed form is an expression like any other, so gradients of gradients follow from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from netcl.autograd.derive.problem import GradientProblem, Gradients, derived, through_outputs
from netcl.core.errors import UnsupportedError
from netcl.core.expr import Apply, Const, Expr, Index, Load, Reduce, Scalar, apply, cast, mean, reduce, vjp
from netcl.core.expr.rewrite import axes_of, substitute_all, walk
from netcl.core.expr.statistics import standardized

ClosedForm = Callable[[GradientProblem], Gradients]
FromOutput = Callable[[Expr, Expr, Expr], Expr]

CLOSED_FORMS: dict[str, ClosedForm] = {}


def closed_form(*names: str) -> Callable[[ClosedForm], ClosedForm]:
    """Registers a function ``form(problem)`` as the gradient of the rows ``names``."""

    def register(form: ClosedForm) -> ClosedForm:
        CLOSED_FORMS.update(dict.fromkeys(names, form))
        return form

    return register


def from_output(*names: str) -> Callable[[FromOutput], FromOutput]:
    """Registers ``form(output, out, grad)`` as the gradient of rows with one operand and one output. ``output`` is the
    output as an expression over the operand, ``out`` the saved output, ``grad`` its gradient.
    """

    def register(form: FromOutput) -> FromOutput:
        def closed(problem: GradientProblem) -> Gradients:
            (output,) = problem.outputs
            return {0: cast(form(output, problem.saved(), problem.grad), _loaded(output).dtype)}

        closed_form(*names)(closed)
        return form

    return register


def op_gradients(problem: GradientProblem) -> Gradients:
    """Returns the gradients of an expression row: its closed form if one is registered, else by differentiation."""
    return CLOSED_FORMS.get(problem.program.name, derived)(problem)


# -- one operand, in terms of the output -------------------------------------------------------------------------------


def _loaded(output: Expr) -> Load:
    """Returns the operand of an expression that loads a single one."""
    (operand,) = [node for node in walk((output,)) if isinstance(node, Load)]
    return operand


def _reduced_axes(output: Expr) -> tuple[int, ...]:
    """Returns the axes of the reductions in an expression; empty if there is none."""
    return next((node.axes for node in walk((output,)) if isinstance(node, Reduce)), ())


@from_output("relu")
def relu(output: Expr, out: Expr, grad: Expr) -> Expr:
    """Returns dx = dy where y > 0, else 0."""
    return apply("where", out <= 0, 0.0, grad)


@from_output("softmax")
def softmax(output: Expr, out: Expr, grad: Expr) -> Expr:
    """Returns dx = y (dy - sum(y dy))."""
    return out * (grad - reduce("sum", grad * out, _reduced_axes(output)))


@from_output("log_softmax")
def log_softmax(output: Expr, out: Expr, grad: Expr) -> Expr:
    """Returns dx = dy - exp(y) sum(dy)."""
    return grad - apply("exp", out) * reduce("sum", grad, _reduced_axes(output))


@from_output("logsumexp")
def logsumexp(output: Expr, out: Expr, grad: Expr) -> Expr:
    """Returns dx = dy exp(x - y)."""
    return grad * apply("exp", _loaded(output) - out)


@from_output("erfinv")
def erfinv(output: Expr, out: Expr, grad: Expr) -> Expr:
    """Returns dx = dy sqrt(pi) / 2 exp(y^2)."""
    return grad * (0.5 * math.sqrt(math.pi)) * apply("exp", output * output)


@from_output("entr")
def entr(output: Expr, out: Expr, grad: Expr) -> Expr:
    """Returns dx = -dy (log(x) + 1), NaN below 0."""
    return grad * (-1.0 - apply("log", _loaded(output)))


@from_output("ndtri")
def ndtri(output: Expr, out: Expr, grad: Expr) -> Expr:
    """Returns dx = dy sqrt(2 pi) exp(y^2 / 2)."""
    return grad * math.sqrt(2 * math.pi) * apply("exp", out * out * 0.5)


@from_output("hard_swish")
def hard_swish(output: Expr, out: Expr, grad: Expr) -> Expr:
    """Returns dx = dy (x / 3 + 1 / 2) between -3 and 3, dy above, 0 below."""
    x = _loaded(output)
    return apply("where", x <= -3.0, 0.0, apply("where", x < 3.0, grad * (x / 3.0 + 0.5), grad))


@closed_form("logit")
def logit(problem: GradientProblem) -> Gradients:
    """Returns dx = dy / (x (1 - x)), without ``eps`` NaN outside of [0, 1]."""
    (output,) = problem.outputs
    if any(isinstance(node, Apply) and node.prim.name == "where" for node in walk((output,))):  # limited by eps
        return derived(problem)
    x = _loaded(output)
    outside = (x < 0.0) | (x > 1.0)
    return {0: cast(apply("where", outside, math.nan, problem.grad / (x * (1.0 - x))), x.dtype)}


@closed_form("erfcx", "i0")
def overflowing(problem: GradientProblem) -> Gradients:
    """Returns the gradient by differentiation, but infinite with the sign of x where the output is infinite."""
    (output,) = problem.outputs
    x, by_x = _loaded(output), derived(problem)[0]
    assert by_x is not None
    infinite = apply("where", problem.grad * x > 0.0, math.inf, -math.inf)
    return {0: cast(apply("where", apply("isinf", problem.saved()), infinite, by_x), x.dtype)}


@closed_form("igamma", "igammac")
def incomplete_gamma(problem: GradientProblem) -> Gradients:
    """db = dy b^(a - 1) exp(-b) / gamma(a), negative for the upper function; refuses a, as PyTorch does."""
    (output,), name = problem.outputs, problem.program.name
    loads = sorted({node for node in walk((output,)) if isinstance(node, Load)}, key=lambda load: load.slot)
    if len(loads) == 2 and 0 in problem.wanted:
        raise UnsupportedError(f"{name}: the derivative by the first operand is not implemented; detach() it")
    numbers = [node for node in walk((output,)) if isinstance(node, Scalar)]
    a, b = (cast(operand, output.dtype) for operand in (*numbers, *loads))
    slope = problem.grad * apply("exp", (a - 1.0) * apply("log", b) - b - apply("lgamma", a))
    by_b = cast(slope if name == "igamma" else -slope, loads[-1].dtype)
    return dict(zip(problem.wanted, vjp((loads[-1],), (by_b,), problem.wanted, problem.present)))


@from_output("tanhshrink")
def tanhshrink(output: Expr, out: Expr, grad: Expr) -> Expr:
    """Returns dx = dy tanh(x)^2."""
    bent = apply("tanh", _loaded(output))
    return grad * bent * bent


@from_output("max_along", "min_along")
def extremum_along(output: Expr, out: Expr, grad: Expr) -> Expr:
    """Returns the gradient at the first element along the axis that equals the extremum (or is NaN), else 0."""
    x = _loaded(output)
    if not (axes := _reduced_axes(output)):  # of a 0-d tensor
        return grad
    (axis,) = axes
    hit = apply("eq", x, output) | apply("ne", x, x)
    first = reduce("min", apply("where", hit, Index(axis), Const(2**31 - 1, "int32")), axis)
    return apply("where", apply("eq", Index(axis), first), grad, 0.0)


@closed_form("cosine_similarity")
def cosine_similarity(problem: GradientProblem) -> Gradients:
    """Returns da = dy (v - y u) / |a| of y = u v with u = a / |a|, v = b / |b|: it is at right angles to a.

    Rounding leaves a part along a. Divided by a small |a| it is large, though the exact gradient may be 0, as along an
    axis of length 1: it is taken out. A length below eps counts as eps, with the gradient of |a|, as in PyTorch.
    """
    (output,) = problem.outputs
    axes, nodes = _reduced_axes(output), walk((output,))
    eps = next(node for node in nodes if isinstance(node, Scalar) and node.name == "eps")
    wide = "float64" if output.dtype == "float64" else "float32"
    loads = [next(node for node in nodes if isinstance(node, Load) and node.slot == slot) for slot in (0, 1)]
    lengths, quotients, directions, shorter = [], [], [], []
    for load in loads:
        x = cast(load, wide)
        total = reduce("sum", x * x, axes)
        zero = apply("eq", total, 0.0)
        length = apply("sqrt", apply("where", zero, 1.0, total))
        short = zero | (length < eps)
        lengths.append(apply("where", short, eps, length))
        quotients.append(x / lengths[-1])
        directions.append(apply("where", zero, 0.0, x / length))
        shorter.append(short)
    similarity, grad = reduce("sum", quotients[0] * quotients[1], axes), cast(problem.grad, wide)
    by_operands = []
    for own, other in ((0, 1), (1, 0)):
        across = quotients[other] - similarity * directions[own]
        along = apply("stop_gradient", reduce("sum", across * directions[own], axes))
        across = across - apply("where", shorter[own], 0.0, along) * directions[own]
        by_operands.append(cast(grad * across / lengths[own], loads[own].dtype))
    return dict(zip(problem.wanted, vjp(loads, by_operands, problem.wanted, problem.present)))


@closed_form("heaviside")
def heaviside(problem: GradientProblem) -> Gradients:
    """Refuses, as PyTorch does, where a gradient of zero would hide a mistake."""
    raise UnsupportedError("heaviside has no gradient; detach() its operands", op="heaviside")


# -- attention and normalization ---------------------------------------------------------------------------------------


@closed_form("attention_weights")
def attention_weights(problem: GradientProblem) -> Gradients:
    """Returns the gradient through a softmax of masked scores s: ds = y (dy - sum(y dy)), from s by differentiation."""
    (output,) = problem.outputs
    # The scores are what the softmax takes the largest of.
    scores = next(node.arg for node in walk((output,)) if isinstance(node, Reduce) and node.kind == "max")
    value, weight = cast(problem.grad, scores.dtype), cast(problem.saved(), scores.dtype)
    by_scores = weight * (value - reduce("sum", value * weight, _reduced_axes(output)))
    return dict(zip(problem.wanted, vjp((scores,), (by_scores,), problem.wanted, problem.present)))


@closed_form("standardize", "batch_norm_training")
def standardize(problem: GradientProblem) -> Gradients:
    """Returns dx = (dy - mean(dy) - y mean(dy y)) / sqrt(var + eps) of y = (x - mean) / sqrt(var + eps) for input 0
    (Ioffe and Szegedy 2015), by two independent reductions instead of three dependent ones. If there is a weight for
    each mean, as in batch normalization, these are the reductions of the gradients by weight and bias, too.
    """
    outputs, nodes = problem.outputs, walk(problem.outputs)
    reductions = {node.axes for node in nodes if isinstance(node, Reduce)}
    if 0 not in problem.wanted or not reductions:  # a scalar has no axes
        return derived(problem)
    (axes,) = reductions
    x = next(node for node in nodes if isinstance(node, Load) and node.slot == 0)
    eps = next(node for node in nodes if isinstance(node, Scalar) and node.name == "eps")
    core = standardized(x, axes, eps)  # interned: the same object as in the outputs
    space = axes_of(core.value, problem.present, {})
    inner, factor, weight = core.value, core.scale, None
    for node in nodes:
        if isinstance(node, Load) and node.slot == 1 and axes_of(node, problem.present, {}) == space - set(axes):
            wide = node if node.dtype in ("float32", "float64") else cast(node, "float32")
            if (scaled := core.value * wide) in nodes:
                inner, factor, weight = scaled, wide * core.scale, node
    fresh = Load(problem.end, inner.dtype)
    opened = substitute_all(outputs, {inner: fresh})
    by_inner, *others = vjp(
        opened, problem.grads, (fresh.slot, *problem.wanted), {**problem.present, fresh.slot: space}
    )
    gradients: dict[int, Any] = dict(zip(problem.wanted, others))
    if by_inner is not None:
        centred = by_inner - mean(by_inner, axes) - core.value * mean(by_inner * core.value, axes)
        by_input = cast(centred * factor, x.dtype)
        gradients[0] = by_input if gradients[0] is None else by_input + gradients[0]
        if weight is not None and 1 in gradients:
            gradients[1] = cast(reduce("sum", by_inner * core.value, axes), weight.dtype)
    known = [slot for slot, gradient in gradients.items() if gradient is not None]
    gradients.update(zip(known, substitute_all([gradients[slot] for slot in known], {fresh: inner})))
    # The result is not saved: as in PyTorch, an activation may overwrite it in place.
    statistics = {output: load for output, load in problem.loadable.items() if output is not outputs[0]}
    return through_outputs(problem, gradients, statistics)
