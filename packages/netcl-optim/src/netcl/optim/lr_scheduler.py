"""The schedules under the name of PyTorch's module."""

from __future__ import annotations

from netcl.optim.plateau import ReduceLROnPlateau
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

__all__ = [
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "ExponentialLR",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "Scheduler",
    "SequentialLR",
    "StepLR",
    "WarmupCosine",
]
