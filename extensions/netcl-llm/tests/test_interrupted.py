"""``netcl lora`` as a process that is killed at random steps: the same command ends with the same bits."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import netcl as nc
from netcl import llm
from netcl.core.device import DeviceHandle
from netcl.llm.config import Rope
from netcl.llm.gguf_model import export_gguf
from netcl.llm.tokenizer.byte_pairs import printable_bytes

CONFIG = llm.Config("llama", 256, 32, 2, 4, 2, 8, 64, Rope(8), context_length=128, tied=True)
KEYS = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "gpt-2",
    "tokenizer.ggml.tokens": printable_bytes(),
    "tokenizer.ggml.token_type": np.ones(256, np.int32),
    "tokenizer.ggml.merges": [],
}
PROGRAM = "import sys; from netcl.llm.commands.lora import main; sys.exit(main(sys.argv[1:]))"


def lora(folder: Path, out: str, device: str) -> subprocess.Popen[str]:
    options = {"epochs": 2, "batch-size": 2, "save-steps": 1, "dropout": 0.1, "accumulate": 2, "lr": 0.01}
    names = [str(folder / name) for name in ("tiny.gguf", "data.jsonl")]
    arguments = [*names, *(f"--{name}={value}" for name, value in options.items())]
    arguments += [f"--device={device}", f"--out={folder / out}"]
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


@pytest.mark.timeout(400)
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="Windows has no SIGKILL")
def test_a_killed_run_ends_with_the_same_bits(tmp_path: Path, handle: DeviceHandle) -> None:
    device = "cpu" if handle.backend != "cl" else "pocl" if "Portable" in handle.platform_name else "intel"
    nc.manual_seed(3)
    export_gguf(llm.Decoder(CONFIG), tmp_path / "tiny.gguf", KEYS)
    rows = [{"prompt": f"{at} and one is", "completion": f" {at + 1}"} for at in range(24)]
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, rows)))
    whole = lora(tmp_path, "whole", device)
    said = whole.communicate(timeout=200)[0]
    assert whole.returncode == 0, said
    kills, rng = 0, random.Random(time.time_ns())
    for _ in range(10):
        process = lora(tmp_path, "killed", device)
        # The first steps are slow to begin: count the checkpoints that appear, then wait into a step.
        written, seen, left = tmp_path / "killed" / "last.netcl", set(), rng.randint(2, 7)
        while process.poll() is None and len(seen) < left:
            seen |= {written.stat().st_mtime_ns} if written.exists() else set()
            time.sleep(0.001)
        if kills < 2:
            time.sleep(rng.random() * 0.02)
            process.kill()
        said = process.communicate(timeout=200)[0]
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, said
        kills += 1
    assert kills > 0
    assert process.returncode == 0, said
    files = [(tmp_path / run / "adapter_model.safetensors").read_bytes() for run in ("whole", "killed")]
    assert files[0] == files[1]
