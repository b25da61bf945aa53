"""The fields of requests: each has a row with its kind and range; what a row does not allow is an ApiError."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from netcl.llm.sampling import Sampling
from netcl.llm.server.errors import ApiError

__all__ = ["Request", "chat_request", "completion_request", "embedding_request"]

_MOST_CHOICES = 16  # prompts times n
_MOST_MESSAGES = 4096
_MOST_INPUTS = 256

Check = Callable[[str, Any], Any]


@dataclass(frozen=True)
class Request:
    """A request with checked fields; ``prompts`` are texts or ids, ``messages`` those of a chat."""

    prompts: list[str | list[int]] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    tools: list[dict[str, Any]] | None = None
    sampling: Sampling = field(default_factory=Sampling)
    max_tokens: int | None = None
    model: str | None = None
    n: int = 1
    stream: bool = False
    include_usage: bool = False
    logprobs: bool = False
    base64: bool = False
    dimensions: int | None = None


def chat_request(body: Any) -> Request:
    """Returns the request of a body for /v1/chat/completions."""
    values = _values(body, {**_SAMPLING, **_CHAT}, "messages")
    wanted, top = values["logprobs"] or False, values["top_logprobs"]
    if top and not wanted:
        raise ApiError("expected logprobs to be true if top_logprobs is set", "top_logprobs")
    tools = values["tools"] if values["tool_choice"] != "none" else None
    return _request(values, wanted, top or 0, messages=values["messages"], tools=tools)


def completion_request(body: Any) -> Request:
    """Returns the request of a body for /v1/completions."""
    values = _values(body, {**_SAMPLING, **_COMPLETION}, "prompt")
    top = values["logprobs"]
    prompts = values["prompt"]
    if len(prompts) * (values["n"] or 1) > _MOST_CHOICES:
        raise ApiError(f"expected at most {_MOST_CHOICES} choices, got {len(prompts)} prompts times n", "n")
    return _request(values, top is not None, top or 0, prompts=prompts)


def embedding_request(body: Any) -> Request:
    """Returns the request of a body for /v1/embeddings."""
    values = _values(body, _EMBEDDING, "input")
    base64 = values["encoding_format"] == "base64"
    return Request(values["input"], model=values["model"], base64=base64, dimensions=values["dimensions"])


def _request(values: Mapping[str, Any], logprobs: bool, top: int, **others: Any) -> Request:
    names = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed", "stop")
    # The log probability of the token itself needs one of the most likely at least.
    given = {name: values[name] for name in names if values[name] is not None}
    sampling = Sampling(**given, logprobs=max(top, 1) if logprobs else 0)
    options = values["stream_options"] or {}
    length = values.get("max_completion_tokens")
    return Request(
        sampling=sampling,
        max_tokens=values["max_tokens"] if length is None else length,
        model=values["model"],
        n=values["n"] or 1,
        stream=values["stream"] or False,
        include_usage=options.get("include_usage") or False,
        logprobs=logprobs,
        **others,
    )


def _values(body: Any, rows: Mapping[str, Check], needed: str) -> dict[str, Any]:
    """Returns the value of each row, None for a field that is absent or null."""
    if not isinstance(body, dict):
        raise ApiError(f"expected a JSON object, got {_kind(body)}")
    unknown = sorted(body.keys() - rows.keys() - _IGNORED)
    if unknown:
        raise ApiError(
            f"expected the fields {', '.join(rows)}; got {unknown[0]!r:.80}", unknown[0][:80], "unknown_field"
        )
    if body.get(needed) is None:
        raise ApiError(f"expected the field {needed}, got none", needed, "missing_field")
    return {name: None if body.get(name) is None else check(name, body[name]) for name, check in rows.items()}


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "an array", str: "a text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), f"{value!r:.40}")


def _number(least: float, most: float) -> Check:
    def check(name: str, value: Any) -> Any:
        numeric = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not numeric or not math.isfinite(value) or not least <= value <= most:
            raise ApiError(f"expected {name} to be a number from {least:g} to {most:g}, got {_kind(value)}", name)
        return float(value)

    return check


def _integer(least: int, most: int) -> Check:
    def check(name: str, value: Any) -> Any:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise ApiError(f"expected {name} to be an integer from {least} to {most}, got {_kind(value)}", name)
        return value

    return check


def _boolean(name: str, value: Any) -> Any:
    if not isinstance(value, bool):
        raise ApiError(f"expected {name} to be true or false, got {_kind(value)}", name)
    return value


def _text(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        raise ApiError(f"expected {name} to be a text, got {_kind(value)}", name)
    return value


def _one_of(*choices: Any) -> Check:
    """Returns a check for a field of which this server can honour few values."""

    def check(name: str, value: Any) -> Any:
        if not any(type(value) is type(choice) and value == choice for choice in choices):
            shown = " or ".join(repr(choice) for choice in choices)
            raise ApiError(f"expected {name} to be {shown}, got {_kind(value)}", name, "unsupported_value")
        return value

    return check


def _zero(name: str, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != 0:
        message = f"expected {name} to be 0, got {_kind(value)}; use repetition_penalty"
        raise ApiError(message, name, "unsupported_value")
    return value


def _stop(name: str, value: Any) -> Any:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or len(texts) > 16 or not all(isinstance(text, str) and text for text in texts):
        raise ApiError(f"expected {name} to be a text or up to 16 texts that are not empty, got {_kind(value)}", name)
    return tuple(texts)


def _prompts(most: int) -> Check:
    """Returns a check for a text, ids, or an array of these."""

    def check(name: str, value: Any) -> Any:
        many = value if isinstance(value, list) and not _is_ids(value) else [value]
        if not 1 <= len(many) <= most:
            raise ApiError(f"expected 1 to {most} entries in {name}, got {len(many)}", name)
        if not all((isinstance(item, str) and item) or _is_ids(item) for item in many):
            raise ApiError(f"expected {name} to be a text, an array of ids, or an array of these, none empty", name)
        return many

    return check


def _is_ids(value: Any) -> bool:
    return (
        isinstance(value, list) and bool(value) and all(isinstance(i, int) and not isinstance(i, bool) for i in value)
    )


def _options(name: str, value: Any) -> Any:
    if not isinstance(value, dict) or value.keys() - {"include_usage", "include_obfuscation"}:
        raise ApiError(f"expected {name} to be an object with include_usage, got {_kind(value)}", name)
    return {key: _boolean(f"{name}.{key}", item) for key, item in value.items()}


def _objects(name: str, value: Any) -> Any:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ApiError(f"expected {name} to be an array of objects, got {_kind(value)}", name)
    return value


def _messages(name: str, value: Any) -> Any:
    if not 1 <= len(_objects(name, value)) <= _MOST_MESSAGES:
        raise ApiError(f"expected 1 to {_MOST_MESSAGES} messages, got {len(value)}", name)
    return [_message(f"{name}[{at}]", row) for at, row in enumerate(value)]


_ROLES = ("system", "developer", "user", "assistant", "tool", "function")


def _message(name: str, row: dict[str, Any]) -> dict[str, Any]:
    role, content = row.get("role"), row.get("content")
    if role not in _ROLES:
        raise ApiError(f"expected {name}.role to be one of {', '.join(_ROLES)}; got {_kind(role)}", f"{name}.role")
    if isinstance(content, list):
        parts = [
            part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None for part in content
        ]
        content = "".join(parts) if all(isinstance(part, str) for part in parts) else None  # type: ignore[arg-type]
    elif content is None and role == "assistant":
        content = ""
    if not isinstance(content, str):
        raise ApiError(f"expected {name}.content to be a text or parts of type text", f"{name}.content")
    return {**row, "role": "system" if role == "developer" else role, "content": content}


# Fields of clients that change nothing here.
_IGNORED = frozenset(
    ("user", "metadata", "store", "service_tier", "parallel_tool_calls", "reasoning_effort", "prompt_cache_key")
)
_SAMPLING: dict[str, Check] = {
    "model": _text,
    "temperature": _number(0, 2),
    "top_p": _number(0, 1),
    "top_k": _integer(0, 1 << 20),
    "min_p": _number(0, 1),
    "repetition_penalty": _number(0.01, 100),
    "presence_penalty": _zero,
    "frequency_penalty": _zero,
    "logit_bias": _one_of({}),
    "seed": _integer(0, (1 << 63) - 1),
    "stop": _stop,
    "n": _integer(1, _MOST_CHOICES),
    "max_tokens": _integer(1, 1 << 31),
    "stream": _boolean,
    "stream_options": _options,
}
_CHAT: dict[str, Check] = {
    "messages": _messages,
    "max_completion_tokens": _integer(1, 1 << 31),
    "logprobs": _boolean,
    "top_logprobs": _integer(0, 20),
    "tools": _objects,
    "tool_choice": _one_of("auto", "none"),
    "response_format": _one_of({"type": "text"}),
}
_COMPLETION: dict[str, Check] = {
    "prompt": _prompts(_MOST_CHOICES),
    "logprobs": _integer(0, 5),
    "echo": _one_of(False),
    "best_of": _one_of(1),
}
_EMBEDDING: dict[str, Check] = {
    "model": _text,
    "input": _prompts(_MOST_INPUTS),
    "encoding_format": _one_of("float", "base64"),
    "dimensions": _integer(1, 1 << 20),
}
