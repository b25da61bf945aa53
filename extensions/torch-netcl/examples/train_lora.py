"""Fits a small random GPT-2 by LoRA of peft, and merges the weights.

python extensions/torch-netcl/examples/train_lora.py --device ocl
"""

from __future__ import annotations

import argparse

import torch
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="ocl")
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    torch.manual_seed(0)
    ids = {"bos_token_id": 0, "eos_token_id": 0}
    base = GPT2LMHeadModel(GPT2Config(vocab_size=20, n_positions=32, n_embd=64, n_layer=2, n_head=4, **ids))
    config = LoraConfig(r=8, lora_alpha=16, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True)
    model = get_peft_model(base, config).to(options.device)
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-2)
    rows = ((torch.arange(16) + torch.arange(8)[:, None]) % 20).to(options.device)
    losses = []
    for _ in range(options.steps):
        loss = model(input_ids=rows, labels=rows).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        before = model.eval()(input_ids=rows, labels=rows).loss.item()
        merged = model.merge_and_unload()
        after = merged(input_ids=rows, labels=rows).loss.item()
    share = sum(weight.numel() for weight in trained) / sum(weight.numel() for weight in merged.parameters())
    merging = f"{before:.4f} and merged {after:.4f}, {share:.0%} trained"
    print(f"{merged.device}: loss {losses[0]:.3f} to {losses[-1]:.3f}; {merging}")


if __name__ == "__main__":
    main()
