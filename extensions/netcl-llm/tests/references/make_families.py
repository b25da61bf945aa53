"""Writes families.npz: a tiny random model of each family and the logits that transformers computes with it.

Needs torch and transformers: python make_families.py. Weights are whole numbers of 1/64, stored as int8.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers as hf

SIZES: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
YARN = {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 16}
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 500.0,
    "short_factor": [1.0, 1.25, 1.5, 2.0],
    "long_factor": [1.0, 2.0, 4.0, 8.0],
    "original_max_position_embeddings": 16,
}
LINEAR = {"rope_type": "linear", "rope_theta": 100.0, "factor": 2.0}
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "llama": (hf.LlamaConfig, {"tie_word_embeddings": True}),
    "llama_scaled": (hf.LlamaConfig, {"rope_parameters": LLAMA3, "attention_bias": True, "mlp_bias": True}),
    "llama_linear": (hf.LlamaConfig, {"rope_parameters": LINEAR}),
    "mistral": (hf.MistralConfig, {"sliding_window": 5, "head_dim": 12}),
    "qwen2": (hf.Qwen2Config, {"rope_parameters": YARN}),
    "qwen3": (hf.Qwen3Config, {"head_dim": 16}),
    "gemma3": (
        hf.Gemma3TextConfig,
        {
            "num_hidden_layers": 3,
            "head_dim": 8,
            "sliding_window": 4,
            "query_pre_attn_scalar": 20,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
            "final_logit_softcapping": 30.0,
        },
    ),
    "phi3_long": (
        hf.Phi3Config,
        {"rope_parameters": LONGROPE, "original_max_position_embeddings": 16},
    ),
    "phi3": (
        hf.Phi3Config,
        {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5, "rope_theta": 1e3}},
    ),
}


def main() -> None:
    """Writes the file next to this script."""
    stored: dict[str, np.ndarray] = {}
    for name, (kind, changes) in CASES.items():
        torch.manual_seed(len(name))
        config = kind(**{**SIZES, **changes})
        config._attn_implementation = "eager"
        model = hf.AutoModelForCausalLM.from_config(config).eval()
        state = model.state_dict()
        for key, value in state.items():
            if "lm_head" in key and config.tie_word_embeddings:
                continue
            scale = 40 if value.ndim == 1 and "norm" in key else 20
            whole = torch.randint(-scale, scale + 1, value.shape)
            whole = whole + 64 if value.ndim == 1 and "norm" in key and "gemma" not in name else whole
            value.copy_(whole / 64)
            stored[f"{name}/{key}"] = whole.numpy().astype(np.int8)
        ids = torch.randint(3, 64, (2, 12))
        with torch.no_grad():
            logits = model.double()(ids).logits
        stored[f"{name}:ids"] = ids.numpy()
        stored[f"{name}:logits"] = logits.numpy().astype(np.float32)
        stored[f"{name}:config"] = np.frombuffer(json.dumps(config.to_dict(), default=str).encode(), np.uint8)
    np.savez_compressed(Path(__file__).with_name("families.npz"), **stored)


if __name__ == "__main__":
    main()
