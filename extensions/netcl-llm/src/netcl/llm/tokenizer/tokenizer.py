"""A tokenizer: text to ids and back, with added tokens, the ids that begin and end a text, and its chat template."""

from __future__ import annotations

import codecs
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from netcl.llm.chat_template import ChatTemplate
from netcl.llm.tokenizer.added_tokens import AddedTokens
from netcl.llm.tokenizer.byte_pairs import BytePairs
from netcl.llm.tokenizer.sentence_piece import SentencePiece

__all__ = ["TextStream", "Tokenizer"]

# Texts of tokens that end an answer, whatever the file names as its end.
_ENDS = (
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|return|>",
)


class TextStream:
    """Turns ids into text as they arrive: whole characters only, the rest is kept for the next id."""

    def __init__(self, bytes_of: Callable[[int], bytes], strip_space: bool) -> None:
        """Makes a stream; ``strip_space`` leaves out one space at the beginning of the text."""
        self._bytes_of, self._strip = bytes_of, strip_space
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int) -> str:
        """Returns the characters that are complete with the id, often ""."""
        return self._begun(self._decoder.decode(self._bytes_of(token)))

    def finish(self) -> str:
        """Returns what is left at the end: the replacement character for an incomplete one, else ""."""
        return self._begun(self._decoder.decode(b"", True))

    def _begun(self, text: str) -> str:
        if self._strip and text:
            self._strip = False
            return text.removeprefix(" ")
        return text


class Tokenizer:
    """Text to ids and back; made by `from_gguf`, `from_json`, or read with a model.

    ``bos_id`` and ``eos_id`` begin and end a text, None if there are none; ``end_ids`` are all ids after which a
    generation ends; ``chat_template`` is the source of the template, "" if there is none.
    """

    bos_id: int | None
    eos_id: int | None
    tokens: Sequence[str]
    segmenter: BytePairs | SentencePiece
    added: AddedTokens
    prefix: list[int]
    suffix: list[int]
    chat_template: str

    def __init__(
        self,
        tokens: Sequence[str],
        segmenter: BytePairs | SentencePiece,
        added: AddedTokens,
        *,
        bos: int | None = None,
        eos: int | None = None,
        ends: Iterable[int] = (),
        prefix: Sequence[int] = (),
        suffix: Sequence[int] = (),
        template: str = "",
        strip_space: bool = False,
        normal_form: str = "",
    ) -> None:
        self.tokens = tokens
        self.bos_id, self.eos_id = bos, eos
        named = {added.by_text[text].id for text in _ENDS if text in added.by_text}
        self.end_ids: frozenset[int] = frozenset({*ends, *named} | ({eos} if eos is not None else set()))
        self.segmenter, self.added = segmenter, added
        self.prefix, self.suffix = list(prefix), list(suffix)
        self._strip_space, self._form = strip_space, normal_form
        self.chat_template = template
        self._template: ChatTemplate | None = None

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        return f"Tokenizer({len(self)} tokens, bos {self.bos_id}, ends {sorted(self.end_ids)})"

    def encode(self, text: str, special: bool = True, around: bool = True) -> list[int]:
        """Returns the ids of a text.

        With ``special``, control tokens written in the text are their ids; with ``around`` too, the ids that the file
        puts around each text are added, but not again at the beginning of a text that has them.
        """
        if not isinstance(text, str):
            raise TypeError(f"expected a text to encode, got {type(text).__name__}; decode bytes first")
        ids: list[int] = []
        for number, part in enumerate(self.added.parts(text, special)):
            if isinstance(part, int):
                ids.append(part)
            else:
                text = unicodedata.normalize(self._form, part) if self._form else part  # type: ignore[arg-type]
                ids += self.segmenter.encode(text, number == 0)
        if not (special and around):
            return ids
        prefix = self.prefix
        if prefix and ids[: len(prefix)] == prefix:
            prefix = []
        return [*prefix, *ids, *self.suffix]

    def decode(self, ids: Iterable[int], special: bool = False) -> str:
        """Returns the text of ids; control tokens are left out if not ``special``."""
        stream = self.stream(special)
        return "".join([stream.push(token) for token in ids]) + stream.finish()

    def stream(self, special: bool = False) -> TextStream:
        """Returns an object whose ``push(id)`` returns the whole characters that the id completes."""
        return TextStream(lambda token: self.token_bytes(token, special), self._strip_space)

    def token_bytes(self, token: int, special: bool = True) -> bytes:
        """Returns the bytes of an id: none for control tokens if not ``special``."""
        token = int(token)
        if not 0 <= token < len(self.tokens):
            raise IndexError(f"expected an id from 0 to {len(self.tokens) - 1}, got {token}")
        if token in self.added.control_ids:
            return self.tokens[token].encode("utf-8", "replace") if special else b""
        return self.segmenter.token_bytes(token)

    def apply_chat_template(
        self,
        messages: Sequence[Mapping[str, Any]],
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        **variables: Any,
    ) -> str:
        """Returns the prompt of messages with roles and contents; ``encode`` makes ids of it."""
        if not self.chat_template:
            raise ValueError("expected a model with a chat template, got one without; write the prompt as text")
        if self._template is None or self._template.source != self.chat_template:
            self._template = ChatTemplate(self.chat_template)
        named = {
            "bos_token": "" if self.bos_id is None else self.tokens[self.bos_id],
            "eos_token": "" if self.eos_id is None else self.tokens[self.eos_id],
        }
        values = {**named, "add_generation_prompt": add_generation_prompt, "tools": tools or None, **variables}
        return self._template.render(messages, **values)
