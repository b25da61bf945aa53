"""User-written kernels: a KernelSpec is rendered to OpenCL C, built, run, and tuned for its work-group size."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from netcl.core import config
from netcl.core.device.capabilities import profile_of
from netcl.core.device.drivers.kernel_objects import new_kernel
from netcl.core.dtypes import c_type
from netcl.core.errors import BackendMismatchError, DTypeError, ShapeError, UnsupportedError
from netcl.core.expr.kernel_source import Argument, KernelSource, KernelText, joined, kernel_text
from netcl.core.kernels import work_group_tuner
from netcl.core.kernels.signature import Parameter, convert_scalar, parameters_of
from netcl.core.memory.queue_pools import BufferHandle, opencl_queue
from netcl.core.process.opencl import cl
from netcl.core.storage.views import flush

__all__ = [
    "PRIMITIVE_PREAMBLE",
    "BuiltKernel",
    "KernelSpec",
    "PrimitiveBuilder",
    "WorkGroupTuner",
    "build_elementwise_kernel",
]

# RELU propagates NaN; MAX and MIN are for any arithmetic type and return b if a comparison with NaN fails.
PRIMITIVE_PREAMBLE = """\
#define LOAD(pointer, index) ((pointer)[(index)])
#define STORE(pointer, index, value) ((pointer)[(index)] = (value))
#define ADD(a, b) ((a) + (b))
#define SUB(a, b) ((a) - (b))
#define MUL(a, b) ((a) * (b))
#define DIV(a, b) ((a) / (b))
#define RELU(a) ((a) < 0 ? 0 : (a))
#define EXP(a) exp(a)
#define LOG(a) log(a)
#define SQRT(a) sqrt(a)
#define TANH(a) tanh(a)
#define ABS(a) ((a) < 0 ? -(a) : (a))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
"""

_HALF_PRAGMA = """\
#ifdef cl_khr_fp16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#endif
"""
_FAST_OPTION = "-cl-fast-relaxed-math"
_HALF = ("half", "float16")
_ELEMENT_TYPES = {"float": "float", "float32": "float", "double": "double", "float64": "double"}
_ELEMENT_TYPES |= dict.fromkeys(_HALF, "half") | {name: name for name in ("int", "long", "uint", "uchar")}


class KernelSpec:
    """Declares a kernel: ``KernelSpec(name, params, body, preamble)`` or ``KernelSpec(name=, src=)``.

    ``params`` are declarations such as ``"__global float* c"``, ``body`` the statements, ``preamble`` text before the
    kernel; ``src`` is a whole source with a kernel ``name`` instead. ``options`` are build options, ``attributes`` the
    attributes of the kernel, such as ``__attribute__((vec_type_hint(float16)))``. ``workgroup_size`` (int or tuple) is
    used if a run gives no local size, until ``tune`` has measured a better one.
    """

    def __init__(
        self,
        name: str,
        params: Sequence[str] | None = None,
        body: str | None = None,
        preamble: str = "",
        *,
        src: str | None = None,
        options: Sequence[str] = (),
        workgroup_size: int | Sequence[int] | None = None,
        attributes: str = "",
    ) -> None:
        if (src is None) == (body is None) or (src is not None and params is not None):
            raise UnsupportedError(f"KernelSpec {name!r} needs either params and body, or src")
        self.name = name
        self.params: tuple[str, ...] = tuple(params or ())
        self.body = body
        self.preamble = preamble
        self.attributes = attributes
        self.src = src
        self.options: tuple[str, ...] = (options,) if isinstance(options, str) else tuple(options)
        local = (workgroup_size,) if isinstance(workgroup_size, int) else workgroup_size
        self.workgroup_size: tuple[int, ...] | None = None if local is None else tuple(local)
        self.tuned: dict[tuple[int, tuple[int, ...]], tuple[int, ...]] = {}  # (device, global size) -> local size

    def to_source(self) -> str:
        """Returns the whole OpenCL C text: the preamble, then the ``__kernel`` function."""
        if self.src is not None:
            return joined(self.preamble, self.src)
        return kernel_text(self.name, self.params, self.preamble, str(self.body), self.attributes)

    @classmethod
    def from_source(cls, source: KernelSource, **options: Any) -> KernelSpec:
        """Returns the declaration of a kernel that the code generator wrote (``expr.render``)."""
        all_options = {"workgroup_size": source.workgroup_size, "attributes": source.attributes, **options}
        return cls(source.name, source.params, source.statements, source.preamble, **all_options)

    def build(self, target: Any = None) -> BuiltKernel:
        """Compiles for a context, queue or DeviceHandle (None: the active device).

        Raises KernelBuildError with the numbered source and the log, ImportError without pyopencl.
        """
        return BuiltKernel(self, target)

    def tune(self, queue: Any, global_size: Sequence[int], *args: Any) -> tuple[int, ...] | None:
        """Returns the fastest local size for these arguments, measured on copies of them and recorded for later runs.

        A size that makes the kernel write other bits than without tuning is dropped, with one warning; returns None if
        none is left.
        """
        return self.build(queue).tune(queue, global_size, *args)

    def __repr__(self) -> str:
        return f"KernelSpec({self.name!r})"


class BuiltKernel:
    """A KernelSpec that compiled for the device of ``target``; ``run`` launches it on a queue of the same context."""

    def __init__(self, spec: KernelSpec, target: Any = None) -> None:
        if cl is None:
            raise ImportError("pyopencl required: KernelSpec.build compiles for OpenCL devices")
        from netcl.core.backend.opencl.queue.programs.program_cache import default_cache

        self.spec: KernelSpec = spec
        self.context: Any
        self.source: str = spec.to_source()
        self._parameters = parameters_of(self.source, spec.name)
        if self._parameters is not None:
            arguments = tuple(Argument(known.role, known.base, known.name) for known in self._parameters)
            self.source = KernelText(self.source, {spec.name: arguments})
        self.options: str = " ".join(spec.options)
        if isinstance(target, cl.Context):
            self.context, device = target, target.devices[0]
        else:
            queue = opencl_queue(target)
            self.context, device = queue.context, queue.device
        self.program: Any = default_cache().get_program(self.context, self.source, device, self.options)
        self._count = self.kernel().num_args if self._parameters is None else len(self._parameters)

    def kernel(self) -> Any:
        """Returns a new cl.Kernel; its arguments are state, so threads must not share one."""
        return new_kernel(self.program, self.spec.name)

    def run(self, queue: Any, global_size: Sequence[int], local_size: Sequence[int] | None, *args: Any) -> None:
        """Launches over ``global_size`` work-items; returns at once.

        ``args`` are tensors (overwritten in place if the kernel writes them), cl.Buffers, cl.LocalMemory, NumPy
        scalars, or Python numbers, converted to the parameter's type. ``local_size`` None takes the tuned size, else
        ``workgroup_size``, if it fits the device and divides ``global_size``; else the driver chooses.

        Raises ShapeError for sizes that are not positive integers or a local size of another rank; UnsupportedError for
        a wrong number or kind of arguments, or memory that was released; DTypeError for a tensor or number of another
        type than the parameter; BackendMismatchError for a tensor of another queue, since this queue does not wait for
        its work, or a buffer of another context.
        """
        from netcl.core.backend.opencl.queue.launch import launcher_for

        queue = opencl_queue(queue)
        size = _sizes(self.spec.name, "global", global_size)
        if local_size is None:
            local = self._local_size(queue, size)
        else:
            local = _sizes(self.spec.name, "local", local_size)
            if len(local) != len(size) or 0 in local:
                raise ShapeError(f"kernel {self.spec.name}: local size {local} does not fit global size {size}")
        arguments = self._checked(queue, args)
        launcher_for(queue).launch(self.source, self.spec.name, size, local, arguments, self.options)
        for arg, parameter in zip(args, self._parameters or ()):
            if parameter.writes and hasattr(arg, "_storage"):
                arg._storage.written()
                flush((arg,))

    def tune(self, queue: Any, global_size: Sequence[int], *args: Any) -> tuple[int, ...] | None:
        """Returns the fastest local size for these arguments, see ``KernelSpec.tune``."""
        queue = opencl_queue(queue)
        size = _sizes(self.spec.name, "global", global_size)
        arguments = self._checked(queue, args)
        self.spec.tuned.pop((queue.device.int_ptr, size), None)
        best, dropped = work_group_tuner.fastest(self.kernel, queue, size, self._local_size(queue, size), arguments)
        if dropped:
            config.get_logger().warning(
                "kernel %s gives other results on %s with local sizes %s than without tuning; they are not used",
                *(self.spec.name, str(queue.device.name).strip(), ", ".join(map(str, dropped))),
            )
        if best is not None:
            self.spec.tuned[queue.device.int_ptr, size] = best
        return best

    def _local_size(self, queue: Any, size: tuple[int, ...]) -> tuple[int, ...] | None:
        local = self.spec.tuned.get((queue.device.int_ptr, size))
        if local is None and self.spec.workgroup_size is not None:
            local = _clamped(tuple(self.spec.workgroup_size), queue.device)
        fits = local is not None and len(local) == len(size) and all(n % part == 0 for n, part in zip(size, local))
        return local if fits else None

    def _checked(self, queue: Any, args: Sequence[Any]) -> list[Any]:
        parameters = self._parameters
        if len(args) != self._count:
            declared = f" ({', '.join(parameter.text for parameter in parameters)})" if parameters else ""
            raise UnsupportedError(
                f"kernel {self.spec.name}: expected {self._count} arguments{declared}, got {len(args)}"
            )
        for index, arg in enumerate(args):
            where = f"argument {index}" if parameters is None else f"argument {parameters[index].text!r}"
            _check_memory(queue, arg, f"kernel {self.spec.name}, {where}")
        if parameters is None:
            return list(args)
        return [self._argument(parameter, arg) for parameter, arg in zip(parameters, args)]

    def _argument(self, parameter: Parameter, arg: Any) -> Any:
        where = f"kernel {self.spec.name}, argument {parameter.text!r}"
        if not parameter.space:
            if isinstance(arg, (bool, int, float, np.number, np.bool_)):
                try:
                    return convert_scalar(parameter, arg)
                except (ValueError, OverflowError) as error:
                    raise DTypeError(f"{where}: {error}") from None
            if parameter.scalar is not None:
                raise UnsupportedError(f"{where}: expected a number, got {type(arg).__name__}")
            return arg
        local = parameter.space == "local"
        plain = arg is None or isinstance(arg, (bool, int, float, np.generic, np.ndarray))
        if plain or local != isinstance(arg, cl.LocalMemory):
            expected = "cl.LocalMemory(bytes)" if local else "a tensor or cl.Buffer"
            hint = "; Tensor.from_host copies an array to the device" if isinstance(arg, np.ndarray) else ""
            raise UnsupportedError(f"{where}: expected {expected}, got {type(arg).__name__}{hint}")
        dtype = getattr(arg, "dtype", None)
        if isinstance(dtype, str) and not parameter.takes(c_type(dtype)):
            raise DTypeError(
                f"{where}: expected an element type that the parameter takes, got a tensor of {c_type(dtype)} ({dtype})"
            )
        return arg


class WorkGroupTuner:
    """A heuristic for one-dimensional launches: the largest power of two up to ``max_local`` the device accepts."""

    def __init__(self, max_local: int = 256) -> None:
        self.max_local = max_local

    def choose_local_size(self, device: Any = None) -> int:
        """Returns the local size for a device, a queue or a handle; without, ``max_local`` down to a power of two."""
        limit = self.max_local
        if hasattr(device, "queue") or hasattr(device, "finish"):
            limit = min(limit, profile_of(device).max_work_group_size)
            device = getattr(device, "queue", device).device
        if device is not None:
            limit = min(limit, device.max_work_group_size, device.max_work_item_sizes[0])
        return 1 << (max(1, int(limit)).bit_length() - 1)

    def global_local_sizes(self, n: int, device: Any = None) -> tuple[tuple[int], tuple[int]]:
        """Returns (global, local) for ``n`` work-items: global is ``n`` rounded up to a multiple of local."""
        local = self.choose_local_size(device)
        return (max(1, -(-n // local)) * local,), (local,)


class PrimitiveBuilder:
    """Makes elementwise kernels from an expression over ``v0 .. v(arity-1)``.

    ``dtype`` is the element type: float, double, half (float16), int, long, uint, uchar. Halves are stored only: the
    arithmetic is in float, so the kernel builds on devices without cl_khr_fp16.
    """

    def __init__(self, dtype: str = "float", tuner: WorkGroupTuner | None = None) -> None:
        if dtype not in _ELEMENT_TYPES:
            raise DTypeError(f"expected an element type of {', '.join(sorted(_ELEMENT_TYPES))}, got {dtype!r}")
        self.dtype: str = _ELEMENT_TYPES[dtype]
        self.tuner: WorkGroupTuner = tuner or WorkGroupTuner()

    def elementwise_spec(self, name: str, arity: int, expression: str) -> KernelSpec:
        """Returns a KernelSpec of out[i] = expression for i < n, with parameters in0.., ``out`` and ``const int n``."""
        half = self.dtype == "half"
        element = "float" if half else self.dtype
        load = "vload_half(gid, in{0})" if half else "LOAD(in{0}, gid)"
        store = f"vstore_half({expression}, gid, out)" if half else f"STORE(out, gid, {expression})"
        loads = "".join(f"const {element} v{i} = {load.format(i)};\n    " for i in range(arity))
        params = [f"__global const {self.dtype}* in{i}" for i in range(arity)]
        return KernelSpec(
            name=name,
            params=[*params, f"__global {self.dtype}* out", "const int n"],
            body=f"const size_t gid = get_global_id(0);\n    if (gid >= (size_t)n) return;\n    {loads}{store};",
            preamble=(_HALF_PRAGMA if half else "") + PRIMITIVE_PREAMBLE,
            workgroup_size=self.tuner.choose_local_size(),
        )

    def build(self, context: Any, spec: KernelSpec, options: Sequence[str] | None = None) -> Any:
        """Builds ``spec`` in a context (or queue, or handle) as a cl.Kernel; ``options`` are added to those of spec."""
        if options:
            extra = (options,) if isinstance(options, str) else tuple(options)
            spec = KernelSpec(spec.name, src=spec.to_source(), options=(*spec.options, *extra))
        return spec.build(context).kernel()


def build_elementwise_kernel(
    context: Any,
    name: str,
    arity: int,
    expression: str,
    dtype: str = "float",
    options: Sequence[str] | None = None,
    tuner: WorkGroupTuner | None = None,
) -> tuple[KernelSpec, Any]:
    """Returns (spec, cl.Kernel) of an elementwise kernel, see PrimitiveBuilder; without ``context`` the kernel is None.

    For half (float16) the source begins with the cl_khr_fp16 pragma, if the device has it, and is built with
    -cl-fast-relaxed-math; no other kernel of netcl is.
    """
    builder = PrimitiveBuilder(dtype, tuner)
    spec = builder.elementwise_spec(name, arity, expression)
    if builder.dtype == "half":
        spec.options = (*spec.options, _FAST_OPTION)
    return spec, None if context is None else builder.build(context, spec, options)


def _sizes(name: str, which: str, sizes: Any) -> tuple[int, ...]:
    """Returns a global or local size, an int or up to three, as a tuple."""
    try:
        whole = tuple(operator.index(n) for n in ((sizes,) if isinstance(sizes, int) else sizes))
    except TypeError:
        raise ShapeError(f"kernel {name}: expected one to three whole numbers as {which} size, got {sizes!r}") from None
    if not 1 <= len(whole) <= 3 or min(whole) < 0:
        raise ShapeError(f"kernel {name}: expected one to three numbers from 0 as {which} size, got {whole}")
    return whole


def _check_memory(queue: Any, arg: Any, where: str) -> None:
    """Raises BackendMismatchError for memory that ``queue`` cannot use, UnsupportedError if it was released."""
    allocation = getattr(arg, "pool_handle", arg)
    if isinstance(allocation, BufferHandle) and allocation.released:
        raise UnsupportedError(
            f"{where}: the memory of {arg!r} was released"
            if allocation is arg
            else f"{where}: the buffer of the tensor was released"
        )
    if isinstance(getattr(arg, "dtype", None), str):
        device = str(queue.device.name).strip()
        if getattr(arg, "buffer", None) is None or arg.buffer.context != queue.context:
            raise BackendMismatchError(f"{where}: the tensor is not on {device}")
        if arg.queue != queue:
            raise BackendMismatchError(
                f"{where}: the tensor belongs to another queue of {device}, and this one does not wait for it; "
                "run the kernel on tensor.queue"
            )
    buffer = getattr(arg, "buffer", arg)
    if isinstance(buffer, cl.MemoryObject) and buffer.context != queue.context:
        raise BackendMismatchError(f"{where}: the buffer belongs to another context")


def _clamped(local: tuple[int, ...], device: Any) -> tuple[int, ...]:
    """Returns the local size within the limits of the device; halves its largest side while the group is too large."""
    sizes = [min(n, limit) for n, limit in zip(local, device.max_work_item_sizes)]
    while int(np.prod(sizes)) > device.max_work_group_size:
        largest = sizes.index(max(sizes))
        sizes[largest] = max(1, sizes[largest] // 2)
    return tuple(sizes)
