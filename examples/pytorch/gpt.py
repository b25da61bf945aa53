"""Trains a small GPT to add two numbers, written as text, and asks it for sums that it has not seen.

    python examples/pytorch/gpt.py
    python -m netcl.torch examples/pytorch/gpt.py

A sample is "37+45=280": the digits of the sum are written from the last to the first, which is the order in which they
are carried. 8,000 of the 10,000 pairs below 100 are learned. The model has 0.4 million parameters; after 1,000 steps of
128 samples more than 99 % of the other sums are right.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import torch
import torch.nn as nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

CHARACTERS = "0123456789+="
LENGTH = 9  # aa+bb=ccc
ASKED = 6  # characters before the sum


def make_sums(pairs):
    """Inputs and targets, both (count, LENGTH - 1), of pairs 100 a + b; a target of -1 is not learned."""
    ids = []
    for a, b in (divmod(pair, 100) for pair in pairs.tolist()):
        text = f"{a:02d}+{b:02d}=" + f"{a + b:03d}"[::-1]
        ids.append([CHARACTERS.index(c) for c in text])
    ids = torch.tensor(ids)
    x, y = ids[:, :-1], ids[:, 1:].clone()
    y[:, : ASKED - 1] = -1
    return TensorDataset(x, y)


class CausalSelfAttention(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.qkv(x).split(C, dim=2)
        q, k, v = (part.view(B, T, self.heads, C // self.heads).transpose(1, 2) for part in (q, k, v))
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        return self.proj(y.transpose(1, 2).contiguous().view(B, T, C))


class Block(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = CausalSelfAttention(width, heads, dropout)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, layers=2, width=128, heads=4, dropout=0.0):
        super().__init__()
        self.tokens = nn.Embedding(len(CHARACTERS), width)
        self.positions = nn.Parameter(torch.zeros(1, LENGTH, width))
        self.blocks = nn.ModuleList([Block(width, heads, dropout) for _ in range(layers)])
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, len(CHARACTERS), bias=False)
        self.apply(self._init_weights)
        for name, parameter in self.named_parameters():
            if name.endswith("proj.weight"):
                nn.init.normal_(parameter, mean=0.0, std=0.02 / math.sqrt(2 * layers))
        self.tokens.weight = self.head.weight

    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, ids, targets=None):
        x = self.tokens(ids) + self.positions[:, : ids.size(1)]
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln_f(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)

    @torch.no_grad()
    def generate(self, ids, count):
        for _ in range(count):
            logits, _ = self(ids)
            ids = torch.cat([ids, logits[:, -1].argmax(dim=-1, keepdim=True)], dim=1)
        return ids

    def configure_optimizer(self, lr, weight_decay):
        decayed = [p for p in self.parameters() if p.dim() >= 2]
        others = [p for p in self.parameters() if p.dim() < 2]
        groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--test", type=int, default=2000, help="sums that are not learned")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--log", type=Path, help="a file for the loss of each step")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    pairs = torch.randperm(10_000)
    loader = DataLoader(make_sums(pairs[args.test :]), batch_size=args.batch_size, shuffle=True, drop_last=True)
    model = GPT(args.layers, args.width, dropout=args.dropout).to(args.device)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} million parameters")
    optimizer = model.configure_optimizer(args.lr, weight_decay=0.1)

    def warm_up_and_cosine(step):
        if step < 50:
            return (step + 1) / 50
        return 0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, (step - 50) / max(1, args.steps - 50))))

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, warm_up_and_cosine)
    losses = []
    while len(losses) < args.steps:
        model.train()
        for x, y in loader:
            _, loss = model(x.to(args.device), y.to(args.device))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            losses.append(loss.item())
            if len(losses) % 100 == 0:
                print(f"step {len(losses)}: loss {losses[-1]:.4f}")
            if len(losses) == args.steps:
                break
    if args.log:
        args.log.write_text("\n".join(map(repr, losses)) + "\n")

    model.eval()
    correct = 0
    held_out = make_sums(pairs[: args.test])
    for x, y in DataLoader(held_out, batch_size=500):
        written = model.generate(x[:, :ASKED].to(args.device), LENGTH - ASKED)[:, ASKED:].cpu()
        correct += (written == y[:, ASKED - 1 :]).all(dim=1).sum().item()
    print(f"accuracy {100 * correct / len(held_out):.2f} %")


if __name__ == "__main__":
    main()
