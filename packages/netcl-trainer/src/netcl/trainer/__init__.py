"""The training loop of netcl: fit, evaluate and predict, with callbacks, a progress bar and a history."""

from __future__ import annotations

from netcl.trainer.__about__ import __version__
from netcl.trainer.callbacks import Callback, EarlyStopping, LearningRateMonitor
from netcl.trainer.checkpoint import ModelCheckpoint
from netcl.trainer.history import History
from netcl.trainer.learning_rates import LearningRates
from netcl.trainer.logging import CSVLogger, TensorBoardLogger
from netcl.trainer.metrics import accuracy
from netcl.trainer.non_finite import TerminateOnNaN
from netcl.trainer.progress import ProgressBar
from netcl.trainer.trainer import Trainer

__all__ = [
    "CSVLogger",
    "Callback",
    "EarlyStopping",
    "History",
    "LearningRateMonitor",
    "LearningRates",
    "ModelCheckpoint",
    "ProgressBar",
    "TensorBoardLogger",
    "TerminateOnNaN",
    "Trainer",
    "__version__",
    "accuracy",
]
