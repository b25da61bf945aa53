"""LoRA against peft, over packed weights, through files, fused, and resumed to the bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl import optim
from netcl.core import Tensor, packed
from netcl.core.device import DeviceHandle
from netcl.io import CheckpointError, save_safetensors
from netcl.llm import Config, Decoder, lora
from netcl.llm.config import Rope
from netcl.llm.huggingface import decoder_of_folder
from netcl.trainer import Trainer

STORED = Path(__file__).parent / "references" / "lora.npz"
TARGETS = ("q_proj", "v_proj", "down_proj")
CONFIG = Config("llama", 64, 32, 2, 4, 2, 8, 64, Rope(8), context_length=64, tied=True)


@pytest.fixture
def stored() -> dict[str, Any]:
    with np.load(STORED) as file:
        return {name: file[name] for name in file.files}


def write_adapter(stored: dict[str, Any], which: str, folder: Path) -> Path:
    """Writes an adapter of peft as its files are."""
    state = {name.split("/")[1]: value for name, value in stored.items() if name.startswith(which)}
    folder.mkdir(exist_ok=True)
    save_safetensors(state, folder / "adapter_model.safetensors")
    values = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": list(TARGETS), "lora_dropout": 0.0}
    (folder / "adapter_config.json").write_text(json.dumps(values))
    return folder


def train(decoder: Decoder, ids: Any, steps: int, rate: float = 0.005) -> list[float]:
    """Returns the losses of steps on the same tokens."""
    parameters = [parameter for parameter in decoder.parameters() if parameter.requires_grad]
    optimizer = optim.AdamW(parameters, lr=rate, weight_decay=0.01)
    x, y = (Tensor.from_host(decoder.queue, np.ascontiguousarray(part)) for part in (ids[:, :-1], ids[:, 1:]))
    losses = []
    decoder.train()
    for _ in range(steps):
        loss = lora.causal_loss(decoder(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("checkpointing", [False, True])
def test_losses_are_those_of_peft(
    checkpointing: bool, stored: Any, write_family: Any, tmp_path: Path, handle: DeviceHandle
) -> None:
    decoder, _ = decoder_of_folder(write_family("llama").folder, handle.queue)
    lora.load_adapter(decoder, write_adapter(stored, "first", tmp_path / "first"))
    decoder.checkpointing = checkpointing
    losses = train(decoder, stored["ids"], 50)
    np.testing.assert_allclose(losses, stored["losses"], rtol=0, atol=1e-3)
    lora.save_adapter(decoder, tmp_path / "mine", "base")
    again = lora.load_safetensors(tmp_path / "mine" / "adapter_model.safetensors")
    expected = {name.split("/")[1]: value for name, value in stored.items() if name.startswith("last/")}
    assert again.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(again[name].numpy(), value, rtol=0, atol=2e-2)


def test_a_fused_model_has_the_logits_of_its_adapters(stored: Any, write_family: Any, tmp_path: Path) -> None:
    decoder, _ = decoder_of_folder(write_family("llama").folder)
    ids = Tensor.from_host(decoder.queue, stored["ids"])
    with nc.no_grad():
        plain = decoder(ids).numpy()
        lora.load_adapter(decoder, write_adapter(stored, "last", tmp_path / "last"))
        changed = decoder(ids).numpy()
        lora.fuse(decoder)
        fused = decoder(ids).numpy()
    assert np.abs(changed - plain).max() > 1
    np.testing.assert_allclose(fused, changed, rtol=0, atol=2e-4 * np.abs(changed).max())
    assert not any("lora" in name for name, _ in decoder.named_parameters())


def packed_and_plain(handle: DeviceHandle) -> tuple[Decoder, Decoder]:
    """Returns two decoders with the same weights, packed in Q8_0 and unpacked."""
    rng = np.random.default_rng(3)
    kept: dict[str, Any] = {}

    def packed_source(name: str, shape: tuple[int, ...]) -> Any:
        values = rng.standard_normal(shape).astype(np.float32) * 0.3 + (len(shape) == 1)
        value = Tensor.from_host(handle.queue, values)
        kept[name] = packed.quantize(value, "Q8_0") if len(shape) == 2 else value
        return kept[name]

    def plain_source(name: str, shape: tuple[int, ...]) -> Any:
        return kept[name].unpack() if len(shape) == 2 else kept[name]

    return Decoder(CONFIG, packed_source), Decoder(CONFIG, plain_source)


def test_training_over_packed_weights_is_that_over_their_values(handle: DeviceHandle) -> None:
    ids = np.random.default_rng(0).integers(0, 64, (3, 9))
    both = packed_and_plain(handle)
    losses = []
    for decoder in both:
        nc.manual_seed(1)
        trained = lora.add_lora(decoder, 4, targets=lora.TARGETS)
        assert len(trained) == 2 * 7 * CONFIG.layers
        losses.append(train(decoder, ids, 12, 0.02))
    assert losses[0][-1] < losses[0][0] - 0.5
    np.testing.assert_allclose(losses[0], losses[1], rtol=0, atol=1e-3)
    lora.fuse(both[0], "Q8_0")
    assert both[0].layers[0].attention.qkv.matrices[0].packed.format == "Q8_0"


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_a_resumed_run_has_the_same_numbers(dropout: float, handle: DeviceHandle, tmp_path: Path) -> None:
    ids = np.random.default_rng(0).integers(0, 64, (8, 9))
    batches = [(ids[at : at + 2, :-1], ids[at : at + 2, 1:]) for at in range(0, 8, 2)]

    def run(epochs: int, **how: Any) -> dict[str, Any]:
        decoder = packed_and_plain(handle)[0]
        nc.manual_seed(1)
        parameters = lora.add_lora(decoder, 4, dropout=dropout)
        options: dict[str, Any] = {"loss_fn": lora.causal_loss, "metrics": [], "seed": 5}
        trainer = Trainer(decoder, optim.AdamW(parameters, lr=0.01), **options)
        trainer.fit(batches, epochs=epochs, **how)
        trainer.save_checkpoint(tmp_path / f"{epochs}.netcl")
        return {name: p.numpy() for name, p in decoder.named_parameters() if p.requires_grad}

    whole = run(3)
    run(1)
    resumed = run(3, resume=tmp_path / "1.netcl")
    assert whole.keys() == resumed.keys()
    for name, value in whole.items():
        np.testing.assert_array_equal(resumed[name], value)


def test_an_adapter_of_another_model_is_refused(stored: Any, tmp_path: Path) -> None:
    folder = write_adapter(stored, "last", tmp_path / "last")
    decoder = Decoder(CONFIG)
    with pytest.raises(CheckpointError, match=r"of another model: .*down_proj.*expected"):
        lora.load_adapter(decoder, folder)
    assert not any("lora" in name for name, _ in decoder.named_parameters())
    values = json.loads((folder / "adapter_config.json").read_text())
    for wrong in ({"peft_type": "IA3"}, {"use_dora": True}, {"r": 0}, {"r": 1 << 40}, {"target_modules": ["conv"]}):
        (folder / "adapter_config.json").write_text(json.dumps({**values, **wrong}))
        with pytest.raises(CheckpointError, match="adapter_config.json"):
            lora.load_adapter(decoder, folder)
