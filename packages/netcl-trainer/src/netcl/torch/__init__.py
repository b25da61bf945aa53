"""PyTorch's module layout over netcl: ``import netcl.torch as torch``; needs no PyTorch and never imports it.

``python -m netcl.torch script.py`` runs a program that says ``import torch``; ``install()`` does the same from code.
"""

from __future__ import annotations

import sys

from netcl.torch import tree
from netcl.torch.install import install

__all__ = ["install"]

tree.build(sys.modules[__name__])
