"""The JSON of answers: whole ones and chunks of a stream, and embeddings."""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.llm.sampling import Piece
from netcl.llm.tokenizer import Tokenizer

__all__ = ["Choice", "Shape", "embed", "embeddings", "usage"]


class Choice:
    """The pieces of one choice, as they have arrived; of choices for one prompt, the first counts its tokens."""

    index: int
    prompt_tokens: int
    length: int

    def __init__(self, index: int, prompt_tokens: int) -> None:
        self.index, self.prompt_tokens, self.length = index, prompt_tokens, 0
        self.pieces: list[Piece] = []
        self.finish_reason: str | None = None

    def add(self, piece: Piece) -> None:
        """Takes the next piece."""
        self.pieces.append(piece)
        self.length += len(piece.text)
        self.finish_reason = piece.finish_reason or self.finish_reason

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join([piece.text for piece in self.pieces])


class Shape:
    """Makes the JSON of one request's answers: ``chat`` for /v1/chat/completions, else /v1/completions."""

    def __init__(self, chat: bool, model: str, tokenizer: Tokenizer, logprobs: bool, top: int) -> None:
        self._chat, self._model, self._tokenizer = chat, model, tokenizer
        self._logprobs, self._top = logprobs, top
        self._id = ("chatcmpl-" if chat else "cmpl-") + uuid.uuid4().hex
        self._created = int(time.time())

    def whole(self, choices: Sequence[Choice]) -> dict[str, Any]:
        """Returns the answer without streaming."""
        rows = []
        for choice in choices:
            row: dict[str, Any] = {"index": choice.index, "finish_reason": choice.finish_reason or "stop"}
            row["logprobs"] = self._probabilities(choice.pieces, 0)
            if self._chat:
                row["message"] = {"role": "assistant", "content": choice.text, "refusal": None}
            else:
                row["text"] = choice.text
            rows.append(row)
        return {**self._head(chunk=False), "choices": rows, "usage": usage(choices)}

    def chunk(self, choice: Choice, piece: Piece) -> dict[str, Any]:
        """Returns the chunk of the next piece of a choice."""
        row: dict[str, Any] = {"index": choice.index, "finish_reason": piece.finish_reason}
        row["logprobs"] = self._probabilities([piece], choice.length)
        if self._chat:
            row["delta"] = {**({} if choice.pieces else {"role": "assistant"}), "content": piece.text}
        else:
            row["text"] = piece.text
        return {**self._head(chunk=True), "choices": [row]}

    def usage_chunk(self, choices: Sequence[Choice]) -> dict[str, Any]:
        """Returns the last chunk of a stream with stream_options.include_usage."""
        return {**self._head(chunk=True), "choices": [], "usage": usage(choices)}

    def _head(self, chunk: bool) -> dict[str, Any]:
        kind = ("chat.completion" + ".chunk" * chunk) if self._chat else "text_completion"
        return {"id": self._id, "object": kind, "created": self._created, "model": self._model}

    def _probabilities(self, pieces: Sequence[Piece], offset: int) -> dict[str, Any] | None:
        """Returns the log probabilities of tokens, without that of the token that ended the text."""
        if not self._logprobs:
            return None
        ends, shown, offsets = self._tokenizer.end_ids, [], []
        for piece in pieces:
            if piece.finish_reason != "stop" or piece.id not in ends:
                shown.append(piece)
                offsets.append(offset)
            offset += len(piece.text)
        if self._chat:
            content = [
                {
                    **self._row(piece.id, piece.logprob),
                    "top_logprobs": [self._row(*pair) for pair in piece.top_logprobs[: self._top]],
                }
                for piece in shown
            ]
            return {"content": content, "refusal": None}
        return {
            "tokens": [self._token(piece.id) for piece in shown],
            "token_logprobs": [piece.logprob for piece in shown],
            "top_logprobs": [
                {self._token(token): value for token, value in piece.top_logprobs[: self._top]} for piece in shown
            ],
            "text_offset": offsets,
        }

    def _token(self, token: int) -> str:
        return self._tokenizer.token_bytes(token).decode("utf-8", "replace")

    def _row(self, token: int, logprob: float | None) -> dict[str, Any]:
        data = self._tokenizer.token_bytes(token)
        return {"token": data.decode("utf-8", "replace"), "logprob": logprob, "bytes": list(data)}


def usage(choices: Sequence[Choice]) -> dict[str, int]:
    """Returns the numbers of tokens."""
    prompt, made = sum(choice.prompt_tokens for choice in choices), sum(len(choice.pieces) for choice in choices)
    return {"prompt_tokens": prompt, "completion_tokens": made, "total_tokens": prompt + made}


def embeddings(vectors: Sequence[Any], model: str, tokens: int, as_base64: bool) -> dict[str, Any]:
    """Returns the answer of /v1/embeddings."""
    rows = []
    for index, vector in enumerate(vectors):
        values = np.asarray(vector, dtype="<f4")
        shown = base64.b64encode(values.tobytes()).decode("ascii") if as_base64 else values.tolist()
        rows.append({"object": "embedding", "index": index, "embedding": shown})
    counts = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": rows, "model": model, "usage": counts}


def embed(model: Any, ids: Sequence[int]) -> np.ndarray[Any, Any]:
    """Returns the mean of a prompt's states behind the last norm, scaled to length 1: (hidden_size,) of float32."""
    rows = Tensor.from_host(model.decoder.queue, np.array([ids], np.int32))
    with ag.no_grad():
        states = model.decoder.states(rows).astype("float32").numpy()
    mean = states[0].mean(axis=0, dtype=np.float64)
    return np.asarray(mean / max(float(np.linalg.norm(mean)), 1e-12), np.float32)
