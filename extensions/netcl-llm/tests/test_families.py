"""Tiny random models of each family against the logits of transformers, whole and by the cache."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl.core import Tensor
from netcl.core.device import DeviceHandle
from netcl.llm.decode import Lanes
from netcl.llm.huggingface import decoder_of_folder


def test_logits_are_those_of_transformers(family: Any, handle: DeviceHandle) -> None:
    ids, logits = family.ids, family.logits
    decoder, values = decoder_of_folder(family.folder, handle.queue)
    assert values["model_type"].startswith(family.name.split("_")[0])
    bound = 2e-4 * float(np.abs(logits).max())
    with nc.no_grad():
        whole = decoder(Tensor.from_host(handle.queue, ids)).numpy()
    np.testing.assert_allclose(whole, logits, rtol=0, atol=bound)
    lanes = Lanes(decoder, 2)
    # Rows at positions of their own: the second waits for the first.
    seen = [lanes.prefill([ids[0, :7], ids[1, :4]])]
    seen += [lanes.append([ids[0, 7 + at : 8 + at], ids[1, 4 + at : 5 + at]]) for at in range(5)]
    for at, row in enumerate(seen):
        found = row.numpy()
        np.testing.assert_allclose(found[0], logits[0, 6 + at], rtol=0, atol=bound)
        np.testing.assert_allclose(found[1], logits[1, 3 + at], rtol=0, atol=bound)


def test_a_missing_and_a_surplus_tensor_are_named(write_family: Any, tmp_path: Path) -> None:
    write_family("llama")
    config = json.loads((tmp_path / "config.json").read_text())
    for layers, name in ((3, "layers.2.input_layernorm.weight"), (1, "layers.1")):
        (tmp_path / "config.json").write_text(json.dumps({**config, "num_hidden_layers": layers}))
        with pytest.raises(nc.io.CheckpointError, match=name):
            decoder_of_folder(tmp_path)
