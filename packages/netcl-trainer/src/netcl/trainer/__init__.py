"""The training loop of netcl: fit, evaluate and predict, with callbacks, a progress bar and a history."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from netcl.trainer.__about__ import __version__ as __version__

try:
    from netcl.siblings import Checked as _Checked
except ModuleNotFoundError:
    raise ImportError(
        "netcl-trainer needs netcl-core, and its files are not there: pip install --force-reinstall netcl-core"
    ) from None

if TYPE_CHECKING:
    from netcl.trainer.callbacks import Callback as Callback
    from netcl.trainer.callbacks import EarlyStopping as EarlyStopping
    from netcl.trainer.callbacks import LearningRateMonitor as LearningRateMonitor
    from netcl.trainer.checkpoint import ModelCheckpoint as ModelCheckpoint
    from netcl.trainer.history import History as History
    from netcl.trainer.loggers import CSVLogger as CSVLogger
    from netcl.trainer.loggers import MLflowLogger as MLflowLogger
    from netcl.trainer.loggers import TensorBoardLogger as TensorBoardLogger
    from netcl.trainer.loggers import WandbLogger as WandbLogger
    from netcl.trainer.lr_range_test import LearningRates as LearningRates
    from netcl.trainer.named_metrics import accuracy as accuracy
    from netcl.trainer.profiler import Profiler as Profiler
    from netcl.trainer.progress import ProgressBar as ProgressBar
    from netcl.trainer.run_view import RunView as RunView
    from netcl.trainer.terminate_on_nan import TerminateOnNaN as TerminateOnNaN
    from netcl.trainer.trainer import Trainer as Trainer

_Checked("trainer").check()

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
__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with _Checked("trainer"):
        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
