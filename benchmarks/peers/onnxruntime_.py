"""ONNX Runtime on two threads of the CPU: inference of the files that netcl writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
from bursts import Work


def infer(name: str, size: int | None, file: str | None) -> Work | None:
    """Inference of a file, whose inputs and outputs are next to it in a .npz; None without one.

    Raises AssertionError if an output differs by more than 1e-3 of the largest.
    """
    if file is None:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    with np.load(Path(file).with_suffix(".npz")) as arrays:
        given = {one.name: arrays[f"arr_{number}"] for number, one in enumerate(session.get_inputs())}
        wanted = arrays["wanted"]
    error = np.abs(session.run(None, given)[0] - wanted).max()
    assert error < 1e-3 * np.abs(wanted).max(), f"{name}: ONNX Runtime differs by {error}"
    return lambda: session.run(None, given)
