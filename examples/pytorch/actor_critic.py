"""Trains an actor-critic policy to balance a pole on a cart.

    python examples/pytorch/actor_critic.py
    python -m netcl.torch examples/pytorch/actor_critic.py

The cart-pole is simulated here with its equations of motion (a pole of 1 m on a cart of 1 kg, Euler steps of 20 ms); an
episode ends when the pole leans by more than 12 degrees, the cart is 2.4 m from the middle, or after 200 steps. Each
step of training is an episode. The mean length grows from about 25 to over 180 within 300 episodes.
"""

from __future__ import annotations

import argparse
import math
import random
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.distributions import Bernoulli


class CartPole:
    """A pole on a cart that is pushed to the left (action 0) or to the right (1) at each step."""

    gravity, cart, pole, half_length, push, dt = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02

    def __init__(self, seed):
        self.random = random.Random(seed)

    def reset(self):
        self.state = [self.random.uniform(-0.05, 0.05) for _ in range(4)]
        return self.state

    def step(self, action):
        """Returns the next state, the reward, and True if the episode ends."""
        x, speed, angle, turn = self.state
        sin, cos = math.sin(angle), math.cos(angle)
        total = self.cart + self.pole
        force = self.push if action == 1 else -self.push
        common = (force + self.pole * self.half_length * turn**2 * sin) / total
        turning = (self.gravity * sin - cos * common) / (self.half_length * (4 / 3 - self.pole * cos**2 / total))
        moving = common - self.pole * self.half_length * turning * cos / total
        self.state = [x + self.dt * speed, speed + self.dt * moving, angle + self.dt * turn, turn + self.dt * turning]
        return self.state, 1.0, abs(self.state[0]) > 2.4 or abs(self.state[2]) > math.radians(12)


class Policy(nn.Module):
    """The logit of a push to the right, and the value of a state."""

    def __init__(self):
        super().__init__()
        self.affine = nn.Linear(4, 128)
        self.actor = nn.Linear(128, 1)
        self.critic = nn.Linear(128, 1)

    def forward(self, x):
        x = F.relu(self.affine(x))
        return self.actor(x).squeeze(-1), self.critic(x).squeeze(-1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300, help="episodes")
    parser.add_argument("--longest", type=int, default=200, help="steps of an episode")
    parser.add_argument("--gamma", type=float, default=0.99, help="discount factor")
    parser.add_argument("--lr", type=float, default=5e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--log", type=Path, help="a file for the loss of each episode")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    env = CartPole(args.seed)
    policy = Policy().to(args.device)
    optimizer = optim.Adam(policy.parameters(), lr=args.lr)
    losses, lengths = [], []
    for episode in range(args.steps):
        state = env.reset()
        log_probs, values, rewards = [], [], []
        for _ in range(args.longest):
            logit, value = policy(torch.tensor(state, device=args.device))
            distribution = Bernoulli(logits=logit)
            action = distribution.sample()
            log_probs.append(distribution.log_prob(action))
            values.append(value)
            state, reward, done = env.step(action.item())
            rewards.append(reward)
            if done:
                break

        returns, total = [], 0.0
        for reward in reversed(rewards):
            total = reward + args.gamma * total
            returns.insert(0, total)
        returns = torch.tensor(returns, device=args.device) / 20
        log_probs, values = torch.stack(log_probs), torch.stack(values)
        advantage = returns - values.detach()
        loss = -(log_probs * advantage).mean() + F.smooth_l1_loss(values, returns)

        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        lengths.append(len(rewards))
        if (episode + 1) % 50 == 0:
            print(f"episode {episode + 1}: mean length {sum(lengths[-50:]) / 50:.1f}")
    if args.log:
        args.log.write_text("\n".join(map(repr, losses)) + "\n")
    print(f"mean length {sum(lengths[-50:]) / len(lengths[-50:]):.1f}")


if __name__ == "__main__":
    main()
