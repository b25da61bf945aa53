"""Model, a decoder with its tokenizer, and ``load``, which reads one from a GGUF file or a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from netcl import nn
from netcl.core.errors import from_here
from netcl.io.budget import Budget
from netcl.io.errors import CheckpointError
from netcl.llm import tokenizer as tokenizers
from netcl.llm.cache import check
from netcl.llm.config import Config
from netcl.llm.decoder import Decoder
from netcl.llm.generation import Session
from netcl.llm.gguf import Gguf
from netcl.llm.gguf_model import decoder_of_gguf, export_gguf
from netcl.llm.huggingface import decoder_of_folder
from netcl.llm.sampling import Piece, Sampling

__all__ = ["Model", "load"]


class Model:
    """A language model: ``config``, ``decoder`` (a module), ``tokenizer``, and ``ends``, the tokens that end a text.

    ``metadata`` has the keys of a GGUF file, or the values of config.json. ``save_gguf`` writes all in one file.
    """

    config: Config
    decoder: Decoder
    tokenizer: Any

    def __init__(
        self, config: Config, decoder: Decoder, tokenizer: Any, ends: frozenset[int], metadata: Mapping[str, Any]
    ) -> None:
        self.config, self.decoder, self.tokenizer = config, decoder, tokenizer
        self.ends: frozenset[int] = ends
        self.metadata: dict[str, Any] = dict(metadata)
        self._idle: list[Session] = []

    def ids_of(self, prompt: str | Sequence[int]) -> list[int]:
        """Returns the tokens of a prompt; raises ValueError for none, unknown ones, and more than the context."""
        ids = self.tokenizer.encode(prompt) if isinstance(prompt, str) else [int(token) for token in prompt]
        if not ids:
            raise ValueError("expected a prompt of at least one token, got none")
        if len(ids) > self.config.context_length:
            raise ValueError(
                f"expected a prompt of at most {self.config.context_length} tokens, the model's context, got {len(ids)}"
            )
        if not 0 <= min(ids) <= max(ids) < self.config.vocab_size:
            raise ValueError(f"expected tokens from 0 to {self.config.vocab_size - 1}, got {min(ids)} to {max(ids)}")
        return ids

    def gguf_keys(self) -> dict[str, Any]:
        """Returns the keys of the model's GGUF file, or keys of a folder's tokenizer."""
        if "general.architecture" in self.metadata:
            return self.metadata
        return tokenizers.keys_of(self.tokenizer, self.config.vocab_size)

    def save_gguf(self, path: str | os.PathLike[str]) -> None:
        """Writes decoder and tokenizer as a GGUF file; ValueError for what such a file cannot say."""
        export_gguf(self.decoder, path, self.gguf_keys())

    def session(self) -> Session:
        """Returns a session of its own, which keeps its cache between calls."""
        return Session(self)

    def generate(
        self, prompt: str | Sequence[int], sampling: Sampling | None = None, **changes: Any
    ) -> Iterator[Piece]:
        """Yields a piece for each token behind ``prompt``; ``changes`` are fields of Sampling.

        Raises ValueError for an empty prompt, or one that is longer than the context.
        """
        session = self._idle.pop() if self._idle else Session(self)
        session.lanes.keep(0, 0)
        pieces = session.generate(prompt, sampling, **changes)
        return self._returned(session, pieces)

    def _returned(self, session: Session, pieces: Iterator[Piece]) -> Iterator[Piece]:
        """Yields the pieces; the session with its captured steps then serves another generation."""
        try:
            yield from pieces
        finally:
            self._idle.append(session)

    def __repr__(self) -> str:
        """Returns the family and the sizes."""
        c = self.config
        return f"Model({c.family}, {c.layers} layers of {c.hidden_size}, vocabulary of {c.vocab_size})"


@from_here
def load(
    path: str | os.PathLike[str],
    device: Any = None,
    dtype: Any = None,
    budget: Budget | None = None,
    cache: str | None = None,
) -> Model:
    """Returns the model of a GGUF file, or of a folder with config.json, safetensors and tokenizer.json.

    Packed weights stay packed; plain ones become ``dtype``, float32 unless given. ``cache`` is the dtype of keys and
    values, float16 or Q8_0 for a small cache; None leaves it to the device. Raises CheckpointError for a file that is
    damaged, unsupported or beyond ``budget``, ValueError for a cache that the model cannot have.
    """
    place = nn.Linear(1, 1, device=device).weight.queue
    kind = "float32" if dtype is None else str(dtype)
    if kind not in ("float32", "float16", "bfloat16", "float64"):
        raise ValueError(f"load: expected dtype float32, float16, bfloat16 or float64, got {dtype!r}")
    read = _from_folder if Path(path).is_dir() else _from_file
    model = read(Path(path), place, kind, budget)
    if cache is not None:
        check(model.config, cache)
    model.decoder.cache_dtype = cache
    return model


def _from_file(path: Path, queue: Any, dtype: str, budget: Budget | None) -> Model:
    file = Gguf(path, budget)
    decoder = decoder_of_gguf(file, queue, dtype)
    try:
        tokenizer = tokenizers.from_gguf(file.metadata)
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise CheckpointError(f"describes no tokenizer that netcl has ({error})", file.path) from error
    return Model(decoder.config, decoder, tokenizer, tokenizer.end_ids, file.metadata)


def _from_folder(path: Path, queue: Any, dtype: str, budget: Budget | None) -> Model:
    decoder, values = decoder_of_folder(path, queue, dtype, budget)
    tokenizer = tokenizers.from_json(path / "tokenizer.json")
    ends = values.get("eos_token_id")
    more = {token for token in (ends if isinstance(ends, list) else [ends]) if isinstance(token, int)}
    return Model(decoder.config, decoder, tokenizer, tokenizer.end_ids | more, values)
