"""Examples of fine-tuning: what is learned of each format, and lines that are wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netcl.llm import Model
from netcl.llm.commands.examples import IGNORED, read_examples


def written(folder: Path, *rows: Any) -> Path:
    path = folder / "data.jsonl"
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), encoding="utf-8")
    return path


def learned(model: Model, labels: Any) -> str:
    return model.tokenizer.decode([token for token in labels if token != IGNORED], special=True)


CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "the fox"},
    {"role": "assistant", "content": " jumps"},
    {"role": "user", "content": "the dog"},
    {"role": "assistant", "content": " sleeps"},
]


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"prompt": "the quick", "completion": " brown fox"}, " brown fox<|end|>"),
        ({"text": "the quick brown"}, None),
    ],
)
def test_a_completion_is_learned_and_its_prompt_is_not(tiny: Model, tmp_path: Path, row: Any, text: str | None) -> None:
    inputs, labels = read_examples(written(tmp_path, row), tiny.tokenizer, 64)
    whole = "".join(row.values()) + "<|end|>"
    assert inputs.shape == labels.shape == (1, 32)
    ids = tiny.tokenizer.encode(whole)
    count = len(ids) - 1
    if text is None:
        assert labels[0, :count].tolist() == ids[1:]
    else:
        assert learned(tiny, labels[0]) == text
    assert (labels[0, count:] == IGNORED).all()
    known = labels[0, : count - 1] != IGNORED
    np.testing.assert_array_equal(labels[0, : count - 1][known], inputs[0, 1:count][known])


def test_the_answers_of_a_chat_are_learned(tiny: Model, tmp_path: Path) -> None:
    source = "{% for m in messages %}<{{ m.role }}>{{ m.content }}|{% endfor %}"
    source += "{% if add_generation_prompt %}<assistant>{% endif %}"
    tiny.tokenizer.chat_template, kept = source, tiny.tokenizer.chat_template
    try:
        inputs, labels = read_examples(written(tmp_path, {"messages": CHAT}), tiny.tokenizer, 200)
    finally:
        tiny.tokenizer.chat_template = kept
    assert learned(tiny, labels[0]) == " jumps| sleeps|"
    whole = "<system>Be brief.|<user>the fox|<assistant> jumps|<user>the dog|<assistant> sleeps|"
    text = tiny.tokenizer.decode(inputs[0][inputs[0] > 0])
    assert whole.startswith(text)
    assert len(whole) - len(text) <= 1


def test_a_long_example_is_cut(tiny: Model, tmp_path: Path) -> None:
    rows = [{"text": "the quick " * 100}, {"text": "fox"}]
    inputs, labels = read_examples(written(tmp_path, *rows), tiny.tokenizer, 40)
    assert inputs.shape == (2, 40)
    assert (labels[0] != IGNORED).all()
    assert (labels[1] != IGNORED).sum() == len(tiny.tokenizer.encode("fox"))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{", "line 2: "),
        ("[1]", "line 2: expected an object, got list"),
        ("[" * 100_000, "line 2: "),
        ({"prompt": "x"}, "line 2: expected messages, prompt and completion, or text; got 'prompt'"),
        ({"text": 3}, "line 2: expected messages, prompt and completion, or text; got 'text'"),
        ({"messages": [3]}, "line 2: expected messages with role and content, got 3"),
        ({"messages": [{"role": "user", "content": "x"}]}, "line 2: expected tokens to learn within 64, got none"),
        ({"prompt": "the fox " * 99, "completion": "x"}, "line 2: expected tokens to learn within 64, got none"),
    ],
)
def test_wrong_lines_are_named(tiny: Model, tmp_path: Path, row: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_examples(written(tmp_path, {"text": "fine"}, row), tiny.tokenizer, 64)


def test_a_file_without_lines_is_named(tiny: Model, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected lines of JSON with messages, prompt and completion, or text"):
        read_examples(written(tmp_path, "", " "), tiny.tokenizer, 64)
