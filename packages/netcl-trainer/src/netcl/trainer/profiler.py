"""Profiler: profiles a few steps of a run and writes a kernel table, a trace for Perfetto and a roofline."""

from __future__ import annotations

from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from netcl.autograd.levels import LEVELS, without
from netcl.trainer.callbacks import Callback
from netcl.trainer.run_view import RunView

if TYPE_CHECKING or "profiling" in LEVELS:
    from netcl.profiling.layers import named_layers
    from netcl.profiling.report import roofline
    from netcl.profiling.trace import profile


class WallTime:
    """The time that a block takes, for a netcl-core without a profiler."""

    seconds: float = 0.0

    def __enter__(self) -> WallTime:
        self.seconds -= perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        self.seconds += perf_counter()


class Profiler(Callback):
    """Profiles ``steps`` steps after ``wait`` others, once per fit, and writes ``kernels.txt``, ``trace.json`` (for
    https://ui.perfetto.dev) and ``roofline.html`` into ``folder``.

    The table names the layer and the op of each kernel, also of a captured step; a fused kernel has several. The first
    steps build kernels and are captured, so they are skipped. ``profile`` is the ``netcl.profiling.profile``
    of the last fit; on a netcl-core without the level profiling it is the wall time of the steps. Profiled steps are
    slower, because each kernel is waited for, unless NETCL_PROFILE_EVENTS=1.
    """

    def __init__(self, folder: str | PathLike[str], wait: int = 5, steps: int = 10) -> None:
        if wait < 1 or steps < 1:
            raise ValueError(f"wait and steps must be at least 1, got {wait} and {steps}")
        self.folder: Path = Path(folder)
        self.wait: int = wait
        self.steps: int = steps
        self.profile: Any = None
        self._seen = 0
        self._open = False
        self._layers = ExitStack()

    def on_fit_start(self, trainer: RunView) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.profile, self._seen = None, 0
        self._layers = ExitStack()
        if not without("profiling", "Profiler measures the wall time of its steps"):
            self._layers.enter_context(named_layers(trainer.model, trainer.optimizer))

    def on_step_end(self, trainer: RunView, logs: dict[str, float]) -> None:
        self._seen += 1
        if self._seen == self.wait:
            self.profile, self._open = self._profile(trainer.queue), True
            self.profile.__enter__()
        elif self._open and self._seen == self.wait + self.steps:
            self._close()

    def on_fit_end(self, trainer: RunView) -> None:
        self._layers.close()
        self._close()

    def on_exception(self, trainer: RunView, error: BaseException) -> None:
        self._layers.close()
        if self._open:
            self._open = False
            self.profile.__exit__(type(error), error, error.__traceback__)

    def _profile(self, queue: Any) -> Any:
        if without("profiling", "Profiler measures the wall time of its steps"):
            return WallTime()
        return profile(queue)

    def _close(self) -> None:
        if not self._open:
            return
        self._open = False
        self.profile.__exit__(None, None, None)
        if isinstance(self.profile, WallTime):
            text = f"{self._seen - self.wait} steps took {self.profile.seconds:.4f} s; this netcl-core has no profiler"
            (self.folder / "kernels.txt").write_text(text + "\n", encoding="utf-8")
            return
        (self.folder / "kernels.txt").write_text(self.profile.table(), encoding="utf-8")
        self.profile.export_chrome(self.folder / "trace.json")
        roofline(self.profile, self.folder / "roofline.html")
