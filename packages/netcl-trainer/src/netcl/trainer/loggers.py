"""Loggers: write the measured values to a CSV file, or for TensorBoard, Weights & Biases or MLflow, during the run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any

from netcl.core.errors import from_here
from netcl.trainer.arguments import device_of
from netcl.trainer.callbacks import Callback
from netcl.trainer.run_view import RunView


class CSVLogger(Callback):
    """Writes a line per epoch to ``path``. List it after the callbacks that add to the logs."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path: Path = Path(path)

    def on_fit_start(self, trainer: RunView) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def on_epoch_end(self, trainer: RunView, logs: dict[str, Any]) -> None:
        # The whole file is written again: an epoch may add columns that earlier ones lack.
        trainer.history.to_csv(self.path)


def _need(logger: object, module: str, install: str) -> None:
    """Raises ImportError if the package that a logger writes with is missing: before a run, not within it."""
    if find_spec(module) is None:
        raise ImportError(f"{type(logger).__name__} needs {module}: pip install {install}")


def _settings(trainer: RunView) -> dict[str, Any]:
    """Returns the settings of a run that a logger records with it."""
    options = {key: value for key, value in trainer.optimizer.param_groups[0].items() if key != "params"}
    return {
        "model": type(trainer.model).__name__,
        "parameters": sum(parameter.size for parameter in trainer.model.parameters()),
        "device": str(device_of(trainer.model)),
        "optimizer": type(trainer.optimizer).__name__,
        **{key: value for key, value in options.items() if isinstance(value, (int, float, str))},
        "epochs": trainer.epochs,
    }


class _Remote(Callback):
    """Sends loss and metrics to a tracker: per epoch, and the values read within an epoch as ``step/...``, over the
    number of steps.

    A run is begun with its first value, so that a resumed one continues under its old name.
    """

    def __init__(self) -> None:
        self.run_id: str = ""

    def on_step_end(self, trainer: RunView, logs: dict[str, float]) -> None:
        if logs:
            values = {f"step/{name}": value for name, value in logs.items()}
            self._write(trainer, {**values, "step/lr": float(trainer.optimizer.param_groups[0]["lr"])})

    def on_epoch_end(self, trainer: RunView, logs: dict[str, Any]) -> None:
        numbers = {name: float(value) for name, value in logs.items() if isinstance(value, (int, float))}
        numbers.pop("step", None)
        self._write(trainer, numbers)

    def _write(self, trainer: RunView, values: dict[str, float]) -> None:
        """Writes values at the current step; begins the run if it has not begun."""

    def _end(self, failed: bool) -> None:
        """Ends the run; does nothing before its first value."""

    def on_fit_end(self, trainer: RunView) -> None:
        self._end(failed=False)

    def on_exception(self, trainer: RunView, error: BaseException) -> None:
        self._end(failed=True)

    def state_dict(self) -> dict[str, Any]:
        return {"run_id": self.run_id}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.run_id = str(state["run_id"])


class TensorBoardLogger(_Remote):
    """Writes loss and metrics for TensorBoard into ``folder``: per epoch, and the values read within an epoch as
    ``step/...``, over the number of steps.

    A resumed run continues in the same folder. Needs tensorboardX: ``pip install "netcl-trainer[tensorboard]"``.
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        super().__init__()
        _need(self, "tensorboardX", '"netcl-trainer[tensorboard]"')
        self.folder: Path = Path(folder)
        self._writer: Any = None

    def on_fit_start(self, trainer: RunView) -> None:
        self._writer = import_module("tensorboardX").SummaryWriter(str(self.folder))

    def on_epoch_end(self, trainer: RunView, logs: dict[str, Any]) -> None:
        super().on_epoch_end(trainer, logs)
        self._writer.flush()

    def _write(self, trainer: RunView, values: dict[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, trainer.step)

    def _end(self, failed: bool) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Does nothing: the folder is the state."""


class WandbLogger(_Remote):
    """Logs loss, metrics and settings to Weights & Biases, in the active run of ``wandb`` or a new one of ``project``.

    ``mode``: "online", "offline" (into ``folder``, to be sent by ``wandb sync``) or None for wandb's own choice
    (WANDB_MODE). A resumed run continues under its old id. Needs wandb: ``pip install "netcl-trainer[wandb]"``.
    """

    def __init__(
        self,
        project: str | None = None,
        name: str | None = None,
        mode: str | None = None,
        folder: str | PathLike[str] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        _need(self, "wandb", '"netcl-trainer[wandb]"')
        self.project: str | None = project
        self.name: str | None = name
        self.mode: str | None = mode
        self.folder: Path | None = None if folder is None else Path(folder)
        self.config: dict[str, Any] = dict(config or {})
        self._run: Any = None
        self._own = False

    def _write(self, trainer: RunView, values: dict[str, float]) -> None:
        if self._run is None:
            wandb = import_module("wandb")
            self._own = wandb.run is None
            self._run = wandb.run if not self._own else self._begun(wandb)
            self._run.config.update({**_settings(trainer), **self.config}, allow_val_change=True)
            self.run_id = str(self._run.id)
        self._run.log(values, step=trainer.step)

    def _begun(self, wandb: Any) -> Any:
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
        again = {"id": self.run_id, "resume": "allow"} if self.run_id else {}
        place = None if self.folder is None else str(self.folder)
        return wandb.init(project=self.project, name=self.name, mode=self.mode, dir=place, **again)

    def _end(self, failed: bool) -> None:
        if self._run is not None and self._own:
            self._run.finish(exit_code=int(failed))
        self._run = None


class MLflowLogger(_Remote):
    """Logs loss, metrics and settings to MLflow, as a run of ``experiment``.

    ``tracking_uri``: a server, or a database such as "sqlite:///runs.db"; None: MLFLOW_TRACKING_URI. A
    resumed run continues under its old id. Needs mlflow or mlflow-skinny: ``pip install "netcl-trainer[mlflow]"``.
    """

    def __init__(
        self,
        experiment: str = "Default",
        name: str | None = None,
        tracking_uri: str | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        _need(self, "mlflow", '"netcl-trainer[mlflow]"')
        self.experiment: str = experiment
        self.name: str | None = name
        self.tracking_uri: str | None = tracking_uri
        self.params: dict[str, Any] = dict(params or {})
        self._client: Any = None

    def _write(self, trainer: RunView, values: dict[str, float]) -> None:
        mlflow = import_module("mlflow")
        if self._client is None:
            self._client = mlflow.MlflowClient(tracking_uri=self.tracking_uri)
            self._begin(trainer)
        now = int(time.time() * 1000)
        metric = mlflow.entities.Metric
        metrics = [metric(name, value, now, trainer.step) for name, value in values.items()]
        self._client.log_batch(self.run_id, metrics=metrics)

    def _begin(self, trainer: RunView) -> None:
        if self.run_id:
            self._client.update_run(self.run_id, status="RUNNING")
            return
        experiment = self._client.get_experiment_by_name(self.experiment)
        place = self._client.create_experiment(self.experiment) if experiment is None else experiment.experiment_id
        self.run_id = str(self._client.create_run(place, run_name=self.name).info.run_id)
        for key, value in {**_settings(trainer), **self.params}.items():
            self._client.log_param(self.run_id, key, value)

    def _end(self, failed: bool) -> None:
        if self._client is not None:
            self._client.set_terminated(self.run_id, status="FAILED" if failed else "FINISHED")
            self._client = None


from_here(globals())
