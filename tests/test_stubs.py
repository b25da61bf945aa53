"""The types of methods and ops are their tables', and are seen by inspect.signature."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import netcl as nc
import netcl.autograd as ag
from netcl import nn
from netcl.ops.ranked import Ranked

ROOT = Path(__file__).parent.parent


def test_the_stub_is_up_to_date():
    done = subprocess.run([sys.executable, ROOT / "tools/write_stubs.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


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
