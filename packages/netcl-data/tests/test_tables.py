"""Tables: the kinds of columns, missing values, categories, dates, targets, parts, and the stored encoding."""

from __future__ import annotations

import json
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netcl.data import DataLoader, Table, TableEncoding, TableError

ROWS = """\
age,city,joined,plus,price
30,Paris,2024-01-01,yes,1.5
,Rome,2024-02-01,no,2.5
50,,2024-03-01,yes,3.5
40,Paris,2024-04-01,no,4.5
"""


def write(path: Path, text: str = ROWS) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def encoded(table: Table, **options: Any) -> tuple[TableEncoding, np.ndarray[Any, Any]]:
    encoding = table.fit(**options)
    return encoding, encoding.dataset(table).arrays[0]


# -- kinds -------------------------------------------------------------------------------------------------------------


def test_the_kinds_of_columns_are_found_and_shown(tmp_path: Path) -> None:
    table = Table(write(tmp_path / "a.csv"), target="price")
    kinds = {"age": "number", "city": "category", "joined": "date", "plus": "category", "price": "number"}
    assert table.kinds() == kinds
    assert len(table) == 4
    shown = repr(table)
    for text in ("Table of 4 rows", "30 to 50, mean 40", "2 values: Paris (2), Rome (1)", "price   number, target"):
        assert text in shown
    assert "<td>2024-01-01 to 2024-04-01</td>" in table._repr_html_()


def test_a_type_that_is_named_is_used(tmp_path: Path) -> None:
    text = "zip,day,y\n01,31.12.2024,1\n02,01.01.2025,2\n01,02.01.2025,3\n"
    path = write(tmp_path / "a.csv", text)
    assert Table(path).kinds() == {"zip": "number", "day": "category", "y": "number"}
    table = Table(path, target="y", types={"zip": "category", "day": "%d.%m.%Y"})
    encoding, x = encoded(table, task="regression")
    assert encoding.features[:3] == ["zip=01", "zip=02", "day time"]
    assert x[:, 0].tolist() == [1, 0, 1]
    assert (np.diff(x[:, 2]) > 0).all()


def test_texts_that_are_mostly_different_and_empty_columns_are_left_out() -> None:
    table = Table({"id": [f"n{i}" for i in range(60)], "none": [None] * 60, "x": np.arange(60.0)})
    assert table.kinds() == {"id": "text", "none": "empty", "x": "number"}
    assert table.fit().features == ["x"]
    assert "no values, left out" in repr(table)
    with pytest.raises(TableError, match="has no column to learn from: id: text, none: empty"):
        Table({"id": [f"n{i}" for i in range(60)], "none": [None] * 60}).fit()


# -- missing values and scales -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("missing", "value"), [("mean", 40.0), ("median", 35.0), (7, 7.0), ("flag", 40.0)])
def test_a_missing_number_becomes_what_is_asked_for(missing: Any, value: float) -> None:
    table = Table({"age": [30.0, 35.0, math.nan, 55.0]})
    encoding, x = encoded(table, missing=missing, standardize=False)
    assert x[:, 0].tolist() == [30, 35, value, 55]
    if missing == "flag":
        assert encoding.features == ["age", "age missing"]
        assert x[:, 1].tolist() == [0, 0, 1, 0]


def test_a_missing_value_of_one_column_may_be_an_error() -> None:
    table = Table({"a": [1.0, 2.0, 3.0], "b": [1.0, math.nan, 3.0]})
    with pytest.raises(TableError, match="column 'b' has 1 missing values, and missing is 'error'"):
        table.fit(missing={"b": "error"})
    strict = Table({"a": [1.0, 2.0, 3.0]}).fit(missing="error")
    with pytest.raises(TableError, match="the table, row 1, column 'a': the value is missing"):
        strict.dataset(Table({"a": [1.0, math.nan]}))


def test_numbers_and_targets_are_standardized_by_numpys_moments() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(1e6, 3.0, 20_000)
    table = Table({"x": values, "constant": np.full(20_000, 5.0), "y": 2 * values}, target="y")
    encoding = table.fit()
    x, y = encoding.dataset(table).arrays
    np.testing.assert_allclose(x[:, 0], (values - values.mean()) / values.std(), rtol=1e-5, atol=1e-6)
    assert (x[:, 1] == 0).all()
    np.testing.assert_allclose(encoding.decode(y)[:, 0], 2 * values, rtol=1e-7)


def test_the_median_of_many_rows_is_near_the_exact_one() -> None:
    values = np.random.default_rng(1).exponential(1.0, 200_000)
    column = Table({"x": values}).fit(missing="median").inputs[0]
    assert abs(column.fill - np.median(values)) < 0.02  # type: ignore[attr-defined]


# -- categories and dates ----------------------------------------------------------------------------------------------


def test_a_category_is_one_hot_and_a_missing_one_is_a_category_of_its_own() -> None:
    encoding, x = encoded(Table({"city": ["Rome", None, "Paris"]}))
    assert encoding.features == ["city=", "city=Paris", "city=Rome"]
    assert x.tolist() == [[0, 0, 1], [1, 0, 0], [0, 1, 0]]


def test_a_category_that_was_not_seen_is_zeros_or_an_error() -> None:
    train, new = Table({"city": ["Rome", "Paris"]}), Table({"city": ["Oslo", "Rome"]})
    assert train.fit().dataset(new).arrays[0].tolist() == [[0, 0], [0, 1]]
    assert train.fit(categories="embedding").dataset(new).arrays[1].tolist() == [[0], [2]]
    with pytest.raises(TableError, match="the table, row 0, column 'city': 'Oslo' was not seen in training"):
        train.fit(unseen="error").dataset(new)


def test_embeddings_are_ids_next_to_the_numbers() -> None:
    table = Table({"city": ["Rome", "Paris", "Rome"], "x": [1.0, 2.0, 3.0], "y": ["a", "b", "a"]}, target="y")
    encoding = table.fit(categories={"city": "embedding"})
    x, ids, y = next(iter(DataLoader(encoding.dataset(table), batch_size=3)))
    assert (x.shape, x.dtype, ids.dtype, y.dtype) == ((3, 1), np.float32, np.int64, np.int64)
    assert ids[:, 0].tolist() == [2, 1, 2]
    assert encoding.embeddings == [(3, 2)]


def test_dates_are_times_of_year_week_and_day() -> None:
    days = ["2024-01-01T00:00:00Z", "2024-01-01 12:00", "2024-07-01T06:00:00+00:00"]
    encoding, x = encoded(Table({"day": days}))
    assert len(encoding.features) == 7
    # The first is a Monday at midnight: sine 0, cosine 1 of the week and of the day.
    np.testing.assert_allclose(x[0, 3:], [0, 1, 0, 1], atol=1e-4)
    np.testing.assert_allclose(x[1, 5:], [0, -1], atol=1e-4)
    assert len(encoded(Table({"day": ["2024-01-01", "2024-01-02"]}))[0].features) == 5


# -- targets -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["a", "b", "a", "b"], "classification"),
        ([0, 1, 1, 0], "classification"),
        ([1.5, 2.0, 2.5, 3.0], "regression"),
        ([10, 20, 30, 40], "regression"),
    ],
)
def test_the_task_is_found(values: list[Any], task: str) -> None:
    encoding = Table({"x": [1.0, 2.0, 3.0, 4.0], "y": values}, target="y").fit()
    assert encoding.target.task == task
    assert task in str(encoding)


def test_classes_have_names_and_balanced_weights() -> None:
    table = Table({"x": [1.0] * 4, "y": ["b", "a", "a", "a"]}, target="y")
    encoding = table.fit()
    dataset = encoding.dataset(table)
    assert (encoding.classes, dataset.classes) == (["a", "b"], ["a", "b"])
    assert dataset.arrays[-1].tolist() == [1, 0, 0, 0]
    assert encoding.weights() == [4 / 6, 2.0]  # scikit-learn's "balanced"
    probabilities = encoding.decode(np.array([[0.0, math.log(3)]], np.float32))
    np.testing.assert_allclose(probabilities, [[0.25, 0.75]], rtol=1e-6)


def test_classes_of_numbers_are_in_the_order_of_the_numbers() -> None:
    encoding = Table({"x": [1.0] * 24, "y": ["10", "9", "2"] * 8}, target="y").fit()
    assert encoding.classes == ["2", "9", "10"]


def test_several_columns_of_yes_and_no_are_labels() -> None:
    table = Table({"x": [1.0, 2.0, 3.0, 4.0], "a": [0, 1, 1, 1], "b": ["no", "yes", "no", "no"]}, target=["a", "b"])
    encoding = table.fit()
    assert encoding.target.task == "multilabel"
    assert encoding.dataset(table).arrays[-1].tolist() == [[0, 0], [1, 1], [1, 0], [1, 0]]
    assert encoding.weights() == [1 / 3, 3.0]
    assert encoding.classes == ["a", "b"]


def test_several_columns_of_numbers_are_regression() -> None:
    table = Table({"x": [1.0, 2.0, 3.0], "a": [0.5, 1.0, 2.0], "b": [1.0, 2.0, 3.0]}, target=["a", "b"])
    encoding = table.fit()
    y = encoding.dataset(table).arrays[-1]
    np.testing.assert_allclose(encoding.decode(y), [[0.5, 1], [1, 2], [2, 3]], rtol=1e-6)
    with pytest.raises(ValueError, match="weights of classes need a target of classes"):
        encoding.weights()


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        ("prise", {}, r"a\.csv has no column 'prise'; did you mean 'price'\? it has age, city, joined"),
        ("city", {"task": "regression"}, r"a\.csv, line 2, column 'city': 'Paris' is no number"),
        (["city", "plus"], {"task": "classification"}, "classification has one target, got city, plus"),
        ("city", {"task": "multilabel"}, r"line 4, column 'city': the target is missing|'Paris' is no label"),
        ("price", {"task": "clustering"}, "expected task to be one of auto, classification"),
        ("price", {"missing": "mode"}, "expected missing of 'age' to be one of mean, median"),
        ("price", {"missing": {"agee": "mean"}}, "no column 'agee'; did you mean 'age'"),
        ("price", {"categories": "ordinal"}, "expected categories of 'city' to be one of one-hot, embedding"),
        ("price", {"unseen": "ignore"}, "expected unseen to be one of zeros, error"),
    ],
)
def test_options_that_do_not_fit_are_named(target: Any, options: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        Table(write(tmp_path / "a.csv"), target=target).fit(**options)


# -- parts and storage -------------------------------------------------------------------------------------------------


def test_a_table_is_fitted_to_its_training_part_alone() -> None:
    values = np.arange(1000.0)
    train, rest = Table({"x": values}).split(0.8, seed=3)
    assert len(train) + len(rest) == 1000
    assert 750 < len(train) < 850
    raw = train.fit(standardize=False)
    kept = raw.dataset(train).arrays[0][:, 0]
    assert sorted([*kept, *raw.dataset(rest).arrays[0][:, 0]]) == values.tolist()
    column = train.fit().inputs[0]
    assert column.mean == pytest.approx(kept.mean())  # type: ignore[attr-defined]
    again = Table({"x": values}).split(0.8, seed=3)[0]
    assert (raw.dataset(again).arrays[0][:, 0] == kept).all()
    half = train.split(0.5, seed=3)[0]
    assert 0.4 < len(half) / len(train) < 0.6
    with pytest.raises(ValueError, match="share must be between 0 and 1"):
        train.split(1.0)


def test_the_encoding_is_plain_values(tmp_path: Path) -> None:
    table = Table(write(tmp_path / "a.csv"), target="price")
    for options in ({"missing": "flag"}, {"categories": "embedding", "missing": 0.0}):
        encoding = table.fit(**options)  # type: ignore[arg-type]
        again = TableEncoding.from_dict(json.loads(json.dumps(encoding.to_dict())))
        assert again == encoding
        for mine, theirs in zip(encoding.dataset(table).arrays, again.dataset(table).arrays):
            assert (mine == theirs).all()


@pytest.mark.parametrize(
    "change",
    [
        lambda stored: stored.update(version=9),
        lambda stored: stored.update(inputs=3),
        lambda stored: stored.update(missing_values=[1]),
        lambda stored: stored["inputs"][0].update(kind="magic"),
        lambda stored: stored["inputs"][0].update(mean="0"),
        lambda stored: stored["inputs"][0].update(mean=math.nan),
        lambda stored: stored["inputs"][0].update(std=0),
        lambda stored: stored["inputs"][0].pop("fill"),
        lambda stored: stored["inputs"][1].update(values=["a", 1]),
        lambda stored: stored["target"].update(std=[0.0]),
        lambda stored: stored.update(target=[]),
    ],
)
def test_a_stored_encoding_that_is_none_is_refused(change: Any, tmp_path: Path) -> None:
    stored = Table(write(tmp_path / "a.csv"), target="price").fit().to_dict()
    change(stored)
    with pytest.raises(TableError):
        TableEncoding.from_dict(stored)


def test_large_tables_are_mapped_from_a_file_also_in_a_worker() -> None:
    table = Table({"x": np.arange(3000.0), "y": ["a", "b", "c"] * 1000}, target="y")
    encoding = table.fit(standardize=False)
    small, large = encoding.dataset(table), encoding.dataset(table, memory=1000)
    assert isinstance(large.arrays[0].base, np.memmap)
    for mine, theirs in zip(small.arrays, large.arrays):
        assert (mine == theirs).all()
    copy = pickle.loads(pickle.dumps(large))
    assert copy.classes == ["a", "b", "c"]
    assert len(pickle.dumps(large)) < 1000
    assert (copy[7][0], copy[7][1]) == (7, 1)
    folder = large.paths[0].parent
    del large, copy
    assert not folder.exists()


# -- frames ------------------------------------------------------------------------------------------------------------


def test_arrays_of_other_kinds_are_refused() -> None:
    with pytest.raises(TypeError, match="expected a path, a frame of pandas, polars or pyarrow, or a dict"):
        Table(3)
    with pytest.raises(TableError, match="columns of a table must have one length"):
        Table({"a": [1], "b": [1, 2]})
    with pytest.raises(TableError, match=r"one value for each row, got shape \(2, 2\)"):
        Table({"a": np.zeros((2, 2))})
    with pytest.raises(TypeError, match="drop and missing_values are lists"):
        Table({"a": [1]}, drop="a")
    with pytest.raises(TableError, match="the target 'a' is in drop"):
        Table({"a": [1], "b": [2]}, target="a", drop=["a"])
    with pytest.raises(TableError, match="as the type of 'a', got 'numeric'"):
        Table({"a": [1]}, types={"a": "numeric"})
