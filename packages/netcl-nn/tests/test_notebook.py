"""Views of models as text and in notebooks, and the names that completion offers."""

from __future__ import annotations

import importlib
from xml.etree import ElementTree

import pytest

from netcl import nn


def _cells(model: nn.Module) -> list[list[str]]:
    table = ElementTree.fromstring(model._repr_html_())
    return [[cell.text or "" for cell in row] for row in table.iter("tr")]


def test_a_model_is_a_table_of_its_layers() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Sequential(nn.Linear(4, 2, bias=False)))
    model[0].bias.requires_grad_(False)
    head, *rows, foot = _cells(model)
    assert head == ["name", "layer", "parameters", "number"]
    assert rows[0][:1] + rows[0][2:] == ["0", "weight (4, 3), bias (4,)", "16"]
    assert rows[0][1].startswith("Linear(in_features=3, out_features=4")
    assert rows[1] == ["1", "ReLU()", "", ""]
    assert rows[2][:1] + rows[2][2:] == ["2.0", "weight (2, 4)", "8"]
    assert foot == ["Sequential", "", "", "24 (20 trained)"]


def test_shared_parameters_count_once_and_long_tables_end() -> None:
    layer = nn.Linear(3, 3)
    shared = nn.Sequential(layer, nn.ReLU(), layer)
    assert _cells(shared)[-1][-1] == "12"
    long = nn.Sequential(*[nn.ReLU() for _ in range(200)])
    assert _cells(long)[-2][:2] == ["...", "80 more"]


def test_names_are_escaped() -> None:
    class Odd(nn.Module):
        def extra_repr(self) -> str:
            return "<script>"

    assert "&lt;script&gt;" in Odd()._repr_html_()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("netcl", marks=pytest.mark.level("front")),
        "netcl.nn",
        "netcl.nn.functional",
        "netcl.nn.init",
        "netcl.ops",
        "netcl.io",
    ],
)
def test_completion_shows_public_names_alone(name: str) -> None:
    module = importlib.import_module(name)
    public = [entry for entry in dir(module) if not entry.startswith("__")]
    assert not [entry for entry in public if entry.startswith("_")]
    assert not {"Any", "annotations", "TYPE_CHECKING", "np", "Callable"} & set(public)
    assert all(hasattr(module, entry) for entry in public)
    assert not {entry for entry in getattr(module, "__all__", ()) if not entry.startswith("_")} - set(public)


def test_texts_of_modules_are_pytorchs() -> None:
    blocks = [nn.ReLU(), nn.ReLU(), nn.Linear(2, 2), nn.Sequential(nn.ReLU()), nn.Sequential(nn.ReLU())]
    assert repr(nn.ModuleList(blocks)).splitlines() == [
        "ModuleList(",
        "  (0-1): 2 x ReLU()",
        "  (2): Linear(in_features=2, out_features=2, bias=True)",
        "  (3-4): 2 x Sequential(",
        "    (0): ReLU()",
        "  )",
        ")",
    ]
    assert repr(nn.ModuleList()) == "ModuleList()"

    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.act = nn.ReLU()

        def extra_repr(self) -> str:
            return "width=3"

    assert repr(Named()) == "Named(\n  width=3\n  (act): ReLU()\n)"
