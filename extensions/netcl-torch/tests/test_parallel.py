"""torch.nn.parallel over the ranks of a group: the gradients of the whole batch, whatever the inputs of the model."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import netcl.torch as torch
from netcl.core import manager
from netcl.core.device import device
from netcl.core.errors import UnsupportedError
from netcl.distributed import RankFailedError, current_group, run_on_devices
from netcl.torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from netcl.torch.nn.parallel import DistributedDataParallel as DDP

nn = torch.nn
X = np.random.default_rng(0).standard_normal((4, 12, 5)).astype(np.float32)  # by micro-batch


class Heads(nn.Module):
    """A layer that is always used, one that is used on request, and one that never is."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.never = nn.Linear(5, 3), nn.Linear(5, 2), nn.Linear(2, 2)
        rng = np.random.default_rng(1)
        for p in self.parameters():
            p.write(rng.standard_normal(p.shape).astype(np.float32))

    def forward(self, x, second=True):
        y = (self.first(x) ** 2).mean(1)
        return y + self.second(x).mean(1) if second else y


def part(number, group):
    return torch.from_numpy(X[number][group.rank :: group.size]) if group else torch.from_numpy(X[number])


def gradients(module):
    return [None if p.grad is None else p.grad.numpy() for p in module.parameters()]


def compare(got, wanted, rtol=1e-5, atol=1e-6):
    assert [one is None for one in got] == [one is None for one in wanted]
    for one, other in zip(got, wanted):
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=rtol, atol=atol)


def whole(numbers, second=True):
    module = Heads()
    for number in numbers:
        module(part(number, None), second).mean().backward()
    return gradients(module)


def places():
    halves = manager.default()
    assert halves is not None
    split = manager.split(halves, 2)
    return {"numpy": ["cpu", "cpu"], "three": ["cpu"] * 3, "driver": split, "staged": split}


@pytest.mark.parametrize(
    "kind", ["numpy", "three", "driver", pytest.param("staged", marks=pytest.mark.level("staging"))]
)
@pytest.mark.parametrize("options", [{}, {"bucket_cap_mb": 1e-5}, {"static_graph": True}])
def test_gradients_are_those_of_the_whole_batch(kind, options, monkeypatch):
    handles = places()[kind]
    monkeypatch.setenv("NETCL_DIST_STAGING", "on" if kind == "staged" else "off")

    def rank(group):
        model = DDP(Heads(), find_unused_parameters=True, **options)
        assert (type(model._reducer._buckets).__name__ == "StagedBuckets") == (kind == "staged")
        model(part(0, group)).mean().backward()
        model(part(1, group), second=False).mean().backward()
        return gradients(model)

    with device(handles[0]):
        module = Heads()
        module(part(0, None)).mean().backward()
        module(part(1, None), second=False).mean().backward()
        wanted = gradients(module)
    found = run_on_devices(rank, handles)
    for got in found:
        compare(got, wanted, 1e-4, 1e-5)
        assert all(one is None or one.tobytes() == other.tobytes() for one, other in zip(got, found[0]))


def test_a_parameter_without_a_gradient_on_one_rank_counts_as_zero_there():
    def rank(group):
        model = DDP(Heads(), find_unused_parameters=True)
        model(part(0, group), second=group.rank == 1).mean().backward()
        return gradients(model)

    def alone(group):
        module = Heads()
        module(part(0, group), second=group.rank == 1).mean().backward()
        return gradients(module)

    zero, one = run_on_devices(alone, ["cpu", "cpu"])
    wanted = [
        None if b is None else (b if a is None else a + b) / np.float32(2)  #
        for a, b in zip(zero, one)
    ]
    for got in run_on_devices(rank, ["cpu", "cpu"]):
        compare(got, wanted)


def test_gradients_stay_on_their_rank_inside_no_sync():
    def rank(group):
        model = DDP(Heads())
        with model.no_sync():
            model(part(0, group)).mean().backward()
        local = gradients(model)
        model(part(1, group), second=False).mean().backward()
        both = gradients(model)
        model.zero_grad()
        model(part(2, group)).mean().backward()
        return local, both, gradients(model)

    with device("cpu"):
        first, second = whole([0]), whole([1], second=False)
        both = [a if b is None else a + b if a is not None else None for a, b in zip(first, second)]
        found = run_on_devices(rank, ["cpu", "cpu"])
        for _, got, last in found:
            compare(got, both)
            compare(last, whole([2]))
    assert (found[0][0][0] != found[1][0][0]).any()


def test_passes_of_several_calls_and_of_the_module_itself():
    def rank(group):
        model = DDP(Heads())
        losses = [model(part(number, group)).mean() for number in (0, 1)]
        for loss in losses:
            loss.backward()
        both = gradients(model)
        model.zero_grad()
        model.module(part(2, group)).mean().backward()
        return both, gradients(model)

    with device("cpu"):
        wanted = whole([0, 1])
        found = run_on_devices(rank, ["cpu", "cpu"])
        for both, _ in found:
            compare(both, wanted)
    assert (found[0][1][0] != found[1][1][0]).any()


def test_models_begin_as_that_of_rank_0_and_generators_stay_apart():
    def rank(group):
        torch.manual_seed(group.rank)
        module = nn.BatchNorm1d(3)
        with torch.no_grad():
            for tensor in (*module.parameters(), module.running_mean):
                tensor.fill_(group.rank + 5.0)
        model = DDP(module)
        return [module.weight.tolist(), module.running_mean.tolist()], list(model.state_dict())

    for values, names in run_on_devices(rank, ["cpu", "cpu"]):
        assert values == [[5.0] * 3] * 2
        assert names == [f"module.{name}" for name in nn.BatchNorm1d(3).state_dict()]


@pytest.mark.parametrize("broadcast", [True, False])
def test_buffers_of_rank_0_are_copied_at_each_call(broadcast):
    def rank(group):
        model = DDP(nn.BatchNorm1d(5), broadcast_buffers=broadcast)
        for number in range(2):
            model(part(number, group)).sum().backward()
        with torch.no_grad():
            model(part(2, group))  # without gradients a rank is alone
        before = model.module.running_mean.tolist()
        with model.no_sync():
            model(part(3, group))
        model(part(3, group))
        return before, model.module.num_batches_tracked.item()

    zero, one = run_on_devices(rank, ["cpu", "cpu"])
    assert zero[0] != one[0]
    assert zero[1] == one[1] == 5


@pytest.mark.parametrize("synchronized", [True, False])
def test_layers_of_sync_batch_norm_use_the_statistics_of_all_ranks(synchronized):
    def made():
        module = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2))
        rng = np.random.default_rng(2)  # the generator of torch is that of all threads
        for p in module.parameters():
            p.write(rng.standard_normal(p.shape).astype(np.float32))
        return module

    def trained(module, model, group):
        for number in range(2):
            (model(part(number, group)) ** 2).mean().backward()
        return gradients(module) + [module[1].running_mean.numpy(), module[1].running_var.numpy()]

    def rank(group):
        module = made()
        if synchronized:
            module = nn.SyncBatchNorm.convert_sync_batchnorm(module)
        return trained(module, DDP(module), group)

    with device("cpu"):
        module = made()
        wanted = trained(module, module, None)
        for got in run_on_devices(rank, ["cpu", "cpu"]):
            if synchronized:
                compare(got, wanted, 1e-4, 1e-5)
            else:
                assert abs(got[0] - wanted[0]).max() > 1e-3


def test_inputs_of_any_form_and_length_are_passed_on():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, pairs, table=None, *, scale):
            return {"sum": sum(self.layer(x).sum() for x in pairs) * scale, "table": table["y"], "text": "a"}

    def rank(group):
        torch.manual_seed(0)
        model = DDP(Mixed(), device_ids=["cpu"])
        out = model([torch.ones(group.rank + 1, 2), torch.ones(3, 2)], table={"y": torch.zeros(7)}, scale=2.0)
        out["sum"].backward()
        assert out["text"] == "a"
        assert out["table"].shape == (7,)
        return model.module.layer.bias.grad.tolist()

    # (4 + 5) samples in all, times 2, over two ranks
    assert run_on_devices(rank, ["cpu", "cpu"]) == [[9.0, 9.0]] * 2


def test_layers_in_checkpoints():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(5, 5)
            rng = np.random.default_rng(2)
            for p in self.parameters():
                p.write(rng.standard_normal(p.shape).astype(np.float32))

        def forward(self, x, times):
            for _ in range(times):
                x = torch.utils.checkpoint.checkpoint(self.layer, x, use_reentrant=False)
            return x

    def rank(group):
        found = []
        for times, static in ((1, False), (2, True)):
            model = DDP(Twice(), static_graph=static)
            model(part(0, group), times).mean().backward()
            found.append(gradients(model))
        return found

    def twice(group):
        model = DDP(Twice(), bucket_cap_mb=1e-6)
        model(part(0, group), 2).mean().backward()

    wanted = []
    for times in (1, 2):
        module = Twice()
        module(part(0, None), times).mean().backward()
        wanted.append(gradients(module))
    for found in run_on_devices(rank, ["cpu", "cpu"]):
        for got, plain in zip(found, wanted):
            compare(got, plain)
    with pytest.raises(RuntimeError, match="static_graph=True"):
        run_on_devices(twice, ["cpu", "cpu"])


@pytest.mark.parametrize(("hook", "unit"), [("bf16_compress_hook", 2.0**-8), ("fp16_compress_hook", 2.0**-11)])
def test_hooks_choose_the_dtype_on_the_wire(hook, unit):
    def rank(group):
        model = DDP(Heads())
        model.register_comm_hook(None, getattr(default_hooks, hook))
        model(part(0, group)).mean().backward()
        return gradients(model)

    with device("cpu"):
        wanted = whole([0])
    for got in run_on_devices(rank, ["cpu", "cpu"]):
        different = [(one != other).any() for one, other in zip(got, wanted) if one is not None]
        assert any(different)
        for one, other in zip(got, wanted):
            assert one is None or abs(one - other).max() <= 4 * unit * max(abs(other).max(), 0.5)


def test_a_copy_reduces_its_own_gradients():
    def rank(group):
        model = DDP(Heads())
        other = copy.deepcopy(model)
        other(part(0, group)).mean().backward()
        return gradients(model), gradients(other)

    with device("cpu"):
        wanted = whole([0])
    for untouched, got in run_on_devices(rank, ["cpu", "cpu"]):
        assert untouched == [None] * 6
        compare(got, wanted)


def test_what_is_not_there_is_refused():
    layer = nn.Linear(1, 1)
    with pytest.raises(ValueError, match="call init_process_group first"):
        DDP(layer)

    def rank(group):
        with pytest.raises(ValueError, match="device_ids is None or one device"):
            DDP(layer, device_ids=[0, 1])
        with pytest.raises(RuntimeError, match="no parameter of the module requires grad"):
            DDP(nn.ReLU())
        for name in ("mixed_precision", "device_mesh"):
            with pytest.raises(UnsupportedError, match=name):
                DDP(layer, **{name: object()})
        model = DDP(layer)
        with pytest.raises(UnsupportedError, match="same number of batches"):
            model.join()
        with pytest.raises(UnsupportedError, match="bf16_compress_hook"):
            model.register_comm_hook(None, lambda state, bucket: None)
        with pytest.raises(UnsupportedError, match="not called"):
            default_hooks.allreduce_hook(None, None)

    run_on_devices(rank, ["cpu"])


def test_a_rank_that_raises_is_named_by_the_backward_pass_of_the_others():
    seen = []

    def rank(group):
        model = DDP(Heads())
        loss = model(part(0, group)).mean()
        if group.rank == 1:
            raise ValueError("too bad")
        try:
            loss.backward()
        except RankFailedError as error:
            seen.append(error.rank)
            raise

    with pytest.raises(ValueError, match="too bad"):
        run_on_devices(rank, ["cpu", "cpu"])
    assert seen == [1]


def test_data_parallel_splits_the_batch_over_devices():
    parts = manager.split(manager.default(), 2)
    with device(parts[0]):
        module = Heads()
        model = nn.DataParallel(module, device_ids=parts)
        assert list(model.state_dict()) == [f"module.{name}" for name in module.state_dict()]
        model(part(0, None)).mean().backward()
        assert len(model.__dict__["_replicas"][1].weights) == 2
        wanted = whole([0])
        compare(gradients(module), wanted, 1e-4, 1e-5)
        out = torch.nn.parallel.data_parallel(module, part(0, None), device_ids=parts)
        np.testing.assert_allclose(out.detach().numpy(), module(part(0, None)).detach().numpy(), rtol=1e-5, atol=1e-5)
        with pytest.raises(UnsupportedError, match="not on dim=1"):
            nn.DataParallel(module, device_ids=parts, dim=1)

    def rank(group):
        assert current_group() is group
        with device(parts[0]):
            module = Heads()
            nn.DataParallel(module, device_ids=parts)(part(0, None)[group.rank :]).mean().backward()
            return gradients(module)

    first, second = run_on_devices(rank, ["cpu", "cpu"])
    compare(first, wanted, 1e-4, 1e-5)
    assert (first[0] != second[0]).any()


def launched(*command, env=None, timeout=110):
    given = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "NETCL_DEVICE": "cpu", **(env or {})}
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=timeout, env=given)


LAUNCHER = ("-m", "netcl.distributed.run")


FAULTY = """
    import os, sys
    import torch
    import torch.distributed as dist
    from torch.distributed.elastic.multiprocessing.errors import record
    from torch.nn.parallel import DistributedDataParallel

    @record
    def main():
        dist.init_process_group("gloo")
        rank = int(os.environ["RANK"])
        model = DistributedDataParallel(torch.nn.Linear(2, 2))
        for step in range(3):
            loss = model(torch.ones(4, 2)).sum()
            if step == 1 and rank == 1:
                os._exit(9)
            try:
                loss.backward()
            except RuntimeError as error:
                print(rank, type(error).__name__, error.rank, flush=True)
                raise

    main()
"""


def test_a_rank_of_the_launcher_that_ends_is_named(tmp_path):
    (tmp_path / "faulty.py").write_text(textwrap.dedent(FAULTY))
    done = launched(*LAUNCHER, "-n", "2", "-m", "netcl.torch", str(tmp_path / "faulty.py"))
    assert done.returncode == 9
    assert done.stdout == "0 RankFailedError 1\n", done.stderr


CAPTURED = """
    import sys
    import numpy as np
    import torch
    import torch.distributed as dist
    from netcl.core import Tensor
    from netcl.runtime.capture import capture
    from torch.nn.parallel import DistributedDataParallel

    def train(captured):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
        ddp = DistributedDataParallel(model, bucket_cap_mb=1e-4)
        optimizer = torch.optim.AdamW(ddp.parameters(), lr=0.01)

        def step(x):
            optimizer.zero_grad()
            loss = ddp(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        rng, replay = np.random.default_rng(dist.get_rank()), None
        for number in range(6):
            x = Tensor.from_host(rng.standard_normal((4, 8)).astype(np.float32))
            if captured and number >= 2:
                replay = replay or capture(step, x).replay
                replay(x)
            else:
                step(x)
        return [value for p in model.parameters() for value in p.flatten().tolist()]

    dist.init_process_group()
    eager, replayed = train(False), train(True)
    if dist.get_rank() == 0:
        print(eager == replayed, len(eager), flush=True)
    dist.destroy_process_group()
"""


@pytest.mark.level("staging")
@pytest.mark.level("capture")
def test_a_captured_step_has_the_bits_of_eager_ones(tmp_path):
    (tmp_path / "captured.py").write_text(textwrap.dedent(CAPTURED))
    command = (*LAUNCHER, "-n", "2", "-m", "netcl.torch", str(tmp_path / "captured.py"))
    done = launched(*command, env={"NETCL_DIST_STAGING": "on"})
    assert done.returncode == 0, done.stderr
    assert done.stdout == "True 195\n"


SPAWNED = """
    import os, sys
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp
    from torch.nn.parallel import DistributedDataParallel as DDP

    def setup(rank, world_size):
        os.environ["MASTER_ADDR"] = "localhost"
        os.environ["MASTER_PORT"] = sys.argv[1]
        dist.init_process_group("gloo", rank=rank, world_size=world_size)

    def work(rank, world_size):
        setup(rank, world_size)
        torch.manual_seed(rank)
        model = DDP(torch.nn.Linear(3, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        model(torch.ones(2, 3) * (rank + 1)).sum().backward()
        optimizer.step()
        found = [None] * world_size
        dist.all_gather_object(found, model.module.weight.tolist())
        if rank == 0:
            layer = model.module
            print(found[0] == found[1], layer.bias.grad.tolist(), layer.weight.grad[0].tolist(), flush=True)
        dist.destroy_process_group()

    if __name__ == "__main__":
        mp.spawn(work, args=(2,), nprocs=2, join=True)
"""


def test_spawned_processes_meet_at_the_masters_port(tmp_path):
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (tmp_path / "spawned.py").write_text(textwrap.dedent(SPAWNED))
    done = launched("-m", "netcl.torch", str(tmp_path / "spawned.py"), str(port))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "True [2.0, 2.0] [3.0, 3.0, 3.0]\n"


def test_optimizers_and_averagers_have_pytorchs_paths():
    from netcl.distributed import optim
    from netcl.torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    from netcl.torch.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer

    assert (ZeroRedundancyOptimizer, PostLocalSGDOptimizer) == (
        optim.ZeroRedundancyOptimizer,
        optim.PostLocalSGDOptimizer,
    )
    assert PeriodicModelAverager is optim.PeriodicModelAverager

    def rank(group):
        model = DDP(Heads())
        optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=0.1)
        for number in range(3):
            model(part(number, group)).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        return [p.detach().numpy() for p in model.parameters()]

    with device("cpu"):
        module = Heads()
        optimizer = torch.optim.AdamW(module.parameters(), lr=0.1)
        for number in range(3):
            module(part(number, None)).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    for got in run_on_devices(rank, ["cpu", "cpu"]):
        compare(got, [p.detach().numpy() for p in module.parameters()], 1e-4, 1e-5)


def test_the_sampler_takes_the_numbers_of_the_group():
    def rank(group):
        sampler = torch.utils.data.distributed.DistributedSampler(range(6), shuffle=False)
        first = list(sampler)
        shuffled = torch.utils.data.distributed.DistributedSampler(range(64), seed=1)
        orders = []
        for epoch in (0, 1, 0):
            shuffled.set_epoch(epoch)
            orders.append(list(shuffled))
        assert orders[0] == orders[2] != orders[1]
        return first

    assert run_on_devices(rank, ["cpu"] * 3) == [[0, 3], [1, 4], [2, 5]]
