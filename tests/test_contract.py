"""The list of portable names: everything on it is in netcl-core with its signature, and the checks find what is not."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

import pytest
from check_imports import imports_of
from monorepo import OWNED, OWNER, load_packages
from netcl_conformance.contract import resolve
from netcl_conformance.lists import meaning
from netcl_conformance.lists.levels import LEVELS, level_of
from netcl_conformance.lists.names import CONTRACT, PACKAGES

import netcl.core
import netcl.ops
from netcl.core import Tensor, testing
from netcl.core.testing import check_core, conformance, signature_of


def test_the_lists_are_reached_from_netcl_core() -> None:
    assert testing.CONTRACT is CONTRACT
    assert OWNED == PACKAGES


def test_ops_and_names_of_core_on_the_list_are_public() -> None:
    ops = {
        name
        for name in CONTRACT
        if name.startswith("netcl.ops.") and resolve(name).__class__.__name__ == "function"
        if LEVELS[level_of(name)].required  # a core may lack the others, and layers above iterate netcl.ops.__all__
    }
    assert {name for name in ops if name.count(".") == 2} <= {f"netcl.ops.{name}" for name in netcl.ops.__all__}
    core = {name for name in CONTRACT if name.startswith("netcl.core.") and name.count(".") == 2}
    assert core <= {f"netcl.core.{name}" for name in netcl.core.__all__}
    assert set(meaning.MEANINGS) <= set(CONTRACT)


@pytest.mark.parametrize("module", ["netcl.runtime.graph", "netcl.runtime.stream.Scheduler"])
def test_nothing_that_no_package_above_calls_is_on_the_list(module: str) -> None:
    assert [name for name in CONTRACT if f"{name}.".startswith(f"{module}.")] == []


def beyond_the_list(text: str, package: str) -> Iterator[str]:
    """Yields what the module ``text`` of ``package`` imports of netcl-core, and reads of an engine, off the list."""
    listed = {name.rsplit(".", end)[0] for name in CONTRACT for end in range(name.count("."))}
    fields = {
        name.rpartition(".")[2] for name in listed if name.startswith("netcl.core.engine.protocol.DeviceBackend.")
    }
    tree = ast.parse(text)
    for imported in imports_of(tree, package):
        top, _, rest = imported.module.partition(".")
        if top == "netcl" and OWNER.get(rest.split(".")[0]) == "netcl-core" and imported.module not in listed:
            yield imported.module
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr not in fields:
            owner = node.value
            if "engine" in (getattr(owner, "attr", None), getattr(owner, "id", None)):
                yield f"engine.{node.attr}"


def test_packages_above_name_nothing_that_is_not_on_the_list() -> None:
    faults = [
        f"{path.relative_to(package.source)}: {name}"
        for package in load_packages().values()
        if package.name != "netcl-core"
        for path in package.modules()
        if path.relative_to(package.source).parts[0] != "torch"  # a user of the front, as in the facade
        for name in beyond_the_list(
            path.read_text(encoding="utf-8"), ".".join(["netcl", *path.relative_to(package.source).parent.parts])
        )
    ]
    assert not faults


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("from netcl.core.backend.cpu import CPUBackend", "netcl.core.backend.cpu.CPUBackend"),
        ("def f():\n    from netcl.profiling import shipping", "netcl.profiling.shipping"),
        ("x.engine.recording", "engine.recording"),
        ("engine.tensor(data, 'int64')", "engine.tensor"),
        ("from netcl.core import Tensor\nx.engine.zeros((2,), 'int32')", ""),
    ],
)
def test_a_name_that_is_not_on_the_list_is_noticed(text: str, name: str) -> None:
    assert list(beyond_the_list(text, "netcl.nn")) == ([name] if name else [])


def test_signatures_are_those_of_the_code() -> None:
    for name, signature in CONTRACT.items():
        found = resolve(name)
        hidden = signature_of(found) == "(*args, **kwargs)"  # the metaclass of the nodes of expressions
        if signature:
            assert signature_of(found.__init__ if hidden else found) == signature, name


def test_nothing_of_opencl_is_on_the_list() -> None:
    private = [name for name in CONTRACT if any(part.startswith("_") for part in name.split("."))]
    opencl = [name for name in CONTRACT if ".opencl" in name or name.endswith((".buffer", "KernelSpec"))]
    assert not private
    assert not opencl


def test_this_core_keeps_the_contract() -> None:
    report = check_core()
    assert report, str(report)
    assert report.subject == "netcl-core"


def nothing(backend: object, names: object = None, dtype: str = "float32") -> conformance.Report:
    """Checks no value."""
    return conformance.Report("none")


def test_a_renamed_function_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CONTRACT, "netcl.ops.concat_all", "(tensors)")
    monkeypatch.setitem(CONTRACT, "netcl.ops.relu", "(x, slope)")
    monkeypatch.setitem(CONTRACT, "netcl.core.Tensor.storage_pointer", "")
    monkeypatch.setattr(conformance, "check_backend", nothing)
    assert set(check_core().failed) == {"netcl.ops.concat_all", "netcl.ops.relu", "netcl.core.Tensor.storage_pointer"}


def test_without_netcl_conformance_the_report_says_that_names_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "netcl_conformance.contract", None)
    monkeypatch.setattr(conformance, "check_backend", nothing)
    report = check_core()
    assert report, str(report)
    assert report.subject == "netcl-core without its names, as netcl-conformance is not installed"


def test_signature_of_leaves_annotations_out() -> None:
    assert signature_of(netcl.ops.linear) == "(x, weight, bias=None)"
    assert signature_of(Tensor.amax) == "(axis=None, keepdims=False)"
    assert signature_of(3) == ""
