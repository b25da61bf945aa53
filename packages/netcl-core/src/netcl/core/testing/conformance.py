"""Conformance checks of another backend or another netcl-core, generated from the op table and the list of names.

``op_cases(name)`` yields samples for a row of the table, ``check_backend(engine)`` runs all of them on an engine and
compares with float64, ``check_core()`` also compares the names and signatures of this netcl-core with ``CONTRACT``, if
its distribution, netcl-conformance, is installed.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from netcl.core.device.capabilities import DeviceProfile
from netcl.core.device.discovery import DeviceHandle, device, manager
from netcl.core.dtypes import from_bfloat16, is_floating, to_bfloat16
from netcl.core.engine.protocol import DeviceBackend
from netcl.core.engine.registry import cpu_engine, engine_for
from netcl.core.errors import NetclError, UnsupportedError
from netcl.core.ops_table.dispatch import TABLE, Domain, OpRow, call_row, row_of
from netcl.core.tensor.tensor import Tensor
from netcl.core.testing.extremes import disagreement, extreme_ops
from netcl.core.testing.op_families import DTYPES, families, ops_of

__all__ = [
    "MASKS",
    "TOLERANCE",
    "Case",
    "Report",
    "assert_close",
    "check_backend",
    "check_core",
    "check_device",
    "check_family",
    "expected",
    "families_of",
    "masked",
    "op_cases",
    "refusal",
    "run_case",
    "signature_of",
]

Array = np.ndarray[Any, Any]

# Relative, absolute; integers and bool are exact.
TOLERANCE = {"float32": (1e-5, 1e-6), "float16": (1e-2, 1e-3), "bfloat16": (2e-2, 1e-2), "float64": (1e-10, 1e-12)}

# 0-d, empty, one element, primes, last axis 1, beyond 2**16 in one axis.
_SHAPES: tuple[tuple[int, ...], ...] = ((), (0,), (1,), (7,), (13, 17), (5, 1), (2, 3, 5), (2**16 + 1,))
# Broadcasting, tried both ways. Each pair is a layout, and so a separate kernel, hence few.
_BROADCAST: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (((3, 1), (1, 4)), ((1, 5), (0, 5)))


class Case(NamedTuple):
    """A sample: operands in order (float64 arrays, indices, lists, numbers, None), and attributes by name."""

    operands: tuple[Any, ...]
    attributes: dict[str, Any]


def op_cases(name: str, seed: int = 0) -> Iterator[Case]:
    """Returns the samples of the op ``name``: its row's, else elementwise ones over all shapes and broadcasts."""
    row = row_of(name)
    rng = np.random.default_rng(seed)
    if row.domain.cases is not None:
        for operands, attributes in row.domain.cases(rng):
            yield Case(tuple(operands), dict(attributes))
    elif row.expression is not None:
        yield from _elementwise_cases(row, rng)


def _elementwise_cases(row: OpRow, rng: np.random.Generator) -> Iterator[Case]:
    arity = len(row.operands)
    shapes: list[tuple[tuple[int, ...], ...]] = [(shape,) * arity for shape in _SHAPES]
    if arity > 1:
        for wide, narrow in _BROADCAST:
            shapes += [(wide, narrow, *[wide] * (arity - 2)), (narrow, wide, *[narrow] * (arity - 2))]
    for each in shapes:
        arrays = [_sample(row.domain, shape, rng) for shape in each]
        if arity == 2 and not row.domain.gradient:
            # Comparisons and integer quotients: on halves, so that equality occurs and no value is next to a jump.
            arrays = [np.asarray(np.round(array * 2) / 2) for array in arrays]
        elif arity == 2 and each[0] == each[1]:
            # Distinct, since maximum and minimum have a kink at equal values.
            first, second = arrays
            arrays[1] = np.where(abs(first - second) < row.domain.away, second + 2 * row.domain.away, second)
        yield Case(tuple(arrays), {})


def _sample(domain: Domain, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Draws uniform numbers of the domain, moved away from its kinks."""
    values = rng.uniform(domain.low, domain.high, shape)
    for kink in domain.kinks:
        side = np.where(values < kink, -1.0, 1.0)
        values = np.where(abs(values - kink) < domain.away, kink + side * domain.away, values)
    return np.asarray(values)


def _each(operand: Any, change: Any) -> Any:
    if isinstance(operand, list):
        return [_each(item, change) for item in operand]
    return change(operand) if isinstance(operand, np.ndarray) else operand


def rounded(operand: Any, dtype: str) -> Any:
    """Returns float64 samples as ``dtype`` stores them, in float64 again."""

    def change(array: Array) -> Array:
        if array.dtype.kind != "f":
            return array
        if dtype == "bfloat16":
            return from_bfloat16(to_bfloat16(array)).astype(np.float64)
        return array.astype(dtype).astype(np.float64)

    return _each(operand, change)


def run_case(name: str, case: Case, engine: DeviceBackend, dtype: str = "float32") -> tuple[Tensor, ...]:
    """Returns the results of the op on ``engine``, its floating operands in ``dtype``."""

    def on_device(array: Array) -> Tensor:
        kind = dtype if array.dtype.kind == "f" else None
        return Tensor.from_host(engine.queue, array, kind)

    operands = tuple(_each(operand, on_device) for operand in case.operands)
    result = call_row(row_of(name), operands, dict(case.attributes), record=False)
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def refusal(name: str, dtype: str, engine: DeviceBackend) -> UnsupportedError | None:
    """Returns the op's error of refusal of a dtype on an engine, tried on its smallest case, or None if it computes.
    Any other error is raised. Raises LookupError if the op has no cases.
    """
    cases = [case for case in op_cases(name) if all(array.size for array in _arrays(case.operands))]
    if not cases:
        raise LookupError(f"{name} has no cases")
    case = min(cases, key=lambda case: sum(array.size for array in _arrays(case.operands)))
    if not is_floating(dtype):  # which have no infinity, and one of them no sign
        whole = tuple(_each(operand, lambda x: np.where(np.isfinite(x), abs(x), 0)) for operand in case.operands)
        case = Case(whole, case.attributes)
    try:
        for result in run_case(name, case, engine, dtype):
            result.numpy()
    except UnsupportedError as error:
        return error
    return None


def _arrays(operands: Any) -> list[Array]:
    values = [item for value in operands for item in (value if isinstance(value, list) else [value])]
    return [value for value in values if isinstance(value, np.ndarray)]


def expected(name: str, case: Case, dtype: str = "float32") -> tuple[Array, ...]:
    """Returns float64 results for operands as ``dtype`` stores them: by the row's reference, else NumPy's engine."""
    row = row_of(name)
    operands = tuple(rounded(operand, dtype) for operand in case.operands)
    if row.domain.reference is not None:
        result = row.domain.reference(*operands, **case.attributes)
        results = result if isinstance(result, tuple) else (result,)
        return tuple(np.asarray(array) for array in results)
    return tuple(array.numpy() for array in run_case(name, Case(operands, case.attributes), cpu_engine(), "float64"))


def assert_close(a: Any, b: Any, dtype: str = "float32") -> None:
    """Raises AssertionError unless ``a`` has the shape of ``b`` and is within TOLERANCE[dtype] (integers: equal)."""
    got, wanted = (np.asarray(value.numpy() if isinstance(value, Tensor) else value) for value in (a, b))
    if got.shape != wanted.shape:
        raise AssertionError(f"shape {got.shape}, expected {wanted.shape}")
    if not is_floating(dtype):
        np.testing.assert_array_equal(got, wanted)
        return
    relative, absolute = TOLERANCE[dtype]
    np.testing.assert_allclose(got.astype(np.float64), wanted.astype(np.float64), rtol=relative, atol=absolute)


def relative_error(got: Array, wanted: Array, dtype: str) -> float:
    """Returns the largest difference relative to the expected value.

    Small expected values count as the value at which TOLERANCE's relative and absolute parts are equal, so that a
    result within tolerance has at most the relative one. Integers: 0, or inf if they differ.
    """
    got, wanted = np.asarray(got), np.asarray(wanted)
    if got.shape != wanted.shape:
        return float("inf")
    if not is_floating(dtype):
        return 0.0 if np.array_equal(got, wanted) else float("inf")
    relative, absolute = TOLERANCE[dtype]
    with np.errstate(all="ignore"):
        got, wanted = got.astype(np.float64), wanted.astype(np.float64)
        parts = abs(got - wanted) / (abs(wanted) + absolute / relative)
        same = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
        parts = np.where(same, 0.0, np.where(np.isnan(parts), np.inf, parts))
    return float(parts.max(initial=0.0))


@dataclass
class Report:
    """The result of a check: the number of passed cases, and failures by op or name, with the reason; ``error`` is the
    largest relative error of all results.
    """

    subject: str
    passed: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    error: float = 0.0

    def __bool__(self) -> bool:
        return not self.failed

    def __str__(self) -> str:
        lines = [f"{self.subject}: {self.passed} cases held, {len(self.failed)} failed"]
        return "\n".join([*lines, *(f"  {name}: {reason}" for name, reason in self.failed.items())])


def check_backend(backend: DeviceBackend, names: Iterable[str] | None = None, dtype: str = "float32") -> Report:
    """Runs all cases of all ops (or of ``names``) on an engine, against float64; reports each op's first failure."""
    importlib.import_module("netcl.ops")
    report = Report(f"{backend.device_label}, {dtype}")
    for name in TABLE if names is None else names:
        _check_op(report, name, backend, dtype, op_cases(name))
    return report


def _check_op(report: Report, name: str, backend: DeviceBackend, dtype: str, cases: Iterable[Case]) -> None:
    for case in cases:
        try:
            for got, want in zip(run_case(name, case, backend, dtype), expected(name, case, dtype)):
                report.error = max(report.error, relative_error(got.numpy(), want, got.dtype))
                assert_close(got, want, got.dtype)
        except (AssertionError, NetclError, RuntimeError, TypeError, ValueError, LookupError) as error:
            shapes = [getattr(operand, "shape", operand) for operand in case.operands]
            report.failed[name] = f"{shapes} {case.attributes}: {type(error).__name__}: {error}"
            return
        report.passed += 1


_QUICK_CASES = 4
_PLAIN = 4  # the index, among elementwise cases, of one with two axes and a tail

_DRAWS = {
    "float32": (
        ("uniform", "float32"),
        ("normal", "float32"),
        ("bits", "int32"),
        ("randint", "int64"),
        ("kept", "bool"),
    ),
    "float16": (("uniform", "float16"),),
    "bfloat16": (("uniform", "bfloat16"),),
}


def _check_draws(report: Report, backend: DeviceBackend, dtype: str) -> None:
    """Checks that random numbers equal NumPy's engine's from the same state."""
    for kind, of in _DRAWS.get(dtype, ()):
        drawn: list[Array] = []
        for engine in (backend, cpu_engine()):
            state = engine.rng_state
            before = engine.read(state)
            engine.write(state, np.array([46, 5], np.int64))  # seed and base
            drawn.append(
                engine.random(kind, (1001,), of, offset=3, low=1 << 23 if kind == "kept" else -7, high=1000).numpy()
            )
            engine.write(state, before)
        got, wanted = drawn
        report.error = max(report.error, relative_error(got, wanted, of))
        try:
            assert_close(got, wanted, of)
        except AssertionError as error:
            report.failed[kind] = str(error)
        else:
            report.passed += 1


def check_family(backend: DeviceBackend, family: str, dtype: str = "float32", quick: bool = True) -> Report:
    """Checks one kernel family of ``op_families`` in one dtype. ``quick`` takes few ops and, since each case may be a
    kernel to compile, few cases of them: one in dtypes other than float32.
    """
    importlib.import_module("netcl.ops")
    report = Report(f"{backend.device_label}, {family}, {dtype}")
    if family == "random":
        _check_draws(report, backend, dtype)
        return report
    for name in ops_of(family, dtype, quick):
        cases = list(op_cases(name))
        if dtype != "float32":
            first = 0 if row_of(name).domain.cases is not None else _PLAIN
            cases = cases[first : first + (1 if quick else 2)]
        elif quick:
            cases = cases[:: -(-len(cases) // _QUICK_CASES)]
        _check_op(report, name, backend, dtype, cases)
    return report


def families_of(handle: Any, quick: bool = True) -> list[tuple[str, str]]:
    """Returns the (family, dtype) pairs that a device has."""
    importlib.import_module("netcl.ops")
    doubles = manager.profile(handle).has_fp64
    dtypes = [dtype for dtype in DTYPES if dtype != "float64" or doubles]
    pairs = [(family, dtype) for family in families() for dtype in dtypes]
    return [(f, d) for f, d in pairs if (d in _DRAWS if f == "random" else ops_of(f, d, quick))]


def check_device(handle: Any, quick: bool = True) -> Report:
    """Checks every kernel family in every dtype on the device of a handle or queue; ``quick`` takes few ops of each."""
    engine = engine_for(handle)
    report = Report(engine.device_label)
    for family, dtype in families_of(handle, quick):
        part = check_family(engine, family, dtype, quick)
        report.passed += part.passed
        report.error = max(report.error, part.error)
        report.failed.update({f"{name} ({dtype})": reason for name, reason in part.failed.items()})
    return report


# Features that smaller devices lack, as limits of ``masked``.
MASKS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "OpenCL C 1.2": {"opencl_c_version": "OpenCL C 1.2", "has_svm": False, "has_command_buffer": False},
        "group 128, 32 KB local": {"max_work_group_size": 128, "local_mem_size": 32 * 1024, "is_cpu": False},
        "no fp16 fp64 subgroups int64_atomics": {
            "has_fp16": False,
            "has_fp64": False,
            "has_subgroups": False,
            "fast_atomics": False,
        },
        "no unified memory": {"unified_memory": False, "is_cpu": False},
    }
)


@contextmanager
def masked(handle: DeviceHandle, **limits: Any) -> Iterator[DeviceHandle]:
    """Emulates a less capable device: within the block the thread works on the handle's device as if it had only
    ``limits``.

    Limits are fields of its DeviceProfile (``max_work_group_size=64``, ``is_cpu=False`` for the kernels of a GPU);
    without any, all of MASKS. The yielded handle has its own context and engine. A kernel beyond the limits does not
    build, or raises UnsupportedError. NumPy has none of these features and is unchanged. Raises ValueError for an
    unknown field.
    """
    known = {entry.name for entry in fields(DeviceProfile)}
    if unknown := sorted(set(limits) - known):
        raise ValueError(f"masked: no limit {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    if not limits:
        limits = {name: value for mask in MASKS.values() for name, value in mask.items()}
    if handle.backend != "cpu":
        module = importlib.import_module("netcl.core.backend.opencl.queue.capability_mask")
        handle = module.masked_handle(handle, limits)
    with device(handle):
        yield handle


def signature_of(value: Any) -> str:
    """Returns parameters and defaults as text, ``"(x, weight, bias=None)"``; empty if not callable."""
    if not callable(value):
        return ""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return ""
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in parameters if p.name not in ("self", "cls")]
    return str(inspect.Signature(bare))


def check_core() -> Report:
    """Checks that this netcl-core computes every op right on NumPy, also on infinities, NaN, zeros of both signs,
    subnormals and the ends of the integers, and, if netcl-conformance is installed, every name of CONTRACT with its
    signature.
    """
    report = check_backend(cpu_engine())
    report.subject = "netcl-core"
    for name in extreme_ops():
        for dtype in ("float32", "int32", "uint8"):
            if fault := disagreement(name, cpu_engine(), dtype):
                report.failed[f"{name} ({dtype}, extremes)"] = fault
            else:
                report.passed += 1
    # Imported here, as it takes cases from this module.
    special = importlib.import_module("netcl.core.testing.special_values")
    for name in special.special_ops():
        if fault := special.special_disagreement(name, cpu_engine(), "float32"):
            report.failed[f"{name} (special values)"] = fault
        else:
            report.passed += 1
    try:
        kit = importlib.import_module("netcl_conformance.contract")
    except ModuleNotFoundError:
        report.subject = "netcl-core without its names, as netcl-conformance is not installed"
        return report
    for name, signature in kit.CONTRACT.items():
        if fault := kit.fault_of(name, signature):
            report.failed[name] = fault
        else:
            report.passed += 1
    return report


def __getattr__(name: str) -> Any:
    """Returns CONTRACT, the names of the contract with their signatures, which netcl-conformance has."""
    if name == "CONTRACT":
        return importlib.import_module("netcl_conformance.lists.names").CONTRACT
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
