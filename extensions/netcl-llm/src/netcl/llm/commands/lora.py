"""Fine-tunes a language model by LoRA; packed weights stay packed, and constant."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from netcl import ops, optim
from netcl.data import DataLoader
from netcl.llm import lora
from netcl.llm.commands.examples import read_examples
from netcl.llm.commands.options import add_model, loaded, parser, positive, run
from netcl.trainer import ModelCheckpoint, Trainer

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs ``netcl lora``."""
    train = parser("lora", f"{__doc__} The same command continues a run that was interrupted.")
    add_model(train, adapter=False)
    train.add_argument("data", help="a file of JSON lines: messages, prompt and completion, or text")
    train.add_argument("--validation", help="a file of the same kind, measured after each epoch")
    train.add_argument("--out", default="adapter", help="the folder of adapter and checkpoint (adapter)")
    train.add_argument("--rank", type=positive, default=8, help="rank of the changes (8)")
    train.add_argument("--alpha", type=float, default=16.0, help="the changes are scaled by alpha / rank (16)")
    train.add_argument("--dropout", type=float, default=0.0, help="dropout before the changes (0)")
    train.add_argument("--targets", default="q_proj,v_proj", help=f"of {','.join(lora.TARGETS)} (q_proj,v_proj)")
    train.add_argument("--lr", type=float, default=2e-4, help="rate of AdamW (0.0002)")
    train.add_argument("--epochs", type=positive, default=1, help="passes over the data (1)")
    train.add_argument("--batch-size", type=positive, default=4, help="examples of a step (4)")
    train.add_argument("--length", type=positive, default=512, help="tokens of an example at most (512)")
    train.add_argument("--accumulate", type=positive, default=1, help="batches whose gradients are added up (1)")
    train.add_argument("--checkpointing", action="store_true", help="compute blocks again instead of keeping them")
    train.add_argument("--seed", type=int, default=0, help="of the changes and the order of examples (0)")
    train.add_argument("--save-steps", type=positive, help="write a checkpoint after so many steps too")
    train.add_argument("--gguf", help="also write the model with its changes as this .gguf file")
    train.add_argument("--format", help="pack changed matrices again, such as Q8_0, instead of float32")
    return run("lora", _train, train.parse_args(arguments))


def _train(parsed: argparse.Namespace) -> int:
    model = loaded(parsed)
    longest = min(parsed.length, model.config.context_length)

    def loader(path: str, shuffle: bool) -> Any:
        inputs, labels = read_examples(path, model.tokenizer, longest)
        print(f"{path}: {len(inputs)} examples of {inputs.shape[1]} tokens, {(labels >= 0).sum()} of them learned")
        return DataLoader((inputs, labels), batch_size=parsed.batch_size, shuffle=shuffle, seed=parsed.seed)

    examples = loader(parsed.data, True)
    validation = loader(parsed.validation, False) if parsed.validation else None
    ops.manual_seed(parsed.seed)
    parameters = lora.add_lora(
        model.decoder.train(), parsed.rank, parsed.alpha, parsed.targets.split(","), parsed.dropout
    )
    model.decoder.checkpointing = parsed.checkpointing
    print(f"{sum(parameter.size for parameter in parameters)} parameters to train")
    folder = Path(parsed.out)
    trainer = Trainer(
        model.decoder,
        optim.AdamW(parameters, lr=parsed.lr),
        loss_fn=lora.causal_loss,
        metrics=[],
        accumulation_steps=parsed.accumulate,
        callbacks=[ModelCheckpoint(folder, save_top_k=0, every_n_steps=parsed.save_steps)],
        seed=parsed.seed,
    )
    trainer.fit(examples, validation, epochs=parsed.epochs, resume="auto")
    lora.save_adapter(model.decoder, folder, Path(parsed.model).name)
    print(f"{folder}: the adapter")
    if parsed.gguf:
        lora.fuse(model.decoder, parsed.format)
        model.save_gguf(parsed.gguf)
        print(f"{parsed.gguf}: the model with its changes")
    return 0
