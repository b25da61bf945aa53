"""functorch: modules as functions of their parameters and buffers."""

from __future__ import annotations

import sys

import pytest

import netcl.torch as torch

functorch = sys.modules["netcl.functorch"]
pytestmark = pytest.mark.level("front")


def _model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))


def test_a_module_is_a_function_of_its_state():
    model, x = _model(), torch.tensor([[1.0, 2.0], [3.0, -1.0]])
    function, params, buffers = functorch.make_functional_with_buffers(model)
    assert [p.requires_grad for p in params] == [True] * 4
    doubled = (params[0].detach() * 2, *params[1:])
    expected = torch.func.functional_call(model, {"0.weight": doubled[0]}, (x,))
    assert torch.allclose(function(doubled, buffers, x), expected)
    assert buffers[2] == 1
    y, tangent = functorch.jvp(lambda p: function(p, buffers, x), (params,), (tuple(map(torch.zeros_like, params)),))
    assert (y.shape, tangent.abs().sum()) == ((2, 3), 0)
    with pytest.raises(RuntimeError, match="make_functional_with_buffers"):
        functorch.make_functional(model)
    linear, params = functorch.make_functional(model[0], disable_autograd_tracking=True)
    assert not any(p.requires_grad for p in params)
    assert torch.equal(linear(params, x), model[0](x))
    with pytest.raises(ValueError, match="shorter"):
        linear(params[:1], x)


def test_modules_of_an_ensemble_are_a_function_for_vmap():
    models, x = [torch.nn.Linear(2, 3) for _ in range(4)], torch.ones(5, 2)
    function, params, buffers = functorch.combine_state_for_ensemble(models)
    results = functorch.vmap(function, in_dims=(0, 0, None))(params, buffers, x)
    assert torch.allclose(results, torch.stack([model(x) for model in models]))
