"""Optimizers with fused update kernels, learning-rate schedules, gradient clipping and weight averages."""

from __future__ import annotations

from netcl.amp import GradScaler as AMPGradScaler
from netcl.optim import lr_scheduler
from netcl.optim.__about__ import __version__
from netcl.optim.adafactor import Adafactor
from netcl.optim.adagrad import Adadelta, Adagrad
from netcl.optim.adam import Adam, AdamW
from netcl.optim.adam_variants import Adamax, NAdam, RAdam
from netcl.optim.clip import clip_grad_norm, clip_grad_norm_device, clip_grad_value
from netcl.optim.ema import SWA, ModelEMA, update_bn
from netcl.optim.fused import Rule
from netcl.optim.lamb import LAMB
from netcl.optim.lion import Lion
from netcl.optim.optimizer import Optimizer
from netcl.optim.plateau import ReduceLROnPlateau
from netcl.optim.rmsprop import RMSProp, RMSprop
from netcl.optim.schedules import (
    ConstantLR,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiStepLR,
    OneCycleLR,
    PolynomialLR,
    Scheduler,
    SequentialLR,
    StepLR,
    WarmupCosine,
)
from netcl.optim.sgd import SGD, Momentum

__all__ = [
    "AMPGradScaler",
    "LAMB",
    "SGD",
    "SWA",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "ExponentialLR",
    "LambdaLR",
    "LinearLR",
    "Lion",
    "ModelEMA",
    "Momentum",
    "MultiStepLR",
    "NAdam",
    "OneCycleLR",
    "Optimizer",
    "PolynomialLR",
    "RAdam",
    "RMSProp",
    "RMSprop",
    "ReduceLROnPlateau",
    "Rule",
    "Scheduler",
    "SequentialLR",
    "StepLR",
    "WarmupCosine",
    "__version__",
    "clip_grad_norm",
    "clip_grad_norm_device",
    "clip_grad_value",
    "lr_scheduler",
    "update_bn",
]
