"""What kernels declare and what they do: a launch leaves the buffers that it declares to read as they were, and gives
structs of the declared size. Some drivers take structs of any size.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl.core.device import device
from netcl.core.engine.registry import engine_for
from netcl.core.expr.kernel_source import KernelText, Role

cl = pytest.importorskip("pyopencl")


@pytest.fixture(params=["cpu", "gpu"])
def checked(engine: Any, request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Yields the names of the kernels that were launched on the device, seen as a CPU or as a GPU, and checked."""
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no launches")
    from netcl.core.backend.opencl.queue.launch import Launcher, launcher_for
    from netcl.core.device.capabilities import override_profile, profile_of

    names: list[str] = []
    sizes: dict[tuple[str, str, str], int] = {}

    class Checking(Launcher):
        can_defer = False

        def launch(
            self,
            source: str,
            kernel_name: str,
            global_size: tuple[int, ...],
            local_size: tuple[int, ...] | None,
            args: Sequence[Any],
            options: str = "",
        ) -> None:
            assert isinstance(source, KernelText), f"{kernel_name} declares no arguments"
            declared = source.kernels[kernel_name]
            assert len(declared) == len(args), kernel_name
            for arg, declaration in zip(args, declared):
                if isinstance(arg, np.void):
                    declared_size = self._size_of(source, declaration.type, options)
                    assert arg.nbytes == declared_size, f"{kernel_name}: {declaration.name} has another size"
            buffers = [getattr(arg, "buffer", arg) for arg in args]
            written = [b.int_ptr for b, a in zip(buffers, declared) if a.role is Role.WRITE]
            read = [b for b, a in zip(buffers, declared) if a.role is Role.READ and b.int_ptr not in written]
            before = [self._bytes(buffer) for buffer in read]
            super().launch(source, kernel_name, global_size, local_size, args, options)
            for buffer, kept in zip(read, before):
                assert np.array_equal(self._bytes(buffer), kept), f"{kernel_name} writes what it declares to read"
            names.append(kernel_name)

        def _size_of(self, source: str, struct: str, options: str) -> int:
            """Returns the bytes of a struct that a text declares, by the compiler."""
            key = source, struct, options
            if key not in sizes:
                kernel = f"__kernel void size_of(__global int* size) {{ size[0] = sizeof({struct}); }}"
                size = cl.Buffer(self.queue.context, cl.mem_flags.READ_WRITE, 4)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", cl.CompilerWarning)
                    program = cl.Program(self.queue.context, source + kernel).build(options, cache_dir=False)
                program.size_of(self.queue, (1,), None, size)
                sizes[key] = int(self._bytes(size).view(np.int32)[0])
            return sizes[key]

        def _bytes(self, buffer: Any) -> Any:
            host = np.empty(buffer.size, np.uint8)
            cl.enqueue_copy(self.queue, host, buffer)
            return host

    context = cl.Context([engine.handle.device])
    profile = dataclasses.replace(profile_of(engine.handle), device_type=request.param)
    override_profile(context, profile)
    queue = cl.CommandQueue(context)
    launcher_for(queue, Checking)
    handle = dataclasses.replace(engine.handle, device_type=request.param, context=context, queue=queue)
    with device(handle):
        engine_for(handle)
        yield names


def _draw(*shape: int) -> Any:
    return nc.tensor(np.random.default_rng(0).standard_normal(shape).astype(np.float32))


def test_kernels_of_templates_write_what_they_declare_alone(checked: list[str]) -> None:
    """By contractions, sorts, scans, selections, lists, windows, borders, indices and random numbers."""
    x, rows = _draw(70, 90), _draw(3, 20_000)
    nc.matmul(x, _draw(90, 40))
    nc.matmul(x, _draw(90))
    for k in (3, 300):
        nc.topk(rows, k)
    nc.sort(rows, -1)
    nc.sort(x, -1)
    nc.median(rows, -1)
    nc.unique(x)
    nc.nonzero(x > 0)
    nc.cumsum(rows, -1)
    nc.cummax(rows, -1)
    nc.cumsum(x, 0)
    nc.gather(x, 1, nc.argsort(x, -1))
    nc.rand(100)
    x.T.contiguous()
    nc.searchsorted(nc.linspace(0, 1, 50), x)
    assert len(set(checked)) > 12


@pytest.mark.parametrize("variant", ["rows", "packed", "tiled", "direct"])
def test_copies_for_convolutions_get_arguments_of_the_declared_sizes(
    checked: list[str], variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every kernel on every device: rows of a half type are padded in float32."""
    from netcl.core.backend.opencl import templates
    from netcl.core.backend.opencl.contraction import conv
    from netcl.core.device.discovery import get_active_device
    from netcl.core.dtypes import to_bfloat16

    engine = engine_for(get_active_device())
    traits = templates.traits(engine)._replace(is_cpu=get_active_device().device_type == "cpu")
    monkeypatch.setitem(vars(engine), "_traits", traits)
    x, weight = _draw(2, 3, 9, 9), _draw(4, 3, 3, 3)
    options: dict[str, Any] = {"padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1, "variant": variant}
    for dtype in ("float32", "bfloat16"):
        stored = [to_bfloat16(each.numpy()) if dtype == "bfloat16" else each.numpy() for each in (x, weight)]
        images, filters = (engine.tensor(values, dtype) for values in stored)
        conv.conv(engine, "forward", images, filters, stride=(2, 2), **options)
    nc.ops.conv2d(x, _draw(4, 3, 1, 1), stride=2)
    assert {"pad", "sample"} <= set(checked)
