"""Image models of the well-known kinds against PyTorch from one state dict: outputs, gradients, running statistics."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import netcl.torch as ours

_models = runpy.run_path(str(Path(__file__).with_name("architectures.py")))["models"]
OURS, THEIRS = _models(ours), _models(torch)
FORWARD, BACKWARD = 1e-4, 1e-3  # of the largest absolute value


def _pair(name: str) -> tuple[Any, Any]:
    torch.manual_seed(18)
    theirs, found = THEIRS[name](), OURS[name]()
    state = {key: ours.tensor(value.numpy()) for key, value in theirs.state_dict().items()}
    loaded = found.load_state_dict(state)
    assert (loaded.missing_keys, loaded.unexpected_keys) == ([], [])
    return theirs, found


def _near(found: Any, expected: Any, limit: float, what: str) -> None:
    a, b = found.detach().numpy().astype(float), expected.detach().numpy().astype(float)
    assert a.shape == b.shape, what
    assert np.abs(a - b).max() <= limit * max(np.abs(b).max(), 1e-3), what


@pytest.mark.parametrize("name", OURS)
def test_training_and_inference(name: str) -> None:
    theirs, found = _pair(name)
    rng = np.random.default_rng(3)
    images = rng.standard_normal((6, 3, 32, 32)).astype(np.float32)
    labels = rng.integers(0, 10, 6)
    x, y = torch.from_numpy(images).requires_grad_(), torch.from_numpy(labels)
    ours_x, ours_y = ours.tensor(images, requires_grad=True), ours.tensor(labels)
    expected, result = theirs(x), found(ours_x)
    _near(result, expected, FORWARD, "training")
    torch.nn.functional.cross_entropy(expected, y).backward()
    ours.nn.functional.cross_entropy(result, ours_y).backward()
    _near(ours_x.grad, x.grad, BACKWARD, "the image's gradient")
    # A bias before a batch normalization has no gradient but rounding: compared with the largest of all.
    largest = max(float(p.grad.abs().max()) for p in theirs.parameters())
    for (key, p), (own, q) in zip(theirs.named_parameters(), found.named_parameters()):
        assert key == own
        difference = np.abs(q.grad.numpy().astype(float) - p.grad.numpy()).max()
        assert difference <= BACKWARD * max(float(p.grad.abs().max()), 1e-3 * largest), key
    for (key, p), (own, q) in zip(theirs.named_buffers(), found.named_buffers()):
        assert key == own
        _near(q, p, FORWARD, key)
    with torch.no_grad(), ours.no_grad():
        _near(found.eval()(ours_x), theirs.eval()(x), FORWARD, "inference")


@pytest.mark.parametrize("name", OURS)
def test_models_have_pytorchs_text_and_first_weights(name: str) -> None:
    torch.manual_seed(4)
    theirs = THEIRS[name]()
    generator = ours.default_generator
    numbers = generator.numbers
    try:
        ours.manual_seed(4)
        found = OURS[name]()
    finally:
        generator.numbers = numbers
    assert repr(found) == repr(theirs)
    for key, value in theirs.state_dict().items():
        _near(found.state_dict()[key], value, 1e-5, key)
