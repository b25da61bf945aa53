"""torch.save and torch.load of a whole module: the module comes back in the process that saved it, and in no other."""

from __future__ import annotations

import io
import subprocess
import sys
import textwrap
import zipfile

import pytest

import netcl
import netcl.torch as torch
from netcl import nn
from netcl.core.errors import UnsupportedError


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(3, 4)
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.norm = nn.BatchNorm1d(4)
        self.first.bias.requires_grad_(False)
        self.register_buffer("scale", netcl.ones(4), persistent=False)
        self.options = {"steps": [1, 2]}

    def forward(self, x):
        return self.norm(self.second(self.first(self.rnn(x)[0][:, 0]))) * self.scale


@pytest.fixture
def saved(handle):
    with netcl.device(handle):
        model = Net()
        x = netcl.randn(5, 1, 3)
        model(x)
        model.eval()
        expected = model(x).numpy()
        file = io.BytesIO()
        torch.save(model, file)
        model.options["steps"].append(3)
        model.train()
        for parameter in model.parameters():
            parameter.data.zero_()
        file.seek(0)
        yield file, x, expected


def test_the_module_is_as_it_was_when_it_was_saved(saved):
    file, x, expected = saved
    loaded = torch.load(file, weights_only=False)
    assert type(loaded) is Net
    assert not loaded.training
    assert loaded.options == {"steps": [1, 2]}
    assert loaded.first.weight is loaded.second.weight
    assert [name for name, p in loaded.named_parameters() if not p.requires_grad] == ["first.bias"]
    assert (loaded(x).numpy() == expected).all()


def test_each_load_is_a_module_of_its_own(saved):
    file, x, expected = saved
    first = torch.load(file, weights_only=False)
    file.seek(0)
    second = torch.load(file, map_location="cpu", weights_only=False)
    assert second.first.weight is not first.first.weight
    first.norm.weight.data.zero_()
    second.train()
    second(x.to("cpu")).sum().backward()
    assert second.first.weight.grad is not None
    assert first.first.weight.grad is None


def test_weights_only_needs_the_class_among_the_safe_globals(saved):
    file, *_ = saved
    with pytest.raises(UnsupportedError, match=r"whole .*Net, not a state; write torch.load\(f, weights_only=False\)"):
        torch.load(file)
    file.seek(0)
    with torch.serialization.safe_globals([Net]):
        assert torch.serialization.get_safe_globals() == [Net]
        assert type(torch.load(file)) is Net
    assert torch.serialization.get_safe_globals() == []


def test_another_process_gets_the_line_to_write_and_the_state(saved, tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(saved[0].getvalue())
    program = """
        import netcl.torch as torch, netcl
        try:
            torch.load("model.pt", weights_only=False)
        except netcl.core.errors.UnsupportedError as error:
            print(error)
        print(sorted(netcl.load("model.pt")["state_dict"])[:2])
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "another process has saved this" in done.stdout
    assert 'model.load_state_dict(netcl.load(f)["state_dict"])' in done.stdout
    assert "['first.bias', 'first.weight']" in done.stdout


def test_the_file_holds_no_code(saved):
    with zipfile.ZipFile(saved[0]) as archive:
        names = set(archive.read("archive/data.pkl").split(b"\n"))
    assert not [line for line in names if b"Net" in line and b"netcl.module" not in line]


def test_other_objects_are_saved_and_refused_as_by_netcl(tmp_path):
    torch.save({"epoch": 3}, tmp_path / "state.pt")
    assert torch.load(tmp_path / "state.pt") == {"epoch": 3}
    optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.1)
    with pytest.raises(UnsupportedError, match=r"write nc.save\(x.state_dict\(\), path\)"):
        torch.save(optimizer, tmp_path / "optimizer.pt")
