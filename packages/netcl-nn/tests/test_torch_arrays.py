"""Arrays of NumPy in files of ``nc.save`` and ``torch.save``: they come back as arrays, and nothing is executed."""

from __future__ import annotations

import io
import pickle
import zipfile

import numpy as np
import pytest

import netcl as nc
from netcl.io import CheckpointError


def stored(value):
    file = io.BytesIO()
    nc.save(value, file)
    file.seek(0)
    return file


def test_arrays_of_numbers_come_back_as_arrays():
    columns = np.asfortranarray(np.arange(6, dtype=np.int16).reshape(2, 3))
    given = {"a": np.arange(3.0), "b": [np.array([True, False]), columns], "t": nc.ones(2)}
    found = nc.load(stored(given))
    assert type(found["a"]) is np.ndarray
    np.testing.assert_array_equal(found["a"], given["a"])
    np.testing.assert_array_equal(found["b"][1], columns)
    assert found["b"][1].dtype == np.int16
    assert isinstance(found["t"], nc.Tensor)


def test_arrays_of_objects_and_texts_are_refused():
    for array in (np.array([{}], dtype=object), np.array(["text"])):
        with pytest.raises(CheckpointError, match="cannot be saved"):
            nc.save({"a": array}, io.BytesIO())


def spoiled(change):
    """Returns a file with the pickle of one array, changed."""
    source, target = zipfile.ZipFile(stored(np.arange(4, dtype=np.int32))), io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name in source.namelist():
            content = source.read(name)
            archive.writestr(name, change(content) if name.endswith("data.pkl") else content)
    target.seek(0)
    return target


def test_a_damaged_array_is_refused():
    kept = spoiled(lambda content: content)
    np.testing.assert_array_equal(nc.load(kept), np.arange(4))
    longer = pickle.dumps(np.arange(4, dtype=np.int32), 2).replace(b"K\x04\x85", b"K\x05\x85")
    assert longer != pickle.dumps(np.arange(4, dtype=np.int32), 2)
    with pytest.raises(CheckpointError, match="do not fit its shape"):
        nc.load(spoiled(lambda content: longer))
    with pytest.raises(CheckpointError):
        nc.load(spoiled(lambda content: pickle.dumps(np.array([{}], dtype=object), 2)))
