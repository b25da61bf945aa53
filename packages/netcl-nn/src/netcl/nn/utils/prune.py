"""Pruning under PyTorch's name."""

from __future__ import annotations

from netcl.nn.pruning import BasePruningMethod as BasePruningMethod
from netcl.nn.pruning import CustomFromMask as CustomFromMask
from netcl.nn.pruning import Identity as Identity
from netcl.nn.pruning import L1Unstructured as L1Unstructured
from netcl.nn.pruning import LnStructured as LnStructured
from netcl.nn.pruning import PruningContainer as PruningContainer
from netcl.nn.pruning import RandomStructured as RandomStructured
from netcl.nn.pruning import RandomUnstructured as RandomUnstructured
from netcl.nn.pruning import custom_from_mask as custom_from_mask
from netcl.nn.pruning import global_unstructured as global_unstructured
from netcl.nn.pruning import identity as identity
from netcl.nn.pruning import is_pruned as is_pruned
from netcl.nn.pruning import l1_unstructured as l1_unstructured
from netcl.nn.pruning import ln_structured as ln_structured
from netcl.nn.pruning import random_structured as random_structured
from netcl.nn.pruning import random_unstructured as random_unstructured
from netcl.nn.pruning import remove as remove
