"""jit_compile: values and gradients of jitted functions equal the functions' own, in fewer kernels."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import netcl.autograd as ag
from netcl import ops
from netcl.autograd.compiler import compile as torch_compile
from netcl.autograd.compiler import jit_compile
from netcl.core import Tensor, config
from netcl.core.device import device
from netcl.core.errors import ForwardOnlyWarning, KernelBuildError, ShapeError
from netcl.runtime.capture import capture

pytestmark = pytest.mark.level("tracing")


def chain(x, b):
    y = ag.tanh(x * 2.0 + b)
    y = ag.relu(ag.sigmoid(y) * x - 0.1)
    return ag.exp(-y) / 3.0


def softmax_rows(x, b):
    z = ag.softmax(x + b) * 3.0
    return z.sum(axis=-1), z


def row_loss(x, b):
    target = Tensor.from_host(x.queue, np.arange(x.shape[0]) % x.shape[1])
    return ag.cross_entropy(x * b, target)


def centred(x, b):
    d = x - x.mean(axis=-1).unsqueeze(-1)
    return (d * d).mean(axis=-1) + b.sum()


def normed(x, b):
    return (ag.layer_norm(x + b, x.shape[-1], b, b) * x).mean()


FUNCTIONS = (chain, softmax_rows, row_loss, centred, normed)


def values_and_gradients(fn, *arrays):
    """Results as arrays, then the gradients of the leaves (None for one without)."""
    leaves = [ag.tensor(Tensor.from_host(a, requires_grad=True)) for a in arrays]
    results = fn(*leaves)
    results = results if isinstance(results, tuple) else (results,)
    total = sum((r * r).sum() for r in results)
    total.backward()
    return [r.numpy() for r in results] + [None if leaf.grad is None else leaf.grad.numpy() for leaf in leaves]


def samples(*shape):
    rng = np.random.default_rng(1)
    return rng.standard_normal(shape).astype(np.float32), rng.standard_normal(shape[-1]).astype(np.float32)


def same(a, b):
    assert len(a) == len(b)
    return all(np.array_equal(p, q, equal_nan=True) for p, q in zip(a, b))


@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda fn: fn.__name__)
def test_bits_are_those_of_the_function_itself(handle, fn):
    jitted = jit_compile(fn)
    for shape in ((8, 16), (3, 5)):
        arrays = samples(*shape)
        plain = values_and_gradients(fn, *arrays)
        assert same(values_and_gradients(jitted, *arrays), plain)
        assert same(values_and_gradients(jitted, *arrays), plain)


def test_a_chain_is_one_kernel_forward_and_one_backward(handle):
    x = Tensor.from_host(samples(8, 16)[0], requires_grad=True)
    jitted = jit_compile(lambda x: ag.sigmoid(ag.relu(ag.tanh(x * 2.0) * x - 0.1) / 3.0 + x) * 2.0)
    kernels = jitted.kernels(x)
    if handle.backend == "cpu":
        assert kernels == []
        return
    assert len(kernels) == 2
    assert kernels[1].program == kernels[0].program + "_grad"
    assert all("__kernel" in kernel.source and kernel.global_size[0] > 0 for kernel in kernels)
    with ag.no_grad():
        assert [kernel.program for kernel in jitted.kernels(x)] == [kernels[0].program]
    fast = jit_compile(jitted.__wrapped__, fast_math=True).kernels(x)
    assert {kernel.options for kernel in fast} == {"-cl-fast-relaxed-math"} != {kernels[0].options}
    with config.override(FAST_MATH=True):
        assert {kernel.options for kernel in jit_compile(jitted.__wrapped__).kernels(x)} == {"-cl-fast-relaxed-math"}


def test_only_what_is_read_is_computed(handle):
    x, rows = (Tensor.from_host(samples(*shape)[0]) for shape in ((8, 16), (3, 5)))

    @jit_compile
    def fn(x, rows):
        first = ag.relu(x) * 2.0
        dropped = ag.softmax(rows) * 3.0
        last = ag.exp(first) + ag.tanh(first)
        del first, dropped
        return last

    expected = np.maximum(x.numpy(), 0).astype(np.float64) * 2
    assert np.allclose(fn(x, rows).numpy(), np.exp(expected) + np.tanh(expected), rtol=1e-5)
    assert handle.backend == "cpu" or [kernel.program for kernel in fn.kernels(x, rows)] == [
        "jit(relu+mul+exp+tanh+add)"
    ]


def test_calls_in_turns_on_two_shapes_are_two_kernels(handle):
    x, rows = (Tensor.from_host(samples(*shape)[0], requires_grad=True) for shape in ((8, 16), (3, 5)))

    @jit_compile
    def fn(x, rows):
        a, b = x * 2.0, rows + 1.0
        a, b = ag.relu(a), ag.abs(b)
        return a - 0.5, b * b

    for made, wanted in zip(fn(x, rows), fn.__wrapped__(x, rows)):
        assert np.array_equal(made.numpy(), wanted.numpy())
    with ag.no_grad():
        assert handle.backend == "cpu" or len(fn.kernels(x, rows)) == 2


def test_fast_math_is_close(handle):
    x = samples(8, 16)
    found, plain = (values_and_gradients(f, *x) for f in (jit_compile(chain, fast_math=True), chain))
    assert all(np.allclose(a, b, rtol=2e-3, atol=5e-4) for a, b in zip(found, plain))


def test_contractions_and_other_ops_split_regions(numpy_device):
    def fn(x, w):
        h = ag.relu(ag.matmul(x * 2.0, w) + 1.0)
        picked = h[:, 1:3] * 0.5
        return (ag.cat([picked, picked * 2.0], axis=1) - 1.0).transpose() * 3.0

    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in ((4, 6), (6, 5))]
    assert same(values_and_gradients(jit_compile(fn), *arrays), values_and_gradients(fn, *arrays))


def test_arguments_of_every_kind(numpy_device):
    class Layer:
        scale = 2.0

        @jit_compile
        def forward(self, xs, *, shift=1.0, mode="relu"):
            made = {"sum": xs[0] + xs[1] * self.scale}
            return {"out": getattr(ag, mode)(made["sum"] - shift), "inputs": len(xs)}

    layer, x = Layer(), Tensor.from_host(np.array([1.0, -2.0], np.float32))
    assert layer.forward([x, x])["out"].tolist() == [2.0, 0.0]
    assert layer.forward([x, x], shift=0.0, mode="neg")["out"].tolist() == [-3.0, 6.0]
    layer.scale = 4.0  # state of Python is read at each call
    assert layer.forward([x, x])["inputs"] == 2
    assert layer.forward([x, x])["out"].tolist() == [4.0, 0.0]
    assert Layer.forward(layer, [x, x], shift=5)["out"].tolist() == [0.0, 0.0]
    assert Layer.forward.__name__ == "forward"


def test_branches_on_python_values_and_on_values_of_tensors(numpy_device):
    @jit_compile
    def fn(x, flag):
        y = x * 2.0
        y = y + 1.0 if flag else y - 1.0
        if y.sum().item() > 0:  # ends a region
            return ag.exp(y)
        return -y

    x = Tensor.from_host(np.array([1.0, 2.0], np.float32))
    assert fn(x, False).tolist() == pytest.approx([np.exp(1.0), np.exp(3.0)])
    assert fn(-x, True).tolist() == [1.0, 3.0]
    assert fn(x, True).tolist() == pytest.approx([np.exp(3.0), np.exp(5.0)])


def test_nested_functions_share_a_region(handle):
    inner = jit_compile(lambda x: ag.relu(x) * 2.0)

    @jit_compile
    def outer(x):
        return inner(x + 1.0) - inner(x)

    x = Tensor.from_host(np.array([-2.0, 0.5], np.float32), requires_grad=True)
    assert outer(x).tolist() == [0.0, 2.0]
    assert handle.backend == "cpu" or len(outer.kernels(x)) == 2


def test_written_in_place_inside(numpy_device):
    state = Tensor.from_host(np.zeros(2, np.float32))

    @jit_compile
    def fn(x):
        before = state + x
        state.write(before * 2.0)
        state[0] = 7.0
        return before, state * 1.0

    x = Tensor.from_host(np.array([1.0, 2.0], np.float32))
    before, after = fn(x)
    assert before.tolist() == [1.0, 2.0]
    assert after.tolist() == [7.0, 4.0]
    assert fn(x)[0].tolist() == [8.0, 6.0]


def test_an_exception_leaves_everything_as_it_was(numpy_device):
    kept = []

    @jit_compile
    def fn(x, shape):
        kept.append(x * 2.0)
        return x + Tensor.from_host(np.zeros(shape, np.float32))

    x = Tensor.from_host(np.ones((2, 3), np.float32), requires_grad=True)
    for _ in range(2):
        with pytest.raises(ShapeError, match=r"add.*\(2, 3\).*\(4,\)"):
            fn(x, (4,))
        assert fn(x, (3,)).tolist() == [[1.0] * 3] * 2
        assert (x * 3.0).numpy().sum() == 18  # no trace is left behind
    assert all(t.numpy().sum() == 12 and t.requires_grad for t in kept)


def test_a_kernel_that_does_not_build_is_run_op_by_op(handle, monkeypatch):
    arrays = samples(8, 16)
    plain = values_and_gradients(centred, *arrays)

    def fail(self, inputs, scalars):
        raise KernelBuildError("__kernel", "", "too large", "a device", "a driver")

    monkeypatch.setattr("netcl.core.graph.region.Fused.run", fail)
    assert same(values_and_gradients(jit_compile(centred), *arrays), plain)


@pytest.mark.parametrize("fn", [chain, centred, normed], ids=lambda fn: fn.__name__)
def test_a_gradient_that_does_not_build_is_run_op_by_op(numpy_device, monkeypatch, fn):
    from netcl.autograd.derive import execute

    arrays = samples(8, 16)
    eager = values_and_gradients(fn, *arrays)
    run, refused = execute.call_row, []

    def fail(row, *args):
        if row.name.startswith("jit("):
            refused.append(row.name)
            raise KernelBuildError("__kernel", "", "too large", "a device", "a driver")
        return run(row, *args)

    monkeypatch.setattr(execute, "call_row", fail)
    assert same(values_and_gradients(jit_compile(fn), *arrays), eager)
    assert refused


def test_another_thread_may_use_what_is_pending(handle):
    arrays = samples(8, 16)
    plain = values_and_gradients(lambda x, b: ag.exp(ag.tanh(x * 2.0) + b) * 3.0, *arrays)
    x, b = (ag.tensor(Tensor.from_host(a, requires_grad=True)) for a in arrays)
    seen = []

    def reads(h):
        with device(handle):
            seen.append((ag.exp(h + b) * 3.0, h.grad_fn is not None))

    @jit_compile
    def fn(x):
        h = ag.tanh(x * 2.0)
        readers = [threading.Thread(target=reads, args=(h,)) for _ in range(4)]
        for reader in readers:
            reader.start()
        others = [ag.sigmoid(h * number) for number in range(1, 9)]
        for reader in readers:
            reader.join()
        return h, others

    fn(x)
    assert len(seen) == 4
    assert all(made for _, made in seen)
    for result, _ in seen:
        x.grad = b.grad = None
        (result * result).sum().backward(retain_graph=True)
        assert same([result.numpy(), x.grad.numpy(), b.grad.numpy()], plain)


def test_threads_agree(handle):
    arrays = samples(8, 16)
    plain = values_and_gradients(chain, *arrays)
    jitted, found = jit_compile(chain), {}

    def work(number):
        with device(handle):
            found[number] = [values_and_gradients(jitted, *arrays) for _ in range(5)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all(same(one, plain) for each in found.values() for one in each)


def test_values_kept_outside_are_ordinary_nodes(handle):
    kept = {}

    @jit_compile
    def fn(x):
        kept["h"] = ag.exp(x)
        kept["v"] = kept["h"].sum(axis=-1).unsqueeze(-1)
        return kept["h"] / kept["v"]

    x = ag.tensor(Tensor.from_host(samples(3, 4)[0], requires_grad=True))
    y = fn(x)
    for value in (y, kept["h"], kept["v"]):
        assert type(value) is Tensor
        assert isinstance(value, ag.Node)
        assert value.grad_fn is not None
    ((y * kept["h"]).sum() + kept["v"].sum()).backward()
    z = ag.tensor(Tensor.from_host(samples(3, 4)[0], requires_grad=True))
    h = ag.exp(z)
    v = h.sum(axis=-1).unsqueeze(-1)
    ((h / v * h).sum() + v.sum()).backward()
    assert np.allclose(x.grad.numpy(), z.grad.numpy(), rtol=1e-5)


def test_gradient_modes(numpy_device):
    @jit_compile
    def fn(x, w):
        with ag.no_grad():
            scale = ag.exp(x)
        return (scale * w).sum(), ag.tanh(x).detach() * w, ops.relu(x)

    x, w = (Tensor.from_host(np.array([0.5, 1.0], np.float32), requires_grad=True) for _ in range(2))
    with pytest.warns(ForwardOnlyWarning, match=r"call netcl\.relu"):
        loss, cut, forward = fn(x, w)
    assert loss.requires_grad
    assert cut.requires_grad
    assert not forward.requires_grad
    assert not isinstance(forward, ag.Node)
    assert isinstance(loss, ag.Node)
    (loss + cut.sum()).backward()
    assert x.grad is None
    assert w.grad.numpy() == pytest.approx(np.exp(x.numpy()) + np.tanh(x.numpy()), rel=1e-6)
    with ag.no_grad():
        assert not fn(x, w)[0].requires_grad


def test_gradients_of_gradients(handle):
    x = ag.tensor(Tensor.from_host(samples(3, 4)[0], requires_grad=True))

    def penalty(f):
        (first,) = ag.grad(f(x).sum(), x, create_graph=True)
        (second,) = ag.grad((first * first).sum(), x)
        return first.numpy(), second.numpy()

    def fn(x):
        return ag.softmax(ag.tanh(x) * x) * x

    for jitted, plain in zip(penalty(jit_compile(fn)), penalty(fn)):
        assert np.allclose(jitted, plain, rtol=1e-4, atol=1e-5)


def test_backward_inside_and_hooks(numpy_device):
    x = ag.Parameter(Tensor.from_host(np.array([1.0, -2.0], np.float32)))
    seen = []

    @jit_compile
    def step():
        h = x * 3.0
        h.register_hook(lambda g: seen.append(g.numpy()))
        loss = ag.relu(h).sum()
        loss.backward()
        x.write(x - 0.5 * x.grad)
        x.grad = None
        return loss

    assert step().item() == 3.0
    assert x.tolist() == [-0.5, -2.0]
    assert seen[0].tolist() == [1.0, 0.0]


def test_leaves_made_inside(numpy_device):
    @jit_compile
    def fn(x):
        h = ag.exp(x)
        h.requires_grad = True
        forward = ops.mul(x, 2.0).wait()
        leaf = ag.tensor(ops.neg(x), requires_grad=True)
        (h * 2.0 + leaf * forward).sum().backward()
        return h.grad, leaf.grad, ag.Parameter(ag.relu(x))

    x = Tensor.from_host(np.array([1.0, 2.0], np.float32))
    by_h, by_leaf, parameter = fn(x)
    assert by_h.tolist() == [2.0, 2.0]
    assert by_leaf.tolist() == [2.0, 4.0]
    assert type(parameter) is ag.Parameter
    assert parameter.tolist() == [1.0, 2.0]


def test_results_from_a_pool_of_the_caller(numpy_device):
    out = Tensor.zeros((2,))
    x = Tensor.from_host(np.array([1.0, 2.0], np.float32))

    @jit_compile
    def fn(x):
        y = x * 2.0
        ops.relu(y, out=out)
        return out + ops.exp(y * 0.0, pool=None)

    assert fn(x).tolist() == [3.0, 5.0]
    assert out.tolist() == [2.0, 4.0]


def test_tape_and_overwritten_inputs(numpy_device):
    x = Tensor.from_host(np.array([1.0, 2.0], np.float32), requires_grad=True)
    jitted = jit_compile(lambda x: ag.exp(x * 2.0) * x)
    with ag.Tape(retain_grads=True) as tape:
        loss = jitted(x).sum()
    tape.backward(loss)
    tape.backward(loss)
    assert [node.op_name for node in tape.nodes] == ["jit(mul+exp)", "sum"]
    assert tape.nodes[0].grad.tolist() == [2, 2]
    loss = jitted(x).sum()
    x.write(np.zeros(2, np.float32))
    with pytest.raises(RuntimeError, match=r"jit\(mul\+exp\).*overwritten"):
        loss.backward()


def test_anomalies_name_the_op(numpy_device):
    x = Tensor.from_host(np.array([0.0], np.float32), requires_grad=True)

    @jit_compile
    def fn(x):
        return ag.log(x * 1.0) * 0.0

    with ag.detect_anomaly():
        y = fn(x)
        with pytest.raises(FloatingPointError, match=r"log: the gradient(.|\n)*test_compiler"):
            y.backward(Tensor.from_host(np.array([1.0], np.float32)))


def test_under_capture(handle):
    jitted = jit_compile(chain)
    arrays = samples(8, 16)
    x, b = (Tensor.from_host(a) for a in arrays)
    with ag.no_grad():
        want = jitted(x, b).numpy()
        step = capture(jitted, x, b)
        assert len(step) == (1 if handle.backend == "cl" else len(step))
        assert np.array_equal(step.replay(x, b).numpy(), want)


@pytest.mark.level("capture")
def test_the_dice_loss_of_one_channel_under_capture(handle):
    """The gradients of its sums are spread over (4, 1, 6, 5) and summed over the axis of one."""
    rng = np.random.default_rng(0)
    logits = Tensor.from_host(rng.standard_normal((4, 1, 6, 5)).astype(np.float32), requires_grad=True)
    masks = Tensor.from_host((rng.random((4, 1, 6, 5)) < 0.5).astype(np.float32))

    def step(masks):
        logits.grad = None
        marked = ag.sigmoid(logits * 1.0)
        loss = 1 - (2 * (marked * masks).sum() + 1) / (marked.sum() + masks.sum() + 1)
        loss.backward()
        return logits.grad

    captured = capture(step, masks)
    assert np.array_equal(captured.replay(masks).numpy(), step(masks).numpy())


def test_programs_are_bounded_and_shapes_retraced(numpy_device, monkeypatch):
    monkeypatch.setattr("netcl.core.graph.trace.MAX_PLANS", 8)
    monkeypatch.setattr("netcl.core.graph.trace.MAX_CALLS", 4)
    single = jit_compile(ops.neg)
    jitted = jit_compile(lambda x: ag.relu(x * 2.0))
    for n in [*range(1, 30), 1, 2]:
        assert jitted(Tensor.from_host(np.ones(n, np.float32))).numpy().sum() == 2 * n
        assert single(Tensor.from_host(np.ones(n, np.float32))).numpy().sum() == -n
        assert len(jitted._cache.plans) <= 8
        assert len(single._cache.signatures) <= 32


def test_whole_numbers_masks_and_halves(numpy_device):
    def fn(i, x):
        mask = (i * 2 + 1 > 3) & (x < 1.0)
        return ag.where(mask, i, 7) // 2, ag.where(mask, x, 0.5), mask

    i = Tensor.from_host(np.arange(6, dtype=np.int32))
    x = Tensor.from_host(np.linspace(-1, 2, 6).astype(np.float32))
    for a, b in zip(fn(i, x), jit_compile(fn)(i, x)):
        assert a.dtype == b.dtype
        assert a.tolist() == b.tolist()


def test_half_storage_is_not_less_exact(numpy_device):
    values = np.linspace(0.1, 2, 64)
    x = Tensor.from_host(values, "float16")

    def fn(x):
        return ag.exp(x * 1.7) / 3.0 + x

    # A conversion that is asked for rounds, fused or not.
    y = Tensor.from_host(values)
    through = jit_compile(lambda y: (y * 1.3).astype("float16").astype("float32") * 3.0)(y)
    assert np.array_equal(through.numpy(), (y.numpy() * np.float32(1.3)).astype(np.float16).astype(np.float32) * 3)
    rounded = x.numpy().astype(np.float64)
    exact = np.exp(rounded * 1.7) / 3 + rounded
    apart, fused = (np.abs(f(x).numpy() - exact).max() for f in (fn, jit_compile(fn)))
    assert fused <= apart


UNARY = ("tanh", "relu", "exp", "sigmoid", "neg", "square", "abs", "softplus")
ROWS = ("softmax", "log_softmax")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 13), st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12))
def test_random_graphs(numpy_device, picks):
    def fn(x, b):
        values = [x, b]
        for op, i, j in picks:
            a, c = values[i % len(values)], values[j % len(values)]
            if op < len(UNARY):
                made = getattr(ag, UNARY[op])(ag.clamp(a, -2.0, 2.0))
            elif op < 10:
                made = getattr(ag, ROWS[op - 8])(a)
            elif op == 10:
                made = a.mean(axis=-1, keepdims=True) + c
            elif op == 11:
                made = (a * 0.5).sum(axis=-1) if a.ndim == 2 else a
            else:
                made = a * 0.7 + c if a.ndim == 0 or c.ndim == 0 or a.shape[-1] == c.shape[-1] else a - 1.0
            values.append(made)
        return values[-1], values[-2] * 1.0

    arrays = samples(3, 4)
    with np.errstate(all="ignore"):
        plain, jitted = values_and_gradients(fn, *arrays), values_and_gradients(jit_compile(fn), *arrays)
    for a, b in zip(plain, jitted):
        assert a is b if a is None or b is None else np.allclose(a, b, rtol=2e-4, atol=1e-5, equal_nan=True)


def _unused_result(p):
    squared = (p * 1.5).pow(2)
    unused = ag.clamp(squared, -1.0, 1.0)
    squared[1:] = squared[:-1].clone()
    return squared.mean(), unused


def _loss_of_itself(p):
    mean = ag.relu(0.2 - p).mean()
    unused = ag.mse_loss(mean, mean)
    mean.copy_(mean)
    return mean.mean(), unused


def _condition(p):
    shifted = p + 1.0
    chosen = ag.where(shifted > 0.9, shifted, p)
    shifted.copy_(p * 2.0)
    return chosen.sum() + shifted.mean(), shifted


def _operand(p):
    other = Tensor.from_host(p.queue, np.arange(6, dtype=np.float32))
    result = ag.sin(p + other)
    other.mul_(0.0)
    return result.sum(), other


def _view(p):
    x = p * 2.0
    result = ag.tanh(ag.relu(x + 1.0) * 3.0)
    x[2:4].add_(1.0)
    return result.sum() + x.mean(), x


@pytest.mark.parametrize("compiled", [jit_compile, torch_compile])
@pytest.mark.parametrize("program", [_unused_result, _loss_of_itself, _condition, _operand, _view])
def test_a_program_may_overwrite_what_its_gradient_does_not_need(handle, compiled, program):
    found = []
    for function in (program, compiled(program)):
        p = Tensor.from_host(handle, np.linspace(-1, 1, 6, dtype=np.float32), requires_grad=True)
        loss, _ = function(p)
        loss.backward()
        found.append((loss.item(), p.grad.numpy()))
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-6)
    np.testing.assert_allclose(found[1][1], found[0][1], rtol=1e-6, atol=1e-7)


def test_what_the_gradient_of_a_region_needs_of_the_results_that_are_used_is_checked(numpy_device):
    def program(p):
        y = ag.exp(p * 2.0)
        return y, ag.exp(p) * 3.0

    for used, raises in ((0, True), (1, False)):
        p = Tensor.from_host(np.array([1.0, 2.0], np.float32), requires_grad=True)
        results = jit_compile(program)(p)
        with ag.no_grad():
            results[0].mul_(2.0)
        if raises:
            with pytest.raises(RuntimeError, match="overwritten"):
                results[used].sum().backward()
        else:
            results[used].sum().backward()
            np.testing.assert_allclose(p.grad.numpy(), 3.0 * np.exp([1.0, 2.0]), rtol=1e-6)
