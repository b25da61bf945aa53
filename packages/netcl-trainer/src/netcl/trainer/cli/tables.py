"""``[data] name = "Table"``: fits a table to its training part; sizes of the model, loss, weights and metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import netcl.autograd as ag
from netcl import data, nn, ops
from netcl.core import Tensor
from netcl.data.tables.encoding import NumberInput
from netcl.data.tables.targets import ClassTarget, NumberTarget
from netcl.trainer.cli.config import Config, Table
from netcl.trainer.cli.losses import same_shapes
from netcl.trainer.epoch_metrics import Deviations
from netcl.trainer.named_metrics import Chosen

_READING = {"delimiter": "str", "decimal": "str", "encoding": "str", "header": "bool"}
_FITTING = {"missing": "any", "categories": "any", "standardize": "bool", "unseen": "str", "task": "str"}
# Read by the loaders.
_LOADING = ("batch_size", "num_workers", "seed", "shuffle", "drop_last")


@dataclass
class FittedTable:
    """The training part of the table of a configuration, and its training and validation rows, encoded."""

    table: data.Table
    encoding: data.TableEncoding
    train: Any
    val: Any
    reading: dict[str, Any]

    @property
    def task(self) -> str:
        """Classification, regression or multilabel."""
        return str(self.encoding.target.task)

    @property
    def about(self) -> dict[str, Any]:
        """Plain values for the model file, by which ``netcl predict`` encodes and decodes."""
        return {"task": self.task, "table": self.encoding.to_dict(), "reading": self.reading}

    @property
    def sizes(self) -> dict[str, Any]:
        """The arguments of TableMLP that the table decides."""
        width = len(self.encoding.features) or 1
        embeddings = [list(size) for size in self.encoding.embeddings]
        return {"inputs": width, "outputs": self.encoding.target.outputs, "embeddings": embeddings}

    def loss(self, table: Table) -> Callable[..., Any] | None:
        """Returns the loss of the task; None for that of the Trainer. ``table`` is [trainer], for messages."""
        losses: dict[str, Callable[..., Any]] = {
            "regression": ag.mse_loss,
            "multilabel": ag.binary_cross_entropy_with_logits,
        }
        return same_shapes(losses[self.task], table) if self.task in losses else None

    def metrics(self, names: list[str] | None) -> Chosen | None:
        """Returns the metrics of ``names``, by default of the task; mae, mse and rmse in the table's units."""
        if names is None:
            names = {"regression": ["r2", "mae"], "multilabel": ["accuracy", "f1"]}.get(self.task)
        if names is None or not isinstance(self.encoding.target, NumberTarget):
            return None if names is None else {name: name for name in names}
        scale = np.array(self.encoding.target.std, np.float32)
        scaled: dict[str, Any] = {"mae": _Scaled(scale, 1), "mse": _Scaled(scale, 2), "rmse": Deviations(True, scale)}
        return {name: scaled.get(name, name) for name in names}

    def __str__(self) -> str:
        return f"{self.table!r}\n{self.encoding}; {len(self.train):,} rows for training" + (
            "" if self.val is None else f", {len(self.val):,} for validation"
        )


class _Scaled:
    """The mean of |output - target| ** power in the units of the table."""

    def __init__(self, scale: Any, power: int) -> None:
        self.scale, self.power = scale, power
        self._on: dict[int, Tensor] = {}  # by queues; made at the first step, as a captured one copies nothing

    def __call__(self, output: Tensor, target: Tensor) -> Tensor:
        key = id(output.queue)
        if key not in self._on:
            self._on[key] = Tensor.from_host(output.queue, self.scale)
        apart = ops.abs(ops.mul(ops.sub(output, target), self._on[key]))
        return ops.mean(apart if self.power == 1 else ops.mul(apart, apart))


def fitted_table(config: Config, seed: int) -> FittedTable | None:
    """Returns the table of [data], read and fitted to its training part; None if [data] names another data set.

    The keys that it reads are removed from [data]. Raises ConfigFileError for options that do not fit, and TableError
    for a file that is no table.
    """
    values = config.values.get("data")
    if not isinstance(values, dict) or values.get("name") != "Table":
        return None
    table = config.table("data")
    before = set(table.values)
    table.take("name", "str")
    path = table.take("path", "str", required=True)
    validation_path = table.take("validation_path", "str")
    share = table.take("validation", "float", 0.0)
    if not 0 <= share < 1:
        raise table.error(f"validation in [data] must be a share from 0 up to 1, got {share}", "validation")
    if share and validation_path is not None:
        raise table.error("[data] has validation and validation_path; write one of them", "validation_path")
    target = table.take("target", "any")
    reading = {name: table.take(name, kind) for name, kind in _READING.items()}
    reading = {name: value for name, value in reading.items() if value is not None}
    fitting = {name: table.take(name, kind) for name, kind in _FITTING.items()}
    fitting = {name: value for name, value in fitting.items() if value is not None}
    types = table.take("types", "any", {})
    lists = {name: table.take(name, "list", []) for name in ("drop", "missing_values")}
    for key in ("mean", "std", "augment"):
        if key in table:
            raise table.error(f"{key} in [data] is not for tables: their numbers are standardized", key)
    table.done(later=_LOADING)
    for name in before - set(table.values):
        values.pop(name)
    options: dict[str, Any] = {**reading, **lists, "types": types}
    folder = config.path.parent
    try:
        whole = data.Table(_place(folder, path), target, **options)
        _check_target(table, whole)
        train, val = (whole, None) if not share else whole.split(1 - share, seed=seed)
        if validation_path is not None:
            val = data.Table(_place(folder, validation_path), target, **options)
        encoding = train.fit(**fitting)
        encoded = [None if part is None else encoding.dataset(part) for part in (train, val)]  # pyright: ignore[reportArgumentType]
    except data.TableError:
        raise
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        raise table.error(f"[data] cannot be made: {error}") from error
    return FittedTable(train, encoding, encoded[0], encoded[1], reading)


def _place(folder: Path, path: str) -> Path:
    return folder / path


def _check_target(table: Table, whole: data.Table) -> None:
    if not whole.targets:
        columns = ", ".join(whole.columns)
        raise table.error(
            f'[data] needs target, the column to learn, one of {columns}: write target = "{whole.columns[-1]}"', "path"
        )


def weighted_loss(loss: Callable[..., Any] | None, weights: list[float], table: Table) -> Callable[..., Any]:
    """Returns cross entropy with a weight for each class, or binary cross entropy with a weight for the rows of each
    label. Raises ConfigFileError for another loss.
    """
    values = Tensor.from_host(np.array(weights, np.float32))
    if loss is None or loss is ag.cross_entropy:
        return nn.CrossEntropyLoss(weight=values)
    if getattr(loss, "__name__", "") == "binary_cross_entropy_with_logits":
        return nn.BCEWithLogitsLoss(pos_weight=values)
    raise table.error("class_weights need the loss cross_entropy or binary_cross_entropy_with_logits", "class_weights")


def encoding_of_numbers(dataset: data.CSVDataset, mean: Any, std: Any, outputs: int | None) -> data.TableEncoding:
    """Returns the encoding of a CSVDataset (columns of numbers without gaps), standardized by ``mean`` and ``std``
    (lists, or None); ``outputs`` is the number of classes, None for numbers.
    """
    scales = zip(mean or [0.0] * len(dataset.columns), std or [1.0] * len(dataset.columns))
    inputs: list[Any] = [NumberInput(name, None, float(m), float(s)) for name, (m, s) in zip(dataset.columns, scales)]
    target: ClassTarget | NumberTarget
    name = dataset.target or "target"
    if outputs is None:
        target = NumberTarget([name], [0.0], [1.0])
    else:
        classes = dataset.classes or [str(number) for number in range(outputs)]
        target = ClassTarget([name], classes, [0] * len(classes))
    return data.TableEncoding(inputs, target, [""])
