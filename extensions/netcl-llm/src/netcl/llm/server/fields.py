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
    top_logprobs: int = 0
    base64: bool = False
    dimensions: int | None = None


def chat_request(body: Any) -> Request:
    """Returns the request of a body for /v1/chat/completions."""
    values = _values(body, {**_SAMPLING, **_CHAT}, "messages")
    wanted, top = values["logprobs"] or False, values["top_logprobs"]
    if top and not wanted:
        raise ApiError("expected logprobs to be true if top_logprobs is set", "top_logprobs")
    messages = [_message(f"messages[{at}]", row) for at, row in enumerate(values["messages"])]
    tools = values["tools"] if values["tool_choice"] != "none" else None
    return _request(values, wanted, top or 0, messages=messages, tools=tools)


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
        top_logprobs=top,
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
    names = {dict: "an object", list: "an array", bool: "a boolean", type(None): "null"}
    return names.get(type(value), f"{value!r:.40}")


def _row(
    expected: str,
    allows: Callable[[Any], bool],
    make: Callable[[Any], Any] = lambda value: value,
    code: str | None = None,
) -> Check:
    """Returns the check of a field: it returns ``make(value)``, or an allowed value itself."""

    def check(name: str, value: Any) -> Any:
        if not allows(value):
            raise ApiError(f"expected {name} to be {expected}, got {_kind(value)}", name, code)
        return value if make is None else make(value)

    return check


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(least: float, most: float) -> Check:
    text = f"a number from {least:g} to {most:g}"
    return _row(text, lambda value: _is_number(value) and least <= value <= most, float)


def _integer(least: int, most: int) -> Check:
    return _row(f"an integer from {least} to {most}", lambda value: _is_integer(value) and least <= value <= most)


def _only(*choices: Any) -> Check:
    """Returns the check of a field of which this server can honour few values."""
    text = " or ".join(repr(choice) for choice in choices)
    return _row(text, lambda value: value in choices and type(value) in map(type, choices), code="unsupported_value")


def _is_ids(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_integer, value))


def _are_texts(value: Any, most: int) -> bool:
    return isinstance(value, list) and len(value) <= most and all(isinstance(text, str) and text for text in value)


def _prompts(most: int) -> Check:
    """Returns the check of a text, ids, or an array of these."""

    def many(value: Any) -> list[Any]:
        return value if isinstance(value, list) and not _is_ids(value) else [value]

    def allows(value: Any) -> bool:
        return 1 <= len(many(value)) <= most and all(_are_texts([item], 1) or _is_ids(item) for item in many(value))

    return _row(f"a text, an array of ids, or an array of 1 to {most} of these, none empty", allows, many)


def _are_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _is_options(value: Any) -> bool:
    known = {"include_usage", "include_obfuscation"}
    return isinstance(value, dict) and all(key in known and isinstance(item, bool) for key, item in value.items())


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
_TEXT = _row("a text", lambda value: isinstance(value, str))
_BOOLEAN = _row("true or false", lambda value: isinstance(value, bool))
_ZERO = _row("0 (use repetition_penalty)", lambda value: _is_number(value) and value == 0, code="unsupported_value")
_STOP = _row(
    "a text or up to 16 texts, none empty",
    lambda value: _are_texts([value] if isinstance(value, str) else value, 16),
    lambda value: (value,) if isinstance(value, str) else tuple(value),
)
_SAMPLING: dict[str, Check] = {
    "model": _TEXT,
    "temperature": _number(0, 2),
    "top_p": _number(0, 1),
    "top_k": _integer(0, 1 << 20),
    "min_p": _number(0, 1),
    "repetition_penalty": _number(0.01, 100),
    "presence_penalty": _ZERO,
    "frequency_penalty": _ZERO,
    "logit_bias": _only({}),
    "seed": _integer(0, (1 << 63) - 1),
    "stop": _STOP,
    "n": _integer(1, _MOST_CHOICES),
    "max_tokens": _integer(1, 1 << 31),
    "stream": _BOOLEAN,
    "stream_options": _row("an object with include_usage", _is_options),
}
_CHAT: dict[str, Check] = {
    "messages": _row(
        f"an array of 1 to {_MOST_MESSAGES} objects",
        lambda value: _are_objects(value) and 1 <= len(value) <= _MOST_MESSAGES,
    ),
    "max_completion_tokens": _integer(1, 1 << 31),
    "logprobs": _BOOLEAN,
    "top_logprobs": _integer(0, 20),
    "tools": _row("an array of objects", _are_objects),
    "tool_choice": _only("auto", "none"),
    "response_format": _only({"type": "text"}),
}
_COMPLETION: dict[str, Check] = {
    "prompt": _prompts(_MOST_CHOICES),
    "logprobs": _integer(0, 5),
    "echo": _only(False),
    "best_of": _only(1),
}
_EMBEDDING: dict[str, Check] = {
    "model": _TEXT,
    "input": _prompts(_MOST_INPUTS),
    "encoding_format": _only("float", "base64"),
    "dimensions": _integer(1, 1 << 20),
}
