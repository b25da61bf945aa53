"""The names of ``netcl.core.testing`` that the upper suites use, for a core that has no such module: stored cases,
comparisons, and the fixtures of devices.
"""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

from netcl_conformance import values

__all__ = ["install"]

TOLERANCE = {"float32": (1e-5, 1e-6), "float16": (1e-2, 1e-3), "bfloat16": (2e-2, 1e-2), "float64": (1e-10, 1e-12)}


class Case(NamedTuple):
    """A sample: operands in order (arrays, lists, numbers, None), and attributes by name."""

    operands: tuple[Any, ...]
    attributes: dict[str, Any]


_results: dict[int, tuple[Any, Case]] = {}


def op_cases(name: str, seed: int = 0) -> Iterator[Case]:
    """The stored cases of a function of netcl.ops; of another row, as a loss of netcl-autograd, those of its domain,
    none if that has no cases.
    """
    if name in values.names():
        stored: Any = values.cases_of(name)
    else:
        domain = importlib.import_module("netcl.core.ops_table.dispatch").TABLE[name].domain
        given = domain.cases(np.random.default_rng(seed)) if domain.cases and domain.reference else ()
        stored = ((*case, _of_reference(domain.reference, *case)) for case in given)
    for operands, attributes, results in stored:
        case = Case(tuple(operands), dict(attributes))
        _results[id(case)] = results, case
        yield case


def _of_reference(reference: Any, operands: Any, attributes: dict[str, Any]) -> tuple[Any, ...]:
    """The results of a NumPy reference."""
    result = reference(*operands, **attributes)
    return result if isinstance(result, tuple) else (result,)


def expected(name: str, case: Case, dtype: str = "float32") -> tuple[Any, ...]:
    """The stored results of a case of ``op_cases``."""
    return tuple(_results[id(case)][0])


def run_case(name: str, case: Case, engine: Any, dtype: str = "float32") -> tuple[Any, ...]:
    """The results of a function on the device of ``engine``."""
    with importlib.import_module("netcl.core.device").device(engine.handle):
        results = values.results_of(name, case.operands, case.attributes, dtype)
        for result in results:
            result.numpy()  # raises what checks on the device have reported
        return results


def assert_close(a: Any, b: Any, dtype: str = "float32") -> None:
    """Raises AssertionError unless ``a`` equals ``b`` in shape and, within TOLERANCE[dtype], in value."""
    found, wanted = (np.asarray(one.numpy() if hasattr(one, "numpy") else one) for one in (a, b))
    assert found.shape == wanted.shape, f"shape {found.shape}, expected {wanted.shape}"
    relative, absolute = TOLERANCE.get(dtype, (0.0, 0.0))
    np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=relative, atol=absolute)


@contextmanager
def masked(handle: Any, **limits: Any) -> Iterator[Any]:
    """Skips the test: only netcl-core's OpenCL engine emulates a smaller device."""
    pytest.skip("needs the level opencl-kernels")
    yield handle


def selectors() -> list[str]:
    """NumPy and the device of NETCL_DEVICE, or the default device."""
    chosen = importlib.import_module("netcl.core.config").get("DEVICE")
    return list(dict.fromkeys(["cpu", chosen]))


def open_device(selector: str) -> Any:
    """The device of a selector; skips the test if this machine does not have it."""
    found = importlib.import_module("netcl.core.device").manager.default(selector)
    return found if found is not None else pytest.skip(f"there is no device {selector!r} here")


def _different() -> list[str]:
    """The selectors of ``selectors()`` that give different devices."""
    manager = importlib.import_module("netcl.core.device").manager
    found = {id(getattr(manager.default(one), "queue", one)): one for one in reversed(selectors())}
    return list(found.values())[::-1]


def _handle(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The device ``cpu`` and, if it is another, the default one; active for the duration of the test."""
    with importlib.import_module("netcl.core.device").device(open_device(request.param)) as found:
        yield found


@pytest.fixture
def engine(handle: Any) -> Any:
    """The engine of each device in turn; the device is active."""
    return importlib.import_module("netcl.core.engine.registry").engine_for(handle)


@pytest.fixture
def numpy_device() -> Iterator[Any]:
    """The device ``cpu``, active for the duration of the test."""
    with importlib.import_module("netcl.core.device").device("cpu") as found:
        yield found


@pytest.fixture
def default_signals() -> Iterator[None]:
    """Makes the test, and the programs that it starts, take signals that the process was started to ignore."""
    known = (getattr(signal, name, None) for name in ("SIGINT", "SIGTERM", "SIGHUP"))
    ignored = [number for number in known if number is not None and signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


def install() -> bool:
    """Makes this module ``netcl.core.testing`` and its fixtures if the core has no such module; True if it has none."""
    try:
        importlib.import_module("netcl.core.testing")
    except ModuleNotFoundError:
        pass
    else:
        return False
    module = ModuleType("netcl.core.testing", __doc__)
    module.__path__ = []
    names = (Case, assert_close, expected, masked, op_cases, run_case)
    module.__dict__.update({name.__name__: name for name in names}, TOLERANCE=TOLERANCE)
    plugin = ModuleType("netcl.core.testing.pytest_plugin", __doc__)
    handle = pytest.fixture(params=_different(), name="handle")(_handle)
    vars(plugin).update(engine=engine, handle=handle, numpy_device=numpy_device, default_signals=default_signals)
    vars(plugin).update(open_device=open_device, selectors=selectors)
    vars(module)["pytest_plugin"] = plugin
    sys.modules[module.__name__], sys.modules[plugin.__name__] = module, plugin
    return True
