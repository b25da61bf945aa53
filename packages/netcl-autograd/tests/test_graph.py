"""Compiled graphs and training steps: what replays do is what the function does, and a changed key is refused."""

from __future__ import annotations

import threading
from contextlib import nullcontext

import numpy as np
import pytest

import netcl.autograd as ag
from netcl import amp, ops
from netcl.autograd.graph import CompiledGraph
from netcl.autograd.training_compiler import compile_training_step
from netcl.core import Tensor
from netcl.core.device import device
from netcl.core.errors import CaptureError, KernelBuildError
from netcl.runtime.capture import capture

pytestmark = pytest.mark.level("capture")


class Net:
    """Two layers as a module would have them: names, buffers, a training flag."""

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.w1, self.b1, self.w2 = (
            ag.Parameter(Tensor.from_host((rng.standard_normal(s) / 3).astype(np.float32), persistent=True))
            for s in ((12, 6), (12,), (3, 12))
        )
        self.seen = Tensor.zeros((), persistent=True)
        self.training = True

    def modules(self):
        yield self

    def parameters(self):
        return iter((self.w1, self.b1, self.w2))

    def buffers(self):
        return iter((self.seen,))

    def __call__(self, x):
        hidden = ag.relu(ag.linear(x, self.w1, self.b1))
        if self.training:
            hidden = ag.dropout(hidden, 0.25)
            self.seen.write(self.seen + 1.0)
        return ag.linear(hidden, self.w2)


def training(net, zero="end"):
    def step(x, y):
        if zero == "start":
            for p in net.parameters():
                p.grad = None
        loss = ag.cross_entropy(net(x), y)
        loss.backward()
        for p in net.parameters():
            p.write(p - p.grad * 0.1)
            if zero == "end":
                p.grad = None
        return loss

    return step


def batches(count):
    rng = np.random.default_rng(5)
    xs = rng.standard_normal((count, 8, 6)).astype(np.float32)
    return [(Tensor.from_host(x), Tensor.from_host(np.arange(8, dtype=np.int32) % 3)) for x in xs]


def state(net):
    return [t.numpy() for t in (*net.parameters(), net.seen)]


@pytest.mark.parametrize("zero", ["start", "end"])
def test_a_training_step_replays_as_it_runs(handle, zero):
    found = []
    for compiled in (False, True):
        ops.manual_seed(3)
        net = Net()
        step = training(net, zero)
        losses = []
        run = step
        for number, batch in enumerate(batches(6)):
            if compiled and number == 2:
                graph = CompiledGraph(net.parameters(), step).compile(batch)
                run = lambda x, y, graph=graph: graph.replay((x, y))  # noqa: E731
            losses.append(run(*batch).item())
        grads = [None if p.grad is None else p.grad.numpy() for p in net.parameters()]
        found.append((losses, state(net), grads))
    assert found[0][0] == found[1][0]
    for eager, replayed in zip(found[0][1], found[1][1]):
        np.testing.assert_array_equal(eager, replayed)
    for eager, replayed in zip(found[0][2], found[1][2]):
        assert eager is replayed if eager is None else np.array_equal(eager, replayed)


@pytest.mark.level("capture")
def test_gradients_add_up_over_replays_as_over_calls(handle):
    (x, y), *_ = batches(1)
    nets = Net(), Net()
    for net in nets:
        net.training = False

    def total(net):
        def passes(x, y):
            ag.cross_entropy(net(x), y).backward()

        return passes

    for net in nets:
        total(net)(x, y)
    graph = CompiledGraph(nets[1].parameters(), total(nets[1])).compile((x, y))
    for _ in range(3):
        total(nets[0])(x, y)
        graph.replay((x, y))
    for a, b in zip(nets[0].parameters(), nets[1].parameters()):
        np.testing.assert_array_equal(a.grad.numpy(), b.grad.numpy())
    nets[1].b1.grad = None
    with pytest.raises(CaptureError, match=r"\(12,\).*has none now"):
        graph.replay((x, y))


def test_neighbours_and_epilogues_are_one_launch(handle):
    rng = np.random.default_rng(0)
    x, w, b, spare = (
        Tensor.from_host(rng.standard_normal(s).astype(np.float32)) for s in ((8, 16), (16, 32), (32,), (8, 32))
    )

    def step(x):
        ops.sin(x)  # it is not read
        y = ops.relu(ops.add(ops.matmul(x, w), b))
        z = ops.mul(ops.sub(spare, 1.0), 0.5)
        return ops.add(ops.neg(z), 2.0), y

    got = capture(step, x)
    if handle.backend == "cl":
        assert len(got) == 2
    for want, found in zip(step(x), got.replay(x)):
        np.testing.assert_array_equal(want.numpy(), found.numpy())


@pytest.mark.level("capture", "half")
def test_a_changed_key_is_refused(handle):
    net = Net()
    step = training(net)
    batch = batches(1)[0]
    step(*batch)
    graph = CompiledGraph(net.parameters(), step).compile(batch)
    graph.replay(batch)

    def refused(match="changed"):
        with pytest.raises(CaptureError, match=match):
            graph.replay(batch)

    with ag.no_grad():
        refused()
    with amp.autocast(dtype="bfloat16"):
        refused()
    net.training = False
    refused()
    net.training = True
    net.b1.requires_grad = False
    refused()
    net.b1.requires_grad = True
    kept, net.w2 = net.w2, ag.Parameter(net.w2.numpy())
    refused()
    net.w2 = kept
    graph.replay(batch)
    with pytest.raises(CaptureError, match="call compile"):
        CompiledGraph(net).replay(batch)
    with pytest.raises(TypeError, match="list cannot be called"):
        CompiledGraph([net.w1])


def test_an_exception_inside_leaves_everything_as_it_was(handle):
    net = Net()
    step = training(net)
    x, y = batches(1)[0]
    step(x, y)
    before, drawn = state(net), ops.get_rng_state()

    def fails(x, y):
        step(x, y)
        ag.cross_entropy(net(x), y).backward()
        raise ValueError("in the middle")

    with pytest.raises(ValueError, match="in the middle"):
        capture(fails, x, y)
    assert all(p.grad is None for p in net.parameters())
    assert ops.get_rng_state() == drawn
    for a, b in zip(before, state(net)):
        np.testing.assert_array_equal(a, b)
    saved = ag.square(net.w1).sum()
    graph = capture(step, x, y)
    saved.backward()  # a capture has overwritten nothing
    net.w1.grad = None
    other = ag.square(net.w1).sum()
    graph.replay(x, y)
    with pytest.raises(RuntimeError, match="overwritten"):
        other.backward()


def test_threads_train_as_they_would_in_turn(handle):
    def losses(seed, found):
        with device(handle):
            net = Net(seed)
            net.training = False
            step = training(net)
            found[seed] = [step(*batch).item() for batch in batches(5)]

    in_turn, together = {}, {}
    for seed in range(8):
        losses(seed, in_turn)
    threads = [threading.Thread(target=losses, args=(seed, together)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == in_turn
    assert len(in_turn) == 8


def test_a_kernel_that_does_not_build_in_the_middle_of_a_step(handle, monkeypatch):
    net = Net()
    step = training(net)
    batch = batches(1)[0]
    step(*batch)
    before, run = state(net), type(net.w1.engine).run

    def fails(self, outputs, *args, **kwargs):
        if "out" in kwargs and kwargs["out"] is not None:
            raise KernelBuildError("__kernel", "", "too large", "a device", "a driver")
        return run(self, outputs, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(type(net.w1.engine), "run", fails)
        net.training = False
        for work in (step, lambda x, y: capture(step, x, y)):
            with pytest.raises(KernelBuildError, match="too large"):
                work(*batch)
    net.training = True
    for a, b in zip(before, state(net)):
        np.testing.assert_array_equal(a, b)
    for p in net.parameters():
        p.grad = None
    assert np.isfinite(step(*batch).item())


@pytest.mark.level("capture")
def test_training_steps_compile_themselves(handle):
    net, plain = Net(), Net()
    ops.manual_seed(1)
    eager = training(plain)
    want = [eager(*batch).item() for batch in batches(6)]
    ops.manual_seed(1)
    step = compile_training_step(training(net))
    assert [step(*batch).item() for batch in batches(6)] == want
    assert step.replays == 4
    net.training = False
    before = net.seen.item()
    for batch in batches(4):
        step(*batch)
    assert step.replays > 4
    assert net.seen.item() == before

    @compile_training_step(warmup=1)
    def reads(x):
        return (x * 2.0).sum().item()

    x = Tensor.from_host(np.ones(3, np.float32))
    assert reads(x) == 6.0
    with pytest.warns(UserWarning, match="not compiled.*read on the host"):
        assert reads(x) == 6.0
    assert reads(x) == 6.0
    assert reads.replays == 0


def _stateful(h, x):
    h.mul_(0.5).add_(x)
    return h.sum()


def _stateful_pair(x, state):
    state[0].mul_(0.5).add_(x)
    state[1].copy_(state[0] * 2.0)
    return state[1].sum()


def test_a_compiled_step_writes_into_the_states_that_it_is_given(handle):
    found = []
    for compiled in (False, True):
        x, h, pair = (Tensor.from_host(handle, np.arange(3, dtype=np.float32)) for _ in range(3))
        steps = [compile_training_step(step) if compiled else step for step in (_stateful, _stateful_pair)]
        results = [[steps[0](h, x).item(), steps[1](x, (pair, h)).item()] for _ in range(5)]
        found.append((results, h.tolist(), pair.tolist()))
        assert not compiled or [step.replays for step in steps] == [3, 3]
    assert found[0] == found[1]


@pytest.mark.parametrize("pair", [False, True])
def test_a_compiled_step_runs_op_by_op_if_its_argument_is_what_it_writes(handle, pair):
    found = []
    for compiled in (False, True):
        state = Tensor.from_host(handle, np.arange(4, dtype=np.float32))

        def step(x, y, state=state):
            (x if pair else state).add_(1.0)
            return (x * y).sum()

        run = compile_training_step(step) if compiled else step
        arguments = (state, state) if pair else (state[1:3], Tensor.ones(state[1:3].shape, queue=handle.queue))
        results = [run(*arguments).item() for _ in range(2)]
        with (
            pytest.warns(UserWarning, match=r"not compiled: capture: .*argument 0.*clone\(\)")
            if compiled
            else nullcontext()
        ):
            results.append(run(*arguments).item())
        results.append(run(*arguments).item())
        found.append((results, state.tolist()))
    assert found[0] == found[1]


def test_an_argument_gets_the_gradient_that_the_step_makes_for_it(handle):
    w = ag.Parameter(Tensor.from_host(handle, np.array([1.0, -2.0, 3.0], np.float32)))

    def step(x):
        w.grad = None
        loss = (w * x * x).sum()
        loss.backward()
        return loss.detach()

    def leaf(start):
        return Tensor.from_host(handle, np.arange(start, start + 3, dtype=np.float32)).requires_grad_(True)

    captured = capture(step, leaf(0))
    for start in (1, 4):
        x, other = leaf(start), leaf(start)
        assert captured.replay(x).item() == step(other).item()
        assert x.grad.tolist() == other.grad.tolist()
    with pytest.raises(CaptureError, match="has no gradient"):
        captured.replay(x)
    for refused in (x.detach(), leaf(0) * 2.0):
        with pytest.raises(CaptureError, match="must be a leaf that requires grad"):
            captured.replay(refused)
    without = capture(step, x.detach())
    with pytest.raises(CaptureError, match="requires grad, and did not in the capture"):
        without.replay(leaf(0))
    with pytest.raises(CaptureError, match="capture: the step makes the gradient of argument 0"):
        capture(step, leaf(0) * 2.0)
