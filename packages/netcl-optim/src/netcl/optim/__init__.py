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
    from netcl.amp import GradScaler as _GradScaler
    from netcl.optim import lr_scheduler as lr_scheduler
    from netcl.optim.__about__ import __version__ as __version__
    from netcl.optim.adafactor import Adafactor as Adafactor
    from netcl.optim.adagrad import Adadelta as Adadelta
    from netcl.optim.adagrad import Adagrad as Adagrad
    from netcl.optim.adam import Adam as Adam
    from netcl.optim.adam import AdamW as AdamW
    from netcl.optim.adam_variants import Adamax as Adamax
    from netcl.optim.adam_variants import NAdam as NAdam
    from netcl.optim.adam_variants import RAdam as RAdam
    from netcl.optim.asgd import ASGD as ASGD
    from netcl.optim.clip import clip_grad_norm as clip_grad_norm
    from netcl.optim.clip import clip_grad_norm_device as clip_grad_norm_device
    from netcl.optim.clip import clip_grad_value as clip_grad_value
    from netcl.optim.ema import SWA as SWA
    from netcl.optim.ema import ModelEMA as ModelEMA
    from netcl.optim.ema import update_bn as update_bn
    from netcl.optim.fused import Rule as Rule
    from netcl.optim.hooks import register_optimizer_step_post_hook as register_optimizer_step_post_hook
    from netcl.optim.hooks import register_optimizer_step_pre_hook as register_optimizer_step_pre_hook
    from netcl.optim.lamb import LAMB as LAMB
    from netcl.optim.lbfgs import LBFGS as LBFGS
    from netcl.optim.lion import Lion as Lion
    from netcl.optim.muon import Muon as Muon
    from netcl.optim.optimizer import Optimizer as Optimizer
    from netcl.optim.plateau import ReduceLROnPlateau as ReduceLROnPlateau
    from netcl.optim.rmsprop import RMSProp as RMSProp
    from netcl.optim.rmsprop import RMSprop as RMSprop
    from netcl.optim.rprop import Rprop as Rprop
    from netcl.optim.schedules import SWALR as SWALR
    from netcl.optim.schedules import ChainedScheduler as ChainedScheduler
    from netcl.optim.schedules import ConstantLR as ConstantLR
    from netcl.optim.schedules import CosineAnnealingLR as CosineAnnealingLR
    from netcl.optim.schedules import CosineAnnealingWarmRestarts as CosineAnnealingWarmRestarts
    from netcl.optim.schedules import CyclicLR as CyclicLR
    from netcl.optim.schedules import ExponentialLR as ExponentialLR
    from netcl.optim.schedules import LambdaLR as LambdaLR
    from netcl.optim.schedules import LinearLR as LinearLR
    from netcl.optim.schedules import LRScheduler as LRScheduler
    from netcl.optim.schedules import MultiplicativeLR as MultiplicativeLR
    from netcl.optim.schedules import MultiStepLR as MultiStepLR
    from netcl.optim.schedules import OneCycleLR as OneCycleLR
    from netcl.optim.schedules import PolynomialLR as PolynomialLR
    from netcl.optim.schedules import Scheduler as Scheduler
    from netcl.optim.schedules import SequentialLR as SequentialLR
    from netcl.optim.schedules import StepLR as StepLR
    from netcl.optim.schedules import WarmupCosine as WarmupCosine
    from netcl.optim.sgd import SGD as SGD
    from netcl.optim.sgd import Momentum as Momentum
    from netcl.optim.sparse_adam import SparseAdam as SparseAdam

AMPGradScaler = _GradScaler

if TYPE_CHECKING:
    from netcl.optim import swa_utils as swa_utils

__all__ = [
    "__version__",
    "lr_scheduler",
    "swa_utils",
    *(
        name
        for name, value in globals().items()
        if getattr(value, "__module__", "").startswith("netcl.") and name[0] != "_"
    ),
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
