"""netcl.ops on tensors that require grad: one warning for each place in the user's code, and none elsewhere."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
import netcl.ops as ops
from netcl.core.errors import ForwardOnlyWarning


def test_the_warning_names_the_recording_function_and_the_users_line(leaf: Any) -> None:
    w = leaf(3)
    with pytest.warns(ForwardOnlyWarning, match=r"netcl\.ops\.exp is forward only.*call netcl\.exp") as seen:
        y = ops.exp(w)
    assert Path(seen[0].filename) == Path(__file__)
    assert "y = ops.exp(w)" in Path(__file__).read_text().splitlines()[seen[0].lineno - 1]
    assert not y.requires_grad


def test_it_comes_once_for_each_call_site(leaf: Any) -> None:
    w = leaf(3)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(3):
            ops.sin(w)
        ops.sin(w)
    assert [str(each.category.__name__) for each in seen] == ["ForwardOnlyWarning"] * 2
    assert seen[1].lineno == seen[0].lineno + 1


def test_as_an_error_it_is_raised_each_time(leaf: Any) -> None:
    w = leaf(3)
    for _ in range(2):
        with pytest.raises(ForwardOnlyWarning):
            ops.cos(w)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("add", lambda w: ops.add(w, w)),
        ("sub", lambda w: ops.sub(w.detach(), w)),
        ("mul", lambda w: ops.mul(2.0, w)),
        ("div", lambda w: ops.div(w, 2)),
        ("softmax", lambda w: ops.softmax(w, axis=0)),
        ("sum", lambda w: ops.sum(x=w)),
        ("matmul", lambda w: ops.matmul(w, w)),
        ("cat", lambda w: ops.cat([w.detach(), w])),
        ("where", lambda w: ops.where(w > 0, w, 0.0)),
        ("sort", lambda w: ops.sort(w)),
        ("outer", lambda w: ops.outer(w, w)),
        ("layer_norm", lambda w: ops.layer_norm(w, 3)),
        ("max", lambda w: ops.max(w, dim=0)),
    ],
)
def test_each_kind_of_op_warns_once_by_its_name(leaf: Any, name: str, function: Callable[[Any], Any]) -> None:
    w = leaf(3)
    function(w.detach())  # a warm call is no way around it
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        function(w)
    assert [str(each.message).split()[0] for each in seen] == [f"netcl.ops.{name}"]


def test_a_composite_op_warns_by_its_own_name_alone(leaf: Any) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        ops.tensordot(leaf(3), leaf(3), 1)
    assert [str(each.message).split()[0] for each in seen] == ["netcl.ops.tensordot"]


def test_nothing_is_said_where_no_gradient_is_lost(leaf: Any) -> None:
    w = leaf(3)
    ops.argmax(w)
    ops.isnan(w)
    ops.gt(w, 0.5)
    ops.exp(w.detach())
    with ag.no_grad():
        ops.exp(w)
        ops.tensordot(w, w, 1)


def test_recorded_calls_do_not_warn_and_have_gradients(leaf: Any) -> None:
    w = leaf(3)
    (ag.tensordot(ag.exp(w), w, 1) + ag.sort(w).values.sum() + (w @ w) + w.softmax().sum()).backward()
    assert np.isfinite(w.grad.numpy()).all()


def test_without_any_filter_it_is_shown_once(tmp_path: Path) -> None:
    script = tmp_path / "user_code.py"
    script.write_text(
        "import netcl as nc\n"
        "from netcl import ops\n"
        "with nc.device('cpu'):\n"
        "    w = nc.ones(3, requires_grad=True)\n"
        "    for _ in range(3):\n"
        "        y = ops.exp(w)\n"
        "    z = nc.exp(w)\n"
        "assert not y.requires_grad and z.requires_grad\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stderr.count("ForwardOnlyWarning") == 1
    assert f"{script}:6: ForwardOnlyWarning: netcl.ops.exp is forward only" in done.stderr
