"""The list of portable names: everything on it is here with its signature, and the checks notice what is not."""

from __future__ import annotations

import netcl.ops
from netcl.core import Tensor
from netcl.core.testing import CONTRACT, check_core, conformance, signature_of
from netcl.core.testing.conformance import resolve


def test_this_core_keeps_the_contract():
    report = check_core()
    assert report, str(report)


def test_all_ops_and_the_six_names_of_core_are_on_the_list():
    assert {f"netcl.ops.{name}" for name in netcl.ops.__all__} <= set(CONTRACT)
    core = {name for name in CONTRACT if name.startswith("netcl.core.") and name.count(".") == 2}
    assert core == {f"netcl.core.{name}" for name in netcl.core.__all__}


def test_signatures_are_those_of_the_code():
    for name, signature in CONTRACT.items():
        found = resolve(name)
        if signature:
            assert signature_of(found) == signature, name


def test_nothing_of_opencl_is_on_the_list():
    private = [name for name in CONTRACT if any(part.startswith("_") for part in name.split("."))]
    opencl = [name for name in CONTRACT if ".opencl" in name or name.endswith((".buffer", "KernelSpec"))]
    assert not private
    assert not opencl


def test_a_renamed_function_is_noticed(monkeypatch):
    monkeypatch.setitem(CONTRACT, "netcl.ops.concat_all", "(tensors)")
    monkeypatch.setitem(CONTRACT, "netcl.ops.relu", "(x, slope)")
    monkeypatch.setitem(CONTRACT, "netcl.core.Tensor.storage_pointer", "")
    monkeypatch.setattr(
        conformance, "check_backend", lambda backend, names=None, dtype="float32": conformance.Report("none")
    )
    assert set(check_core().failed) == {"netcl.ops.concat_all", "netcl.ops.relu", "netcl.core.Tensor.storage_pointer"}


def test_signature_of_leaves_annotations_out():
    assert signature_of(netcl.ops.linear) == "(x, weight, bias=None)"
    assert signature_of(Tensor.amax) == "(axis=None, keepdims=False)"
    assert signature_of(3) == ""
