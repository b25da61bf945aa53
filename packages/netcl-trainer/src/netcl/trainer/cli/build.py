"""Builds a Trainer and its loaders from the tables of a configuration."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from netcl import data, io, nn, ops, optim, trainer
from netcl.core import DeviceHandle, manager
from netcl.core.errors import DeviceNotFoundError
from netcl.data import DataLoader, Dataset, Subset, filters
from netcl.optim import Optimizer
from netcl.optim.schedules import Scheduler
from netcl.trainer.cli.about import describe
from netcl.trainer.cli.config import Config, Table, call_of, nearest
from netcl.trainer.cli.losses import named_loss
from netcl.trainer.cli.scaling import scaled
from netcl.trainer.cli.tables import FittedTable, fitted_table, weighted_loss
from netcl.trainer.cli.weights import class_weights
from netcl.trainer.named_metrics import chosen_metrics

_TABLES = ("model", "data", "optimizer", "scheduler", "trainer", "callbacks")
# Readers of netcl.data by their names in a configuration.
_DATASETS = {
    **{name: getattr(data, f"{name}Arrays") for name in ("MNIST", "CIFAR10", "CIFAR100", "ImageFolder")},
    **{name: getattr(data, name) for name in ("NpyDataset", "CSVDataset", "Table", "example_digits")},
}
_CALLBACKS = {
    name: getattr(trainer, name)
    for name in (
        "EarlyStopping",
        "ModelCheckpoint",
        "LearningRateMonitor",
        "TensorBoardLogger",
        "CSVLogger",
        "WandbLogger",
        "MLflowLogger",
    )
} | {name: getattr(trainer, name) for name in ("ProgressBar", "TerminateOnNaN", "Profiler")}
# Augmentations of batches by their names in a configuration.
_AUGMENTATIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(filters, name) for name in ("horizontal_flip", "random_crop")},
    **{name: getattr(data.augment, name) for name in data.augment.__all__ if name != "PairFilter"},
}


@dataclass
class Run:
    """The objects that a configuration describes."""

    trainer: trainer.Trainer
    train_loader: DataLoader
    val_loader: DataLoader | None
    epochs: int
    output: Path
    table: FittedTable | None = None

    def close(self) -> None:
        """Stops the workers of the loaders."""
        for loader in (self.train_loader, self.val_loader):
            if loader is not None:
                loader.close()


def open_device(selector: str, config: Config | None = None) -> DeviceHandle:
    """Returns the device of a selector; raises ConfigFileError if a configuration names one that does not exist."""
    try:
        handle = manager.default(selector)
    except (DeviceNotFoundError, ImportError) as error:  # without pyopencl OpenCL devices have no names
        if config is None:
            raise
        raise config.error(str(error), "trainer", "device") from error
    if handle is None:
        message = f"there is no device {selector!r} here; `netcl devices` lists those that are"
        raise DeviceNotFoundError(message) if config is None else config.error(message, "trainer", "device")
    return handle


def build(config: Config) -> Run:
    """Builds everything; the active device must be the configuration's. Every key is read."""
    config.check_tables(_TABLES)
    table = config.table("trainer")
    epochs = table.take("epochs", "int", 1)
    output = config.path.parent / table.take("output", "str", f"runs/{config.path.stem}")
    seed = table.take("seed", "int", 0)
    loss = named_loss(table)
    average = table.take("ema", "float")
    names, weights = table.take("metrics", "list"), table.take("class_weights", "any")
    if epochs < 1:
        raise table.error(f"epochs must be at least 1, got {epochs}", "epochs")
    if seed < 0:
        raise table.error(f"seed in [trainer] must be at least 0, got {seed}", "seed")
    ops.manual_seed(seed)
    _check_metrics(table, names)
    fitted = fitted_table(config, seed)
    model = _model(config.table("model", required=True), fitted)
    data_table = config.table("data", required=True)
    train_loader, val_loader = _loaders(data_table, seed, fitted)
    if loss is None and fitted is not None:
        loss = fitted.loss(table)
    model.about = describe(loss, train_loader.dataset, fitted)
    if weights is not None:
        loss = weighted_loss(loss, class_weights(table, weights, train_loader.dataset, fitted), table)
    optimizer = _optimizer(config.table("optimizer"), model)
    new_trainer = table.call(
        trainer.Trainer,
        model,
        optimizer,
        given=("model", "optimizer"),
        device_queue=None,
        loss_fn=loss,
        metrics=names if fitted is None else fitted.metrics(names),
        seed=None,
        ema=None if average is None else _average(table, model, average),
        scheduler=_scheduler(config.table("scheduler"), optimizer),
        callbacks=_callbacks(config, output, val_loader is not None),
    )
    return Run(new_trainer, train_loader, val_loader, epochs, output, fitted)


def _check_metrics(table: Table, names: Any) -> None:
    try:
        chosen_metrics(names)
    except (ValueError, TypeError) as error:
        raise table.error(f"metrics in [trainer]: {error}", "metrics") from error


def _average(table: Table, model: nn.Module, decay: float) -> optim.ModelEMA:
    try:
        return optim.ModelEMA(model, decay)
    except ValueError as error:
        raise table.error(f"ema in [trainer]: {error}", "ema") from error


# -- code of the user's ---------------------------------------------------------------------------------------------


def _from_file(table: Table) -> Callable[..., Any] | None:
    """Returns the function or class ``name`` of the Python file ``file``; None if the table names no file."""
    if "file" not in table:
        return None
    file = table.take("file", "str")
    name = table.take("name", "str", required=True)
    path = (table.config.path.parent / file).resolve()
    module_name = f"netcl_config_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise table.error(f"file {str(path)!r} of [{table.name}] is no Python file that is there", "file")
    module = importlib.util.module_from_spec(spec)
    # Workers of a loader import its classes by this name.
    sys.modules[module_name] = module
    spec.loader.exec_module(module)
    named = getattr(module, name, None)
    if not callable(named):
        names = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise table.error(f"{path.name} has no {name!r}{nearest(name, names)}", "name")
    return named  # type: ignore[no-any-return]


# -- model ---------------------------------------------------------------------------------------------------------


def _model(table: Table, fitted: FittedTable | None = None) -> nn.Module:
    custom = _from_file(table)
    if custom is not None:
        model = table.call(custom)
    elif "load" in table:
        path = table.config.path.parent / table.take("load", "str")
        table.done()
        try:
            model = io.load_model(path)
        except (io.CheckpointError, OSError) as error:
            raise table.error(f"load of [{table.name}]: {error}", "load") from error
    elif "layers" in table:
        layers = table.take("layers", "list")
        table.done()
        model = nn.Sequential(*(_layer(table, number, layer) for number, layer in enumerate(layers)))
    else:
        name = table.take("name", "str", required=True)
        models = _models()
        if name not in models:
            raise table.error(f"unknown model {name!r}{nearest(name, sorted(models))}", "name")
        if name == "TableMLP" and fitted is not None:
            for key, value in fitted.sizes.items():
                table.values.setdefault(key, value)
        model = table.call(models[name])
    if not isinstance(model, nn.Module):
        raise table.error(f"[model] must make a Module, got {type(model).__name__}")
    return model


def _models() -> dict[str, Callable[..., Any]]:
    """Returns whole models of netcl.nn: the ResNets, MLP, and other models that are built from plain numbers."""
    models: dict[str, Callable[..., Any]] = {"MLP": nn.simple.MLP, "TableMLP": nn.simple.TableMLP}
    models.update({name: getattr(nn.resnet, name) for name in dir(nn.resnet) if name.startswith("resnet")})
    models.update({name: getattr(nn, name) for name in ("SmallVGG", "VisionTransformer", "GPT") if hasattr(nn, name)})
    return models


def _layer(table: Table, number: int, entry: Any) -> nn.Module:
    """Builds a layer from ``"ReLU"``, or ``["Conv2d", 1, 16, 3, {padding = 1}]``."""
    name, args, keywords = call_of(entry)
    kinds = {key: value for key in nn.__all__ if _is_layer(value := getattr(nn, key))}
    if not isinstance(name, str) or name not in kinds:
        raise table.error(
            f"layer {number} of [model]: unknown layer {name!r}{nearest(str(name), sorted(kinds))}", "layers"
        )
    layer = kinds[name]
    reason = _no_part(layer)
    if reason is not None:
        raise table.error(f"layer {number} of [model]: {name} {reason}", "layers")
    parameters = inspect.signature(layer).parameters
    for key in keywords:
        if key not in parameters:
            raise table.error(
                f"layer {number} of [model], {name}: unknown argument {key!r}{nearest(key, parameters)}", "layers"
            )
    try:
        module: nn.Module = layer(*args, **keywords)
        return module
    except (TypeError, ValueError, ArithmeticError, AttributeError, LookupError, MemoryError) as error:
        raise table.error(f"layer {number} of [model], {name}: {error or type(error).__name__}", "layers") from error


def _no_part(layer: type[nn.Module]) -> str | None:
    """Returns why a layer cannot be one of ``layers``, which hand one tensor on; None if it can."""
    own = 'write a Module of your own, with file = "FILE.py" and its name in [model]'
    inputs = list(inspect.signature(layer.forward).parameters.values())[1:]
    needed = [p.name for p in inputs if p.default is p.empty]
    if layer.__name__.endswith("Loss"):
        return "is a loss, of outputs and targets: write loss in [trainer]"
    if any(p.kind is p.VAR_KEYWORD for p in inputs):
        return f"has no forward of its own: {own}"
    if len(needed) != 1 or inputs[0].kind is inputs[0].VAR_POSITIONAL:
        return f"takes several tensors ({', '.join(needed)}), the layers of a configuration one: {own}"
    if issubclass(layer, (nn.RNNBase, nn.LSTMCell)):
        return f"returns its output and its state, the layers of a configuration hand one tensor on: {own}"
    if issubclass(layer, nn.TransformerEncoder):
        return "takes a layer as argument: write TransformerEncoderLayer several times"
    return None


def _is_layer(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, nn.Module) and value is not nn.Module


# -- data ----------------------------------------------------------------------------------------------------------


class Scaled(Dataset[Any]):
    """Samples with the first field scaled to [0, 1], or standardized by mean and deviation per channel, as float32;
    whole numbers of 32 and 64 bits are ids, and stay.
    """

    def __init__(self, dataset: Any, mean: Any = None, std: Any = None) -> None:
        self.dataset: Any = dataset
        self.mean: Any = mean
        self.std: Any = std
        self.classes: Any | None = getattr(dataset, "classes", None)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        x, *rest = self.dataset[index]
        return (scaled(np.asarray(x)[None], {"mean": self.mean, "std": self.std})[0], *rest)


def _loaders(table: Table, seed: int, fitted: FittedTable | None = None) -> tuple[DataLoader, DataLoader | None]:
    share = 0.0 if fitted is not None else table.take("validation", "float", 0.0)
    if not 0 <= share < 1:
        raise table.error(f"validation in [data] must be a share from 0 up to 1, got {share}", "validation")
    options = {
        "batch_size": table.take("batch_size", "int", 32),
        "num_workers": table.take("num_workers", "int", 0),
        "seed": table.take("seed", "int", seed),
    }
    if options["seed"] < 0:
        raise table.error(f"seed in [data] must be at least 0, got {options['seed']}", "seed")
    shuffle, drop_last = table.take("shuffle", "bool", True), table.take("drop_last", "bool", False)
    augment = _augmentations(table)
    mean, std = table.take("mean", "list"), table.take("std", "list")
    if (mean is None) != (std is None):
        raise table.error("[data] needs mean and std together", "mean" if std is None else "std")
    for key, values in (("mean", mean), ("std", std)):
        if values is not None and not all(isinstance(value, (int, float)) for value in values):
            raise table.error(f"{key} in [data] must be a list of numbers, one for each channel, got {values}", key)
    if std is not None and (len(mean) != len(std) or not all(value > 0 for value in std)):
        raise table.error(
            f"std in [data] must have a positive number for each of {len(mean)} channels, got {std}", "std"
        )
    if fitted is None:
        train, val = _datasets(table)
    else:
        table.done()
        train, val = fitted.train, fitted.val
    if type(train) is data.CSVDataset and len(train.arrays) == 1:
        columns = ", ".join(train.columns)
        raise table.error(
            f'[data] needs target, the column to learn, one of {columns}: write target = "{train.columns[-1]}"', "path"
        )
    if share:
        train, val = _held_back(train, share, seed)
    if fitted is None:
        train, val = (part if part is None else Scaled(part, mean, std) for part in (train, val))
    try:
        train_loader = DataLoader(train, shuffle=shuffle, drop_last=drop_last, augment=augment, **options)
        _try_augmentations(table, train, augment)
        return train_loader, None if val is None else DataLoader(val, **options)
    except (ValueError, TypeError, OverflowError) as error:
        raise table.error(f"[data] cannot be loaded: {error}") from error


def _augmentations(table: Table) -> list[Any]:
    """Builds the augmentations of ``augment``: each is a name, or ``["random_crop", {padding = 2}]``."""
    chosen = []
    for entry in table.take("augment", "list", []):
        name, args, keywords = call_of(entry)
        if name not in _AUGMENTATIONS:
            raise table.error(f"unknown augmentation {name!r}{nearest(str(name), _AUGMENTATIONS)}", "augment")
        parameters = inspect.signature(_AUGMENTATIONS[name]).parameters
        for key in keywords:
            if key not in parameters:
                raise table.error(
                    f"augment in [data], {name}: unknown argument {key!r}{nearest(key, parameters)}", "augment"
                )
        try:
            chosen.append(_AUGMENTATIONS[name](*args, **keywords))
        except (TypeError, ValueError) as error:
            raise table.error(f"augment in [data], {name}: {error}", "augment") from error
    return chosen


def _try_augmentations(table: Table, dataset: Any, augment: Sequence[Any]) -> None:
    """Raises ConfigFileError if the augmentations do not suit the first sample; training would end by a traceback."""
    if augment and len(dataset):
        try:
            next(iter(DataLoader(Subset(dataset, [0]), augment=augment)))
        except (ValueError, TypeError) as error:
            raise table.error(f"augment in [data] does not suit the samples: {error}", "augment") from error


def _datasets(table: Table) -> tuple[Any, Any]:
    """Returns training and validation data; the latter is None if the dataset has no validation part."""
    custom = _from_file(table)
    if custom is not None:
        loaded = table.call(custom)
        return (
            loaded
            if isinstance(loaded, tuple) and len(loaded) == 2 and not _is_array(loaded[0])
            else (_dataset(loaded), None)
        )
    name = table.take("name", "str", required=True)
    if name not in _DATASETS:
        raise table.error(f"unknown data set {name!r}{nearest(name, _DATASETS)}", "name")
    kind = _DATASETS[name]
    for key in ("root", "path"):
        if isinstance(table.values.get(key), str):
            table.values[key] = str(table.config.path.parent / table.values[key])
    if name == "NpyDataset":
        paths = [str(table.config.path.parent / str(path)) for path in table.take("paths", "list", required=True)]
        table.done()
        return table.call(kind, *paths), None
    parts = inspect.signature(kind).parameters
    if "train" in parts and "train" not in table:
        return table.call(kind, train=True), table.call(kind, train=False)
    return _dataset(table.call(kind)), None


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def _dataset(loaded: Any) -> Any:
    return data.ArrayDataset(*loaded) if isinstance(loaded, tuple) and all(map(_is_array, loaded)) else loaded


def _held_back(dataset: Any, share: float, seed: int) -> tuple[Any, Any]:
    """Splits off validation samples drawn at random, the same for the same seed."""
    order = np.random.default_rng(seed).permutation(len(dataset))
    count = max(1, round(share * len(dataset)))
    return Subset(dataset, np.sort(order[count:]).tolist()), Subset(dataset, np.sort(order[:count]).tolist())


# -- optimizer, schedule, callbacks -----------------------------------------------------------------------------------


def _classes(module: Any, base: type) -> dict[str, type]:
    members = {name: getattr(module, name) for name in module.__all__}
    return {
        name: kind
        for name, kind in members.items()
        if isinstance(kind, type) and issubclass(kind, base) and kind is not base
    }


def _optimizers() -> dict[str, type]:
    """Returns the optimizers that a Trainer steps: not LBFGS, which calls a closure, nor SparseAdam."""
    return {name: kind for name, kind in _classes(optim, Optimizer).items() if name not in ("LBFGS", "SparseAdam")}


def _optimizer(table: Table, model: nn.Module) -> Optimizer:
    name = table.take("name", "str", "AdamW")
    optimizers = _optimizers()
    if name not in optimizers:
        raise table.error(f"unknown optimizer {name!r}{nearest(name, sorted(optimizers))}", "name")
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer: Optimizer = table.call(optimizers[name], parameters, given=("params",))
    return optimizer


def _schedules() -> dict[str, type]:
    """Returns the schedules that plain values describe: none of functions or of other schedules."""
    named = {**_classes(optim, Scheduler), "ReduceLROnPlateau": optim.ReduceLROnPlateau}
    return {name: kind for name, kind in named.items() if name not in ("SequentialLR", "LambdaLR", "MultiplicativeLR")}


def _scheduler(table: Table, optimizer: Optimizer) -> Any:
    if not table.values:
        return None
    name = table.take("name", "str", required=True)
    schedules = _schedules()
    if name not in schedules:
        raise table.error(f"unknown schedule {name!r}{nearest(name, sorted(schedules))}", "name")
    return table.call(schedules[name], optimizer, given=("optimizer",))


def _callbacks(config: Config, output: Path, validated: bool) -> list[Any]:
    named: Mapping[str, Any] = config.table("callbacks").values
    for name in named:
        if name not in _CALLBACKS:
            raise config.error(f"unknown callback {name!r}{nearest(name, sorted(_CALLBACKS))}", "callbacks", name)
    tables = {name: config.table("callbacks", name) for name in named}
    defaults = {name: Table(config, ("callbacks", name), {}) for name in ("LearningRateMonitor", "CSVLogger")}
    saver = tables.pop("ModelCheckpoint", Table(config, ("callbacks", "ModelCheckpoint"), {}))
    saver.values.setdefault("monitor", "val_loss" if validated else "loss")
    for name, fallback in (
        ("CSVLogger", "history.csv"),
        ("TensorBoardLogger", "tensorboard"),
        ("WandbLogger", "."),
        ("Profiler", "profile"),
    ):
        table = tables.get(name) or defaults.get(name)
        if table is not None:
            key = "path" if name == "CSVLogger" else "folder"
            table.check(key, table.values.get(key, fallback), "str")
            table.values[key] = str(output / str(table.values.get(key, fallback)))
    saver.check("folder", saver.values.get("folder", "."), "str")
    saver.values["folder"] = str(output / str(saver.values.get("folder", ".")))
    callbacks = [table.call(_CALLBACKS[name]) for name, table in {**defaults, **tables}.items() if name != "CSVLogger"]
    callbacks.append({**defaults, **tables}["CSVLogger"].call(_CALLBACKS["CSVLogger"]))
    return [*callbacks, saver.call(_CALLBACKS["ModelCheckpoint"])]
