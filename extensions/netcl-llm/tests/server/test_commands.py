"""The commands over a tiny random model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl.io import save_safetensors
from netcl.llm import Gguf, Model, Sampling, load
from netcl.llm.cache import Cache
from netcl.llm.commands import chat as chat_command
from netcl.llm.commands.chat import Chat
from netcl.llm.commands.perplexity import perplexity
from netcl.llm.gguf_model import export_gguf
from netcl.llm.lora import load_adapter


def greedy(model: Model, prompt: str, most: int = 8) -> str:
    return "".join(piece.text for piece in model.generate(prompt, Sampling(temperature=0, max_tokens=most)))


def test_the_perplexity_is_that_of_float64(tiny: Model) -> None:
    text = "the quick brown fox jumps over the lazy dog, naïve"
    ids = tiny.tokenizer.encode(text)
    losses = []
    for start in range(0, len(ids), 8):
        piece = ids[start : start + 8]
        if len(piece) > 1:
            rows = nc.tensor([piece], dtype="int32")
            logits = tiny.decoder(rows).detach().numpy()[0].astype(np.float64)
            likely = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
            losses += [-likely[at, token] for at, token in enumerate(piece[1:])]
    value, count = perplexity(tiny, text, 8)
    assert count == len(losses)
    assert value == pytest.approx(np.exp(np.mean(losses)), rel=1e-4)


def test_ctrl_c_ends_an_answer_and_not_the_chat(tiny: Model) -> None:
    chat = Chat(tiny, Sampling(temperature=0, max_tokens=20))
    written: list[str] = []

    def write(text: str) -> None:
        written.append(text)
        if len(written) == 3:
            raise KeyboardInterrupt

    chat.ask("the fox", write)
    assert written[-1] == " [ended]"
    assert chat.messages[-1] == {"role": "assistant", "content": "".join(written[:3])}
    written[:] = ["x"] * 5
    chat.ask("again", write)
    assert len(chat.messages) == 4
    assert len(written) > 6


def test_ctrl_c_within_a_step_leaves_no_trace_in_the_next_answer(tiny: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    chat = Chat(tiny, Sampling(temperature=0, max_tokens=6))
    advance, calls = Cache.advance, [0]

    def interrupted(cache: Cache, counts: Any) -> None:
        calls[0] += 1
        if calls[0] == 3:
            raise KeyboardInterrupt
        advance(cache, counts)

    monkeypatch.setattr(Cache, "advance", interrupted)
    chat.ask("the fox", lambda _: None)
    assert calls[0] == 3
    written: list[str] = []
    chat.ask("again", written.append)
    prompt = tiny.tokenizer.apply_chat_template(chat.messages[:-1])
    assert "".join(written) == greedy(tiny, prompt, 6)


def test_a_message_beyond_the_context_leaves_the_chat_as_it_was(tiny: Model) -> None:
    chat = Chat(tiny, Sampling(temperature=0, max_tokens=4))
    with pytest.raises(ValueError, match="expected a prompt of at most 2048 tokens"):
        chat.ask("word " * 1500, print)
    assert chat.messages == []


def test_the_chat_takes_its_commands(
    tiny: Model, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines: Iterator[Any] = iter(
        ["hi", KeyboardInterrupt, "/system be brief", "/clear", "/nonesuch", "hi", "/exit", "never"]
    )

    def typed(_: str) -> str:
        line = next(lines)
        if line is KeyboardInterrupt:
            raise KeyboardInterrupt
        return str(line)

    monkeypatch.setattr("builtins.input", typed)
    monkeypatch.setattr(chat_command, "loaded", lambda parsed: tiny)
    assert chat_command.main(["tiny", "--max-tokens", "3", "--temperature", "0"]) == 0
    said = capsys.readouterr().out.splitlines()
    prompts = ["user: hi\nassistant:", "system: be brief\nuser: hi\nassistant:"]
    assert said[0] == greedy(tiny, prompts[0], 3).splitlines()[0]
    assert "/exit or Ctrl-D ends the chat" in said
    assert next(lines) == "never"


def command(name: str, *arguments: Any) -> int:
    """Returns the exit code of a command, by its entry point."""
    (entry,) = entry_points(group="netcl.commands", name=name)
    return int(entry.load()([str(argument) for argument in arguments]))


@pytest.fixture
def file(tiny: Model, tmp_path: Path) -> Path:
    """The tiny model as a GGUF file."""
    export_gguf(tiny.decoder, tmp_path / "tiny.gguf", tiny.metadata)
    return tmp_path / "tiny.gguf"


def test_generate_writes_the_text(file: Path, tiny: Model, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("generate", file, "the quick", "--temperature", 0, "--max-tokens", 6, "--rate") == 0
    said = capsys.readouterr()
    assert said.out == greedy(tiny, "the quick", 6) + "\n"
    assert "6 tokens" in said.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("generate", "nonesuch.gguf", "x"), "nonesuch.gguf"),
        (("chat", "nonesuch.gguf"), "nonesuch.gguf"),
        (("serve-llm", "nonesuch.gguf"), "nonesuch.gguf"),
        (("quantize", "nonesuch.gguf", "out.gguf", "Q8_0"), "nonesuch.gguf"),
        (("perplexity", "nonesuch.gguf", "x"), "x"),
        (("lora", "nonesuch.gguf", "data.jsonl"), "nonesuch.gguf"),
        (("generate", "nonesuch.gguf", "x", "--temperature", -1), "expected temperature from 0 to 100"),
    ],
)
def test_what_is_wrong_is_one_line_and_a_code(
    arguments: tuple[Any, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(*arguments) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"netcl {arguments[0]}: ")
    assert said.count("\n") == 1
    assert message in said


@pytest.mark.parametrize("form", ["Q8_0", "Q4_0"])
def test_quantize_packs_the_matrices(file: Path, tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("quantize", file, tmp_path / "packed.gguf", form) == 0
    assert "16 of 21 tensors" in capsys.readouterr().out
    kinds = {name: entry.type for name, entry in Gguf(tmp_path / "packed.gguf").tensors.items()}
    assert kinds["blk.0.attn_q.weight"] == form
    assert kinds["token_embd.weight"] == "Q8_0"
    assert kinds["blk.0.attn_norm.weight"] == "F32"
    ids = nc.tensor([[5, 6, 7]], dtype="int32")
    plain, packed = (load(path).decoder(ids).detach().numpy() for path in (file, tmp_path / "packed.gguf"))
    error = np.abs(packed - plain).max() / np.abs(plain).max()
    assert 0 < error < (0.03 if form == "Q8_0" else 0.3)


def test_lora_learns_and_writes_adapter_and_model(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, adapter, fused = tmp_path / "data.jsonl", tmp_path / "adapter", tmp_path / "fused.gguf"
    data.write_text(json.dumps({"prompt": "the quick", "completion": " brown fox"}) + "\n", encoding="utf-8")
    options = (
        "--epochs",
        8,
        "--lr",
        0.05,
        "--targets",
        "q_proj,v_proj,up_proj",
        "--validation",
        data,
        "--checkpointing",
    )
    assert command("lora", file, data, *options, "--out", adapter, "--gguf", fused) == 0
    assert "epoch 8/8" in capsys.readouterr().out
    plain, changed = load(file), load(fused)
    text = "the quick brown fox"
    assert perplexity(changed, text)[0] < 0.98 * perplexity(plain, text)[0]
    load_adapter(plain.decoder, adapter)
    assert perplexity(plain, text)[0] == pytest.approx(perplexity(changed, text)[0], rel=1e-4)
    assert command("generate", file, text, "--temperature", 0, "--max-tokens", 8, "--adapter", adapter) == 0
    assert capsys.readouterr().out == greedy(changed, text) + "\n"
    assert command("lora", file, data, *options, "--out", adapter) == 0
    assert "epoch 8/8" not in capsys.readouterr().out  # the run had ended


def folder_of(model: Model, folder: Path) -> Path:
    """Writes a model as Hugging Face's folders are, with the tensors in two files."""
    config = model.config
    values = {
        "model_type": "llama",
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "intermediate_size": config.intermediate_size,
        "max_position_embeddings": config.context_length,
    }
    metadata = model.metadata
    tokens = metadata["tokenizer.ggml.tokens"]
    steps = [{"type": "Digits", "individual_digits": True}, {"type": "ByteLevel", "add_prefix_space": False}]
    tokenizer = {
        "model": {
            "type": "BPE",
            "vocab": {token: at for at, token in enumerate(tokens)},
            "merges": metadata["tokenizer.ggml.merges"],
        },
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
        "added_tokens": [{"id": 0, "content": tokens[0], "special": True}],
    }
    tensors = {f"model.{name}".replace("model.lm_", "lm_"): value for name, value in model.decoder.tensors()}
    names = sorted(tensors)
    files = [f"model-0000{part}-of-00002.safetensors" for part in (1, 2)]
    places = {name: files[at % 2] for at, name in enumerate(names)}
    folder.mkdir()
    for file in files:
        save_safetensors({name: tensors[name] for name in names if places[name] == file}, folder / file)
    template = metadata["tokenizer.chat_template"]
    written = {
        "config.json": values,
        "tokenizer.json": tokenizer,
        "tokenizer_config.json": {"eos_token": tokens[0], "chat_template": template},
        "model.safetensors.index.json": {"weight_map": places},
    }
    for name, content in written.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return folder


def test_a_folder_in_parts_becomes_a_gguf_file(tiny: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = folder_of(tiny, tmp_path / "folder")
    assert greedy(load(folder), "the quick") == greedy(tiny, "the quick")
    assert command("quantize", folder, tmp_path / "packed.gguf", "Q8_0") == 0
    assert "16 of 21 tensors" in capsys.readouterr().out
    packed = load(tmp_path / "packed.gguf")
    for text in ("the quick fox, 123 <|end|>", "naïve ½ 世界\n\n"):
        assert packed.tokenizer.encode(text) == tiny.tokenizer.encode(text)
    assert packed.tokenizer.apply_chat_template([{"role": "user", "content": "x"}]) == "user: x\nassistant:"
    assert packed.tokenizer.end_ids == tiny.tokenizer.end_ids
    kinds = {name: entry.type for name, entry in Gguf(tmp_path / "packed.gguf").tensors.items()}
    assert kinds["blk.1.ffn_up.weight"] == "Q8_0"
    data = tmp_path / "data.jsonl"
    data.write_text(json.dumps({"text": "the quick"}), encoding="utf-8")
    assert command("lora", folder, data, "--out", tmp_path / "out", "--gguf", tmp_path / "mine.gguf") == 0
    assert len(greedy(load(tmp_path / "mine.gguf"), "the")) > 0
    index = folder / "model.safetensors.index.json"
    for value in ("../x.safetensors", "/etc/passwd", ""):
        index.write_text(json.dumps({"weight_map": {"a": value}}))
        assert command("quantize", folder, tmp_path / "x.gguf", "Q8_0") == 1
        assert "expected names of files in the same folder" in capsys.readouterr().err
