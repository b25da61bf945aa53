"""Optimizers with fused update kernels, learning-rate schedules, gradient clipping and weight averages."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

try:
    from netcl.siblings import Checked as _Checked
except ModuleNotFoundError:
    raise ImportError(
        "netcl-optim needs netcl-core, and its files are not there: pip install --force-reinstall netcl-core"
    ) from None

with _Checked("optim"):
    from netcl.amp import GradScaler as AMPGradScaler
    from netcl.optim import lr_scheduler
    from netcl.optim.__about__ import __version__
    from netcl.optim.adafactor import Adafactor
    from netcl.optim.adagrad import Adadelta, Adagrad
    from netcl.optim.adam import Adam, AdamW
    from netcl.optim.adam_variants import Adamax, NAdam, RAdam
    from netcl.optim.asgd import ASGD
    from netcl.optim.clip import clip_grad_norm, clip_grad_norm_device, clip_grad_value
    from netcl.optim.ema import SWA, ModelEMA, update_bn
    from netcl.optim.fused import Rule
    from netcl.optim.hooks import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
    from netcl.optim.lamb import LAMB
    from netcl.optim.lbfgs import LBFGS
    from netcl.optim.lion import Lion
    from netcl.optim.muon import Muon
    from netcl.optim.optimizer import Optimizer
    from netcl.optim.plateau import ReduceLROnPlateau
    from netcl.optim.rmsprop import RMSProp, RMSprop
    from netcl.optim.rprop import Rprop
    from netcl.optim.schedules import (
        SWALR,
        ChainedScheduler,
        ConstantLR,
        CosineAnnealingLR,
        CosineAnnealingWarmRestarts,
        CyclicLR,
        ExponentialLR,
        LambdaLR,
        LinearLR,
        LRScheduler,
        MultiplicativeLR,
        MultiStepLR,
        OneCycleLR,
        PolynomialLR,
        Scheduler,
        SequentialLR,
        StepLR,
        WarmupCosine,
    )
    from netcl.optim.sgd import SGD, Momentum
    from netcl.optim.sparse_adam import SparseAdam

if TYPE_CHECKING:
    from netcl.optim import swa_utils

__all__ = [
    "AMPGradScaler",
    "ASGD",
    "LAMB",
    "LBFGS",
    "SGD",
    "SWA",
    "SWALR",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "Lion",
    "ModelEMA",
    "Momentum",
    "MultiStepLR",
    "MultiplicativeLR",
    "Muon",
    "NAdam",
    "OneCycleLR",
    "Optimizer",
    "PolynomialLR",
    "RAdam",
    "RMSProp",
    "RMSprop",
    "ReduceLROnPlateau",
    "Rprop",
    "Rule",
    "Scheduler",
    "SequentialLR",
    "SparseAdam",
    "StepLR",
    "WarmupCosine",
    "__version__",
    "clip_grad_norm",
    "clip_grad_norm_device",
    "clip_grad_value",
    "lr_scheduler",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
    "swa_utils",
    "update_bn",
]


def __getattr__(name: str) -> Any:
    """Imports ``swa_utils``, which needs the layers of netcl-nn, at its first use."""
    if name == "swa_utils":
        return import_module("netcl.optim.swa_utils")
    text = f"module 'netcl.optim' of netcl-optim {__version__} has no attribute {name!r}"
    raise AttributeError(text, name=name, obj=import_module(__name__))  # Python suggests a name of the module


def __dir__() -> list[str]:
    """Returns the public names, for completion."""
    return sorted(__all__)
