"""A decorator of the Trainer's methods: an error shows the user's frames and at most three of netcl's."""

from __future__ import annotations

import difflib
import dis
import inspect
import sys
from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import Any, TypeVar

_RAISE = dis.opmap["RAISE_VARARGS"]
_F = TypeVar("_F", bound=Callable[..., Any])


def few_frames(**words: str) -> Callable[[_F], _F]:
    """Returns a decorator of a method: it leaves out the frames of netcl that only pass an error on. ``words``: advice
    for keywords of other libraries.

    The frames of the user and of other libraries stay, and the last frame of netcl above them. An error of Python
    within netcl keeps all frames after them, as each error does in Python's development mode (``python -X dev``).
    """

    def decorated(method: _F) -> _F:
        @wraps(method)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return method(self, *args, **kwargs)
            except Exception as error:
                if type(error) is TypeError and error.__traceback__ is not None and not error.__traceback__.tb_next:
                    _name_keyword(method, type(self).__name__, kwargs, words)
                if not sys.flags.dev_mode:
                    _shorten(error)
                raise

        return call  # type: ignore[return-value]

    return decorated


def _name_keyword(method: Callable[..., Any], owner: str, kwargs: dict[str, Any], words: dict[str, str]) -> None:
    """Raises TypeError with advice for a keyword that the method does not take."""
    known = [name for name in inspect.signature(method).parameters if name != "self"]
    for name in kwargs:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            takes = f"write {near[0]}=..." if near else f"its arguments are {', '.join(known)}"
            raise TypeError(
                f"{owner}.{method.__name__}() got an unexpected keyword argument {name!r}; {words.get(name, takes)}"
            ) from None


def _is_passing(frame: TracebackType) -> bool:
    return str(frame.tb_frame.f_globals.get("__name__", "")).startswith(("netcl.", "contextlib"))


def _shorten(error: Exception) -> None:
    """Takes the frames of netcl between others off the traceback; the first and the last frame stay."""
    frames: list[TracebackType] = []
    following = error.__traceback__
    while following is not None:
        frames.append(following)
        following = following.tb_next
    # The frames after the last one of the user: where the error is netcl's own.
    tail = next((count for count, frame in enumerate(reversed(frames)) if not _is_passing(frame)), len(frames) - 1)
    inner, ending = frames[1 : len(frames) - tail], frames[len(frames) - tail :]
    last = frames[-1]
    # A message of netcl says what to do; an error of Python within netcl needs all frames to be understood.
    explained = last.tb_frame.f_code.co_code[last.tb_lasti] == _RAISE or getattr(error, "_shortened", False)
    kept = [*frames[:1], *(frame for frame in inner if not _is_passing(frame)), *(ending[-1:] if explained else ending)]
    for frame, after in zip(kept, [*kept[1:], None]):
        frame.tb_next = after
