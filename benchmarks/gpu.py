"""GPUs at the sizes that people train: netcl and its peers in turn on one card, in one process.

``python benchmarks/gpu.py [--device nvidia] [--only products,attention,convolutions,memory,steps] [--seconds 1]
[--peers pytorch,tf32,compiled,tinygrad] [--profile] [--json FILE]``. A row has the median time of each, netcl's rate,
and the time of each peer over netcl's; the table begins with two ceilings that are measured here, a copy and a product
of 8192^3 in bfloat16. Results are compared with float64 on fresh random data before they are timed. ``--profile`` lists
what the kernels of a captured step take by the device's clock. Without CUDA in PyTorch the rows have netcl alone.

Peers: PyTorch without TF32 (with it in rows of "high"), PyTorch with TF32 (rows of float32), torch.compile if it builds
the work, and tinygrad on the same OpenCL driver through its TinyJit (rows of float32 and float16; of the steps
ResNet-18).

``--core-torch`` runs on netcl-core-torch instead, as PyTorch's devices are its devices, and prints the time of an eager
training step of ResNet-18 with batches of 256 over that of PyTorch's: at most 1.25 is asked for. Nothing has to be
installed but torch and NumPy: PYTHONPATH may name the folders ``src`` of netcl-core-torch, netcl-core-kit,
netcl-autograd, netcl-nn and netcl-optim. ``--quick`` takes batches of 4, with ``--device cpu`` where there is no GPU.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import models
import numpy as np

import netcl as nc
from netcl import nn, optim
from netcl.core import Tensor, manager
from netcl.core.device import device
from netcl.core.process.contract import LEVELS

if "capture" in LEVELS:
    from replays import print_replay

    from netcl.runtime.capture import capture

try:
    import torch
except ImportError:
    torch = None
CUDA = torch is not None and torch.cuda.is_available()
Work = Callable[[], Any]


class Row(NamedTuple):
    """A row: its family, its name, the works of both, the unit and the amount of a call in it (0: a time), the
    relative error of netcl's result (None: not compared); if PyTorch computes it as TF32, and a function that makes
    tinygrad's work.
    """

    family: str
    name: str
    ours: Work
    theirs: Work | None
    unit: str
    amount: float
    error: float | None = None
    tf32: bool = False
    tiny: Callable[[], Callable[[], Any]] | None = None


class Peer(NamedTuple):
    """A contestant: the work that it has for a row, None for none, and how it waits for the device."""

    label: str
    work: Callable[[Row], Work | None]
    wait: Work


def contestants(wanted: list[str]) -> Iterator[Peer]:
    """The ``wanted`` peers that are installed."""
    if CUDA:
        for name, label, work in (
            ("pytorch", "PyTorch", partial(_torch_work, tf32=False)),
            ("tf32", "PyTorch TF32", partial(_torch_work, tf32=True)),
            ("compiled", "torch.compile", _compiled_work),
        ):
            if name in wanted:
                yield Peer(label, work, torch.cuda.synchronize)
    if "tinygrad" in wanted and find_spec("tinygrad") is not None:
        from peers import tinygrad_

        yield Peer(
            "tinygrad", lambda row: tinygrad_.jitted(row.tiny()) if row.tiny is not None else None, tinygrad_.wait
        )


def _torch_work(row: Row, tf32: bool) -> Work | None:
    """PyTorch's work as the row asks for it, or with TF32, which rows of float32 without it have in addition."""
    if tf32 and (row.tf32 or "float32" not in row.name):
        return None
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32 or row.tf32
    return row.theirs


def _compiled_work(row: Row) -> Work | None:
    torch._dynamo.reset()  # or works that share their code would be compiled for a few of them only
    work = _torch_work(row, False)
    return None if work is None else torch.compile(lambda: work())


def median_seconds(work: Work, wait: Work, seconds: float) -> float:
    """The median time of a call, of batches that take a millisecond at least, over ``seconds``."""
    work()
    work()
    wait()
    begin = time.perf_counter()
    work()
    wait()
    once = max(time.perf_counter() - begin, 1e-6)
    calls = max(1, int(2e-3 / once))
    taken: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(taken) < 3:
        begin = time.perf_counter()
        for _ in range(calls):
            work()
        wait()
        taken.append((time.perf_counter() - begin) / calls)
    return statistics.median(taken)


def _cuda(array: np.ndarray[Any, Any], dtype: str, grad: bool = False) -> Any:
    made = torch.tensor(array, device="cuda", dtype=getattr(torch, dtype))
    return made.requires_grad_(grad)


def _tiny(op: str, dtype: str, *arrays: Any, back: bool = False, **options: Any) -> Any:
    """A function that makes tinygrad's work: a method of its Tensor, or with its gradients (``back``: for the last
    array); None for bfloat16, which it does not compute with on OpenCL.
    """
    if dtype == "bfloat16":
        return None

    def make() -> Callable[[], Any]:
        import tinygrad
        from peers import tinygrad_

        given = [tinygrad.Tensor(one.astype(dtype)).realize() for one in arrays]
        method = getattr(tinygrad.Tensor, op)
        if back:
            *inputs, grad = given
            return tinygrad_.forth_and_back(lambda *values: method(*values, **options), inputs, grad)
        return lambda: method(*given, **options).realize()

    return make


def _error(found: Tensor, wanted: np.ndarray[Any, Any]) -> float:
    difference = np.abs(found.float().numpy().astype(np.float64) - wanted)
    return float(np.sqrt(np.mean(difference**2)) / np.sqrt(np.mean(wanted**2)))


# -- rows --------------------------------------------------------------------------------------------------------------


def products() -> Iterator[Row]:
    """Square products in float32, and in float32 and bfloat16 on matrix units."""
    rng = np.random.default_rng(0)
    for dtype, precision, sides in (
        ("float32", "highest", (512, 1024, 2048, 4096, 8192)),
        ("float32", "high", (1024, 4096, 8192)),
        ("bfloat16", "highest", (512, 1024, 2048, 4096, 8192)),
        ("float16", "highest", (1024, 4096, 8192)),
    ):
        for side in sides:
            a, b = (rng.standard_normal((side, side)).astype(np.float32) for _ in range(2))
            x, y = (Tensor.from_host(array, dtype=dtype) for array in (a, b))
            theirs = partial(torch.matmul, _cuda(a, dtype), _cuda(b, dtype)) if CUDA else None
            nc.set_float32_matmul_precision(precision)
            rows = 64  # enough of the result to compare
            wanted = x[:rows].float().numpy().astype(np.float64) @ y.float().numpy().astype(np.float64)
            error = _error((x @ y)[:rows], wanted)
            high = precision == "high"
            name = f"matmul {dtype}{' (high)' if high else ''} {side}^3"
            tiny = _tiny("matmul", dtype, a, b)
            yield Row("products", name, partial(nc.matmul, x, y), theirs, "TFLOP/s", 2e-12 * side**3, error, high, tiny)
            if high:  # as a linear layer has them: both operands contiguous along the summed index
                theirs = partial(torch.nn.functional.linear, _cuda(a, dtype), _cuda(b, dtype)) if CUDA else None
                ours = partial(nn.functional.linear, x, y)
                wanted = a[:rows].astype(np.float64) @ b.T.astype(np.float64)
                name = f"linear {dtype} (high) {side}^3"
                yield Row(
                    "products", name, ours, theirs, "TFLOP/s", 2e-12 * side**3, _error(ours()[:rows], wanted), True
                )
            nc.set_float32_matmul_precision("highest")


def attention() -> Iterator[Row]:
    """Attention of 8 batches, 8 heads and 64 dimensions, forward, and with gradients."""
    rng = np.random.default_rng(0)
    for dtype in ("float32", "bfloat16"):
        for steps in (128, 1024, 4096):
            arrays = [rng.standard_normal((8, 8, steps, 64)).astype(np.float32) for _ in range(4)]
            q, k, v, grad = (Tensor.from_host(array, dtype=dtype) for array in arrays)
            flops = 4e-12 * 64 * steps * steps * 64
            with_grad = [Tensor.from_host(array, dtype=dtype) for array in arrays[:3]]
            for one in with_grad:
                one.requires_grad = True

            def backward(with_grad: Any = with_grad, grad: Any = grad) -> None:
                for one in with_grad:
                    one.grad = None
                nn.functional.scaled_dot_product_attention(*with_grad).backward(grad)

            theirs = trained = None
            if CUDA:
                given = [_cuda(array, dtype) for array in arrays]
                leaves = [_cuda(array, dtype, True) for array in arrays[:3]]
                attend = torch.nn.functional.scaled_dot_product_attention
                theirs = partial(attend, *given[:3])

                def trained(leaves: Any = leaves, given: Any = given, attend: Any = attend) -> None:
                    for one in leaves:
                        one.grad = None
                    attend(*leaves).backward(given[3])

            name = f"attention {dtype} T{steps}"
            ours = partial(nn.functional.scaled_dot_product_attention, q, k, v)
            head = [one[0, 0].float().numpy().astype(np.float64) for one in (q, k, v)]
            scores = head[0][:64] @ head[1].T / 8
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            error = _error(ours()[0, 0][:64], weights / weights.sum(-1, keepdims=True) @ head[2])
            op = "scaled_dot_product_attention"
            tiny, tiny_back = _tiny(op, dtype, *arrays[:3]), _tiny(op, dtype, *arrays, back=True)
            yield Row("attention", name, ours, theirs, "TFLOP/s", flops, error, tiny=tiny)
            trains = f"{name}, with gradients"
            yield Row("attention", trains, backward, trained, "TFLOP/s", 3.5 * flops, tiny=tiny_back)


def convolutions() -> Iterator[Row]:
    """3x3 convolutions of 32 images, as in a ResNet, forward, and with gradients."""
    rng = np.random.default_rng(0)
    for dtype in ("float32", "bfloat16"):
        for channels, side in ((64, 56), (128, 28), (256, 14), (512, 7)):
            shapes = (32, channels, side, side), (channels, channels, 3, 3), (32, channels, side, side)
            arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
            x, w, grad = (Tensor.from_host(array, dtype=dtype) for array in arrays)
            leaves = [Tensor.from_host(array, dtype=dtype) for array in arrays[:2]]
            for one in leaves:
                one.requires_grad = True

            def backward(leaves: Any = leaves, grad: Any = grad) -> None:
                for one in leaves:
                    one.grad = None
                nn.functional.conv2d(*leaves, padding=1).backward(grad)

            theirs = trained = None
            if CUDA:
                order = torch.channels_last if dtype == "bfloat16" else torch.contiguous_format
                given = [_cuda(array, dtype).to(memory_format=order) for array in arrays]
                own = [one.detach().requires_grad_() for one in given[:2]]
                conv = torch.nn.functional.conv2d
                theirs = partial(conv, *given[:2], padding=1)

                def trained(own: Any = own, given: Any = given, conv: Any = conv) -> None:
                    for one in own:
                        one.grad = None
                    conv(*own, padding=1).backward(given[2])

            flops = 2e-12 * 32 * side * side * channels * channels * 9
            name = f"conv 3x3 {dtype} {channels} at {side}"
            ours = partial(nn.functional.conv2d, x, w, padding=1)
            image = np.pad(x[0].float().numpy().astype(np.float64), ((0, 0), (1, 1), (1, 1)))
            taps = np.lib.stride_tricks.sliding_window_view(image, (3, 3), (1, 2))
            wanted = np.einsum("chwij,ocij->ohw", taps, w.float().numpy().astype(np.float64))
            tiny = _tiny("conv2d", dtype, *arrays[:2], padding=1)
            tiny_back = _tiny("conv2d", dtype, *arrays, back=True, padding=1)
            yield Row("convolutions", name, ours, theirs, "TFLOP/s", flops, _error(ours()[0], wanted), tiny=tiny)
            trains = f"{name}, with gradients"
            yield Row("convolutions", trains, backward, trained, "TFLOP/s", 3 * flops, tiny=tiny_back)


def memory() -> Iterator[Row]:
    """Ops that memory bounds, in float32: GB/s of what has to be read and written."""
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((16384, 4096)).astype(np.float32) for _ in range(2))
    a, b = Tensor.from_host(x), Tensor.from_host(y)
    p, q = (_cuda(x, "float32"), _cuda(y, "float32")) if CUDA else (None, None)
    size = 4e-9 * x.size
    gain, bias = (Tensor.from_host(rng.standard_normal(4096).astype(np.float32)) for _ in range(2))
    g, h = (_cuda(one.numpy(), "float32") for one in (gain, bias)) if CUDA else (None, None)
    works: list[tuple[str, Work, Work, float, Any]] = [
        ("add", lambda: a + b, lambda: p + q, 3, _tiny("add", "float32", x, y)),
        ("gelu", lambda: nc.gelu(a), lambda: torch.nn.functional.gelu(p), 2, _tiny("gelu", "float32", x)),
        ("sum", lambda: a.sum(), lambda: p.sum(), 1, _tiny("sum", "float32", x)),
        ("sum of columns", lambda: a.sum(dim=0), lambda: p.sum(dim=0), 1, _tiny("sum", "float32", x, axis=0)),
        ("transpose", lambda: a.t().contiguous() + 0, lambda: p.t().contiguous() + 0, 4, None),
        ("softmax", lambda: nc.softmax(a, dim=-1), lambda: torch.softmax(p, -1), 2, _tiny("softmax", "float32", x)),
        (
            "layer norm",
            lambda: nn.functional.layer_norm(a, (4096,), gain, bias),
            lambda: torch.nn.functional.layer_norm(p, (4096,), g, h),
            2,
            _tiny("layernorm", "float32", x),
        ),
        ("sort", lambda: nc.sort(a, dim=-1), lambda: torch.sort(p, dim=-1), 4, None),
        (
            "cumsum",
            lambda: nc.cumsum(a, dim=-1),
            lambda: torch.cumsum(p, -1),
            2,
            _tiny("cumsum", "float32", x, axis=-1),
        ),
        ("topk 64", lambda: nc.topk(a, 64, dim=-1), lambda: torch.topk(p, 64, dim=-1), 1, None),
    ]
    for name, ours, theirs, moved, tiny in works:
        yield Row("memory", f"{name} 16384x4096", ours, theirs if CUDA else None, "GB/s", moved * size, tiny=tiny)


# -- steps -------------------------------------------------------------------------------------------------------------


def gpt2(library: Any, arange: Callable[[int], Any], vocabulary: int = 50304) -> Any:
    """GPT-2 small from the layers of a library: 124 M parameters, 1,024 positions."""
    n, width, heads, layers = library.nn, 768, 12, 12

    class Model(n.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.wte, self.wpe = n.Embedding(vocabulary, width), n.Embedding(1024, width)
            self.h = n.Sequential(*(models.attending(library, width, heads, True, "tanh") for _ in range(layers)))
            self.ln_f = n.LayerNorm(width)

        def forward(self, ids: Any) -> Any:
            x = self.wte(ids) + self.wpe(arange(ids.shape[1]))
            return n.functional.linear(self.ln_f(self.h(x)), self.wte.weight)

    return Model()


def _gpt_batch() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 50257, (8, 513))
    return ids[:, :-1].copy(), ids[:, 1:].copy()


def _images(count: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((count, 3, 32, 32)).astype(np.float32), rng.integers(0, 10, count)


def _our_step(name: str, dtype: str, batch: tuple[Any, Any]) -> tuple[Callable[..., Tensor], tuple[Tensor, Tensor]]:
    """The eager step, after two calls, and its batch."""
    if name == "gpt2":
        model = gpt2(nc, nc.arange)
        updates: Any = optim.AdamW(model.parameters(), lr=1e-4)
    else:
        model = models.model("resnet18", nc)
        updates = optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x, y = (Tensor.from_host(array) for array in batch)

    def step(x: Tensor, y: Tensor) -> Tensor:
        updates.zero_grad()
        with nc.autocast(dtype == "bfloat16", "bfloat16"):
            found = model(x)
            loss: Tensor = nn.functional.cross_entropy(found.reshape(-1, found.shape[-1]), y.reshape(-1))
        loss.backward()
        updates.step()
        return loss

    for _ in range(2):
        step(x, y)
    return step, (x, y)


def _their_step(name: str, dtype: str, batch: tuple[Any, Any], place: str = "cuda") -> Callable[[], Any]:
    if name == "gpt2":
        model = gpt2(torch, partial(torch.arange, device=place)).to(place)
        updates: Any = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    else:
        model = models.model("resnet18", torch).to(place)
        updates = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x, y = (torch.tensor(array, device=place) for array in batch)

    def step() -> Any:
        updates.zero_grad()
        with torch.autocast(place.split(":")[0], torch.bfloat16, enabled=dtype == "bfloat16"):
            found = model(x)
            loss = torch.nn.functional.cross_entropy(found.reshape(-1, found.shape[-1]), y.reshape(-1))
        loss.backward()
        updates.step()
        return loss

    return step


STEPS = (("gpt2", 8), ("resnet18", 32), ("resnet18", 256))


def steps(wanted: str, with_profile: bool) -> Iterator[Row]:
    """Training steps: GPT-2 small with batches of 8 x 512, ResNet-18 on 32 x 32 images."""
    for name, count in STEPS:
        for dtype in ("float32", "bfloat16"):
            title = f"{name} B{count} {dtype}"
            if wanted not in title:
                continue
            batch = _gpt_batch() if name == "gpt2" else _images(count)
            begin = time.perf_counter()
            step, given = _our_step(name, dtype, batch)
            captured = capture(step, *given)
            manager.default(str(given[0].device.selector)).queue.finish()  # type: ignore[union-attr]
            print(f"{title}: two eager steps and a capture in {time.perf_counter() - begin:.1f} s", flush=True)
            if with_profile:
                print_replay(title, captured, given)
            theirs = _their_step(name, dtype, batch) if CUDA else None
            tiny = partial(_tiny_step, name, batch) if name == "resnet18" and dtype == "float32" else None
            yield Row("steps", title, partial(captured.replay, *given), theirs, "ms", 0, tiny=tiny)


def _tiny_step(name: str, batch: tuple[Any, Any]) -> Callable[[], Any]:
    from peers import tinygrad_

    return tinygrad_.training(name, *batch)


# -- netcl-core-torch --------------------------------------------------------------------------------------------------


def core_torch(place: Any, wait: Work, seconds: float, quick: bool) -> None:
    """Prints an eager step of ResNet-18 on netcl-core-torch over PyTorch's on one device, in turn, three times."""
    count, rounds = (4, 1) if quick else (256, 3)
    batch = _images(count)
    for dtype, tf32 in (("float32", False), ("float32", True), ("bfloat16", False)):
        if tf32 and place.type != "cuda":
            continue
        title = f"ResNet-18 B{count} {dtype}{' (TF32)' if tf32 else ''}, eager"
        ours, given = _our_step("resnet18", dtype, batch)
        theirs = _their_step("resnet18", dtype, batch, str(place))
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = tf32
        losses = [float(ours(*given).item()), float(theirs().item())]
        if not all(0.0 < loss < 10.0 for loss in losses):
            raise ArithmeticError(f"{title}: the losses are {losses}")
        for _ in range(rounds):
            taken = [median_seconds(work, wait, seconds) for work in (partial(ours, *given), theirs)]
            print(
                f"{title}: netcl {taken[0] * 1e3:.2f} ms, PyTorch {taken[1] * 1e3:.2f} ms, "
                f"ratio {taken[0] / taken[1]:.3f} (asked: at most 1.25)",
                flush=True,
            )


# -- the table ---------------------------------------------------------------------------------------------------------


def ceilings(seconds: float, wait: Work) -> dict[str, float]:
    """A copy in GB/s, and a product of bfloat16 in TFLOP/s, measured on the device."""
    x = nc.zeros(1 << 28)
    a, b = (nc.zeros(8192, 8192, dtype="bfloat16") for _ in range(2))
    copied = median_seconds(lambda: x.clone(), wait, seconds)
    multiplied = median_seconds(lambda: a @ b, wait, seconds)
    return {"GB/s": 8e-9 * (1 << 28) / copied, "TFLOP/s": 2e-12 * 8192**3 / multiplied}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="gpu", help="a selector")
    parser.add_argument("--only", default="products,attention,convolutions,memory,steps")
    parser.add_argument("--step", default="", help="a part of the names of steps")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each row and contestant")
    parser.add_argument("--peers", default="pytorch", help="of pytorch, tf32, compiled, tinygrad")
    parser.add_argument("--profile", action="store_true", help="list the kernels of the steps")
    parser.add_argument("--json", type=Path, help="a file for the numbers")
    parser.add_argument("--core-torch", action="store_true", help="a step of netcl-core-torch over PyTorch's")
    parser.add_argument("--quick", action="store_true", help="with --core-torch: batches of 4, once")
    options = parser.parse_args()
    families: dict[str, Callable[[], Iterator[Row]]] = {
        "products": products,
        "attention": attention,
        "convolutions": convolutions,
        "memory": memory,
        "steps": lambda: steps(options.step, options.profile),
    }
    written = []
    with device(options.device) as handle:
        wait = handle.queue.finish
        if options.core_torch:
            if not hasattr(handle.queue, "place"):
                parser.error("--core-torch takes netcl-core-torch in place of the netcl-core that is imported")
            print(f"{handle.device_name}, PyTorch {torch.__version__}", flush=True)
            core_torch(handle.queue.place, wait, options.seconds, options.quick)
            return
        most = ceilings(options.seconds, wait)
        rates = ", ".join(f"{rate:.0f} {unit}" for unit, rate in most.items())
        print(f"{handle.device_name}: a copy and a product of bfloat16: {rates}", flush=True)
        others = list(contestants(options.peers.split(",")))
        for family in options.only.split(","):
            for row in families[family]():
                written.append(measured(row, others, wait, options.seconds))
                show(written[-1], most)
                if options.json is not None:
                    made = {"device": handle.device_name, "ceilings": most, "rows": written}
                    options.json.write_text(json.dumps(made, indent=1), encoding="utf-8")


def measured(row: Row, others: list[Peer], wait: Work, seconds: float) -> dict[str, Any]:
    """The times of a row, with the reason of each peer that does not build its work."""
    ours, theirs, failed = median_seconds(row.ours, wait, seconds), {}, {}
    for peer in others:
        try:
            work = peer.work(row)
            if work is not None:
                theirs[peer.label] = median_seconds(work, peer.wait, seconds)
        except Exception as error:  # noqa: BLE001 of a peer's compiler; the other rows are measured nevertheless
            failed[peer.label] = f"{type(error).__name__}: {error}"[:200]
    return {
        "family": row.family, "row": row.name, "seconds": ours, "peers": theirs, "failed": failed, "unit": row.unit,
        "amount": row.amount, "error": row.error,
    }  # fmt: skip


def show(found: dict[str, Any], most: dict[str, float]) -> None:
    """Prints a row: netcl's time, rate and share of the ceiling, and each peer's time and its ratio to netcl's."""
    ours, rate = found["seconds"], found["amount"] / found["seconds"]
    parts = [f"{found['row']:44} {ours * 1e3:9.3f} ms"]
    if rate:
        parts.append(f"{rate:8.1f} {found['unit']} {rate / most[found['unit']]:5.2f} of the ceiling")
    parts += [f"{label} {taken * 1e3:.3f} ms, {taken / ours:.2f}" for label, taken in found["peers"].items()]
    parts += [f"{label}: {reason.splitlines()[0][:60]}" for label, reason in found["failed"].items()]
    if found["error"] is not None:
        parts.append(f"error {found['error']:.1e}")
    print("; ".join(parts), flush=True)


if __name__ == "__main__":
    main()
