"""LoRA: low-rank changes of a decoder's linear layers, which train while its weights, packed or not, are constant.

Adapters are stored in the names and files of the package peft. Hu et al. 2021; over packed weights it is QLoRA
(Dettmers et al. 2023).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import netcl.autograd as ag
from netcl import nn
from netcl.core import Tensor, packed
from netcl.core.packed import PackedTensor
from netcl.io.atomic import replacing
from netcl.io.budget import Budget
from netcl.io.errors import CheckpointError
from netcl.io.safetensors import load_safetensors, save_safetensors
from netcl.llm.decoder import Decoder, LowRank, Weight, parts_of
from netcl.llm.huggingface import read_json

__all__ = ["TARGETS", "add_lora", "causal_loss", "fuse", "load_adapter", "remove_lora", "save_adapter"]

TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
_PREFIX = "base_model.model.model."
_MOST_RANK = 4096


def add_lora(
    decoder: Decoder,
    rank: int = 8,
    alpha: float = 16.0,
    targets: Sequence[str] = ("q_proj", "v_proj"),
    dropout: float = 0.0,
) -> list[nn.Parameter]:
    """Makes all weights constant, and adds a change of ``rank`` to each layer in ``targets``, times alpha / rank.

    Returns the parameters to train.

    The change is zero at first. Raises ValueError for unknown targets, a rank below 1, or a decoder that has adapters.
    """
    unknown = sorted(set(targets) - set(TARGETS))
    if unknown or not targets:
        raise ValueError(f"expected targets of {', '.join(TARGETS)}, got {', '.join(unknown) or 'none'}")
    if not 1 <= rank <= _MOST_RANK:
        raise ValueError(f"expected a rank from 1 to {_MOST_RANK}, got {rank}")
    layers = parts_of(decoder)
    if any(name in module.adapters for module, name in layers.values()):
        raise ValueError("expected a decoder without adapters: call fuse or remove_lora first")
    for parameter in decoder.parameters():
        parameter.requires_grad = False
    for module, name in layers.values():
        if name in targets:
            change = LowRank(module.columns, module.sizes[name], rank, alpha, dropout, decoder.queue)
            module.adapters[name] = change.train(decoder.training)
    return [parameter for parameter in decoder.parameters() if parameter.requires_grad]


def remove_lora(decoder: Decoder) -> None:
    """Takes all adapters away; the weights stay constant."""
    for module, name in parts_of(decoder).values():
        if name in module.adapters:
            del module.adapters[name]


def causal_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Returns the mean cross entropy of logits (N, T, vocabulary) and the tokens that follow, (N, T); labels of -100,
    as those of a prompt, do not count.
    """
    return ag.cross_entropy(ag.reshape(logits, (-1, logits.shape[-1])), ag.reshape(labels, (-1,)))


def _changes(decoder: Decoder) -> dict[str, LowRank]:
    """Returns the adapters by the names of their layers."""
    return {
        layer: module.adapters[name] for layer, (module, name) in parts_of(decoder).items() if name in module.adapters
    }


def _weights(changes: Mapping[str, LowRank]) -> dict[str, Tensor]:
    """Returns the matrices of adapters by the names of peft."""
    return {
        f"{_PREFIX}{layer}.{name}.weight": getattr(change, name).weight
        for layer, change in changes.items()
        for name in ("lora_A", "lora_B")
    }


def save_adapter(decoder: Decoder, path: str | os.PathLike[str], base: str = "") -> None:
    """Writes the adapters as peft does: adapter_model.safetensors and adapter_config.json in the folder ``path``.

    ``base`` is the name of the model. Raises ValueError for a decoder without adapters.
    """
    changes = _changes(decoder)
    if not changes:
        raise ValueError("expected a decoder with adapters: call add_lora first")
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    first = next(iter(changes.values()))
    values = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": first.rank,
        "lora_alpha": first.alpha,
        "lora_dropout": first.dropout,
        "target_modules": sorted({layer.rsplit(".", 1)[1] for layer in changes}),
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
    }
    save_safetensors(_weights(changes), folder / "adapter_model.safetensors", {"format": "pt"})
    text = json.dumps(values, indent=2).encode()
    with replacing(folder / "adapter_config.json", len(text)) as file:
        file.write(text)


def load_adapter(decoder: Decoder, path: str | os.PathLike[str], budget: Budget | None = None) -> list[nn.Parameter]:
    """Adds the adapters of a folder that ``save_adapter`` or peft wrote; returns their parameters.

    Raises CheckpointError for damaged files, kinds of adapters that netcl lacks, and those of another model; the
    decoder then has no adapters.
    """
    folder = Path(path)
    place = folder / "adapter_config.json"
    values = read_json(place, budget)
    try:
        kind, rank, alpha = values["peft_type"], values["r"], float(values["lora_alpha"])
        targets, dropout = values["target_modules"], float(values.get("lora_dropout", 0.0))
        plain = {"bias": "none", "use_dora": False, "use_rslora": False, "fan_in_fan_out": False}
        others = [name for name, value in plain.items() if values.get(name, value) != value]
        others += [name for name in ("rank_pattern", "alpha_pattern", "modules_to_save") if values.get(name)]
        if kind != "LORA" or others or not isinstance(rank, int) or not isinstance(targets, list):
            raise ValueError(f"expected plain LoRA with a list of target_modules, got {kind} {', '.join(others)}")
        parameters = add_lora(decoder, rank, alpha, targets, dropout)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"describes no adapter that netcl has ({error})", place) from error
    wanted = _weights(_changes(decoder))
    file = folder / "adapter_model.safetensors"
    try:
        stored = load_safetensors(file, queue=decoder.queue, budget=budget)
        for name in sorted(wanted.keys() | stored.keys()):
            old = tuple(wanted[name].shape) if name in wanted else "no such layer"
            new = tuple(stored[name].shape) if name in stored else "no such tensor"
            if old != new:
                raise CheckpointError(f"is of another model: {name}: expected {old}, got {new}", file)
    except CheckpointError:
        remove_lora(decoder)
        raise
    for name, parameter in wanted.items():
        parameter.data = stored[name].astype(parameter.dtype)
    return parameters


def fuse(decoder: Decoder, format: str | None = None) -> None:
    """Adds the adapters to the weights and takes them away; the result can be saved and exported.

    A packed matrix with an adapter becomes plain, or is packed again in ``format``, "Q8_0" for example.
    """
    with ag.no_grad():
        for module in {id(module): module for module, _ in parts_of(decoder).values()}.values():
            if not len(module.adapters):
                continue
            weights: dict[str, Weight] = {}
            for key, weight in module.tensors():
                name = key.split(".")[-2]
                if name in module.adapters and key.endswith(".weight"):
                    weights[name] = _fused(weight, module.adapters[name], format)
                elif key.endswith(".weight"):
                    weights[name] = weight
            module.replace(list(weights.values()))
            for name in list(module.adapters):
                del module.adapters[name]


def _fused(weight: Weight, change: LowRank, format: str | None) -> Weight:
    plain = weight.unpack() if isinstance(weight, PackedTensor) else weight
    delta = ag.mul(ag.matmul(change.lora_B.weight.detach(), change.lora_A.weight.detach()), change.scale)
    plain = ag.add(plain, ag.cast(delta, dtype=plain.dtype))
    if format is not None and isinstance(weight, PackedTensor):
        return packed.quantize(plain, format)
    return plain
