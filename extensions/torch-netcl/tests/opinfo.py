"""PyTorch's OpInfo samples on device "ocl", compared with PyTorch on the CPU: values, gradients, in-place and ``out=``.

    NETCL_DEVICE=cpu python tests/opinfo.py --dtype float32 --samples 3 --op add

It prints, for each dtype, the samples that pass, those of which an op ran on the CPU, that raise, and that are wrong,
and ends with 1 if one is wrong or raises that ``exceptions.toml`` does not name.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

EXCEPTIONS: dict[str, Any] = tomllib.loads((Path(__file__).parent / "exceptions.toml").read_text(encoding="utf-8"))
DTYPES = ("float32", "int64", "bool", "float16", "bfloat16")
TOLERANCES = {"float32": (1e-4, 2e-5), "float16": (4e-3, 4e-3), "bfloat16": (3.2e-2, 3.2e-2)}


@dataclass
class Outcome:
    """The samples of one dtype: counts, and the texts of what is not right."""

    counts: Counter[str] = field(default_factory=Counter)
    on_cpu: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def moved(value: Any, device: str) -> Any:
    """Returns nested values with tensors copied to ``device``, as leaves of their own with the same strides."""

    def copied(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return torch.device(device) if isinstance(x, torch.device) else x
        if device == "cpu":
            fresh = x.detach().clone()
        else:
            fresh = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=device)
            if any(step == 0 and size > 1 for size, step in zip(x.shape, x.stride())):
                fresh = x.detach().to(device)
            else:
                fresh.copy_(x.detach())
        return fresh.requires_grad_(x.requires_grad)

    made: dict[int, Any] = {}
    return tree_map(lambda x: made.setdefault(id(x), copied(x)) if isinstance(x, torch.Tensor) else copied(x), value)


def tensors(value: Any) -> list[torch.Tensor]:
    """Returns the tensors of nested values."""
    return [x for x in tree_flatten(value)[0] if isinstance(x, torch.Tensor)]


def difference(got: Any, wanted: Any, dtype: str, factor: float = 1.0, name: str = "") -> str:
    """Returns how two results differ; empty if they do not."""
    if name in EXCEPTIONS["ties"]["names"]:  # equal elements may come in another order
        got, wanted = tensors(got)[:1], tensors(wanted)[:1]
        if wanted and not wanted[0].is_floating_point() and name == "argsort":
            return ""
    a, b = tree_flatten(got)[0], tree_flatten(wanted)[0]
    if len(a) != len(b):
        return f"{len(a)} results, expected {len(b)}"
    for x, y in zip(a, b):
        if isinstance(y, torch.Tensor):
            if not isinstance(x, torch.Tensor):
                return f"{type(x).__name__}, expected a tensor"
            if name in EXCEPTIONS["wide_statistics"]["names"]:
                x = x.to(y.dtype)
            if x.shape != y.shape or x.dtype != y.dtype:
                return f"{x.dtype} {tuple(x.shape)}, expected {y.dtype} {tuple(y.shape)}"
            rtol, atol = TOLERANCES.get(dtype, (1e-4, 2e-5)) if y.is_floating_point() or y.is_complex() else (0, 0)
            wide = torch.complex128 if y.is_complex() else torch.float64 if y.is_floating_point() else y.dtype
            try:
                torch.testing.assert_close(
                    x.detach().cpu().to(wide),
                    y.detach().to(wide),
                    rtol=rtol * factor,
                    atol=atol * factor,
                    equal_nan=True,
                )
            except AssertionError as error:
                return " ".join(str(error).split())[:200]
        elif isinstance(y, float) and math.isnan(y):
            if not math.isnan(x):
                return f"{x!r}, expected {y!r}"
        elif x != y and not (isinstance(y, float) and math.isclose(x, y, rel_tol=1e-4)):
            return f"{x!r}, expected {y!r}"
    return ""


def called(function: Any, sample: Any) -> Any:
    """Returns the results of a call."""
    return function(sample.input, *sample.args, **sample.kwargs)


def gradients(function: Any, sample: Any) -> Any:
    """Returns the results of a call, and the gradients of its leaves."""
    results = function(sample.input, *sample.args, **sample.kwargs)
    outputs = [x for x in tensors(results) if x.requires_grad]
    leaves = [x for x in tensors((sample.input, sample.args, sample.kwargs)) if x.requires_grad]
    if not outputs or not leaves:
        return results, None
    generator = torch.Generator().manual_seed(0)
    by = [torch.randn(x.shape, dtype=torch.float32, generator=generator).to(x.dtype).to(x.device) for x in outputs]
    return results, torch.autograd.grad(outputs, leaves, by, allow_unused=True)


class Sample:
    """The parts of an OpInfo sample on one device."""

    def __init__(self, sample: Any, device: str, requires_grad: bool, name: str = "") -> None:
        self.input, self.args, self.kwargs = moved((sample.input, sample.args, dict(sample.kwargs)), device)
        if "device" in self.kwargs:
            self.kwargs["device"] = device
        if name == "tensor_split":  # its indices are on the CPU
            self.args = moved(sample.args, "cpu")
        if not requires_grad:
            for x in tensors((self.input, self.args, self.kwargs)):
                x.requires_grad_(False)


def beside_exact(op: Any, function: Any, sample: Any, got: Any, wanted: Any, backward: bool, text: str) -> str:
    """Returns empty if results are as near to those of a wider dtype as PyTorch's own are, else ``text``."""
    wide = Sample(sample, "cpu", backward, op.name)
    wider = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.float32: torch.float64}

    def widened(x: Any) -> Any:
        if not isinstance(x, torch.Tensor) or x.dtype not in wider:
            return x
        return x.detach().to(wider[x.dtype]).requires_grad_(x.requires_grad)

    wide.input, wide.args, wide.kwargs = tree_map(widened, (wide.input, wide.args, wide.kwargs))
    if backward:
        exact, error = attempt(lambda: gradients(function, wide))
    else:
        exact, error = attempt(lambda: function(wide.input, *wide.args, **wide.kwargs))
    if error is not None:
        return text
    for x, y, z in zip(tensors(got), tensors(wanted), tensors(exact)):
        if not z.is_floating_point():
            continue
        rtol, atol = TOLERANCES.get(str(y.dtype).removeprefix("torch."), TOLERANCES["float16"])
        z = z.detach().double()
        ours, theirs = (x.detach().cpu().double() - z).abs(), (y.detach().double() - z).abs()
        allowed = atol + rtol * z.abs() + theirs.max().item() if z.numel() else z
        if not bool((ours <= allowed).logical_or(ours.isnan() & theirs.isnan()).all()):
            return text
    return ""


def attempt(function: Any) -> Any:
    """Returns a result, and the error of a call."""
    try:
        return function(), None
    except Exception as error:  # noqa: BLE001 - it is compared
        return None, error


def check_sample(op: Any, sample: Any, dtype: str, backward: bool) -> list[tuple[str, str]]:
    """Returns (form, fault) for what is not right in one sample; PyTorch's own errors are expected in both places."""
    faults = []
    forms: dict[str, Any] = {"values": (op, backward)}
    in_place = op.get_inplace()
    if in_place is not None and not getattr(sample, "broadcasts_input", False):
        forms["in-place"] = (in_place, False)
    for form, (function, with_gradient) in forms.items():
        here, there = (Sample(sample, device, with_gradient, op.name) for device in ("cpu", "ocl"))
        call = gradients if with_gradient else called
        (wanted, refused), (got, error) = (
            attempt(partial(call, function, here)),
            attempt(partial(call, function, there)),
        )
        if refused is not None:
            if error is None and form == "values" and not with_gradient:
                faults.append((form, f"no error, expected {type(refused).__name__}: {refused}"[:200]))
            continue
        if error is not None:
            faults.append((form, f"raises {type(error).__name__}: {error}"[:300]))
            continue
        text = difference(got, wanted, dtype, EXCEPTIONS["tolerance"].get(op.name, 1.0), op.name)
        if text and (dtype in ("float16", "bfloat16") or op.name in EXCEPTIONS["tolerance"]):
            text = beside_exact(op, function, sample, got, wanted, with_gradient, text)
        if text:
            faults.append((form, "wrong: " + text))
    if op.supports_out and not faults:
        text = check_out(op, sample, dtype)
        if text:
            faults.append(("out", text))
    return faults


def check_out(op: Any, sample: Any, dtype: str) -> str:
    """Returns the fault of a call with ``out=``; empty for none, or if PyTorch refuses the call."""
    at_cpu = Sample(sample, "cpu", False, op.name)
    wanted, refused = attempt(lambda: op(at_cpu.input, *at_cpu.args, **at_cpu.kwargs))
    if refused is not None or not tensors(wanted):
        return ""
    outs = tree_map(lambda x: torch.empty_like(x) if isinstance(x, torch.Tensor) else x, wanted)
    filled, refused = attempt(lambda: op(at_cpu.input, *at_cpu.args, **at_cpu.kwargs, out=outs))
    if refused is not None:
        return ""
    if filled is not None and difference(filled, wanted, dtype):
        return ""  # PyTorch's own results differ, as of a lazy conjugate
    at_ocl = Sample(sample, "ocl", False, op.name)
    outs = tree_map(
        lambda x: torch.empty(x.shape, dtype=x.dtype, device="ocl") if isinstance(x, torch.Tensor) else x, wanted
    )
    got, error = attempt(lambda: op(at_ocl.input, *at_ocl.args, **at_ocl.kwargs, out=outs))
    if error is not None:
        return f"raises {type(error).__name__}: {error}"[:300]
    text = difference(
        outs, wanted if filled is None else filled, dtype, EXCEPTIONS["tolerance"].get(op.name, 1.0), op.name
    )
    return "wrong: " + text if text else ""


def full_name(op: Any) -> str:
    """Returns the name of an OpInfo with its variant."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def is_skipped(op: Any) -> bool:
    """Returns True for ops whose samples cannot be compared: their numbers are random or undefined."""
    return any(op.name == name or full_name(op) == name for name in EXCEPTIONS["not_compared"]["names"])


def check(dtypes: tuple[str, ...], limit: int, wanted: str = "", every: int = 1, first: int = 0) -> dict[str, Outcome]:
    """Returns the outcome of each dtype on the first ``limit`` samples of each op, or of a part of the ops."""
    from torch_netcl import fallback

    outcomes = {}
    for name in dtypes:
        dtype, outcome = getattr(torch, name), Outcome()
        outcomes[name] = outcome
        for op in op_db[first::every]:
            if is_skipped(op) or (wanted and wanted not in (op.name, full_name(op))):
                continue
            if dtype not in op.supported_dtypes("cpu"):
                continue
            backward = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu") and dtype.is_floating_point
            torch.manual_seed(0)
            try:
                samples = list(zip(range(limit), op.sample_inputs("cpu", dtype, requires_grad=backward)))
            except Exception as error:  # noqa: BLE001 - it is printed
                outcome.counts["no samples"] += 1
                print(f"{name} {full_name(op)}: PyTorch makes no samples: {error}"[:160])
                continue
            for _, sample in samples:
                if sample.kwargs.get("dropout_p") or op.name == "to_sparse":
                    continue
                if any(x.is_complex() or x.layout != torch.strided for x in tensors((sample.input, sample.args))):
                    continue
                fallback.calls.clear()
                faults = check_sample(op, sample, name, backward)
                on_cpu = bool(fallback.calls)
                outcome.on_cpu.update(fallback.calls.keys())
                known = EXCEPTIONS.get("known", {}).get(full_name(op), [])
                new = [(form, fault) for form, fault in faults if form not in known]
                outcome.counts["samples"] += 1
                outcome.counts["pass"] += not faults
                outcome.counts["on the CPU"] += bool(not faults and on_cpu)
                outcome.counts["known"] += bool(faults and not new)
                for form, fault in new:
                    outcome.counts["wrong" if fault.startswith(("wrong", "no error")) else "raises"] += 1
                    outcome.faults.append(f"{name} {full_name(op)} {form}: {fault}")
    return outcomes


def main() -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtype", action="append", choices=DTYPES)
    parser.add_argument("--samples", type=int, default=10**6)
    parser.add_argument("--op", default="")
    parser.add_argument("--every", type=int, default=1, help="compare each N-th op")
    parser.add_argument("--first", type=int, default=0, help="the number of the first op of these")
    parser.add_argument("--cpu-ops", action="store_true", help="print the ops that ran on the CPU")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if not hasattr(torch, "ocl"):  # left out next to a GPU that PyTorch itself uses
        from torch_netcl import device

        device.setup()
    began = time.time()
    failed = False
    for name in options.dtype or DTYPES:
        outcome = check((name,), options.samples, options.op, options.every, options.first)[name]
        for fault in outcome.faults:
            print(fault)
        counts = outcome.counts
        share = 100 * counts["pass"] / max(counts["samples"], 1)
        own = 100 * (counts["pass"] - counts["on the CPU"]) / max(counts["samples"], 1)
        print(
            f"{name}: {counts['samples']} samples, {share:.2f} % pass, {own:.2f} % of all with kernels only; "
            f"{counts['raises']} raise, {counts['wrong']} wrong, {counts['known']} known; {time.time() - began:.0f} s",
            flush=True,
        )
        if options.cpu_ops:
            print(*(f"  {count} {op}" for op, count in outcome.on_cpu.most_common()), sep="\n")
        failed |= bool(outcome.faults)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
