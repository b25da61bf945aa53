"""Half types of an OpenCL CPU device that has vectors of sixteen floats and fails on them: no kernel has so many."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from netcl import ops
from netcl.core import Tensor, manager
from netcl.core.backend.opencl import templates
from netcl.core.backend.opencl.contraction import conv, gemm
from netcl.core.backend.opencl.contraction.minimal_filtering import winograd
from netcl.core.backend.opencl.queue.programs.program_cache import ProgramCache
from netcl.core.device import device
from netcl.core.engine.epilogue import Epilogue
from netcl.core.engine.registry import engine_for
from netcl.core.expr import Load, parse
from netcl.core.testing.pytest_plugin import open_device
from netcl.core.tuning import traits
from netcl.ops import pool

# Arithmetic or conversions in sixteen lanes; copies move sixteen elements as they are.
SIXTEEN = re.compile(r"half16|\bfloat16\b|_16\b|convert_\w+16\b")
# The templates of CPU devices with vectors of any number of lanes.
WRITTEN = (
    "contract_attention_cpu", "contract_channels_forward", "contract_channels_input", "contract_channels_weights",
    "contract_cpu", "contract_depthwise", "contract_gemv", "contract_partial_sums",
    "contract_winograd", "contract_winograd_gradients", "contract_winograd_images", "contract_winograd_windows",
    "window_max_apart", "window_max_inside",
)  # fmt: skip


def sixteen_in(text: str) -> list[str]:
    return SIXTEEN.findall(re.sub(r"vec_type_hint\(\w+\)|#define DTYPE_\w+ 1", "", text))


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yields the engine of half of PoCL's cores, with vectors of sixteen floats that the driver is said to fail on."""
    import pyopencl as cl

    for width in ("native_vector_width_float", "preferred_vector_width_float", "preferred_vector_width_half"):
        monkeypatch.setattr(cl.Device, width, property(lambda _: 16))
    monkeypatch.setattr(traits, "sixteen_lanes_work", lambda _: False)
    whole = open_device("pocl")
    with device(manager.split(whole, 2)[0]) as found:
        yield engine_for(found)


def calls(dtype: str) -> dict[str, Callable[[Any], Any]]:
    """Returns a call of each family of kernels in vectors, by the name of the family."""

    def x(*shape: int) -> Any:
        return Tensor.from_host(np.random.default_rng(0).standard_normal(shape).astype(np.float32)).to(dtype)

    def convolve(engine: Any, images: Any, weights: Any, variant: str | None = None, groups: int = 1) -> None:
        options: dict[str, Any] = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": groups}
        out = conv.conv(engine, "forward", images, weights, **options, variant=variant)
        conv.conv(engine, "grad_input", out, weights, shape=images.shape, **options, variant=variant)
        conv.conv(engine, "grad_weight", images, out, shape=weights.shape, **options, variant=variant)

    def finished(engine: Any) -> None:
        rows = Epilogue(parse("fmax(v0 + v1, 0.0f)", [Load(0, dtype), Load(1, dtype)]), (x(1, 90),))
        for variant in (None, "cpu", "plain"):
            gemm.matmul(engine, x(70, 90), x(90, 90), epilogue=rows, variant=variant)

    def pooled(_: Any) -> None:
        out, places = ops.max_pool2d(x(2, 3, 32, 32), 2, return_indices=True)
        pool.max_pool_grad(out, places, (2, 3, 32, 32), 2)

    return {
        "expressions": lambda _: (ops.exp(x(33, 65)) * 2 + 1).sum(),
        "rows": lambda _: ops.softmax(ops.layer_norm(x(9, 70), (70,)), -1),
        "conversions": lambda _: x(1000).to("float32").to("int32").to(dtype),
        "products": lambda _: ops.matmul(x(130, 300), x(300, 130)),
        "products of few rows": lambda _: [ops.matmul(x(1, 300), x(300, 700)), ops.matmul(x(700, 300), x(300))],
        "products by parts": lambda _: ops.matmul(x(9, 40_000), x(40_000, 17)),
        "finished products": finished,
        "many channels": lambda engine: convolve(engine, x(2, 20, 9, 9), x(24, 20, 3, 3)),
        "few channels": lambda engine: convolve(engine, x(8, 3, 32, 32), x(16, 3, 3, 3)),
        "depthwise": lambda engine: convolve(engine, x(4, 16, 16, 16), x(16, 1, 3, 3), groups=16),
        "minimal filtering": lambda engine: convolve(engine, x(2, 20, 9, 9), x(24, 20, 3, 3), "winograd4"),
        "attention": lambda _: ops.scaled_dot_product_attention(x(1, 2, 40, 16), x(1, 2, 40, 16), x(1, 2, 40, 16)),
        "windows": pooled,
        "sorts": lambda _: [ops.sort(x(9, 70)), ops.cumsum(x(9, 70), 1), ops.topk(x(9, 70), 3)],
        "random numbers": lambda _: [ops.rand((1000,), dtype=dtype), ops.dropout(x(1000), 0.5)],
    }


@pytest.mark.deep
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_no_kernel_has_sixteen_lanes_where_they_fail(narrow: Any, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    built = ProgramCache.get_program

    def get_program(self: Any, context: Any, source: str, *rest: Any) -> Any:
        texts.append(source)
        return built(self, context, source, *rest)

    monkeypatch.setattr(ProgramCache, "get_program", get_program)
    assert templates.traits(narrow).vector == narrow.target.width == 8
    families = calls(dtype)
    for call in families.values():
        call(narrow)
    monkeypatch.setattr(winograd, "_LEAST_BLOCKS", 0)
    families["minimal filtering"](narrow)  # in one launch
    assert [found for text in texts if (found := sixteen_in(text))] == []
    missing = [name for name in WRITTEN if not any(templates._texts()[name].splitlines()[0] in text for text in texts)]
    assert missing == []


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sixteen_lanes_would_be_seen(dtype: str) -> None:
    from netcl.core.backend.opencl.storage import storage_text

    assert sixteen_in(storage_text(dtype, 16))
    assert not sixteen_in(storage_text(dtype, 8))
