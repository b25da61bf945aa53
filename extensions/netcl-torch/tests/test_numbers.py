"""Numbers for a seed under netcl.torch, recorded from PyTorch 2.13."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import netcl as nc
import netcl.torch as torch
from netcl.core import manager
from netcl.io import load_checkpoint, save_checkpoint
from netcl.nn import Linear
from netcl.torch.utils import data


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before = nc.default_generator.numbers
    yield
    nc.default_generator.numbers = before


on_a_cpu = pytest.mark.skipif(
    manager.default().device_type != "cpu", reason="needs a CPU as the default device: others draw by Philox"
)


@on_a_cpu
def test_the_weights_of_a_layer() -> None:
    torch.manual_seed(0)
    layer = torch.nn.Linear(2, 2)
    expected = [[-0.0052942, 0.3793239], [-0.5819828, -0.5203866]]
    np.testing.assert_allclose(layer.weight.detach().cpu().numpy(), expected, rtol=1e-4)


def test_the_order_of_a_loader() -> None:
    torch.manual_seed(0)
    loader = data.DataLoader(list(range(8)), batch_size=8, shuffle=True)
    assert [batch.tolist() for batch in loader] == [[2, 0, 5, 3, 1, 4, 7, 6]]


def test_a_state_repeats_numbers_and_dropout() -> None:
    torch.manual_seed(7)
    torch.rand(3)
    torch.nn.functional.dropout(torch.ones(50))
    state = torch.get_rng_state()
    assert (state.dtype, state.shape) == (torch.uint8, (5056,))
    expected = torch.rand(3).tolist(), torch.nn.functional.dropout(torch.ones(50)).tolist()
    torch.set_rng_state(state)
    assert (torch.rand(3).tolist(), torch.nn.functional.dropout(torch.ones(50)).tolist()) == expected


def test_a_fork_leaves_the_state() -> None:
    torch.manual_seed(7)
    state = torch.random.get_rng_state()
    with torch.random.fork_rng():
        torch.manual_seed(1)
        torch.nn.functional.dropout(torch.rand(9))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.initial_seed() == 7


def test_generators_have_states_of_bytes() -> None:
    generator = torch.Generator().manual_seed(3)
    torch.rand(5, generator=generator)
    other = torch.Generator()
    other.set_state(generator.get_state())
    assert torch.randn(3, generator=other).tolist() == torch.randn(3, generator=generator).tolist()
    with pytest.raises(ValueError, match="state of PyTorch's CPU generator"):
        other.set_state(torch.zeros(7, dtype=torch.uint8))
    with pytest.raises(TypeError, match="ByteTensor"):
        other.set_state(torch.zeros(5056))


@on_a_cpu
def test_the_seed_of_gpus_leaves_the_numbers_of_cpus() -> None:
    torch.manual_seed(3)
    expected = torch.rand(3).tolist()
    torch.manual_seed(3)
    torch.cuda.manual_seed_all(4)
    assert torch.rand(3).tolist() == expected


def test_a_checkpoint_goes_on_with_the_numbers(tmp_path: Path) -> None:
    torch.manual_seed(3)
    layer = Linear(2, 2)
    save_checkpoint(layer, tmp_path / "c.netcl")
    expected = torch.rand(3).tolist()
    torch.rand(3)
    load_checkpoint(tmp_path / "c.netcl", layer)
    assert torch.rand(3).tolist() == expected
