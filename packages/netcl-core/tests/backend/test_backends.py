"""The two backends are twins: calls, files and their functions have the same names and parameters."""

from __future__ import annotations

import inspect

import pytest

from netcl.core.backend.cpu import CPUBackend
from netcl.core.backend.opencl import OpenCLBackend
from netcl.core.engine.protocol import DeviceBackend

TWINS = (
    "gemm",
    "conv",
    "window",
    "index",
    "random",
    "copy",
    "resample",
    "scan",
    "sort",
    "ctc",
    "recurrence",
    "attention",
)
CALLS = [name for name, value in vars(DeviceBackend).items() if inspect.isfunction(value) and not name.startswith("_")]
FACTS = [name for name, value in vars(DeviceBackend).items() if isinstance(value, property)]
TRANSPORT = ("from_host", "from_shape", "to_host", "to_host_async", "reshape")


def _parameters(function: object) -> list[tuple[str, object, object]]:
    """Names, kinds and defaults; annotations may name the backend's own storage."""
    assert callable(function)
    return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize("name", CALLS)
def test_both_backends_take_what_the_protocol_says(name: str) -> None:
    wanted = _parameters(getattr(DeviceBackend, name))
    for backend in (CPUBackend, OpenCLBackend):
        offered = _parameters(getattr(backend, name))
        # A backend may take more, if it has a default.
        assert offered[: len(wanted)] == wanted
        assert all(p[2] is not inspect.Parameter.empty for p in offered[len(wanted) :])


@pytest.mark.parametrize("name", TRANSPORT)
def test_both_backends_offer_the_seeds_transport(name: str) -> None:
    assert _parameters(getattr(CPUBackend, name)) == _parameters(getattr(OpenCLBackend, name))


def test_both_backends_state_the_same_facts() -> None:
    assert FACTS
    for backend in (CPUBackend, OpenCLBackend):
        assert all(hasattr(backend, name) or name in inspect.getsource(backend) for name in FACTS)


@pytest.mark.parametrize("module", TWINS)
def test_twin_files_have_the_same_public_functions(module: str) -> None:
    twins = [getattr(backend.kernel_modules, module) for backend in (CPUBackend, OpenCLBackend)]
    entry = {
        name: getattr(twins[0], name)
        for name in (module, "matmul")
        if inspect.isfunction(getattr(twins[0], name, None))
    }
    assert entry
    for name, function in entry.items():
        # Tests force a variant by name; captured steps ask kernels of OpenCL to round float32 operands.
        others = [p for p in _parameters(getattr(twins[1], name)) if p[0] not in ("variant", "half", "wide")]
        assert others == _parameters(function)
