"""The programs of examples/pytorch on device "ocl" against PyTorch's CPU, by turns, each in a process of its own.

    NETCL_DEVICE=intel python benchmarks/programs.py [--turns 7] [cnn gpt lbfgs]

A turn is a few steps of one and then of the other. It prints the milliseconds per step, and the median over the turns
of the CPU's time over ocl's: 0.9 is asked for, 0.4 of programs of many small ops.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
STEPS = {
    "cnn": 4, "vae": 20, "dcgan": 4, "char_lstm": 4, "gpt": 4, "vit": 4, "unet": 4, "gcn": 10, "actor_critic": 3,
    "ddpm": 3, "siamese": 4, "lbfgs": 2,
}  # fmt: skip
SMALL_OPS = ("actor_critic", "lbfgs")
WARM_UP = 4  # steps before the first turn


def work(arguments: list[str]) -> None:
    """Runs a program in turns; a step ends when its device is done."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import program_turns
    import torch

    class Turns(program_turns.Turns):
        def __call__(self, optimizer: object, args: object, kwargs: object) -> None:
            if "ocl" in arguments:
                torch.ocl.synchronize()  # type: ignore[attr-defined]
            super().__call__(optimizer, args, kwargs)

    program_turns.Turns = Turns
    sys.argv[1:] = ["pytorch", *arguments]
    program_turns.main()


class Program:
    """A program in a process that stops between turns."""

    def __init__(self, name: str, device: str) -> None:
        script = ROOT / f"examples/pytorch/{name}.py"
        command = [sys.executable, __file__, "work", str(script), "--device", device, "--steps", "1000000"]
        environment = {**os.environ, "TORCH_NETCL_FALLBACK": "quiet"}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def turn(self, steps: int) -> float:
        """Returns the milliseconds per step of the next steps."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self) -> None:
        """Ends the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def compare(name: str, turns: int) -> None:
    """Prints the times of a program and their ratio."""
    programs = {device: Program(name, device) for device in ("cpu", "ocl")}
    times: dict[str, list[float]] = {device: [] for device in programs}
    for program in programs.values():
        program.turn(WARM_UP)
    for turn in range(turns):
        for device in list(programs) if turn % 2 else reversed(programs):
            times[device].append(programs[device].turn(STEPS[name]))
    for program in programs.values():
        program.close()
    ratio = statistics.median(a / b for a, b in zip(*times.values()))
    figures = "".join(f"{statistics.median(values):>10.2f}{min(values):>10.2f}" for values in times.values())
    asked = 0.4 if name in SMALL_OPS else 0.9
    print(f"{name:<14}{figures}{ratio:>8.2f}  asked {asked}", flush=True)


def main() -> None:
    """Runs the command."""
    if sys.argv[1:2] == ["work"]:
        return work(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", default=list(STEPS))
    parser.add_argument("--turns", type=int, default=7)
    options = parser.parse_args()
    print(f"{'':<14}{'cpu':>10}{'least':>10}{'ocl':>10}{'least':>10}{'ratio':>8}", flush=True)
    for name in options.programs:
        compare(name, options.turns)
    return None


if __name__ == "__main__":
    main()
