"""netcl-torch with all layers: an unchanged line of a program written for PyTorch, after install()."""

from __future__ import annotations

import importlib

import netcl.torch

netcl.torch.install()
torch = importlib.import_module("torch")
x = torch.arange(3.0, requires_grad=True)
(x * x).sum().backward()
assert x.grad.tolist() == [0.0, 2.0, 4.0]
assert repr(x.grad) == "tensor([0., 2., 4.])"
