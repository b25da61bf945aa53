"""The device "ocl" as PyTorch sees it: its name, its hooks, and the module ``torch.ocl``.

Nothing here loads netcl before it is asked for: ``loaded()`` gives the modules that compute.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import warnings
from types import ModuleType
from typing import Any

import torch
from torch.utils import backend_registration

import torch_netcl
from torch_netcl import words

_lock = threading.RLock()
_forked = False
_seed: int | None = None
_library: Any = None
_pins: Any = None
_kernels: Any = None


class _Hooks(torch._C._acc.PrivateUse1Hooks):
    def is_available(self) -> bool:
        return True

    def has_primary_context(self, dev_id: int) -> bool:
        return True

    def is_built(self) -> bool:
        return True


class _Guard(torch._C._acc.DeviceGuard):
    def type_(self) -> Any:
        return torch._C._autograd.DeviceType.PrivateUse1


def has_own_gpu() -> bool:
    """Returns True if this PyTorch is built for GPUs and one is there, by the files of its driver: none is started."""
    if torch.version.cuda is None and torch.version.hip is None:
        return False
    if os.name == "nt":
        return os.path.exists(os.path.join(os.environ.get("SYSTEMROOT", ""), "System32", "nvcuda.dll"))
    return os.path.exists("/dev/kfd") or os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/dxg")


def setup() -> None:
    """Registers the device with PyTorch; raises ImportError for a torch outside of the range."""
    global _library, _pins
    torch_netcl.check_version(torch.__version__)
    if _library is not None:
        return
    backend_registration._setup_privateuseone_for_python_backend("ocl", _module(), _Hooks(), _Guard())
    _follow_modules()
    _follow_accelerator()
    _follow_storages()
    # Every tensor of the device begins with one of these, and a fallback for all ops takes PyTorch 10 ms to register.
    _library, _pins = (torch.library.Library("aten", "IMPL") for _ in range(2))
    for op in (torch.ops.aten.empty.memory_format, torch.ops.aten.empty_strided.default):
        _library.impl(op._schema.name + f".{op._schema.overload_name}".rstrip("."), _first(op), "PrivateUse1")
    _pins.impl("_pin_memory", _pinned, "CPU")
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_after_fork)


class _Swapping:
    """PyTorch's way of moving the parameters of a module that keeps the objects, so that tied weights stay tied.

    Its usual way, ``parameter.data = moved``, refuses a private backend.
    """

    def __enter__(self) -> None:
        self._before = torch.__future__.get_swap_module_params_on_conversion()
        torch.__future__.set_swap_module_params_on_conversion(True)

    def __exit__(self, *error: object) -> None:
        torch.__future__.set_swap_module_params_on_conversion(self._before)


def _follow_modules() -> None:
    """Makes modules swap their parameters if these come to the device, or are there."""
    apply_to_all, move = torch.nn.Module._apply, torch.nn.Module.to

    @functools.wraps(apply_to_all)
    def _apply(self: Any, fn: Any, recurse: bool = True) -> Any:
        if not torch.__future__.get_swap_module_params_on_conversion() and _is_here(self):
            with _Swapping():
                return apply_to_all(self, fn, recurse)
        return apply_to_all(self, fn, recurse)

    @functools.wraps(move)
    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        place = torch._C._nn._parse_to(*args, **kwargs)[0]
        if place is not None and place.type == "ocl":
            with _Swapping():
                return move(self, *args, **kwargs)
        return move(self, *args, **kwargs)

    def ocl(self: Any, device: Any = None) -> Any:
        """Moves all parameters and buffers to device "ocl", in place."""
        _check_index(device)
        return to(self, "ocl")

    torch.nn.Module._apply, torch.nn.Module.to = _apply, to  # type: ignore[method-assign]
    torch.nn.Module.ocl = ocl  # type: ignore[attr-defined]


def _follow_accelerator() -> None:
    """Makes ``torch.accelerator`` ask this module where PyTorch asks an allocator in C++, which there is none."""
    names = "empty_cache get_device_capability max_memory_allocated memory_allocated memory_reserved memory_stats"
    follow = dict.fromkeys((*names.split(), "synchronize", "reset_peak_memory_stats"), "")
    follow |= {"empty_host_cache": "empty_cache"}  # PyTorch's ends the process
    follow |= dict.fromkeys(("set_device_index", "set_device_idx"), "set_device")
    follow |= dict.fromkeys(("get_memory_info", "max_memory_reserved", "reset_accumulated_memory_stats"), "_unknown")
    for place in (torch.accelerator, getattr(torch.accelerator, "memory", None)):
        for name, own in follow.items():
            whole = getattr(place, name, None)
            if whole is not None or (place is torch.accelerator and not own):
                setattr(place, name, _asking(globals()[own or name], whole))


def _follow_storages() -> None:
    """Makes new storages of the device in Python, as PyTorch ends without an allocator in C++."""
    plain = torch.UntypedStorage.__new__

    def new(cls: Any, *args: Any, **options: Any) -> Any:
        place = options.get("device")
        if place is None or torch.device(place).type != "ocl":
            return plain(cls, *args, **options)
        if args and not isinstance(args[0], int):
            return torch.tensor(args[0], dtype=torch.uint8).to(place).untyped_storage()
        return torch.empty(*args or (0,), dtype=torch.uint8, device=place).untyped_storage()

    torch.UntypedStorage.__new__ = new  # type: ignore[method-assign, assignment]


def _asking(own: Any, whole: Any) -> Any:
    @functools.wraps(whole or own)
    def call(*args: Any, **kwargs: Any) -> Any:
        if whole is None or str(torch._C._get_accelerator()) == "ocl":
            return own(*args, **kwargs)
        return whole(*args, **kwargs)

    return call


def _unknown(*unused: Any) -> Any:
    raise NotImplementedError(
        "OpenCL does not say how much memory of a device is free, nor netcl how much was reserved: "
        "write torch.ocl.memory_allocated(), memory_reserved() or max_memory_allocated()"
    )


def _pinned(x: torch.Tensor, device: Any = None) -> torch.Tensor:
    """Returns a copy in plain memory: netcl stages copies to the device itself."""
    return x.clone()


def _is_here(module: Any) -> bool:
    first = next(module.parameters(), None)
    return first is not None and first.device.type == "ocl"


def _after_fork() -> None:
    global _forked
    _forked = _kernels is not None


def _first(op: Any) -> Any:
    """Returns the kernel of ``op`` that loads all kernels and calls again."""

    def call(*args: Any, **kwargs: Any) -> Any:
        loaded()
        return op(*args, **kwargs)

    return call


def loaded() -> ModuleType:
    """Returns the module with the kernels, loaded at the first call."""
    global _seed, _kernels
    if _kernels is None:
        with _lock:
            if _kernels is None:
                setup()
                try:
                    from torch_netcl import amp, collectives, kernels, saving
                except ImportError as error:
                    raise ImportError(f"device 'ocl' needs netcl-core itself, no other core: {error}") from error

                _library._destroy()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # kernels of PyTorch's own for this device are replaced
                    for part in (kernels, amp, collectives, saving):
                        part.register()
                if _seed is not None:
                    kernels.random.manual_seed(_seed)
                    _seed = None
                sys.modules["torch.ocl"]._initialized = True  # type: ignore[attr-defined]
                _kernels = kernels
    return _kernels


def is_loaded() -> bool:
    """True if the device was used in this process."""
    return _kernels is not None


# -- the module torch.ocl --------------------------------------------------------------------------------------------


def is_available() -> bool:
    """Returns True: without an OpenCL device netcl computes on NumPy."""
    return True


is_initialized, init = is_loaded, loaded


def device_count() -> int:
    """Returns 1: PyTorch counts one device of a backend in Python. NETCL_DEVICE chooses it for the process."""
    return 1


def current_device() -> int:
    """Returns 0, the number of the one device."""
    return 0


def _check_index(device: Any) -> None:
    index = device if isinstance(device, int) else torch.device(device or "ocl").index
    if index not in (None, -1, 0):
        raise RuntimeError(
            f"ocl:{index}: PyTorch counts one device of this backend; set NETCL_DEVICE in each process instead"
        )


def set_device(device: Any) -> None:
    """Does nothing for device 0; raises RuntimeError for another number."""
    _check_index(device)


class device(contextlib.nullcontext[None]):
    """``with torch.ocl.device(0):``, for programs that choose a device; there is one."""

    def __init__(self, device: Any) -> None:
        super().__init__()
        _check_index(device)


def _engine() -> Any:
    loaded()
    from torch_netcl import memory

    return memory.ENGINE


def device_name(device: Any = None) -> str:
    """Returns the name of netcl's device."""
    _check_index(device)
    return str(_engine().device_label)


get_device_name = device_name


def get_device_capability(device: Any = None) -> dict[str, Any]:
    """Returns the dtypes that the device computes in, by PyTorch's key."""
    _check_index(device)
    _engine()
    from torch_netcl import memory

    return {"supported_dtypes": set(memory.DTYPES)}


def synchronize(device: Any = None) -> None:
    """Waits until all work of the device is done."""
    _check_index(device)
    if is_loaded():
        _engine().finish()


def _pool() -> Any:
    """Returns netcl's memory pool of the device, on NumPy an account of storages; None before the device is used."""
    if not is_loaded():
        return None
    from torch_netcl import memory

    return memory.ACCOUNT or memory.ENGINE.pool


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Returns the figures of netcl's memory pool, on NumPy the bytes of tensors; empty before the device is used."""
    _check_index(device)
    pool = _pool()
    return {} if pool is None else dict(pool.get_stats())


def _figure(key: str, text: str) -> Any:
    def figure(device: Any = None) -> int:
        return int(memory_stats(device).get(key, 0))

    figure.__doc__ = f"Returns the bytes of {text}."
    return figure


memory_allocated = _figure("bytes_in_use", "the tensors on the device")
max_memory_allocated = _figure("peak_bytes", "tensors that were there at a time, at most")
memory_reserved = _figure("bytes_allocated", "the tensors and of the buffers that are kept for others")


def reset_peak_memory_stats(device: Any = None) -> None:
    """Makes ``max_memory_allocated`` start from the bytes in use."""
    _check_index(device)
    pool = _pool()
    if pool is not None:
        pool.reset_peak()


def empty_cache() -> None:
    """Gives the kept buffers back to the driver."""
    if _pool() is not None:
        from netcl.core.memory import empty_cache as emptied

        emptied()


def _is_in_bad_fork() -> bool:
    return _forked


def manual_seed_all(seed: int) -> None:
    """Seeds the numbers of the device; at once if it was used, else at its first use."""
    global _seed
    if is_loaded():
        loaded().random.manual_seed(int(seed))
    else:
        _seed = int(seed)


manual_seed = manual_seed_all


def seed() -> int:
    """Seeds the numbers of the device by a number of the system, and returns it."""
    manual_seed_all(int.from_bytes(os.urandom(8), "little"))
    return initial_seed()


seed_all = seed


def initial_seed() -> int:
    """Returns the seed of the numbers of the device."""
    _engine()
    from netcl import ops

    return int(ops.get_rng_state()["seed"])


def get_rng_state(device: Any = None) -> torch.Tensor:
    """Returns the state of the numbers of the device as a tensor of bytes on the CPU."""
    _check_index(device)
    return loaded().random.get_state()  # type: ignore[no-any-return]


def set_rng_state(new_state: torch.Tensor, device: Any = None) -> None:
    """Restores a state that ``get_rng_state`` returned."""
    _check_index(device)
    loaded().random.set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    """Returns the states of all devices."""
    return [get_rng_state()]


def set_rng_state_all(states: list[torch.Tensor]) -> None:
    """Restores the states of all devices."""
    set_rng_state(states[0])


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Returns the dtypes of ``torch.autocast("ocl")``."""
    return [torch.bfloat16, torch.float16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Returns True: every device stores bfloat16."""
    return True


_PUBLIC = words(
    "current_device device device_count device_name empty_cache get_amp_supported_dtype get_device_capability "
    "get_device_name get_rng_state get_rng_state_all init initial_seed is_available is_bf16_supported "
    "is_initialized manual_seed manual_seed_all max_memory_allocated memory_allocated memory_reserved memory_stats "
    "reset_peak_memory_stats seed seed_all set_device set_rng_state set_rng_state_all synchronize "
)


def _module() -> ModuleType:
    """Returns the module ``torch.ocl``."""
    module = ModuleType("torch.ocl", 'Device "ocl": netcl behind PyTorch.')
    for name in (*_PUBLIC, "_is_in_bad_fork"):
        setattr(module, name, globals()[name])
    module.__all__ = list(_PUBLIC)  # type: ignore[attr-defined]
    module._initialized = False  # type: ignore[attr-defined]
    sys.modules["torch.ocl"] = module
    return module
