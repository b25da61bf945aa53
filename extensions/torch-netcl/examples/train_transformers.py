"""Trains a small random GPT-2 of transformers by its Trainer, and lets it count.

python extensions/torch-netcl/examples/train_transformers.py --device ocl
"""

from __future__ import annotations

import argparse
import os
import tempfile

import torch

SYMBOLS = 20


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="ocl")
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    os.environ["ACCELERATE_TORCH_DEVICE"] = options.device  # accelerate finds its device in the environment
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    torch.manual_seed(0)
    ids = {"bos_token_id": 0, "eos_token_id": 0}
    model = GPT2LMHeadModel(GPT2Config(vocab_size=SYMBOLS, n_positions=32, n_embd=64, n_layer=2, n_head=4, **ids))
    rows = [(torch.arange(16) + first) % SYMBOLS for first in range(SYMBOLS)]
    with tempfile.TemporaryDirectory() as folder:
        quiet = {"report_to": [], "save_strategy": "no", "disable_tqdm": True}
        arguments = TrainingArguments(
            folder,
            max_steps=options.steps,
            per_device_train_batch_size=8,
            learning_rate=3e-3,
            logging_steps=10,
            **quiet,
        )
        data = [{"input_ids": row, "labels": row} for row in rows]
        trainer = Trainer(model, arguments, train_dataset=data)
        trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    start = torch.tensor([[3, 4, 5]], device=model.device)
    written = model.eval().generate(start, attention_mask=torch.ones_like(start), max_new_tokens=6, do_sample=False)
    print(f"{model.device}: loss {losses[0]:.3f} to {losses[-1]:.3f}; counts {written[0].tolist()}")


if __name__ == "__main__":
    main()
