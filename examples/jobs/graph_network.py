"""Trains a graph network to tell the topics of papers from their words and from the papers that they cite.

    python examples/jobs/graph_network.py --picture topics.png

6,000 papers of eight topics are made here, with about eight citations each, most of them within a topic, and 200 words
that hint at it. They are one graph; its normalized adjacency is a sparse matrix. 30 papers of each topic are labelled.
The last line is how many of the others are told right: about 97 %, after about 5 s on two cores of an AMD EPYC (Intel's
CPU runtime), which other work shared. The same network without the citations tells about 23 %.
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
from netcl.core import Tensor
from netcl.core.device import device
from netcl.optim import AdamW

Array = np.ndarray[Any, Any]
TOPICS, WORDS, LABELLED = 8, 200, 30


def make_papers(count: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Returns words (count, WORDS), topics (count,) and pairs of papers, one citing the other (2, citations)."""
    topics = np.arange(count) % TOPICS
    pairs = rng.integers(0, count, (2, 40 * count))
    kept = (topics[pairs[0]] == topics[pairs[1]]) | (rng.random(pairs.shape[1]) < 0.1)
    usual = 0.02 + 0.06 * rng.random((TOPICS, WORDS)) ** 3
    words = rng.random((count, WORDS)) < usual[topics]
    return words.astype(np.float32), topics, pairs[:, kept & (pairs[0] != pairs[1])]


def adjacency(pairs: Array, count: int) -> nc.SparseTensor:
    """D^-1/2 (A + I) D^-1/2 of a graph: each row sums a paper and its neighbours, those with many of them less."""
    both = np.concatenate([pairs, pairs[::-1], np.arange(count)[None].repeat(2, axis=0)], axis=1)
    rows, columns = np.divmod(np.unique(both[0] * count + both[1]), count)
    degrees = np.bincount(rows, minlength=count)
    values = 1 / np.sqrt(degrees[rows] * degrees[columns])
    indices = nc.tensor(np.stack([rows, columns]))
    return nc.sparse_coo_tensor(indices, nc.tensor(values.astype(np.float32)), (count, count)).coalesce()


class GraphNetwork(nn.Module):
    """Two layers that each read a paper's neighbours; words (n, WORDS) -> logits (n, TOPICS)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WORDS, width), nn.Linear(width, TOPICS)
        self.dropout = nn.Dropout(0.5)

    def forward(self, words: Tensor, graph: Any) -> Tensor:
        hidden = nc.relu(read(graph, self.first(words)))
        return read(graph, self.second(self.dropout(hidden)))


def read(graph: Any, x: Tensor) -> Tensor:
    """The neighbours' rows of x, summed; x itself without a graph."""
    return x if graph is None else graph @ x


def train(graph: Any, words: Tensor, topics: Tensor, labelled: Tensor, steps: int, width: int) -> GraphNetwork:
    """A network that was trained on the labelled papers, reading all."""
    model = GraphNetwork(width)
    optimizer, loss_fn = AdamW(model.parameters(), lr=1e-2, weight_decay=0.05), nn.CrossEntropyLoss()
    wanted = topics[labelled]
    for step in range(steps):
        optimizer.zero_grad()
        loss = loss_fn(model(words, graph)[labelled], wanted)
        loss.backward()
        optimizer.step()
        if (step + 1) % 50 == 0:
            print(f"step {step + 1}: loss {loss.item():.4f}", flush=True)
    return model.eval()


def draw(path: Path, sides: dict[str, Array], topics: Array) -> None:
    """Writes the papers to a file, as points by the two main components of what is known about each."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.1), layout="constrained")
    for axes, (name, values) in zip(figure.subplots(1, 2), sides.items()):
        centred = values[::11] - values[::11].mean(axis=0)
        main = np.linalg.svd(centred, full_matrices=False)[2][:2]
        axes.scatter(*(main @ centred.T), c=topics[::11], s=4, cmap="tab10", vmax=9)
        axes.set(xticks=[], yticks=[], title=name)
    figure.savefig(path, dpi=70)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", help="auto, cpu (NumPy), pocl, intel, gpu, part of a device's name")
    parser.add_argument("--steps", type=int, help="150 by default, 25 with --quick")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, help="draw the papers to this file")
    parser.add_argument("--quick", action="store_true", help="1,000 papers, a smaller network")
    options = parser.parse_args()
    if options.picture and find_spec("matplotlib") is None:
        raise SystemExit('--picture needs matplotlib: pip install "netcl-trainer[plot]"')

    count, width, steps = (1000, 16, 25) if options.quick else (6000, 64, 150)
    steps = options.steps or steps
    rng = np.random.default_rng(options.seed)
    words, topics, pairs = make_papers(count, rng)
    order = rng.permutation(count)
    labelled = np.concatenate([order[topics[order] == topic][:LABELLED] for topic in range(TOPICS)])
    others = np.setdiff1d(order, labelled)
    with device(options.device):
        nc.manual_seed(options.seed)
        graph = adjacency(pairs, count)
        inputs = (nc.tensor(words), nc.tensor(topics), nc.tensor(labelled), steps, width)
        start = time.perf_counter()
        model = train(graph, *inputs)
        seconds = time.perf_counter() - start
        alone = train(None, *inputs)
        with nc.no_grad():
            logits, by_words = model(inputs[0], graph).numpy(), alone(inputs[0], None).numpy()
    if options.picture:
        draw(options.picture, {"words": words, "what the network makes of them": logits}, topics)
    right, alone_right = (100 * (made.argmax(axis=1) == topics)[others].mean() for made in (logits, by_words))
    print(f"told right {right:.1f} %, by words alone {alone_right:.1f} %, {seconds:.1f} s")


if __name__ == "__main__":
    main()
