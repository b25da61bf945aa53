"""Hooks of an optimizer, around its steps and around its states, and of all optimizers, around their steps."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from netcl.autograd import enable_grad
from netcl.autograd.prediction import boundary, changes_gradients, refused
from netcl.core import Tensor

_ids = itertools.count()


class RemovableHandle:
    """The handle of a registered hook; ``remove()`` removes the hook."""

    def __init__(self, hooks: dict[int, Callable[..., Any]], key: int) -> None:
        self._hooks, self._key = hooks, key

    def remove(self) -> None:
        """Removes the hook; may be called again."""
        self._hooks.pop(self._key, None)


class Hooks:
    """The hooks of one optimizer, by kind, in the order of their calls. A copy of an optimizer has none."""

    def __init__(self) -> None:
        self._kinds: dict[str, dict[int, Callable[..., Any]]] = {}
        self.inside: bool = False

    def __reduce__(self) -> Any:
        return Hooks, ()

    def add(self, kind: str, hook: Callable[..., Any], first: bool = False) -> RemovableHandle:
        """Adds a hook, before the others if ``first``."""
        hooks, key = self._kinds.setdefault(kind, {}), next(_ids)
        others = dict(hooks) if first else {}
        if first:
            hooks.clear()
        hooks[key] = hook
        hooks.update(others)
        return RemovableHandle(hooks, key)

    @contextmanager
    def silent(self) -> Iterator[None]:
        """A block in which a step calls no hooks."""
        self.inside = True
        try:
            yield
        finally:
            self.inside = False

    def of(self, kind: str) -> tuple[Callable[..., Any], ...]:
        """Returns the hooks of a kind."""
        return tuple(self._kinds.get(kind, {}).values())


_all = Hooks()


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls ``hook(optimizer, args, kwargs)`` before each step of every optimizer, before the optimizer's own hooks; a
    returned pair replaces args and kwargs.
    """
    return _all.add("step_pre", hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls ``hook(optimizer, args, kwargs)`` after each step of every optimizer, after the optimizer's own hooks."""
    return _all.add("step_post", hook)


def watched(step: Callable[..., Any], closure_first: bool = False) -> Callable[..., Any]:
    """Returns ``step`` with calls of the optimizer's hooks, and of all optimizers', around it; a step inside another
    one calls none. ``closure_first``: the step calls its closure once, before anything else. A period of a loop ends
    with the step itself: calls of the hooks after it belong to the next period.
    """

    def call(self: Any, clip: Tensor | None, *args: Any, **kwargs: Any) -> Any:
        self._clip = clip
        with self._hooks.silent():
            return step(self, *args, **kwargs)

    changes_gradients(call)
    whole = refused(call, _refuses)

    @functools.wraps(step)
    def taken(self: Any, *args: Any, **kwargs: Any) -> Any:
        hooks: Hooks | None = getattr(self, "_hooks", None)
        if hooks is None or hooks.inside:
            return step(self, *args, **kwargs)
        # Hooks are lines of the program around the step, and no part of its event.
        with hooks.silent():
            for hook in (*_all.of("step_pre"), *hooks.of("step_pre")):
                changed = hook(self, args, kwargs)
                args, kwargs = (args, kwargs) if changed is None else changed
        closure = args[0] if args else kwargs.get("closure")
        if closure is not None and closure_first and self._is_own:
            with enable_grad():  # its calls are calls of the period
                result = closure()
            whole(self, self._take_clip())
        else:
            # The ops of an optimizer of the program are calls of their own, as it may compute anything.
            result = (whole if self._is_own else call)(self, self._take_clip(), *args, **kwargs)
        parameter = next((p for group in self.param_groups for p in group["params"]), None)
        if parameter is not None:
            boundary(self, parameter.engine)
        with hooks.silent():
            for hook in (*hooks.of("step_post"), *_all.of("step_post")):
                hook(self, args, kwargs)
        return result

    return taken


def _refuses(leaves: Any, optimizer: Any, clip: Tensor | None, closure: Any = None) -> str | None:
    """Returns why the step of an optimizer of netcl cannot be predicted; None if it can. Hooks are called outside."""
    if optimizer.found_inf is not None or optimizer.grad_scale is not None:
        return "scaled gradients"
    return None if closure is None else "a closure of an optimizer"


def has_step_hooks(hooks: Hooks) -> bool:
    """Returns True if functions of the program are called around the steps of an optimizer with these hooks."""
    return any(each.of(kind) for each in (_all, hooks) for kind in ("step_pre", "step_post"))
