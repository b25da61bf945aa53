"""``torch.compile(backend="netcl")`` against PyTorch's eager calls."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from small_networks import BATCHES, MODELS
from torch import nn

torch._dynamo.config.recompile_limit = 64


@pytest.fixture(autouse=True)
def _fresh() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # next to CUDA it imports inductor, which has some
        torch._dynamo.reset()


@pytest.mark.parametrize("device", ["cpu", "ocl"])
@pytest.mark.parametrize("name", ["mlp", "cnn", "gpt"])
def test_a_compiled_model_trains_as_on_the_cpu(name: str, device: str) -> None:
    torch.manual_seed(0)
    here = MODELS[name]()
    there = copy.deepcopy(here).to(device)
    compiled = torch.compile(there, backend="netcl")
    x, y = BATCHES[name]()
    optimizers = [torch.optim.AdamW(model.parameters(), lr=1e-3) for model in (here, there)]
    for _ in range(5):
        seen = []
        for model, optimizer, place in ((here, optimizers[0], "cpu"), (compiled, optimizers[1], device)):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x.to(place)), y.to(place))
            loss.backward()
            optimizer.step()
            seen.append(loss.item())
        assert seen[0] == pytest.approx(seen[1], abs=1e-4)


@pytest.mark.parametrize("device", ["cpu", "ocl"])
def test_graphs_are_recorded_and_replayed(device: str) -> None:
    from torch_netcl import compiler

    made = []
    original = compiler.CompiledGraph.__init__

    def kept(self: compiler.CompiledGraph, module: torch.fx.GraphModule, *shares: bool) -> None:
        original(self, module, *shares)
        made.append(self)

    compiler.CompiledGraph.__init__ = kept  # type: ignore[method-assign]
    try:
        # A range is written from the host, which a capture refuses until it is there.
        eager = lambda a, b: ((a @ b).relu() + torch.arange(5, device=a.device)).sum(-1)  # noqa: E731
        function = torch.compile(eager, backend="netcl")
        a, b = torch.randn(3, 4), torch.randn(4, 5)
        for _ in range(3):
            assert torch.allclose(function(a.to(device), b.to(device)).cpu(), eager(a, b), atol=1e-5)
    finally:
        compiler.CompiledGraph.__init__ = original  # type: ignore[method-assign]
    assert len(made) == 1
    assert len(made[0].steps) == 1
    assert next(iter(made[0].steps.values())) is not None  # a captured step, not calls of ops


def test_shapes_that_change_are_computed() -> None:
    function = torch.compile(lambda a: torch.softmax(a * 2, -1).cumsum(0), backend="netcl")
    for length in range(2, 14):
        x = torch.randn(length, 3)
        assert torch.allclose(function(x.to("ocl")).cpu(), torch.softmax(x * 2, -1).cumsum(0), atol=1e-5)


def test_results_are_tensors_of_their_own() -> None:
    function = torch.compile(lambda a: (a + 1, a.view(-1)), backend="netcl")
    x = torch.zeros(2, 2, device="ocl")
    one, flat = function(x)
    other, _ = function(torch.ones(2, 2, device="ocl"))
    assert one.eq(1).all()
    assert other.eq(2).all()
    assert flat.shape == (4,)


def test_writes_in_place_reach_the_arguments() -> None:
    function = torch.compile(lambda a: a.mul_(2).add_(1), backend="netcl")
    x = torch.ones(3, device="ocl")
    function(x)
    assert x.tolist() == [3, 3, 3]


def test_dropout_draws_again_at_each_call() -> None:
    function = torch.compile(lambda a: nn.functional.dropout(a, 0.5), backend="netcl")
    x = torch.ones(1000, device="ocl")
    one, other = function(x), function(x)
    assert not torch.equal(one, other)
    assert abs(one.mean().item() - 1) < 0.2


def test_arguments_that_a_row_refuses_are_computed_by_pytorch() -> None:
    from torch_netcl import fallback

    function = torch.compile(lambda a: a.cumsum(0) + 1, backend="netcl")
    with pytest.warns(fallback.FallbackWarning, match="without axes"):
        assert function(torch.tensor(2.0, device="ocl")).item() == 3
    assert function(torch.tensor(4.0, device="ocl")).item() == 5


def test_results_of_one_value_have_memory_of_their_own() -> None:
    function = torch.compile(lambda a: (lambda b: (b, b.view(4)))(a * 2), backend="netcl")
    one, flat = function(torch.ones(2, 2, device="ocl"))
    with torch.no_grad():
        one[0].add_(1)
    assert one.tolist() == [[3, 3], [2, 2]]
    assert flat.tolist() == [2, 2, 2, 2]


def test_a_graph_without_rows_runs_op_by_op() -> None:
    from torch_netcl import fallback

    function = torch.compile(lambda a: torch.linalg.cholesky(a) + 1, backend="netcl")
    with pytest.warns(fallback.FallbackWarning, match="runs op by op"):
        assert torch.equal(function(torch.eye(3, device="ocl")).cpu(), torch.eye(3) + 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
@pytest.mark.parametrize("count", [1, 100_000])
def test_tensors_of_the_cpu_share_memory_and_outlive_a_call(dtype: torch.dtype, count: int) -> None:
    function = torch.compile(lambda a: (a.flip(0), a.sum()), backend="netcl")
    x = torch.arange(count).to(dtype)
    results = [function(x) for _ in range(3)]
    for flipped, _ in results[1:]:  # by the capture and by replays
        assert torch.equal(flipped, x.flip(0))
    results[1][0].zero_()
    assert torch.equal(results[2][0], x.flip(0))
    x.copy_(x.flip(0))
    assert torch.equal(function(x)[0], x.flip(0))
    assert torch.equal(function(results[2][0])[0], results[2][0].flip(0))
