"""The training loop of netcl: fit, evaluate and predict, with callbacks, a progress bar and a history."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from netcl.trainer.__about__ import __version__

try:
    from netcl.siblings import Checked as _Checked
except ModuleNotFoundError:
    raise ImportError(
        "netcl-trainer needs netcl-core, and its files are not there: pip install --force-reinstall netcl-core"
    ) from None

if TYPE_CHECKING:
    from netcl.trainer.callbacks import Callback, EarlyStopping, LearningRateMonitor
    from netcl.trainer.checkpoint import ModelCheckpoint
    from netcl.trainer.history import History
    from netcl.trainer.loggers import CSVLogger, MLflowLogger, TensorBoardLogger, WandbLogger
    from netcl.trainer.lr_range_test import LearningRates
    from netcl.trainer.named_metrics import accuracy
    from netcl.trainer.profiler import Profiler
    from netcl.trainer.progress import ProgressBar
    from netcl.trainer.run_view import RunView
    from netcl.trainer.terminate_on_nan import TerminateOnNaN
    from netcl.trainer.trainer import Trainer

_Checked("trainer").check()

__all__ = [
    "CSVLogger",
    "Callback",
    "EarlyStopping",
    "History",
    "LearningRateMonitor",
    "LearningRates",
    "MLflowLogger",
    "ModelCheckpoint",
    "Profiler",
    "ProgressBar",
    "RunView",
    "TensorBoardLogger",
    "TerminateOnNaN",
    "Trainer",
    "WandbLogger",
    "__version__",
    "accuracy",
]

# Imported when a name is first used: `netcl --help` needs none of them.
_MODULES = {
    "CSVLogger": "loggers",
    "Callback": "callbacks",
    "EarlyStopping": "callbacks",
    "History": "history",
    "LearningRateMonitor": "callbacks",
    "LearningRates": "lr_range_test",
    "MLflowLogger": "loggers",
    "ModelCheckpoint": "checkpoint",
    "Profiler": "profiler",
    "ProgressBar": "progress",
    "RunView": "run_view",
    "TensorBoardLogger": "loggers",
    "TerminateOnNaN": "terminate_on_nan",
    "Trainer": "trainer",
    "WandbLogger": "loggers",
    "accuracy": "named_metrics",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with _Checked("trainer"):
        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
