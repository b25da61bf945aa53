"""Runs a program written for PyTorch in turns of some steps, and times each turn.

``python benchmarks/program_turns.py (pytorch | netcl) script.py [arguments]``. For each line of standard input, a
number of steps, it prints one line: the milliseconds per step of that turn. A step ends when the program's first
optimizer has stepped. Each turn begins with one step more, which is not timed. The program ends with the input, and
prints the part of its calls that netcl has predicted.
"""

from __future__ import annotations

import os
import runpy
import sys
import time
from typing import Any, TextIO


class Turns:
    """A hook after the steps of optimizers: it stops the program between turns."""

    def __init__(self, requests: TextIO, answers: TextIO) -> None:
        self._requests, self._answers = requests, answers
        self._optimizer: object = None
        self._count = 0  # steps of this turn
        self._done = -1  # those that ended; -1 in the step that is not timed
        self._began = 0.0

    def __call__(self, optimizer: object, args: Any, kwargs: Any) -> None:
        """Counts a step, and waits for the next turn if this one is over."""
        now = time.perf_counter()
        if self._optimizer is None:
            self._optimizer = optimizer
            self._next()
        elif optimizer is self._optimizer:  # a program may have several
            self._done += 1
            if self._done == 0:
                self._began = now
            elif self._done == self._count:
                print(1e3 * (now - self._began) / self._count, file=self._answers, flush=True)
                self._next()

    def _next(self) -> None:
        line = self._requests.readline()
        if not line:
            prediction = sys.modules.get("netcl.runtime.prediction")
            print(0.0 if prediction is None else prediction.report().share, file=self._answers, flush=True)
            os._exit(0)  # what a program does after its training is not timed
        self._count, self._done = int(line), -1


def main() -> None:
    kind, *sys.argv = sys.argv[1:]
    if kind == "netcl":
        from netcl.torch.install import install

        install()
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    torch.set_num_threads(2)
    register_optimizer_step_post_hook(Turns(sys.stdin, sys.stdout))
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # what the program prints
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
