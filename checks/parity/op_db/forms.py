"""The forms in which an operator is called: function, method, operator, in place, out=, gradients, 0-d and empty."""

from __future__ import annotations

import functools
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from compare import Different, compare, largest
from translate import Missing, Skip, at, back, function, is_covered, value

import netcl
import netcl.torch as ours

Call = Callable[..., Any]
# Gradients are of cotangents near 1: where all are smaller, they are what rounding leaves.
SMALL = 0.05


class Sample:
    """Arguments of a call, in PyTorch's types."""

    def __init__(self, sample: Any) -> None:
        self.args: tuple[Any, ...] = (sample.input, *sample.args)
        self.kwargs: dict[str, Any] = dict(sample.kwargs)
        self.process: Call = sample.output_process_fn_grad
        self.broadcasts_input: bool = sample.broadcasts_input

    def changed(self, change: Callable[[torch.Tensor], Any]) -> Sample:
        new = object.__new__(Sample)
        new.args, new.kwargs = mapped(self.args, change), mapped(self.kwargs, change)
        new.process, new.broadcasts_input = self.process, self.broadcasts_input
        return new

    def fresh(self) -> Sample:
        return self.changed(lambda x: x.detach().clone().requires_grad_(x.requires_grad))

    def __str__(self) -> str:
        parts = [shown(x) for x in self.args] + [f"{name}={shown(x)}" for name, x in self.kwargs.items()]
        return f"({', '.join(parts)})"


def shown(x: Any) -> str:
    if isinstance(x, torch.Tensor):
        return f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)}"
    if isinstance(x, (tuple, list)):
        return f"[{', '.join(map(shown, x))}]"
    return repr(x)[:60]


def mapped(x: Any, change: Callable[[torch.Tensor], Any]) -> Any:
    if isinstance(x, torch.Tensor):
        return change(x)
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*(mapped(part, change) for part in x))
    if isinstance(x, (tuple, list)) and not isinstance(x, torch.Size):
        return type(x)(mapped(part, change) for part in x)
    return {key: mapped(part, change) for key, part in x.items()} if isinstance(x, dict) else x


def tensors(x: Any, kind: type = torch.Tensor) -> list[Any]:
    if isinstance(x, kind):
        return [x]
    if isinstance(x, (tuple, list)):
        return [one for part in x for one in tensors(part, kind)]
    return [one for part in x.values() for one in tensors(part, kind)] if isinstance(x, dict) else []


def seed() -> None:
    torch.manual_seed(7)
    ours.manual_seed(7)
    random.seed(7)
    np.random.seed(7)


class Refused(Exception):
    """Raised if PyTorch itself refuses a call, which then is no sample."""


def call_theirs(call: Call, sample: Sample) -> Any:
    seed()
    try:
        result = call(*sample.args, **sample.kwargs)
    except Exception as error:
        raise Refused from error
    if any(not is_covered(x) for x in tensors(result)):
        raise Skip
    return result


def call_ours(call: Call, sample: Sample) -> Any:
    args, kwargs = value(sample.args), value(sample.kwargs)
    if "device" in kwargs:
        kwargs["device"] = None
    seed()
    return call(*args, **kwargs)


def widened(sample: Sample) -> Sample:
    """The sample in float64, for a reference."""

    def wide(x: torch.Tensor) -> torch.Tensor:
        x = x.detach()
        return x.double().requires_grad_(x.requires_grad) if x.is_floating_point() else x.clone()

    new = sample.changed(wide)
    new.kwargs = {
        name: torch.float64 if isinstance(x, torch.dtype) and x.is_floating_point else x
        for name, x in new.kwargs.items()
    }
    return new


def check_values(mine: Call, other: Call, sample: Sample, values: bool) -> None:
    wanted = call_theirs(other, sample.fresh())
    got = call_ours(mine, sample)
    compare(back(got), mapped(wanted, torch.Tensor.detach), values=values,
            reference=lambda: other(*widened(sample).args, **widened(sample).kwargs))  # fmt: skip


def check_in_place(mine: Call, other: Call, sample: Sample, values: bool) -> None:
    if sample.broadcasts_input:
        raise Refused
    plain = sample.changed(lambda x: x.detach().clone())
    target = plain.args[0]
    wanted = call_theirs(other, plain)
    if wanted is not target and not (isinstance(wanted, torch.Tensor) and wanted.shape == target.shape):
        raise Refused
    args, kwargs = value(sample.changed(torch.Tensor.detach).args), value(sample.kwargs)
    seed()
    result = mine(*args, **kwargs)
    if result is not args[0]:
        raise Different("structure", "the result is not the tensor that was written")
    compare(back(args[0]), target.detach(), values=values,
            reference=lambda: other(*widened(plain_of(sample)).args, **sample.kwargs))  # fmt: skip


def plain_of(sample: Sample) -> Sample:
    return sample.changed(lambda x: x.detach().clone())


def check_out(mine: Call, other: Call, sample: Sample, values: bool) -> None:
    plain = plain_of(sample)
    wanted = call_theirs(other, plain)
    if not tensors(wanted) or "out" in sample.kwargs:
        raise Refused
    space = mapped(wanted, lambda x: torch.empty_like(x).fill_(1))
    if isinstance(space, tuple) and hasattr(space, "_fields"):
        space = tuple(space)
    plain.kwargs["out"] = space
    try:
        call_theirs(other, plain)
    except (Refused, Skip):
        raise Refused from None
    args, kwargs = value(plain.args), value({**plain.kwargs, "out": None})
    kwargs["out"] = value(mapped(wanted, lambda x: torch.empty_like(x).fill_(1)))
    if "device" in kwargs:
        kwargs["device"] = None
    seed()
    mine(*args, **kwargs)
    written = kwargs["out"]
    compare(back(written), mapped(wanted, torch.Tensor.detach), values=values,
            reference=lambda: other(*widened(sample).args, **widened(sample).kwargs))  # fmt: skip


def _gradients(module: Any, call: Call, args: Any, kwargs: Any, process: Call, twice: bool, draw: Call) -> Any:
    """First and second derivatives by the leaves that require one; ``draw(shape, dtype, i)`` gives cotangents."""
    leaves = [x for x in tensors((args, kwargs), module.Tensor) if x.requires_grad]
    seed()
    result = process(call(*args, **kwargs))
    outs = [x for x in tensors(result, module.Tensor) if x.requires_grad]
    if not outs or not leaves:
        return None
    seeds = [draw(tuple(x.shape), str(x.dtype).removeprefix("torch."), i) for i, x in enumerate(outs)]
    first = module.autograd.grad(outs, leaves, seeds, allow_unused=True, create_graph=twice)
    if not twice:
        return [filled(leaves, first)]
    again = [g for g in first if g is not None and g.requires_grad]
    if not again:
        return [filled(leaves, first), filled(leaves, [None] * len(leaves))]
    seeds = [draw(tuple(x.shape), str(x.dtype).removeprefix("torch."), 50 + i) for i, x in enumerate(again)]
    second = module.autograd.grad(again, leaves, seeds, allow_unused=True)
    return [filled(leaves, first), filled(leaves, second)]


def filled(leaves: Any, gradients: Any) -> list[Any]:
    return [leaf.detach() * 0 if g is None else g.detach() for leaf, g in zip(leaves, gradients)]


def cotangent(shape: Any, dtype: str, i: int) -> torch.Tensor:
    values = np.random.RandomState(100 + i).uniform(0.5, 1.5, shape)
    return torch.tensor(values).to(getattr(torch, dtype))


def check_gradients(op: Any, plain: Call, sample: Sample, twice: bool) -> None:
    """Compare derivatives of the function of which PyTorch checks them, such as that of a symmetrical matrix."""
    if not any(x.requires_grad for x in tensors((sample.args, sample.kwargs))):
        raise Refused

    other: Call = functools.partial(op.gradcheck_wrapper, op.op)
    mine: Call = functools.partial(function(op.gradcheck_wrapper), plain)

    def theirs(sample: Sample) -> Any:
        return _gradients(torch, other, sample.args, sample.kwargs, sample.process, twice, cotangent)

    try:
        wanted = theirs(sample.fresh())
    except Exception as error:
        raise Refused from error
    if wanted is None or any(not is_covered(x) for x in tensors(wanted)):
        raise Refused
    kwargs = value(sample.kwargs)
    if "device" in kwargs:
        kwargs["device"] = None
    got = _gradients(ours, mine, value(sample.args), kwargs, function(sample.process), twice,
                     lambda *key: value(cotangent(*key)))  # fmt: skip
    if got is None:
        raise Different("value", "the result does not require a gradient")
    compare(back(got), wanted, reference=lambda: theirs(widened_leaves(sample)), scale=max(largest(wanted), SMALL))


def widened_leaves(sample: Sample) -> Sample:
    def wide(x: torch.Tensor) -> torch.Tensor:
        if not x.is_floating_point():
            return x.clone()
        return x.detach().double().requires_grad_(x.requires_grad)

    new = widened(sample)
    new.args, kwargs = mapped(sample.args, wide), mapped(sample.kwargs, wide)
    new.kwargs = {**kwargs, **{name: x for name, x in new.kwargs.items() if isinstance(x, torch.dtype)}}
    return new


SHAPES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "0-d": lambda x: x.flatten()[0] if x.numel() else x,
    "empty first": lambda x: x[:0] if x.ndim else x,
    "empty last": lambda x: x[..., :0] if x.ndim else x,
}


def of_shape(sample: Sample, name: str) -> Sample:
    return sample.changed(lambda x: SHAPES[name](x.detach()).clone().requires_grad_(x.requires_grad))


def functions(op: Any) -> Iterator[tuple[str, Call, Callable[[], Call]]]:
    """The name of each form that computes a result, PyTorch's function, and what gives netcl's or raises Missing."""
    yield "function", op.op, lambda: function(op.op, op.name)
    for alias in op.aliases:
        if callable(alias.op) and hasattr(torch, alias.name.split(".")[0]):
            yield f"alias {alias.name}", alias.op, lambda alias=alias: function(alias.op, alias.name)
    if op.method_variant is not None:
        yield "method", op.method_variant, lambda: function(op.method_variant)
    if op.operator_variant is not None:
        yield "operator", op.operator_variant, lambda: function(op.operator_variant)
    try:
        native = at(netcl, op.name)
    except Missing:
        return
    try:
        same = at(torch, op.name) is op.op and at(ours, op.name) is not native
    except Missing:
        same = False
    if same and callable(native):
        yield "nc", op.op, lambda: native


def in_place(op: Any) -> Iterator[tuple[str, Call]]:
    """The name of each form that writes into its first operand, and PyTorch's function."""
    if op.inplace_variant is not None:
        yield "in place", op.inplace_variant
    for alias in op.aliases:
        if alias.inplace_variant is not None:
            yield f"in place {alias.name}", alias.inplace_variant
    if op.inplace_operator_variant is not None:
        yield "in place operator", op.inplace_operator_variant


def cases(
    op: Any, dtype: torch.dtype, count: int, wanted: Callable[[str], bool]
) -> Iterator[tuple[str, str, str, str]]:
    """Form, state ("right", "value", "dtype", "shape", "structure", "raises" or "missing"), message and sample."""
    differentiable = dtype.is_floating_point and op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    seed()
    samples = []
    for i, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=differentiable)):
        if i >= count:
            break
        samples.append(Sample(sample))
    values = not op.has_nondeterministic_output

    def run(form: str, get: Callable[[], Call], check: Callable[[Call, Sample], None], sample: Sample) -> Any:
        if not wanted(form):
            return
        try:
            mine = get()
        except Missing as absent:
            yield form, "missing", str(absent), ""
            return
        try:
            check(mine, sample)
        except (Skip, Refused):
            return
        except Missing as absent:
            yield form, "missing", str(absent), ""
        except Different as error:
            yield form, error.kind, error.text, str(sample)
        except AttributeError as error:
            text = " ".join(str(error).split())
            absent = any(part in text for part in ("has no attribute", "is not in netcl", "Tensor has no"))
            state = "missing" if absent else "raises"
            yield form, state, f"AttributeError: {text}"[:300], str(sample)
        except Exception as error:  # noqa: BLE001
            text = " ".join(str(error).split())
            yield form, "raises", f"{type(error).__name__}: {text}"[:300], str(sample)
        else:
            yield form, "right", "", ""

    main = lambda: function(op.op, op.name)  # noqa: E731
    for sample in samples:
        for form, other, get in functions(op):
            yield from run(form, get, lambda mine, s, o=other: check_values(mine, o, s, values), sample)
        for form, other in in_place(op):
            yield from run(
                form,
                lambda other=other: function(other),
                lambda mine, s, other=other: check_in_place(mine, other, s, values),
                sample,
            )
        if op.supports_out:
            yield from run("out", main, lambda mine, s: check_out(mine, op.op, s, values), sample)
        if differentiable:
            yield from run("gradient", main, lambda mine, s: check_gradients(op, mine, s, False), sample)
        if differentiable and op.supports_gradgrad and dtype == torch.float32:
            yield from run("second gradient", main, lambda mine, s: check_gradients(op, mine, s, True), sample)
    for name in SHAPES:
        for sample in samples[:3]:
            try:
                changed = of_shape(sample, name)
            except Exception:  # noqa: BLE001
                continue
            yield from run(name, main, lambda mine, s: check_values(mine, op.op, s, values), changed)
            if differentiable:
                yield from run(f"{name} gradient", main, lambda mine, s: check_gradients(op, mine, s, False), changed)


def quiet() -> None:
    warnings.simplefilter("ignore")
