"""Examples of fine-tuning from a file of JSON lines: chats, prompts with completions, texts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["IGNORED", "read_examples"]

IGNORED = -100  # the label of a token that is not learned
_STEP = 32  # lengths are multiples, so that few shapes are captured
_LONGEST_LINE = 16 << 20


def read_examples(path: str | Path, tokenizer: Any, longest: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Returns ids and labels (examples, tokens), int32; a label is the token that follows, IGNORED for what is given.

    A line is ``{"messages": [...]}``, of which the assistant's are learned, ``{"prompt": ..., "completion": ...}`` or
    ``{"text": ...}``. A longer example is cut after ``longest`` tokens.
    """
    rows = []
    with Path(path).open(encoding="utf-8") as file:
        for number, line in enumerate(iter(lambda: file.readline(_LONGEST_LINE), ""), 1):
            if not line.strip():
                continue
            try:
                pieces = list(_pieces(json.loads(line), tokenizer))
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                raise ValueError(f"{path}, line {number}: {error}") from None
            ids = [token for tokens, _ in pieces for token in tokens]
            learned = [is_learned for tokens, is_learned in pieces for _ in tokens]
            ids, learned = ids[: longest + 1], learned[: longest + 1]
            if not any(learned[1:]):
                raise ValueError(f"{path}, line {number}: expected tokens to learn within {longest}, got none")
            rows.append((ids, [token if use else IGNORED for token, use in zip(ids, learned, strict=True)]))
    if not rows:
        raise ValueError(f"{path}: expected lines of JSON with messages, prompt and completion, or text; got none")
    width = -(-(max(len(ids) for ids, _ in rows) - 1) // _STEP) * _STEP
    inputs = np.zeros((len(rows), min(width, longest)), np.int32)
    labels = np.full(inputs.shape, IGNORED, np.int32)
    for at, (ids, targets) in enumerate(rows):
        inputs[at, : len(ids) - 1], labels[at, : len(ids) - 1] = ids[:-1], targets[1:]
    return inputs, labels


def _pieces(row: Any, tokenizer: Any) -> Iterator[tuple[list[int], bool]]:
    """Yields (ids, True if they are learned) for the parts of an example."""
    if not isinstance(row, Mapping):
        raise ValueError(f"expected an object, got {type(row).__name__}")
    end = [] if tokenizer.eos_id is None else [tokenizer.eos_id]
    if isinstance(row.get("messages"), list):
        yield from _chat(row["messages"], row.get("tools"), tokenizer)
    elif isinstance(row.get("prompt"), str) and isinstance(row.get("completion"), str):
        yield tokenizer.encode(row["prompt"]), False
        yield [*tokenizer.encode(row["completion"], special=False), *end], True
    elif isinstance(row.get("text"), str):
        yield [*tokenizer.encode(row["text"]), *end], True
    else:
        raise ValueError(f"expected messages, prompt and completion, or text; got {', '.join(map(repr, row)):.80}")


def _chat(messages: list[Any], tools: Any, tokenizer: Any) -> Iterator[tuple[list[int], bool]]:
    done = ""
    for at, message in enumerate(messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise ValueError(f"expected messages with role and content, got {message!r:.80}")
        if message["role"] != "assistant":
            continue
        # The template's text up to the answer, and with it: the answer, and what ends it, are the difference.
        for upto, prompts in ((at, True), (at + 1, False)):
            text = tokenizer.apply_chat_template(messages[:upto], add_generation_prompt=prompts, tools=tools)
            if not text.startswith(done):
                raise ValueError(
                    "expected a chat template that leaves earlier messages as they are: write prompt lines"
                )
            yield tokenizer.encode(text[len(done) :], around=not done), not prompts
            done = text
