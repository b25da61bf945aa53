"""torch.distributed against PyTorch's: one program runs in two processes of torchrun, and of netcl's launcher."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import json
import os
import sys
import warnings

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data.distributed import DistributedSampler

warnings.simplefilter("ignore")
dist.init_process_group("gloo")
r, n = dist.get_rank(), dist.get_world_size()
out = {"rank": r, "sizes": [n, dist.get_world_size(dist.group.WORLD), dist.is_initialized()]}
out["variables"] = [os.environ[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")]
out["backend"] = dist.get_backend()
out["ranks"] = dist.get_process_group_ranks(dist.group.WORLD)

x = torch.tensor([r + 1.0])
handle = dist.all_reduce(x, async_op=True)
out["all_reduce"] = [bool(handle.wait()), handle.is_completed(), x.item()]
for op in ("MAX", "MIN", "PRODUCT"):
    x = torch.tensor([r + 2, 7 - r])
    out[op] = [dist.all_reduce(x, getattr(dist.ReduceOp, op)), x.tolist()]
x = torch.full((2,), float(r))
out["broadcast"] = [dist.broadcast(x, src=1), x.tolist()]
x = torch.tensor([r + 1.0])
dist.reduce(x, dst=0, op=dist.ReduceOp.MAX)
out["reduce"] = x.item() if r == 0 else None
parts = [torch.zeros(2) for _ in range(n)]
out["all_gather"] = [dist.all_gather(parts, torch.tensor([r, r * 2.0])), [part.tolist() for part in parts]]
whole = torch.zeros(n * 2)
dist.all_gather_into_tensor(whole, torch.tensor([r, 5.0]))
out["all_gather_into_tensor"] = whole.tolist()
part = torch.zeros(2)
dist.reduce_scatter(part, [torch.tensor([at * 1.0, r]) for at in range(n)])
out["reduce_scatter"] = part.tolist()
part = torch.zeros(1, 2)
dist.reduce_scatter_tensor(part, torch.arange(n * 2.0).reshape(n, 2) + r)
out["reduce_scatter_tensor"] = part.tolist()
parts = [torch.zeros(1) for _ in range(n)] if r == 0 else None
dist.gather(torch.tensor([r + 0.5]), parts, dst=0)
out["gather"] = None if parts is None else [part.item() for part in parts]
part = torch.zeros(1)
dist.scatter(part, [torch.tensor([at * 3.0]) for at in range(n)] if r == 1 else None, src=1)
out["scatter"] = part.item()
got, other = torch.zeros(1), (r + 1) % n
for work in [dist.isend(torch.tensor([r * 1.0]), other), dist.irecv(got, other)]:
    work.wait()
out["messages"] = got.item()

values = [None] * n
dist.all_gather_object(values, {"r": r, "pair": (1, None), "text": "x" * r})
out["all_gather_object"] = values
values = [None, None] if r else ["a", {"b": 1}]
dist.broadcast_object_list(values, src=0)
out["broadcast_object_list"] = values
values = [None]
dist.scatter_object_list(values, [["x"], ["y"]] if r == 0 else None, src=0)
out["scatter_object_list"] = values
values = [None] * n if r == 0 else None
dist.gather_object(r, values, dst=0)
out["gather_object"] = values

sampler = DistributedSampler(range(11), shuffle=True, seed=3)
orders = []
for epoch in (0, 2):
    sampler.set_epoch(epoch)
    orders.append(list(sampler))
out["orders"] = orders

X = torch.arange(48.0).reshape(12, 4) / 48


def trained(made, steps, wrap=True, after=None):
    torch.manual_seed(r)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
    ddp = DDP(model)
    used = ddp if wrap else model
    optimizer = made(model.parameters())
    for step in range(steps):
        with ddp.no_sync():
            used(X[r::n]).square().mean().backward()
        used(X[r::n] * (step + 1)).sum(1).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    if after:
        after(optimizer)
    return [value for p in model.parameters() for value in p.flatten().tolist()]


floats = {}


def saved(optimizer):
    out["owned"] = len(optimizer.optim.param_groups[0]["params"])
    optimizer.consolidate_state_dict(to=0)
    if r == 0:
        state = optimizer.state_dict()
        out["state"] = [sorted(state["state"]), sorted(state["state"][0]), state["param_groups"][0]["params"]]
        floats["state"] = [v for at in range(4) for v in state["state"][at]["exp_avg"].flatten().tolist()]
        optimizer.load_state_dict(state)


floats["ddp"] = trained(lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9), 3)
floats["zero"] = trained(
    lambda params: ZeroRedundancyOptimizer(params, optimizer_class=torch.optim.AdamW, lr=0.05), 3, after=saved
)
floats["local"] = trained(
    lambda params: PostLocalSGDOptimizer(torch.optim.SGD(params, lr=0.1), PeriodicModelAverager(3, warmup_steps=2)),
    5, wrap=False,
)
model = DDP(nn.BatchNorm1d(4))
model.train()
out["names"] = list(model.state_dict())
errors = []
for call in (
    lambda: DDP(nn.ReLU()),
    lambda: DDP(nn.Linear(1, 1), device_ids=[0, 1]),
    lambda: dist.init_process_group("gloo"),
    lambda: ZeroRedundancyOptimizer(nn.Linear(1, 1).parameters(), torch.optim.Adam).state_dict(),
):
    try:
        call()
    except Exception as error:
        errors.append([kind.__name__ for kind in (ValueError, RuntimeError) if isinstance(error, kind)])
out["errors"] = errors
dist.barrier()
dist.destroy_process_group()
try:
    dist.get_rank()
except ValueError:
    out["after"] = [dist.is_initialized()]
os.write(1, (json.dumps([out, floats]) + chr(10)).encode())
"""


def results(command: list[str], script: Path, env: dict[str, str]) -> list[Any]:
    """What the ranks print, in rank order."""
    done = subprocess.run(
        [sys.executable, "-m", *command, str(script)],
        capture_output=True,
        text=True,
        timeout=280,
        env={**os.environ, "OMP_NUM_THREADS": "1", **env},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return sorted((json.loads(line) for line in done.stdout.splitlines()), key=lambda one: one[0]["rank"])


@pytest.mark.timeout(600)
@pytest.mark.parametrize("device", ["cpu", "pocl"])
def test_a_script_of_two_processes_has_pytorchs_results(device: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(PROGRAM, encoding="utf-8")
    theirs = results(["torch.distributed.run", "--standalone", "--nproc-per-node", "2"], script, {})
    launcher = ["netcl.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "netcl.torch"]
    ours = results(launcher, script, {"NETCL_DEVICE": device})
    assert len(theirs) == len(ours) == 2
    count = 0
    for (exact, floats), (our_exact, our_floats) in zip(theirs, ours):
        assert set(our_exact) == set(exact)
        for name, value in exact.items():
            assert our_exact[name] == value, name
            count += 1
        assert set(our_floats) == set(floats)
        for name, values in floats.items():
            np.testing.assert_allclose(our_floats[name], values, rtol=2e-4, atol=2e-5, err_msg=name)
            count += len(values)
    print(f"{count} results of torch.distributed compared")


@pytest.mark.timeout(600)
def test_the_losses_of_the_example_are_pytorchs(tmp_path: Path) -> None:
    example = ROOT / "examples/pytorch/ddp.py"
    curves = []
    for name, command in {
        "theirs": ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"],
        "ours": ["netcl.distributed.run", "-n", "2", "-m", "netcl.torch"],
    }.items():
        log = tmp_path / name
        arguments = [str(example), "--steps", "50", "--device", "cpu", "--losses", str(log)]
        done = subprocess.run(
            [sys.executable, "-m", *command, *arguments],
            capture_output=True,
            text=True,
            timeout=280,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        curves.append(np.loadtxt(log))
    np.testing.assert_allclose(curves[1], curves[0], rtol=1e-4)
