"""``netcl train`` and ``netcl evaluate``: train by a configuration, write the files of the run, and evaluate a
model.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from netcl import io, nn
from netcl.core import DeviceHandle
from netcl.core.device import device
from netcl.trainer.callbacks import EarlyStopping
from netcl.trainer.checkpoint import ModelCheckpoint
from netcl.trainer.class_names import class_names
from netcl.trainer.cli.build import Run, build, open_device
from netcl.trainer.cli.config import Config
from netcl.trainer.cli.predictions import matrix_text
from netcl.trainer.cli.run_folder import free_folder, last_run
from netcl.trainer.progress import describe_logs


def train(chosen: argparse.Namespace) -> int:
    """Trains, and writes model.netcl, history.csv, report.html and the checkpoints into the output folder."""
    config, handle = configured(chosen)
    with device(handle):
        _choose_output(config, chosen)
        run = build(config)
        print(f"device {handle}, output {run.output}", flush=True)
        if run.table is not None:
            print(run.table, flush=True)
        run.output.mkdir(parents=True, exist_ok=True)
        try:
            run.trainer.fit(
                run.train_loader,
                run.val_loader,
                run.epochs,
                resume=chosen.resume,
                resume_changes=chosen.resume_changes,
            )
        except (KeyboardInterrupt, SystemExit) as error:
            last = run.output / "last.netcl"
            if last.is_file():
                print(f"saved {last}; go on with: netcl train {chosen.config} --resume auto", flush=True)
            if isinstance(error, SystemExit):
                return int(error.code or 0)
            raise
        finally:
            run.close()
        _write_results(run, config)
    return 0


def _choose_output(config: Config, chosen: argparse.Namespace) -> None:
    """Sets the output folder: a run that continues has its own, another one never that of an earlier run."""
    folder = output_of(config)
    if chosen.resume == "auto":
        used = last_run(folder)
    elif chosen.resume is not None:
        used = Path(chosen.resume).parent
        used = used if used.resolve() == last_run(folder).resolve() else folder
    else:
        used = folder if chosen.overwrite else free_folder(folder)
        if used != folder:
            print(f"{folder} has a run already; give --overwrite to replace it")
    set_output(config, used)


def output_of(config: Config) -> Path:
    """Returns the output folder that a configuration names."""
    name = config.table("trainer").take("output", "str", f"runs/{config.path.stem}")
    return config.path.parent / str(name)


def set_output(config: Config, folder: Path) -> None:
    """Gives a configuration another output folder."""
    if folder != output_of(config):
        shown = folder if folder.is_absolute() else folder.relative_to(config.path.parent)
        config.values.setdefault("trainer", {})["output"] = str(shown)


def _take_best(run: Run) -> str:
    """Gives the model the best weights of the run, unless EarlyStopping has done it; returns the epoch as text."""
    history = run.trainer.history
    early = [callback for callback in run.trainer.callbacks if isinstance(callback, EarlyStopping)]
    savers = [callback for callback in run.trainer.callbacks if isinstance(callback, ModelCheckpoint)]
    followed = next((callback for callback in early if callback.restore_best and callback.best_epoch), None)
    if followed is not None:
        epoch = followed.best_epoch
    else:
        best = next((saver.best_path for saver in savers if saver.best_path is not None), None)
        if best is None or not best.is_file():
            return ""
        load_weights(run.trainer.model, best)
        for name, parameter in run.trainer.model.named_parameters() if run.trainer.ema is not None else ():
            run.trainer.ema.shadow[name].write(parameter.detach())
        epoch = int(best.stem.rpartition("_")[2])
    row = next((row for row in history if row.get("epoch") == epoch), None)
    if row is None:
        return ""
    measured = {name: value for name, value in row.items() if name.startswith("val_")} or row
    return f", epoch {epoch} of {len(history)}: {describe_logs(measured)}"


def _write_results(run: Run, config: Config) -> None:
    model, which = run.output / "model.netcl", _take_best(run)
    try:
        with run.trainer.averaged():
            io.save_model(run.trainer.model, model)
    except io.CheckpointError as error:
        print(f"no {model.name}: {error}")
        model = next((path for path in _checkpoints(run) if path.is_file()), run.output / "last.netcl")
    if run.trainer.history:
        report = run.trainer.history.report(run.output / "report.html", str(config))
        run.close()
        print(f"report {report}")
    print(f"model {model}{which}")


def evaluate(chosen: argparse.Namespace) -> int:
    """Prints loss and metrics of a trained model on the validation data, or on the training data if there is none."""
    config, handle = configured(chosen)
    with device(handle):
        set_output(config, last_run(output_of(config)))
        run = build(config)
        path = Path(chosen.model) if chosen.model else _best_file(run, config)
        load_weights(run.trainer.model, path)
        loader = run.train_loader if run.val_loader is None else run.val_loader
        try:
            measured = run.trainer.evaluate(loader)
        finally:
            run.close()
    if chosen.json:
        print(json.dumps({"model": str(path), **measured}))
    else:
        which = "training data, there are no others" if run.val_loader is None else "validation data"
        print(f"{path} on the {which}: {describe_logs(measured)}")
        counts = np.array(measured.get("confusion", 0))
        if counts.ndim == 2:
            print(matrix_text(counts, class_names(loader) or [str(number) for number in range(len(counts))]))
    return 0


def configured(chosen: argparse.Namespace) -> tuple[Config, DeviceHandle]:
    """Returns the configuration of a command, and its device: ``device`` of [trainer], else NETCL_DEVICE, else the
    best.
    """
    config = Config(chosen.config, chosen.settings)
    table = config.values.get("trainer", {})
    selector = table.pop("device", "auto") if isinstance(table, dict) else "auto"
    if not isinstance(selector, str):
        raise config.error(f"device in [trainer] must be a text, got {selector!r}", "trainer", "device")
    return config, open_device(selector, config)


def _best_file(run: Run, config: Config) -> Path:
    model, last = run.output / "model.netcl", run.output / "last.netcl"
    # Its run has ended: the model has the best weights. A run that goes on has newer checkpoints.
    if model.is_file() and not (last.is_file() and last.stat().st_mtime_ns > model.stat().st_mtime_ns):
        return model
    for path in _checkpoints(run):
        if path.is_file():
            return path
    raise config.error(f"there is no model in {run.output} yet: run `netcl train {config.path}`, or give --model")


def _checkpoints(run: Run) -> list[Path]:
    savers = [callback for callback in run.trainer.callbacks if isinstance(callback, ModelCheckpoint)]
    return [path for saver in savers for path in _kept_files(saver)]


def _kept_files(saver: ModelCheckpoint) -> list[Path]:
    """Returns the best file that the last run of this output kept, then its last one."""
    if not saver.last_path.is_file():
        return []
    callbacks: Any = (io.load_checkpoint(saver.last_path, rng=False).get("extra") or {}).get("callbacks", [])
    for name, state in callbacks:
        if name == "ModelCheckpoint":
            saver.load_state_dict(state)
    return [*([] if saver.best_path is None else [saver.best_path]), saver.last_path]


def load_weights(model: nn.Module, path: Path) -> None:
    """Loads the weights of a checkpoint or of a saved model into ``model``. Raises CheckpointError if they do
    not fit.
    """
    if io.verify(path)["type"] == "checkpoint":
        io.load_checkpoint(path, model, rng=False)
        return
    try:
        model.load_state_dict(io.load_model(path).state_dict())
    except (LookupError, ValueError) as error:
        raise io.CheckpointError(f"does not fit the model of the configuration: {error}", path) from error
