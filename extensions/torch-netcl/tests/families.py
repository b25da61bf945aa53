"""Tiny random models of transformers on device "ocl" against PyTorch on the CPU: loss, gradients, five steps of AdamW,
``generate``, ``save_pretrained`` and ``from_pretrained``, and 20 steps of ``Trainer``.

    NETCL_DEVICE=cpu python tests/families.py gpt2 llama

It prints one line for each family, and ends with 1 if a number differs by more than 1e-4.
"""

from __future__ import annotations

import contextlib
import copy
import io
import sys
import tempfile
import time
import warnings
from typing import Any

import torch
import transformers
from libraries import device_of_accelerate
from transformers import AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSeq2SeqLM

from torch_netcl import words

TOLERANCE = 1e-4
SMALL: dict[str, Any] = {
    "vocab_size": 99,
    "hidden_size": 32,
    "d_model": 32,
    "n_embd": 32,
    "dim": 32,
    "embedding_size": 32,
    "num_hidden_layers": 2,
    "n_layer": 2,
    "n_layers": 2,
    "num_layers": 2,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "num_decoder_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "n_head": 4,
    "n_heads": 4,
    "num_heads": 4,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "head_dim": 8,
    "d_kv": 8,
    "intermediate_size": 48,
    "hidden_dim": 48,
    "ffn_dim": 48,
    "d_ff": 48,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "n_inner": 48,
    "max_position_embeddings": 64,
    "n_positions": 64,
    "type_vocab_size": 2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 0,
    "num_local_experts": 4,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "state_size": 8,
    "word_embed_proj_dim": 32,
    "rotary_dim": 4,
    "projection_dim": 32,
    "max_source_positions": 64,
    "max_target_positions": 64,
    "num_mel_bins": 8,
    "image_size": 16,
    "patch_size": 4,
    "depths": [1, 1],
    "embed_dim": 16,
    "window_size": 2,
}
PROBABILITIES = words(
    "dropout attention_dropout activation_dropout hidden_dropout_prob attention_probs_dropout_prob resid_pdrop "
    "embd_pdrop attn_pdrop dropout_rate classifier_dropout hidden_dropout drop_path_rate layerdrop encoder_layerdrop "
    "decoder_layerdrop embd_dropout embed_dropout"
)
CAUSAL = words(
    "gpt2 gpt_neo gpt_neox gptj opt bloom llama mistral mixtral qwen2 qwen3 qwen2_moe gemma gemma2 phi phi3 falcon mpt "
    "stablelm starcoder2 olmo olmo2 cohere granite codegen gpt_bigcode xglm biogpt mamba smollm3 persimmon nemotron"
)
MASKED = words("bert roberta distilbert albert electra deberta-v2 mobilebert camembert xlm-roberta")
TO_SEQUENCE = words("t5 bart mbart pegasus marian m2m_100")
IMAGES = words("vit deit dinov2 swin beit")
FAMILIES = (*CAUSAL, *MASKED, *TO_SEQUENCE, *IMAGES)


def small_config(family: str) -> Any:
    """Returns the configuration of a tiny model of ``family`` without dropout."""
    plain = transformers.AutoConfig.for_model(family)
    names = set(plain.to_dict()) | set(getattr(plain, "attribute_map", {})) | {"decoder_start_token_id"}
    changes = {name: value for name, value in SMALL.items() if name in names}
    changes |= {name: 0.0 for name in PROBABILITIES if name in names}
    if family == "swin":
        changes = {"image_size": 16, "patch_size": 2, "embed_dim": 16, "window_size": 2, "depths": [1, 1]}
        changes |= {"num_heads": [2, 4], "drop_path_rate": 0.0}
    if family == "gpt_neo":
        changes |= {"attention_types": [[["global", "local"], 1]], "num_layers": 2}
    return transformers.AutoConfig.for_model(family, **changes)


def model_of(family: str) -> Any:
    """Returns a tiny random model of ``family``."""
    kind = (
        AutoModelForCausalLM
        if family in CAUSAL
        else AutoModelForMaskedLM
        if family in MASKED
        else AutoModelForSeq2SeqLM
        if family in TO_SEQUENCE
        else AutoModel
    )
    torch.manual_seed(0)
    return kind.from_config(small_config(family))


def inputs_of(family: str) -> dict[str, torch.Tensor]:
    """Returns a batch for ``family``."""
    generator = torch.Generator().manual_seed(1)
    if family in IMAGES:
        return {"pixel_values": torch.randn(2, 3, 16, 16, generator=generator)}
    ids = torch.randint(3, 99, (2, 9), generator=generator)
    return {"input_ids": ids, "labels": ids.clone(), "attention_mask": torch.ones_like(ids)}


def loss_of(model: Any, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """Returns the loss of a batch, or a number of the features of images."""
    output = model(**inputs)
    if "labels" in inputs:
        return output.loss  # type: ignore[no-any-return]
    features = output.last_hidden_state  # its squares are normalized, so their sum has no gradient but for rounding
    weights = torch.randn(features.shape, generator=torch.Generator().manual_seed(2))
    return (features * weights.to(features.device)).mean()  # type: ignore[no-any-return]


def differences(family: str, device: str = "ocl") -> dict[str, float]:
    """Returns the largest differences from the CPU: of the first loss, its gradients, five losses, and tokens."""
    here = model_of(family).train()
    there = copy.deepcopy(here).to(device)
    inputs = inputs_of(family)
    moved = {name: value.to(device) for name, value in inputs.items()}
    optimizers = [torch.optim.AdamW(model.parameters(), lr=1e-3) for model in (here, there)]
    result = {"loss": 0.0, "gradients": 0.0, "steps": 0.0}
    for step in range(5):
        losses = []
        for model, batch, optimizer in ((here, inputs, optimizers[0]), (there, moved, optimizers[1])):
            optimizer.zero_grad()
            loss = loss_of(model, batch)
            loss.backward()
            losses.append(loss.item())
        result["loss" if step == 0 else "steps"] = max(
            result["loss" if step == 0 else "steps"], abs(losses[0] - losses[1])
        )
        if step == 0:
            for one, other in zip(here.parameters(), there.parameters()):
                if one.grad is not None and one.numel():
                    scale = max(1.0, one.grad.abs().max().item())
                    far = (one.grad - other.grad.cpu()).abs().max().item() / scale
                    result["gradients"] = max(result["gradients"], far)
        for optimizer in optimizers:
            optimizer.step()
    if family in CAUSAL or family in TO_SEQUENCE:
        tokens = []
        for model, batch in ((model_of(family), inputs), (model_of(family).to(device), moved)):
            options = {"max_new_tokens": 6, "do_sample": False, "min_new_tokens": 6}
            ids, mask = batch["input_ids"], batch["attention_mask"]
            tokens.append(model.eval().generate(ids, attention_mask=mask, **options).cpu())
        result["tokens"] = float((tokens[0] != tokens[1]).sum())
    result["files"] = abs(reloaded(there, device, moved) - loss_of(there.eval(), moved).item())
    losses = [trained(model_of(family), inputs, place) for place in ("cpu", device)]
    result["Trainer"] = abs(losses[0] - losses[1])
    return result


def reloaded(model: Any, device: str, inputs: dict[str, torch.Tensor]) -> float:
    """Returns the loss of a model that was saved and read again to ``device``."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        again = type(model).from_pretrained(folder, device_map=device)
    assert again.device == model.device
    return float(loss_of(again.eval(), inputs).item())


def trained(model: Any, inputs: dict[str, torch.Tensor], device: str) -> float:
    """Returns the mean loss of 20 steps of Trainer."""

    class Trainer(transformers.Trainer):
        def compute_loss(self, model: Any, inputs: Any, **unused: Any) -> torch.Tensor:
            """Returns the loss of a batch."""
            return loss_of(model, inputs)

    rows = [{name: value[at % 2] for name, value in inputs.items()} for at in range(8)]
    options = {"report_to": [], "save_strategy": "no", "disable_tqdm": True, "remove_unused_columns": False}
    with tempfile.TemporaryDirectory() as folder, device_of_accelerate(device):
        arguments = transformers.TrainingArguments(
            folder, max_steps=20, per_device_train_batch_size=2, learning_rate=1e-4, seed=0, **options
        )
        run = Trainer(model, arguments, train_dataset=rows)
        loss = run.train().training_loss
        assert run.model.device.type == device
    return float(loss)


def main(names: list[str]) -> int:
    """Runs the command."""
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    failed = 0
    for family in names or FAMILIES:
        began = time.time()
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                far = differences(family)
        except Exception as error:  # noqa: BLE001 - it is printed
            failed += 1
            print(f"{family}: {type(error).__name__}: {' '.join(str(error).split())[:200]}", flush=True)
            continue
        right = max(far.values()) <= TOLERANCE
        failed += not right
        text = ", ".join(f"{name} {value:.1e}" for name, value in far.items())
        print(f"{family}: {'same' if right else 'DIFFERENT'}: {text}; {time.time() - began:.1f} s", flush=True)
    print(f"{len(names or FAMILIES) - failed} of {len(names or FAMILIES)} families")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
