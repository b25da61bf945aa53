"""The device of the suite, and the stored models of each family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netcl.core.testing.pytest_plugin import default_signals as default_signals
from netcl.core.testing.pytest_plugin import handle as handle
from netcl.core.testing.pytest_plugin import numpy_device as numpy_device
from netcl.io import save_safetensors

STORED = Path(__file__).parent / "references" / "families.npz"
FAMILIES = ("llama", "llama_scaled", "llama_linear", "mistral", "qwen2", "qwen3", "gemma3", "phi3", "phi3_long")


@dataclass(frozen=True)
class Family:
    """A stored model: its folder, and ids with the logits of transformers."""

    name: str
    folder: Path
    ids: Any
    logits: Any


@pytest.fixture
def write_family(tmp_path: Path) -> Callable[[str], Family]:
    """Writes the folder of a stored model."""

    def write(name: str) -> Family:
        with np.load(STORED) as stored:
            state = {
                key.split("/")[1]: stored[key].astype(np.float32) / 64
                for key in stored.files
                if key.startswith(f"{name}/")
            }
            (tmp_path / "config.json").write_bytes(stored[f"{name}:config"].tobytes())
            ids, logits = stored[f"{name}:ids"], stored[f"{name}:logits"]
        save_safetensors(state, tmp_path / "model.safetensors")
        return Family(name, tmp_path, ids, logits)

    return write


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest, write_family: Callable[[str], Family]) -> Family:
    """Returns each stored model in turn."""
    return write_family(request.param)
