"""The commands over a tiny random model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl.llm import Model, Sampling
from netcl.llm.commands import chat as chat_command
from netcl.llm.commands.chat import Chat
from netcl.llm.commands.perplexity import perplexity


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
