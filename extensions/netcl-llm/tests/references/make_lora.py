"""Writes lora.npz: losses of 50 steps of peft's LoRA on the stored tiny model "llama", with first and last adapters.

Needs torch, transformers and peft: python make_lora.py, after make_families.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
import transformers as hf
from peft import LoraConfig, get_peft_model
from peft.utils import get_peft_model_state_dict

FOLDER = Path(__file__).parent
STEPS, RATE = 50, 0.005


def main() -> None:
    """Writes the file next to this script."""
    with np.load(FOLDER / "families.npz") as stored:
        config = json.loads(stored["llama:config"].tobytes())
        weights = {key.split("/")[1]: stored[key] for key in stored.files if key.startswith("llama/")}
    model = hf.AutoModelForCausalLM.from_config(hf.LlamaConfig(**config))
    state = {name: torch.tensor(value.astype(np.float32) / 64) for name, value in weights.items()}
    model.load_state_dict(state, strict=False)
    model.tie_weights()
    torch.manual_seed(0)
    tuned = get_peft_model(model, LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"]))
    out = {f"first/{name}": value.numpy().copy() for name, value in get_peft_model_state_dict(tuned).items()}
    ids = torch.randint(3, 64, (4, 13))
    optimizer = torch.optim.AdamW([p for p in tuned.parameters() if p.requires_grad], lr=RATE, weight_decay=0.01)
    losses = []
    for _ in range(STEPS):
        logits = tuned(ids[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, 64), ids[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    out |= {f"last/{name}": value.numpy() for name, value in get_peft_model_state_dict(tuned).items()}
    np.savez_compressed(FOLDER / "lora.npz", losses=np.array(losses), ids=ids.numpy(), **out)


if __name__ == "__main__":
    main()
