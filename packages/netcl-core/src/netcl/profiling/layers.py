"""Names the layers of a model in a profile, also for the kernels of a captured step and of the backward pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from netcl.core.capture.labels import labelled, set_layer


@contextmanager
def named_layers(model: Any, optimizer: Any = None) -> Iterator[None]:
    """Labels the kernels of steps that run, or are captured, within the block by layer and op: ``profile`` shows them,
    also in replays after the block.

    ``model`` has ``named_modules()`` with hooks, as an ``nn.Module``; kernels of ``optimizer.step()`` have the layer
    "optimizer".
    """
    scopes = _Scopes()
    handles: list[Any] = []
    for name, module in model.named_modules():
        shown = f"{name} {type(module).__name__}".lstrip()
        handles.append(module.register_forward_pre_hook(scopes.enter(shown)))
        handles.append(module.register_forward_hook(scopes.leave(shown)))
    if hasattr(optimizer, "register_step_pre_hook"):
        handles.append(optimizer.register_step_pre_hook(lambda *_: _only_set("optimizer")))
        handles.append(optimizer.register_step_post_hook(lambda *_: _only_set("")))
    try:
        with labelled():
            yield
    finally:
        set_layer("")
        for handle in handles:
            handle.remove()


def _only_set(name: str) -> None:
    set_layer(name)


class _Scopes:
    """The layers that run now, and the nodes of the graph that have a layer."""

    def __init__(self) -> None:
        self._outer: list[str] = []
        self._known: dict[int, Any] = {}  # nodes by their ids, held so that no other gets the id

    def enter(self, name: str) -> Any:
        """Returns a hook that begins the layer."""

        def hook(module: Any, args: Any) -> None:
            if not self._outer:
                self._known.clear()  # of the last step
            self._outer.append(set_layer(name))

        return hook

    def leave(self, name: str) -> Any:
        """Returns a hook that ends the layer, and gives its name to the backward pass of what it has computed."""

        def hook(module: Any, args: Any, output: Any) -> None:
            set_layer(self._outer.pop())
            for value in output if isinstance(output, (tuple, list)) else (output,):
                self._mark(getattr(value, "grad_fn", None), name)

        return hook

    def _mark(self, node: Any, name: str) -> None:
        waiting = [node]
        while waiting:
            node = waiting.pop()
            if node is None or id(node) in self._known or not hasattr(node, "register_prehook"):
                continue
            self._known[id(node)] = node
            node.register_prehook(lambda grads: _only_set(name))
            waiting += [following for following, _ in node.next_functions]
