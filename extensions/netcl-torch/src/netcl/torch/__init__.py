"""PyTorch's module layout over netcl: ``import netcl.torch as torch``; needs no PyTorch and never imports it.

``python -m netcl.torch script.py`` runs a program that says ``import torch``; ``install()`` does the same from code.
"""

from __future__ import annotations

import sys

try:
    from netcl.siblings import Checked as _Checked
except ModuleNotFoundError:
    raise ImportError(
        "netcl-torch needs netcl-core, and its files are not there: pip install --force-reinstall netcl-core"
    ) from None

with _Checked("torch"):
    from netcl.torch import texts, tree
    from netcl.torch.install import install

__all__ = ["install"]

tree.build(sys.modules[__name__])
texts.offer()
