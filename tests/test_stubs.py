"""The types of methods and ops are their tables', and are seen by inspect.signature."""

from __future__ import annotations

import ast
import inspect

import pytest
import write_stubs

import netcl as nc
import netcl.autograd as ag
from netcl import nn
from netcl.ops.ranked import Ranked


def defined(text: str) -> set[str]:
    """Returns the names that a stub defines or imports."""
    tree = ast.parse(text)
    imported = (
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    )
    return {*imported, *(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))}


@pytest.mark.parametrize("module", [nc.ops, nc.linalg, nc.special])
def test_a_stub_of_the_core_has_each_public_name(module):
    place = f"{module.__name__.removeprefix('netcl.')}/__init__.pyi"
    assert set(module.__all__) <= defined(write_stubs.core_stubs()[place])


def test_the_stub_of_autograd_has_each_public_name():
    (text,) = write_stubs.autograd_stubs().values()
    assert set(ag.ops.__all__) <= defined(text)


def test_the_stub_of_tensors_has_each_method():
    text = write_stubs.core_stubs()["core/tensor/methods.pyi"]
    public = {name for name in vars(nc.core.tensor.methods.Methods) if not name.startswith("_")}
    assert public <= defined(text)


def test_the_names_of_methods_are_those_that_rows_state():
    place = "core/tensor/method_names.py"
    path = write_stubs.PACKAGES / "netcl-core/src/netcl" / place
    assert path.read_text(encoding="utf-8") == write_stubs.core_stubs()[place], "run python tools/write_stubs.py"


def test_signatures_of_ops_have_types():
    signature = inspect.signature(nc.max)
    assert signature.parameters["x"].annotation is nc.Tensor
    assert signature.parameters["keepdims"].annotation is bool
    assert signature.return_annotation == nc.Tensor | Ranked
    assert inspect.signature(ag.relu) == inspect.signature(nc.relu) == inspect.signature(nc.ops.relu)


@pytest.mark.parametrize("name", [name for name in nc.ops.__all__ if hasattr(getattr(nc.ops, name), "row")])
def test_each_annotation_of_an_op_is_a_type(name):
    signature = inspect.signature(getattr(nc.ops, name))
    found = [p.annotation for p in signature.parameters.values()] + [signature.return_annotation]
    assert not [each for each in found if isinstance(each, str) or each is inspect.Parameter.empty]


def test_the_call_of_a_module_has_the_signature_of_its_forward():
    assert [*inspect.signature(nn.Linear(2, 3)).parameters] == ["x"]
    assert [*inspect.signature(nn.Linear).parameters][:2] == ["in_features", "out_features"]
