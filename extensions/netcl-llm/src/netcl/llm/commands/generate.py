"""Continues a text, or answers a question with --chat."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from netcl.llm.commands.options import add_model, add_sampling, loaded, parser, run, sampling_of

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs ``netcl generate``."""
    generate = parser("generate", __doc__)
    add_model(generate)
    generate.add_argument("prompt", help="the text; - reads it from the standard input")
    generate.add_argument("--chat", action="store_true", help="the text is a user's message for the chat template")
    generate.add_argument("--rate", action="store_true", help="print tokens and tokens per second at the end")
    add_sampling(generate)
    return run("generate", _generate, generate.parse_args(arguments))


def _generate(parsed: argparse.Namespace) -> int:
    rule = sampling_of(parsed)
    model = loaded(parsed)
    prompt = sys.stdin.read() if parsed.prompt == "-" else parsed.prompt
    if parsed.chat:
        prompt = model.tokenizer.apply_chat_template([{"role": "user", "content": prompt}])
    count, first, start = 0, 0.0, time.perf_counter()
    for piece in model.generate(prompt, rule):
        print(piece.text, end="", flush=True)
        count += 1
        first = first or time.perf_counter()
    print()
    if parsed.rate and count > 1:
        now = time.perf_counter()
        rate = (count - 1) / (now - first)
        print(f"first token {first - start:.2f} s, {count} tokens, {rate:.1f} tokens/s", file=sys.stderr)
    return 0
