"""Trains a deep Q-network to balance a pole on a cart that is simulated here.

    python examples/jobs/dqn.py --picture lengths.png

A cart of 1 kg is pushed to the left or to the right every 20 ms; an episode ends when the pole of 1 m leans by more
than 12 degrees, when the cart is 2.4 m from the middle, or after 500 pushes. The last line is the mean length of 100
episodes with the best of the network's pushes: 500, the longest, after about 50 s on two cores of an AMD EPYC (Intel's
CPU runtime), which other work shared. With random pushes it is about 22.
"""

from __future__ import annotations

import argparse
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import netcl as nc
from netcl import nn
from netcl.autograd.training_compiler import compile_training_step
from netcl.core import Tensor
from netcl.core.device import device
from netcl.optim import AdamW, CosineAnnealingLR

Array = np.ndarray[Any, Any]
LONGEST = 500


class CartPoles:
    """Carts that are pushed at the same time: position, speed, angle and its speed of each, (count, 4), float32."""

    gravity, cart, pole, half_length, push, dt = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02

    def __init__(self, count: int, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.states = self.start(count)
        self.lengths = np.zeros(count, np.int64)

    def start(self, count: int) -> Array:
        """Carts in the middle with a pole that is almost upright."""
        return self.rng.uniform(-0.05, 0.05, (count, 4)).astype(np.float32)

    def step(self, actions: Array) -> tuple[Array, Array, Array]:
        """Pushes each cart to the left (0) or right (1) and returns the states, which have fallen and which ended.

        After the end of an episode the cart is in the middle again.
        """
        x, speed, angle, turn = self.states.T
        sin, cos = np.sin(angle), np.cos(angle)
        total = self.cart + self.pole
        common = (np.where(actions == 1, self.push, -self.push) + self.pole * self.half_length * turn**2 * sin) / total
        turning = (self.gravity * sin - cos * common) / (self.half_length * (4 / 3 - self.pole * cos**2 / total))
        moving = common - self.pole * self.half_length * turning * cos / total
        after = np.stack(
            [x + self.dt * speed, speed + self.dt * moving, angle + self.dt * turn, turn + self.dt * turning], axis=1
        ).astype(np.float32)
        fallen = (abs(after[:, 0]) > 2.4) | (abs(after[:, 2]) > np.deg2rad(12))
        self.lengths += 1
        ended = fallen | (self.lengths == LONGEST)
        self.lengths[ended] = 0
        self.states = np.where(ended[:, None], self.start(len(after)), after)
        return after, fallen, ended


class Replay:
    """The last transitions, from which batches are drawn."""

    def __init__(self, size: int, rng: np.random.Generator) -> None:
        self.states, self.after = np.zeros((2, size, 4), np.float32)
        self.actions, self.fallen = np.zeros((size, 1), np.int64), np.zeros(size, np.float32)
        self.size, self.stored, self.rng = size, 0, rng

    def add(self, states: Array, actions: Array, after: Array, fallen: Array) -> None:
        at = (self.stored + np.arange(len(states))) % self.size
        self.states[at], self.actions[at, 0], self.after[at], self.fallen[at] = states, actions, after, fallen
        self.stored += len(states)

    def batch(self, count: int) -> list[Tensor]:
        at = self.rng.integers(0, min(self.stored, self.size), count)
        return [nc.tensor(part[at]) for part in (self.states, self.actions, self.after, self.fallen)]


class Scale(nn.Module):
    """Brings position, speed, angle and its speed to about one."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", nc.tensor([0.5, 0.5, 5.0, 0.5]))

    def forward(self, x: Tensor) -> Tensor:
        scaled: Tensor = x * self.scale
        return scaled


def make_network(width: int) -> nn.Sequential:
    """The value of both pushes in states (n, 4): the discounted sum of how near to the middle the cart will be."""
    inner = (nn.Linear(4, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
    return nn.Sequential(Scale(), *inner, nn.Linear(width, 2))


def best(model: nn.Module, states: Array) -> Array:
    """The push of the larger value for each state."""
    with nc.no_grad():
        pushes: Array = model(nc.tensor(states)).numpy().argmax(axis=1)
    return pushes


def mean_length(model: nn.Module | None, count: int, seed: int) -> float:
    """The mean length of an episode each of ``count`` carts; with random pushes if there is no model."""
    carts, running = CartPoles(count, seed), np.ones(count, bool)
    lengths = np.zeros(count)
    while running.any():
        random = carts.rng.integers(0, 2, count)
        _, _, ended = carts.step(random if model is None else best(model, carts.states))
        lengths += running
        running &= ~ended
    return float(lengths.mean())


def draw(path: Path, lengths: list[tuple[int, float]], by_chance: float) -> None:
    """Writes the lengths of episodes over the steps of training to a file."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 2.8), layout="constrained")
    axes = figure.subplots()
    axes.plot(*zip(*lengths), color="#2563eb", marker=".", label="best pushes")
    axes.axhline(by_chance, color="#667080", ls=":", label="random pushes")
    axes.set(xlabel="step", ylabel="pushes", title="mean length of 20 episodes", ylim=(0, LONGEST * 1.05))
    axes.grid(color="#e5e7eb")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", help="auto, cpu (NumPy), pocl, intel, gpu, part of a device's name")
    parser.add_argument("--steps", type=int, help="of training, each after a push of 16 carts; 4000 by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, help="draw the lengths of episodes to this file")
    parser.add_argument("--quick", action="store_true", help="600 steps of a small network")
    options = parser.parse_args()
    if options.picture and find_spec("matplotlib") is None:
        raise SystemExit('--picture needs matplotlib: pip install "netcl-trainer[plot]"')

    steps, width, discount = options.steps or (600 if options.quick else 4000), 32 if options.quick else 64, 0.99
    rng = np.random.default_rng(options.seed)
    carts, replay = CartPoles(16, options.seed), Replay(20_000, rng)
    lengths: list[tuple[int, float]] = []
    with device(options.device):
        nc.manual_seed(options.seed)
        model, slow = make_network(width), make_network(width)
        slow.load_state_dict(model.state_dict())
        optimizer, loss_fn = AdamW(model.parameters(), lr=2e-3), nn.SmoothL1Loss()
        schedule = CosineAnnealingLR(optimizer, steps)

        @compile_training_step
        def learn(states: Tensor, actions: Tensor, after: Tensor, fallen: Tensor) -> Tensor:
            """The push is chosen by the network, its value is told by the one that changes slowly (double Q)."""
            with nc.no_grad():
                choice = model(after).argmax(dim=1).unsqueeze(1)
                to_come = slow(after).gather(1, choice).squeeze(1)
                near = 1 - after[:, 0].abs() / 2.4
                wanted = near / 20 + discount * (1 - fallen) * to_come
            optimizer.zero_grad()
            loss = loss_fn(model(states).gather(1, actions).squeeze(1), wanted)
            loss.backward()
            optimizer.step()
            with nc.no_grad():
                for follower, weight in zip(slow.parameters(), model.parameters()):
                    follower.lerp_(weight, 0.02)
            return loss

        start = time.perf_counter()
        for step in range(steps):
            explore = max(0.05, 1 - step / (0.3 * steps))
            states = carts.states
            random = rng.random(len(states)) < explore
            pushes = np.where(random, rng.integers(0, 2, len(states)), best(model, states))
            after, fallen, _ = carts.step(pushes)
            replay.add(states, pushes, after, fallen)
            loss = learn(*replay.batch(128))
            schedule.step()
            if (step + 1) % (steps // 10) == 0:
                lengths.append((step + 1, mean_length(model, 20, options.seed + 1)))
                print(f"step {step + 1}: loss {loss.item():.4f}, mean length {lengths[-1][1]:.1f}", flush=True)
        seconds = time.perf_counter() - start
        reached = mean_length(model, 100, options.seed + 2)
    by_chance = mean_length(None, 100, options.seed + 2)
    if options.picture:
        draw(options.picture, lengths, by_chance)
    print(f"mean length {reached:.1f}, with random pushes {by_chance:.1f}, {seconds:.1f} s")


if __name__ == "__main__":
    main()
