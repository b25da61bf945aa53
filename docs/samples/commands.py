"""Samples of the commands: ``main`` takes the arguments of ``netcl`` and returns the exit code."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

import netcl as nc
from netcl import nn
from netcl.io import save_model
from netcl.llm import Config, Decoder
from netcl.llm.config import Rope
from netcl.llm.gguf_model import export_gguf
from netcl.llm.tokenizer.byte_pairs import printable_bytes
from netcl.trainer.cli import main as command


def main(arguments):
    """Runs a command in a folder of its own, without its output."""
    with contextlib.redirect_stdout(io.StringIO()):
        return command(arguments)


os.chdir(tempfile.mkdtemp())
Path("small.toml").write_text("""
[model]
layers = ["Flatten", ["Linear", 64, 10]]

[data]
name = "example_digits"
n = 200
validation = 0.2

[trainer]
epochs = 1
output = "run"
""")
tokens = {
    "model": "gpt2",
    "pre": "gpt-2",
    "tokens": ["<|end|>", *printable_bytes()],
    "merges": ["t h"],
    "token_type": [3] + [1] * 256,
    "eos_token_id": 0,
}
keys = {f"tokenizer.ggml.{name}": value for name, value in tokens.items()}
keys["tokenizer.chat_template"] = "{% for m in messages %}{{ m.content }}{% endfor %}"
export_gguf(Decoder(Config("llama", 257, 32, 1, 2, 2, 16, 64, Rope(16), context_length=64)), "tiny.gguf", keys)
Path("data.jsonl").write_text('{"prompt": "Hi", "completion": " there"}\n')
Path("text.txt").write_text("Once upon a time.")
save_model(nn.Sequential(nn.Linear(4, 2)), "model.netcl")
np.save("x.npy", np.ones((3, 4), np.float32))

# %% netcl bench
main(["bench", "--devices", "cpu", "--runs", "1", "--json"])

# %% netcl chat
sys.stdin = io.StringIO("Hi\n/exit\n")
main(["chat", "tiny.gguf", "--max-tokens", "3"])
sys.stdin = sys.__stdin__

# %% netcl completion
main(["completion", "bash"])

# %% netcl convert
main(["convert", "model.netcl", "model.safetensors"])

# %% netcl devices
main(["devices", "--json"])

# %% netcl doctor
# netcl doctor; here its parser alone, since the check takes a minute
from netcl.trainer.cli import parser

vars(parser().parse_args(["doctor", "--full"]))["full"]

# %% netcl evaluate
main(["train", "small.toml"])
main(["evaluate", "small.toml", "--json"])

# %% netcl export
main(["export", "model.netcl", "--to", "torch", "--output", "model.pt"])

# %% netcl generate
main(["generate", "tiny.gguf", "Once", "--max-tokens", "4", "--temperature", "0"])

# %% netcl init
main(["init", "cnn", "first"])
sorted(path.name for path in Path("first").iterdir())

# %% netcl lora
main(["lora", "tiny.gguf", "data.jsonl", "--out", "adapter", "--gguf", "mine.gguf"])
sorted(path.name for path in Path("adapter").iterdir())

# %% netcl perplexity
main(["perplexity", "tiny.gguf", "text.txt"])

# %% netcl predict
main(["predict", "model.netcl", "x.npy"])

# %% netcl profile
main(["profile", "small.toml", "--steps", "2", "--folder", "profile"])

# %% netcl quantize
main(["quantize", "tiny.gguf", "packed.gguf", "Q8_0"])

# %% netcl run
Path("script.py").write_text("import torch\nprint(torch.ones(2).sum())\n")
main(["run", "script.py"])

# %% netcl serve-llm
main(["serve-llm", "none.gguf", "--port", "8000"])  # 1: there is no such file

# %% netcl train
main(["train", "small.toml"])
Path("run/model.netcl").is_file()

# %% netcl tune
main(["tune", "matmul", "32", "32", "32"])
