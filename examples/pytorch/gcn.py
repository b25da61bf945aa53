"""Trains a graph convolutional network to find the communities of a graph from a few labelled nodes.

    python examples/pytorch/gcn.py
    python -m netcl.torch examples/pytorch/gcn.py

The graph of 2,000 nodes in seven communities, about five neighbours each, is drawn here; most edges stay within a
community, and a node has 128 noisy features. The normalized adjacency is a sparse matrix. 140 nodes are labelled; after
100 steps about 89 % of the others are named right.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F


def make_graph(nodes, communities, features):
    """Features (nodes, features), communities (nodes,) and the edges (2, count), each in both directions."""
    labels = torch.arange(nodes) % communities
    pairs = torch.randint(nodes, (2, 12 * nodes))
    kept = (labels[pairs[0]] == labels[pairs[1]]) | (torch.rand(12 * nodes) < 0.06)
    edges = torch.cat([pairs[:, kept], pairs.flip(0)[:, kept]], dim=1)
    centers = torch.randn(communities, features)
    return 0.16 * centers[labels] + torch.randn(nodes, features), labels, edges


def normalized_adjacency(edges, nodes):
    """The sparse matrix D^-1/2 (A + I) D^-1/2 of a graph."""
    loops = torch.arange(nodes).repeat(2, 1)
    indices = torch.cat([edges, loops], dim=1)
    a = torch.sparse_coo_tensor(indices, torch.ones(indices.size(1)), (nodes, nodes), check_invariants=True)
    a = a.coalesce()
    row, column = a.indices()
    degree = torch.zeros(nodes).scatter_add_(0, row, a.values())
    values = a.values() / torch.sqrt(degree[row] * degree[column])
    return torch.sparse_coo_tensor(a.indices(), values, (nodes, nodes), check_invariants=True).coalesce()


class GraphConvolution(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_features, out_features))
        self.bias = nn.Parameter(torch.empty(out_features))
        bound = 1 / math.sqrt(out_features)
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x, adjacency):
        return torch.sparse.mm(adjacency, torch.mm(x, self.weight)) + self.bias


class GCN(nn.Module):
    def __init__(self, features, hidden, classes, dropout):
        super().__init__()
        self.gc1 = GraphConvolution(features, hidden)
        self.gc2 = GraphConvolution(hidden, classes)
        self.dropout = dropout

    def forward(self, x, adjacency):
        x = F.relu(self.gc1(x, adjacency))
        x = F.dropout(x, self.dropout, training=self.training)
        return F.log_softmax(self.gc2(x, adjacency), dim=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--weight-decay", type=float, default=5e-4)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--log", type=Path, help="a file for the loss of each step")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    x, labels, edges = make_graph(args.nodes, communities=7, features=128)
    adjacency = normalized_adjacency(edges, args.nodes).to(args.device)
    order = torch.randperm(args.nodes)
    train, test = order[:140].to(args.device), order[140:].to(args.device)
    x, labels = x.to(args.device), labels.to(args.device)

    model = GCN(128, args.hidden, 7, args.dropout).to(args.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=args.weight_decay)
    losses = []
    for step in range(args.steps):
        model.train()
        optimizer.zero_grad()
        output = model(x, adjacency)
        loss = F.nll_loss(output[train], labels[train])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if (step + 1) % 20 == 0:
            print(f"step {step + 1}: loss {losses[-1]:.4f}")
    if args.log:
        args.log.write_text("\n".join(map(repr, losses)) + "\n")

    model.eval()
    with torch.no_grad():
        predicted = model(x, adjacency)[test].max(1)[1]
    print(f"accuracy {100 * predicted.eq(labels[test]).double().mean().item():.2f} %")


if __name__ == "__main__":
    main()
