"""Fits the encoding of a table to its training part: TableEncoding, columns and a target with plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from netcl.data.tables.cells import Chunk, TableError
from netcl.data.tables.columns import ColumnFacts
from netcl.data.tables.encoded import TableDataset, write_rows
from netcl.data.tables.encoding import (
    INPUTS,
    CategoryInput,
    DateInput,
    EmbeddingInput,
    Input,
    NumberInput,
    plain,
    rebuilt,
)
from netcl.data.tables.sources import Source
from netcl.data.tables.targets import TARGETS, ClassTarget, LabelsTarget, NumberTarget, Target, held

Arrays = tuple[npt.NDArray[Any], ...]

_TASKS = ("auto", "classification", "regression", "multilabel")
_FILLS = ("mean", "median", "flag", "error")
# Whole numbers with at most so many values are classes.
_CLASSES = 20
_VERSION = 1


class Rows(Protocol):
    """The attributes of a Table by which it is fitted and encoded."""

    source: Source
    columns: list[str]
    targets: list[str]
    missing_values: list[str]

    @property
    def facts(self) -> dict[str, ColumnFacts]:
        """See ``Table.facts``."""
        ...

    def kinds(self) -> dict[str, str]:
        """See ``Table.kinds``."""
        ...

    def chunks(self, size: int | None = None) -> Iterator[Chunk]:
        """See ``Table.chunks``."""
        ...

    def check_column(self, name: str, names: Sequence[str]) -> None:
        """See ``Table.check_column``."""
        ...


@dataclass(frozen=True)
class TableEncoding:
    """A fitted table: ``inputs`` (columns that a model reads), ``target`` (None: no column is predicted), and the texts
    that stand for nothing. ``to_dict`` gives plain values, which a model file keeps.
    """

    inputs: list[Input]
    target: Any
    missing_values: list[str]

    @property
    def features(self) -> list[str]:
        """The names of the float32 inputs."""
        return [name for column in self._plain() for name in column.names]

    @property
    def embeddings(self) -> list[tuple[int, int]]:
        """Rows and dimensions of the embedding of each category that is encoded as an id."""
        return [(column.size, column.dimensions) for column in self.inputs if isinstance(column, EmbeddingInput)]

    @property
    def classes(self) -> list[str] | None:
        """The names of the classes or labels; None for numbers."""
        if isinstance(self.target, ClassTarget):
            return self.target.classes
        return self.target.names if isinstance(self.target, LabelsTarget) else None

    def _plain(self) -> list[Input]:
        return [column for column in self.inputs if not isinstance(column, EmbeddingInput)]

    def encode(self, chunk: Chunk) -> Arrays:
        """Returns the inputs of rows: float32 (rows, features), and int64 (rows, categories) if there are embeddings.

        Without any float32 input the first array is zeros (rows, 1). Raises TableError for a column that is missing,
        and with the place of a wrong cell.
        """
        self.check_columns(list(chunk.columns), "the table")
        encoded = [column.encode(chunk.columns[column.name]) for column in self._plain()]
        numbers = np.concatenate(encoded, axis=1) if encoded else np.zeros((len(chunk), 1), np.float32)
        ids = [
            column.encode(chunk.columns[column.name]) for column in self.inputs if isinstance(column, EmbeddingInput)
        ]
        return (numbers, np.concatenate(ids, axis=1)) if ids else (numbers,)

    def check_columns(self, names: Sequence[str], table: str) -> None:
        """Raises TableError, with the name of the ``table``, unless it has the columns that the model reads."""
        absent = next((column.name for column in self.inputs if column.name not in names), None)
        if absent is not None:
            raise TableError(f"{table} has no column {absent!r}, which the model reads; it has {', '.join(names)}")

    def encode_with_target(self, chunk: Chunk) -> Arrays:
        """Returns the inputs and the target of rows; the target is int64 (rows,) for classes, else float32 (rows,
        columns).
        """
        if self.target is None:
            return self.encode(chunk)
        for name in self.target.names:
            if name not in chunk.columns:
                raise TableError(f"the table has no target {name!r}; it has {', '.join(chunk.columns)}")
        return (*self.encode(chunk), self.target.encode(chunk))

    def decode(self, outputs: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Returns outputs of a model, (rows, outputs), as probabilities, or as numbers in the units of the table."""
        decoded: npt.NDArray[np.float64] = outputs if self.target is None else self.target.decode(outputs)
        return decoded

    def dataset(self, table: Rows, memory: int = 256 << 20) -> TableDataset:
        """Returns the rows of a table as samples (inputs.., target). Arrays beyond ``memory`` bytes are in a temporary
        file, which is mapped.
        """
        self.check_columns(table.columns, table.source.name)
        return write_rows((self.encode_with_target(chunk) for chunk in table.chunks()), self.classes, memory)

    def weights(self) -> list[float]:
        """Returns the balanced weight of each class, rows / (classes * rows of the class), or for labels the weight of
        the rows that have it, rows without / rows with. Raises ValueError for numbers.
        """
        if isinstance(self.target, ClassTarget):
            rows = sum(self.target.counts)
            return [rows / (len(self.target.counts) * max(1, count)) for count in self.target.counts]
        if isinstance(self.target, LabelsTarget):
            return [(self.target.rows - count) / max(1, count) for count in self.target.counts]
        raise ValueError("weights of classes need a target of classes or labels")

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values: dicts, lists, texts and numbers."""
        return {
            "version": _VERSION,
            "inputs": [plain(column) for column in self.inputs],
            "target": None if self.target is None else plain(self.target),
            "missing_values": self.missing_values,
        }

    @classmethod
    def from_dict(cls, stored: Any) -> TableEncoding:
        """Returns the encoding of ``to_dict``. Raises TableError if the values are none."""
        if not isinstance(stored, Mapping) or stored.get("version") != _VERSION:
            raise TableError(f"expected a stored table of version {_VERSION}, got {str(stored)[:80]}")
        inputs, target, texts = (stored.get(name) for name in ("inputs", "target", "missing_values"))
        if not isinstance(inputs, list) or not isinstance(texts, list) or not all(isinstance(t, str) for t in texts):
            raise TableError("a stored table must have a list of inputs and a list of texts")
        columns = [rebuilt(INPUTS, column, "an input") for column in inputs]
        return cls(columns, None if target is None else rebuilt(TARGETS, target, "the target"), texts)

    def __str__(self) -> str:
        parts = [f"{len(self.features)} float32 inputs of {len(self._plain())} columns"]
        if self.embeddings:
            parts.append(f"{len(self.embeddings)} embeddings")
        if isinstance(self.target, ClassTarget):
            parts.append(f"classification of {', '.join(self.target.names)} into {', '.join(self.target.classes)}")
        elif self.target is not None:
            parts.append(f"{self.target.task} of {', '.join(self.target.names)}")
        return "; ".join(parts)


def fit(
    table: Rows,
    missing: str | float | Mapping[str, str | float],
    categories: str | Mapping[str, str],
    standardize: bool,
    unseen: str,
    task: str,
) -> TableEncoding:
    """Runs ``Table.fit``."""
    _check_option("task", task, _TASKS)
    _check_option("unseen", unseen, ("zeros", "error"))
    for name in (*_named(missing), *_named(categories)):
        if name != "default":
            table.check_column(name, table.columns)
    kinds = table.kinds()
    inputs: list[Input] = []
    for name, facts in table.facts.items():
        if name in table.targets:
            continue
        chosen = _choice(missing, name, "mean")
        if not isinstance(chosen, (int, float)) or isinstance(chosen, bool):
            _check_option(f"missing of {name!r}", chosen, _FILLS)
        if kinds[name] == "number":
            inputs.append(_number(facts, chosen, standardize))
        elif kinds[name] == "date":
            inputs.append(_date(facts, chosen))
        elif kinds[name] == "category":
            values = [*([""] if facts.missing else []), *facts.values()]
            encoded = _choice(categories, name, "one-hot")
            _check_option(f"categories of {name!r}", encoded, ("one-hot", "embedding"))
            inputs.append((EmbeddingInput if encoded == "embedding" else CategoryInput)(name, values, unseen))
    if not inputs:
        raise TableError(
            f"{table.source.name} has no column to learn from: {', '.join(f'{n}: {k}' for n, k in kinds.items())}"
        )
    return TableEncoding(inputs, _target(table, kinds, standardize, task), table.missing_values)


def _check_option(name: str, value: Any, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"expected {name} to be one of {', '.join(known)}, got {value!r}")


def _named(option: Any) -> list[str]:
    return list(option) if isinstance(option, Mapping) else []


def _choice(option: Any, name: str, default: Any) -> Any:
    return option.get(name, option.get("default", default)) if isinstance(option, Mapping) else option


def _fill(facts: ColumnFacts, moments: Any, chosen: Any) -> float | None:
    if chosen == "error":
        if facts.missing:
            raise TableError(f"column {facts.name!r} has {facts.missing:,} missing values, and missing is 'error'")
        return None
    if chosen == "median":
        return float(moments.median)
    return float(moments.mean) if isinstance(chosen, str) else float(chosen)


def _number(facts: ColumnFacts, chosen: Any, standardize: bool) -> NumberInput:
    m = facts.numbers
    mean, std = (m.mean, m.std) if standardize else (0.0, 1.0)
    return NumberInput(facts.name, _fill(facts, m, chosen), mean, std, flag=chosen == "flag")


def _date(facts: ColumnFacts, chosen: Any) -> DateInput:
    m = facts.dates
    fill = _fill(facts, m, chosen if isinstance(chosen, str) else "mean")
    # Dates that are all at midnight have no time of the day.
    hours = bool((m.sample % 86400.0 != 0).any())
    return DateInput(facts.name, fill, m.mean, m.std, hours, facts.pattern)


def _target(table: Rows, kinds: Mapping[str, str], standardize: bool, task: str) -> Target | None:
    if not table.targets:
        return None
    columns = [table.facts[name] for name in table.targets]
    for facts in columns:
        if not facts.present:
            raise TableError(f"the target {facts.name!r} has no values in {table.source.name}")
    if task == "auto":
        task = _found(columns, kinds)
    if task == "multilabel":
        return _labels(table)
    if task == "regression":
        wrong = next((facts.no_number for facts in columns if facts.no_number is not None), None)
        if wrong is not None:
            raise TableError(f"{wrong}, and the task is regression")
        moments = [facts.numbers for facts in columns]
        scales = [(m.mean, m.std) if standardize else (0.0, 1.0) for m in moments]
        return NumberTarget(table.targets, [mean for mean, _ in scales], [std for _, std in scales])
    if len(columns) != 1:
        raise TableError(f"classification has one target, got {', '.join(table.targets)}; for labels write multilabel")
    counts = columns[0].distinct
    if counts is None:
        raise TableError(f"the target {columns[0].name!r} has too many different values for classes")
    classes = columns[0].values()
    return ClassTarget(table.targets, classes, [counts[name] for name in classes])


def _found(columns: list[ColumnFacts], kinds: Mapping[str, str]) -> str:
    """Returns the task that the target columns imply."""
    if len(columns) > 1:
        labels = all(facts.distinct is not None and len(facts.distinct) <= 2 for facts in columns)
        return "multilabel" if labels else "regression"
    facts = columns[0]
    if kinds[facts.name] != "number":
        return "classification"
    few = facts.distinct is not None and len(facts.distinct) <= min(_CLASSES, max(2, facts.present // 2))
    return "classification" if facts.numbers.whole and few else "regression"


def _labels(table: Rows) -> LabelsTarget:
    counts, rows = np.zeros(len(table.targets), np.int64), 0
    for chunk in table.chunks():
        counts += [int(held(chunk.columns[name]).sum()) for name in table.targets]
        rows += len(chunk)
    return LabelsTarget(table.targets, counts.tolist(), rows)
