"""Talks with a language model in the terminal."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from netcl.llm.commands.options import add_model, add_sampling, loaded, parser, run, sampling_of

__all__ = ["Chat", "main"]

_HELP = "/exit or Ctrl-D ends, /clear forgets the messages, /system TEXT sets the system prompt, Ctrl-C ends an answer"


class Chat:
    """A conversation: the messages, and a session that keeps what the model has read."""

    system: str

    def __init__(self, model: Any, rule: Any, system: str = "") -> None:
        self._model, self._rule, self.system = model, rule, system
        self._session = model.session()
        self.messages: list[dict[str, str]] = []

    def ask(self, text: str, write: Any) -> None:
        """Writes the answer to a text piece by piece; Ctrl-C ends the answer, which stays as far as it came."""
        head = [{"role": "system", "content": self.system}] if self.system else []
        self.messages.append({"role": "user", "content": text})
        parts: list[str] = []
        try:
            prompt = self._model.tokenizer.apply_chat_template([*head, *self.messages])
            pieces = self._session.generate(prompt, self._rule)
            try:
                for piece in pieces:
                    parts.append(piece.text)
                    write(piece.text)
            except KeyboardInterrupt:
                # It may have come between the tokens of the session and its cache.
                self._session = self._model.session()
                write(" [ended]")
            finally:
                pieces.close()
        except ValueError:
            self.messages.pop()  # a prompt longer than the context, or roles that the template refuses
            raise
        self.messages.append({"role": "assistant", "content": "".join(parts)})


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs ``netcl chat``."""
    chat = parser("chat", f"{__doc__} {_HELP}.")
    add_model(chat)
    add_sampling(chat)
    chat.add_argument("--system", default="", help="the system prompt")
    return run("chat", _talk, chat.parse_args(arguments))


def _talk(parsed: argparse.Namespace) -> int:
    rule = sampling_of(parsed)
    model = loaded(parsed)
    if not model.tokenizer.chat_template:
        raise ValueError(f"{parsed.model} has no chat template: write netcl generate for a model that continues text")
    if sys.stdin.isatty():
        with suppress(ImportError):  # Windows has none
            import readline  # noqa: F401 (gives input() a history and keys for editing)
        print(f"{_HELP}.")
    chat = Chat(model, rule, parsed.system)
    while True:
        try:
            text = input("> ").strip()
        except EOFError:
            print()
            return 0
        except KeyboardInterrupt:
            print("\n/exit or Ctrl-D ends the chat")
            continue
        if text == "/exit":
            return 0
        if text == "/clear":
            chat.messages.clear()
        elif text == "/system" or text.startswith("/system "):
            chat.system = text.removeprefix("/system").strip()
        elif text.startswith("/"):
            print(_HELP)
        elif text:
            try:
                chat.ask(text, _write)
            except ValueError as error:
                print(f"{error}; /clear forgets the messages", file=sys.stderr)
            print()


def _write(text: str) -> None:
    print(text, end="", flush=True)
