"""Attributes of a module before ``super().__init__()``, and layers that take any arguments."""

from __future__ import annotations

import numpy as np
import pytest

from netcl import io, nn
from netcl.core import Tensor


def test_plain_attributes_may_come_before_the_call_of_init():
    class Early(nn.Module):
        def __init__(self):
            self.width = 3
            super().__init__()
            self.layer = nn.Linear(self.width, 1)

    assert [name for name, _ in Early().named_parameters()] == ["layer.weight", "layer.bias"]


def test_layers_before_the_call_of_init_are_refused():
    class Early(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(3, 1)

    with pytest.raises(AttributeError, match=r"super\(\).__init__\(\) before it sets 'layer'"):
        Early()


def test_an_identity_takes_the_arguments_of_any_layer_and_is_saved(tmp_path):
    layer = nn.Identity(3, inplace=True)
    x = Tensor.from_host(np.float32([1, 2]))
    assert layer(x) is x
    io.save_model(nn.Sequential(layer, nn.Linear(2, 1)), tmp_path / "m.netcl")
    assert isinstance(io.load_model(tmp_path / "m.netcl")[0], nn.Identity)
