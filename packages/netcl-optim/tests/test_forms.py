"""PyTorch's choices of an implementation: accepted where they change nothing, else refused."""

from __future__ import annotations

import pytest

from netcl import optim
from netcl.core.errors import UnsupportedError

FLAGS = {
    "Adadelta": "foreach capturable differentiable",
    "Adafactor": "foreach",
    "Adagrad": "foreach differentiable fused",
    "Adam": "foreach capturable differentiable fused",
    "AdamW": "foreach capturable differentiable fused",
    "Adamax": "foreach capturable differentiable",
    "ASGD": "foreach capturable differentiable",
    "NAdam": "foreach capturable differentiable",
    "RAdam": "foreach capturable differentiable",
    "RMSprop": "foreach capturable differentiable",
    "Rprop": "foreach capturable differentiable",
    "SGD": "foreach differentiable fused",
}


@pytest.mark.parametrize(("name", "flags"), FLAGS.items())
def test_flags_change_nothing_but_the_group(parameter, name, flags):
    chosen = {flag: True for flag in flags.split() if flag not in ("differentiable", "foreach")} or {"foreach": True}
    results = []
    for given in ({}, chosen):
        p = parameter([[1.0, -2.0], [0.5, 3.0]], [[0.1, 0.2], [-0.3, 0.4]])
        optimizer = getattr(optim, name)([p], **given)
        optimizer.step()
        results.append(p.detach().tolist())
        assert {flag: optimizer.param_groups[0][flag] for flag in given} == given
    assert results[0] == results[1]


@pytest.mark.parametrize("name", [name for name, flags in FLAGS.items() if "differentiable" in flags])
def test_a_recorded_step_is_refused(parameter, name):
    with pytest.raises(UnsupportedError, match=f"(?i){name}: differentiable=True is not in netcl"):
        getattr(optim, name)([parameter([1.0])], differentiable=True)


def test_two_forms_at_once_are_refused(parameter):
    with pytest.raises(RuntimeError, match="fused and foreach"):
        optim.AdamW([parameter([1.0])], fused=True, foreach=True)
