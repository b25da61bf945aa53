"""Files of ``nc.save`` read by ``torch.load`` and the reverse, and defaults of initializers; run by `nox -s parity`."""

from __future__ import annotations

import inspect
import io

import numpy as np
import pytest
import torch

import netcl as nc
from netcl import nn

STATE = {"weight": [[1.5, -2.0], [0.0, 3.25]], "count": [1, 2, 3], "flags": [True, False]}


def test_pytorch_reads_what_netcl_saves() -> None:
    file = io.BytesIO()
    grad = nc.tensor([1.0], requires_grad=True)
    nc.save(
        {**{name: nc.tensor(data) for name, data in STATE.items()}, "epoch": 4, "rows": (1, [2.5]), "g": grad}, file
    )
    file.seek(0)
    read = torch.load(file)
    for name, data in STATE.items():
        assert torch.equal(read[name], torch.tensor(data))
        assert not read[name].requires_grad
    assert (read["epoch"], read["rows"]) == (4, (1, [2.5]))
    assert read["g"].requires_grad


@pytest.mark.parametrize("zipped", [True, False])
def test_netcl_reads_what_pytorch_saves(zipped: bool) -> None:
    file = io.BytesIO()
    saved = {**{name: torch.tensor(data) for name, data in STATE.items()}, "epoch": 4, "rows": (1, [2.5])}
    saved["g"] = torch.ones(2, requires_grad=True)
    torch.save(saved, file, _use_new_zipfile_serialization=zipped)
    file.seek(0)
    read = nc.load(file)
    for name, data in STATE.items():
        assert np.array_equal(read[name].numpy(), torch.tensor(data).numpy())
        assert str(read[name].numpy().dtype) == str(torch.tensor(data).numpy().dtype)
        assert not read[name].requires_grad
    assert (read["epoch"], read["rows"]) == (4, (1, [2.5]))
    assert read["g"].requires_grad


def test_a_model_of_pytorch_loads() -> None:
    theirs, ours, file = torch.nn.Linear(3, 2), nn.Linear(3, 2), io.BytesIO()
    torch.save(theirs.state_dict(), file)
    file.seek(0)
    ours.load_state_dict(nc.load(file, map_location="cpu", weights_only=True))
    x = np.ones((4, 3), np.float32)
    assert np.allclose(ours(nc.tensor(x)).numpy(), theirs(torch.tensor(x)).detach().numpy(), atol=1e-6)


@pytest.mark.parametrize(
    "name",
    ["uniform_", "normal_", "trunc_normal_", "xavier_uniform_", "xavier_normal_", "kaiming_uniform_"]
    + ["kaiming_normal_", "orthogonal_"],
)
def test_initializers_have_the_same_parameters(name: str) -> None:
    def described(function: object) -> list[tuple[str, object]]:
        return [(p.name, p.default) for p in inspect.signature(function).parameters.values()]  # type: ignore[arg-type]

    assert described(getattr(nn.init, name))[1:] == described(getattr(torch.nn.init, name))[1:]


def test_generators_have_the_same_first_seed() -> None:
    assert nc.Generator().initial_seed() == torch.Generator().initial_seed()
    assert nc.Generator().manual_seed(5).initial_seed() == torch.Generator().manual_seed(5).initial_seed()
