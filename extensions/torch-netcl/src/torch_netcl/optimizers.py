"""Kernels over lists of tensors: ``_foreach_`` and the fused optimizers, one launch for as many as the device takes.

Tensors that are not whole, or of several dtypes, are computed one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from math import log
from typing import Any

import torch
from torch.optim import adam

from netcl.core.dtypes import is_floating
from netcl.core.expr import Expr, Load, Scalar, apply, cast
from netcl.core.expr.statistics import widened
from netcl.core.ops_table.dispatch import evaluate_each
from torch_netcl.memory import DTYPES, NoKernel, give, put, take

TABLE: dict[str, Callable[..., Any]] = {}
# The lists, and the expression of their elements and a number s.
EACH: dict[str, tuple[int, Callable[..., Expr]]] = {
    "add.Scalar": (1, lambda a, s: a + s),
    "sub.Scalar": (1, lambda a, s: a - s),
    "mul.Scalar": (1, lambda a, s: a * s),
    "div.Scalar": (1, lambda a, s: a / s),
    "add.List": (2, lambda a, b, s: a + b * s),
    "sub.List": (2, lambda a, b, s: a - b * s),
    "mul.List": (2, lambda a, b, s: a * b),
    "div.List": (2, lambda a, b, s: a / b),
    "maximum.List": (2, lambda a, b, s: apply("maximum", a, b)),
    "lerp.Scalar": (2, lambda a, b, s: a + s * (b - a)),
    "addcmul.Scalar": (3, lambda a, b, c, s: a + s * (b * c)),
    "addcdiv.Scalar": (3, lambda a, b, c, s: a + s * (b / c)),
    "sqrt": (1, lambda a, s: apply("sqrt", a)),
    "neg": (1, lambda a, s: -a),
    "reciprocal": (1, lambda a, s: 1.0 / a),
    "abs": (1, lambda a, s: apply("abs", a)),
    "mul.Tensor": (1, lambda a, s: a * s),  # s is the element of a tensor
    "div.Tensor": (1, lambda a, s: a / s),
}
EACH |= {f"{name}List": row for name, row in EACH.items() if name.endswith(".Scalar") and name[:4] != "lerp"}


def _whole(lists: Sequence[Sequence[torch.Tensor]]) -> list[tuple[Any, ...]] | None:
    """Returns the elements of lists as netcl's tensors; None if one of them is not on the device, whole and floating,
    or if dtypes or shapes differ between the elements.
    """
    rows = []
    try:
        for tensors in zip(*lists):
            shape, values = tensors[0].shape, []
            for x in tensors:
                content = x.untyped_storage().content  # type: ignore[attr-defined]
                value = take(x)
                if value._storage is not content._storage or x.shape != shape:
                    return None
                values.append(value)
            rows.append(tuple(values))
    except (AttributeError, NoKernel):
        return None
    dtypes = {tuple([x.dtype for x in values]) for values in rows}
    return rows if len(dtypes) == 1 and all(map(is_floating, next(iter(dtypes)))) else None


@lru_cache(maxsize=256)
def _outputs(name: str, dtypes: tuple[str, ...]) -> tuple[Expr, ...]:
    loads = [widened(Load(slot, dtype)) for slot, dtype in enumerate(dtypes)]
    number = () if name.endswith(".Tensor") else (Scalar("s", loads[0].dtype),)
    return (cast(EACH[name][1](*loads, *number), dtypes[0]),)


def _each(name: str, in_place: bool) -> None:
    """Registers ``_foreach_NAME``, or its in-place overload."""
    base, _, last = name.partition(".")
    overload = f"_foreach_{base}{'_' * in_place}{last and '.' + last}"
    single: Any = getattr(torch.ops.aten, base + "_" * in_place, None)
    if single is None:  # maximum has no in-place form
        function = getattr(torch.ops.aten, base)
        single = lambda target, *others: target.copy_(function(target, *others))  # noqa: E731
    count = EACH[name][0]

    def one_by_one(lists: Any, numbers: Any) -> Any:
        keyword = {"add.List": "alpha", "sub.List": "alpha", "addcmul": "value", "addcdiv": "value"}
        key = keyword.get(name, keyword.get(base))
        results = []
        for at, tensors in enumerate(zip(*lists)):
            number = numbers[at] if isinstance(numbers, (list, tuple)) else numbers
            if key:
                results.append(single(*tensors, **{key: number}))
            else:
                results.append(single(*tensors, *([] if number is None else [number])))
        return None if in_place else results

    def kernel(*args: Any, **kwargs: Any) -> Any:
        lists, rest = args[:count], [*args[count:], *kwargs.values()]
        numbers = rest[0] if rest else 1 if name in ("add.List", "sub.List") or base[:4] == "addc" else None
        if numbers is None and "Scalar" in name:
            raise RuntimeError(f"{overload}: expected a number")
        uniform = not isinstance(numbers, (list, tuple)) or len(set(numbers)) == 1
        shared = [numbers] if isinstance(numbers, torch.Tensor) else []
        uniform &= not any(x.dim() or x.device.type != "ocl" or x.dtype not in DTYPES for x in shared)
        rows = _whole(lists) if uniform and not isinstance(numbers, complex) and lists[0] else None
        if rows is None or any(len(tensors) != len(lists[0]) for tensors in lists):
            return one_by_one(lists, numbers)
        number = numbers[0] if isinstance(numbers, (list, tuple)) else numbers
        shared = [take(x) for x in shared]
        outputs = _outputs(name, tuple([x.dtype for x in (*rows[0], *shared)]))
        scalars = {} if shared else {"s": float(1 if number is None else number)}
        if in_place:
            evaluate_each(outputs, rows, shared, scalars, out=[row[:1] for row in rows])
            return None
        return [give(made[0]) for made in evaluate_each(outputs, rows, shared, scalars)]

    TABLE[overload] = kernel


for _name in EACH:
    _each(_name, True)
    _each(_name, False)


# -- fused optimizers --------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _adam(
    dtypes: tuple[str, ...], decoupled: bool, amsgrad: bool, maximize: bool, counted: bool = False,
    scaled: bool = False, guarded: bool = False,
) -> tuple[Expr, ...]:  # fmt: skip
    """Returns the new parameter and moments, of the operands p, g, m, v, (largest v), (step), (scale), (whether a
    gradient is infinite). Without the step its corrections, 1 - beta ** step, are numbers of the launch.
    """
    loads = iter([widened(Load(slot, dtype)) for slot, dtype in enumerate(dtypes)])
    p, g, m, v = (next(loads) for _ in range(4))
    top = next(loads) if amsgrad else None
    names = ("lr", "decay", "eps", "add1", "beta2", "add2", "first", "second")
    numbers: list[Expr] = [Scalar(name, p.dtype) for name in names]
    lr, decay, eps, add1, keep2, add2, first, second = numbers
    if counted:
        step = next(loads)
        first, second = (-apply("expm1", step * Scalar(name, p.dtype)) for name in ("log1", "log2"))
    before = (p, m, v) if top is None else (p, m, v, top)
    if scaled:
        g = g / next(loads)
    g = -g if maximize else g
    if decoupled:
        p = p * (1.0 - lr * decay)
    else:
        g = g + decay * p
    m = m + add1 * (g - m)
    v = keep2 * v + add2 * (g * g)
    top = None if top is None else apply("maximum", top, v)
    scale = apply("sqrt", v if top is None else top) / apply("sqrt", second) + eps
    p = p - (lr / first) * (m / scale)
    after: tuple[Expr, ...] = (p, m, v) if top is None else (p, m, v, top)
    if guarded:
        skip = next(loads) > 0.0
        after = tuple([apply("where", skip, old, new) for old, new in zip(before, after)])
    written = (0, 2, 3, 4)[: len(after)]
    return tuple([cast(value, dtypes[slot]) for value, slot in zip(after, written)])


def _stepped(
    outputs: tuple[Expr, ...], written: Sequence[Any], grads: Any, shared: Sequence[Any], scalars: Any, steps: Any = ()
) -> None:
    """Computes a step into the lists ``written``, parameters first; ``outputs`` read (parameter, gradient, state)."""
    rows = [tuple([take(x) for x in tensors]) for tensors in zip(*written)]
    counts: list[tuple[Any, ...]] = [(take(step),) for step in steps] or [()] * len(rows)
    inputs = [(row[0], take(grad), *row[1:], *count) for row, grad, count in zip(rows, grads, counts)]
    evaluate_each(outputs, inputs, shared, scalars, out=rows)
    for tensors, row in zip(zip(*written), rows):
        for x, value in zip(tensors, row):
            if value._storage is not x.untyped_storage().content._storage:  # a view, which was read into a copy
                put(x, value)


def _numbers(lr: float, decay: float, eps: float, beta1: float, beta2: float) -> dict[str, float]:
    """Returns the numbers of a launch; 1 - beta is rounded once, as 1 - 0.999 in float32 is off by 5e-5."""
    return {"lr": lr, "decay": decay, "eps": eps, "add1": 1 - beta1, "beta2": beta2, "add2": 1 - beta2}


def _fused_adam(decoupled: bool) -> Callable[..., None]:
    def step(
        params: Any, grads: Any, means: Any, squares: Any, tops: Any, steps: Any, *, lr: Any, beta1: float,
        beta2: float, weight_decay: float, eps: float, amsgrad: bool, maximize: bool, grad_scale: Any = None,
        found_inf: Any = None,
    ) -> None:  # fmt: skip
        """Makes a step of Adam in place."""
        written = [params, means, squares, *([tops] if amsgrad else [])]
        shared = [take(value) for value in (grad_scale, found_inf) if value is not None]
        kinds = [DTYPES[of[0].dtype] for of in (params, grads, *written[1:], steps)]
        dtypes = (*kinds, *(x.dtype for x in shared))
        outputs = _adam(dtypes, decoupled, amsgrad, maximize, True, grad_scale is not None, found_inf is not None)
        scalars = _numbers(float(lr), weight_decay, eps, beta1, beta2)
        scalars |= {"log1": log(beta1) if beta1 else -1e30, "log2": log(beta2) if beta2 else -1e30}
        _stepped(outputs, written, grads, shared, scalars, steps)

    return step


def _listed_adam(whole: Callable[..., None]) -> Callable[..., None]:
    """Returns PyTorch's step of Adam and AdamW over lists, which is nine launches, as one launch on the device."""

    @wraps(whole)
    def step(
        params: Any, grads: Any, means: Any, squares: Any, tops: Any, steps: Any, grad_scale: Any, found_inf: Any,
        *, amsgrad: bool, lr: Any, beta1: Any, beta2: Any, weight_decay: float, eps: float, maximize: bool,
        capturable: bool, differentiable: bool, decoupled_weight_decay: bool, **others: Any,
    ) -> None:  # fmt: skip
        written = [params, means, squares, *([tops] if amsgrad else [])]
        listed = grad_scale is None and not capturable and not differentiable and not torch.compiler.is_compiling()
        if listed and params and all(type(number) is float for number in (lr, beta1, beta2)):
            kinds = {tuple([x.dtype for x in (*row, grad)]) for *row, grad in zip(*written, grads)}
            counts = {count.item() for count in steps if count.device.type == "cpu"} if len(kinds) == 1 else set()
            dtypes = [DTYPES.get(dtype) for dtype in next(iter(kinds))]
            if len(counts) == 1 and None not in dtypes and all(x.device.type == "ocl" for x in (*params, *grads)):
                (count,) = counts
                torch._foreach_add_(steps, 1)
                outputs = _adam((dtypes[0], dtypes[-1], *dtypes[1:-1]), decoupled_weight_decay, amsgrad, maximize)
                scalars = _numbers(lr, weight_decay, eps, beta1, beta2)
                scalars |= {"first": 1 - beta1 ** (count + 1), "second": 1 - beta2 ** (count + 1)}
                _stepped(outputs, written, grads, (), scalars)
                return
        whole(
            params, grads, means, squares, tops, steps, grad_scale, found_inf, amsgrad=amsgrad, lr=lr, beta1=beta1,
            beta2=beta2, weight_decay=weight_decay, eps=eps, maximize=maximize, capturable=capturable,
            differentiable=differentiable, decoupled_weight_decay=decoupled_weight_decay, **others,
        )  # fmt: skip

    return step


def register() -> None:
    """Makes Adam and AdamW, whose way over lists is PyTorch's default here, one launch."""
    adam._multi_tensor_adam = _listed_adam(adam._multi_tensor_adam)


@lru_cache(maxsize=64)
def _sgd(dtypes: tuple[str, ...], nesterov: bool, maximize: bool, first: bool, moved: bool) -> tuple[Expr, ...]:
    loads = [widened(Load(slot, dtype)) for slot, dtype in enumerate(dtypes)]
    p, g = loads[:2]
    lr, decay, momentum, damping = (Scalar(name, p.dtype) for name in ("lr", "decay", "momentum", "damping"))
    g = (-g if maximize else g) + decay * p
    if not moved:
        return (cast(p - lr * g, dtypes[0]),)
    buffer = g if first else momentum * loads[2] + (1.0 - damping) * g
    return cast(p - lr * (g + momentum * buffer if nesterov else buffer), dtypes[0]), cast(buffer, dtypes[2])


def _fused_sgd(
    params: Any, grads: Any, buffers: Any, *, weight_decay: float, momentum: float, lr: Any, dampening: float,
    nesterov: bool, maximize: bool, is_first_step: bool, grad_scale: Any = None, found_inf: Any = None,
) -> None:  # fmt: skip
    """Makes a step of SGD in place."""
    if found_inf is not None and found_inf.item():
        return
    if grad_scale is not None:
        grads = [grad / grad_scale for grad in grads]
    dtypes = tuple([DTYPES[of[0].dtype] for of in (params, grads, buffers) if of])
    outputs = _sgd(dtypes, nesterov, maximize, is_first_step, bool(buffers))
    scalars = {"lr": float(lr), "decay": weight_decay, "momentum": momentum, "damping": dampening}
    _stepped(outputs, [params, *([buffers] if buffers else [])], grads, (), scalars)


TABLE |= {"_fused_sgd_": _fused_sgd, "_fused_sgd_.tensor_lr": _fused_sgd}
for _kind, _decoupled in (("adam", False), ("adamw", True)):
    TABLE |= dict.fromkeys((f"_fused_{_kind}_", f"_fused_{_kind}_.tensor_lr"), _fused_adam(_decoupled))
