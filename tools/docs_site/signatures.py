"""Writes signatures for readers: short names of types, and ... for a default that is an object."""

from __future__ import annotations

import inspect
import re
from typing import Any

_QUALIFIED = re.compile(r"\b(?:collections\.abc|typing|numpy\.typing|netcl(?:\.\w+)+?|pathlib|os)\.(?=[A-Z])")
_SHORT = (
    (re.compile(r"\bnumpy\.ndarray\[typing\.Any, [\w.\[\]]+\]"), "np.ndarray"),
    (re.compile(r"\bnumpy\.typing\.NDArray\b|\bnpt\.NDArray\b"), "np.ndarray"),
    (re.compile(r"\bnumpy\."), "np."),
)
_OPERAND = re.compile(r"\bExpr\b")


def parameters(value: Any, *, method: bool = False) -> str | None:
    """Returns ``(x: Tensor, axis: int = -1) -> Tensor`` of a callable, None if Python does not know it."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return None
    listed = list(signature.parameters.values())
    if method and listed and listed[0].name in ("self", "cls", "input") and listed[0].kind != listed[0].KEYWORD_ONLY:
        listed = listed[1:]
    shown: list[str] = []
    before: Any = None
    for parameter in listed:
        if before is not None and before.kind == before.POSITIONAL_ONLY and parameter.kind != before.POSITIONAL_ONLY:
            shown.append("/")
        opened = any(text.startswith("*") for text in shown)
        if parameter.kind == parameter.KEYWORD_ONLY and not opened:
            shown.append("*")
        shown.append(_parameter(parameter))
        before = parameter
    if before is not None and before.kind == before.POSITIONAL_ONLY:
        shown.append("/")
    result = signature.return_annotation
    arrow = "" if result is signature.empty or inspect.isclass(value) else f" -> {annotation(result)}"
    return f"({', '.join(shown)}){arrow}"


def _parameter(parameter: inspect.Parameter) -> str:
    mark = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    text = mark + parameter.name
    kind = annotation(parameter.annotation) if parameter.annotation is not parameter.empty else ""
    if kind and kind != "Any":
        text += f": {kind}"
    if parameter.default is not parameter.empty:
        text += (" = " if ":" in text else "=") + default(parameter.default)
    return text


def default(value: Any) -> str:
    """Returns a default as a literal, or ... if it is an object."""
    flat = (bool, int, float, str, type(None))
    if isinstance(value, flat) or (isinstance(value, tuple) and all(isinstance(item, flat) for item in value)):
        return str(value) if isinstance(value, float) and value in (float("inf"), float("-inf")) else repr(value)
    return "..."


def annotation(value: Any) -> str:
    """Returns a type by the names that a reader writes."""
    text = value if isinstance(value, str) else inspect.formatannotation(value)
    text = text.strip("'\"")
    for pattern, short in _SHORT:
        text = pattern.sub(short, text)
    text = _QUALIFIED.sub("", text)
    text = re.sub(r"\bnetcl(?:\.\w+)*\.(\w+)\b", r"\1", text)
    return _OPERAND.sub("Tensor", text).replace("typing.", "").replace("NoneType", "None")
