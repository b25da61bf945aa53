"""PoCL 3 on a processor that its LLVM does not know: the level of x86-64, its place in PoCL's structure, a kernel."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from netcl.core.device import manager
from netcl.core.device.drivers import llvm_processor
from netcl.core.device.drivers.quirks import pocl_major

V2 = {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"}
V3 = V2 | {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"}
V4 = V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


def test_level_is_the_highest_whose_instructions_are_all_there() -> None:
    """A flag that a virtual machine hides lowers the level, and so does one of a lower level."""
    level = llvm_processor.level
    assert [level(flags) for flags in (set(), V2, V3, V4)] == ["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"]
    assert level(V4 | {"avx512_bf16"}) == "x86-64-v4"
    assert level(V4 - {"avx512vl"}) == "x86-64-v3"
    assert level(V4 - {"fma"}) == "x86-64-v2"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux: /proc/self/maps")
@pytest.mark.parametrize(
    ("triple", "name", "found"),
    [
        (b"x86_64-unknown-linux-gnu", b"generic", True),
        (b"x86_64-unknown-linux-gnu", b"znver3", True),
        (b"x86_64-unknown-linux-gnu", b"znver2", False),
        (b"x86_64-unknown-linux-gnu", b"generic2", False),
        (b"aarch64-unknown-linux-gnu", b"generic", False),
    ],
)
@pytest.mark.parametrize("apart", [1, 2, 3])
def test_unknown_processor_follows_the_triple(triple: bytes, name: bytes, found: bool, apart: int) -> None:
    """Words that are no addresses, among them small numbers and -1, are passed over."""
    texts = [ctypes.create_string_buffer(text) for text in (triple, name)]
    words = (ctypes.c_size_t * 200)(0, 7, 2**64 - 1, 2**47 - 1)
    words[70], words[79], words[79 + apart] = ctypes.addressof(texts[1]), *map(ctypes.addressof, texts)
    place = llvm_processor.unknown_processor(ctypes.addressof(words))
    wanted = ctypes.addressof(words) + (79 + apart) * ctypes.sizeof(ctypes.c_size_t)
    assert place == (wanted if found and apart <= 2 else None)


class Device:
    def __init__(self, version):
        self.version = f"OpenCL 3.0 PoCL HSTR: pthread-x86_64-unknown-linux-gnu-{version}"


@pytest.mark.parametrize("flags", [V3, V4])
def test_zen_4_gets_its_level_and_known_processors_keep_their_names(monkeypatch, flags: set[str]) -> None:
    own = llvm_processor.level(flags)
    monkeypatch.setattr(llvm_processor, "_own_level", lambda: own)
    names = [llvm_processor.processor_name(Device(name)) for name in ("generic", "znver3", "znver2", "haswell")]
    assert names == [own, own if flags == V4 else "", "", ""]


@pytest.mark.parametrize(("flags", "fused"), [(V2 | {"fma"}, False), (V3, True), (V4, True)])
def test_a_level_below_the_processor_has_no_fused_instruction(monkeypatch, flags: set[str], fused: bool) -> None:
    own = llvm_processor.level(flags)
    monkeypatch.setattr(llvm_processor, "_own_level", lambda: own)
    monkeypatch.setattr(llvm_processor, "_flags", lambda: flags)
    assert llvm_processor.multiplies_and_adds(Device("generic")) is fused
    assert llvm_processor.multiplies_and_adds(Device("haswell"))


# PoCL's structure is made to say "generic" before netcl looks at the device.
PROGRAM = """
import ctypes
import numpy as np
import pyopencl as cl
from netcl.core import Tensor
from netcl.core.device import icd, manager
from netcl.core.device.drivers import llvm_processor

icd.ensure_drivers()
device = next(p for p in cl.get_platforms() if "pocl 3" in p.version.lower()).get_devices()[0]
llvm_processor.processor_name = lambda device: llvm_processor._own_level()
unknown, known = ctypes.create_string_buffer(b"generic"), None
if llvm_processor.unknown_processor(device.int_ptr) is None:
    known = device.version.strip().rpartition("-gnu-")[2].encode()
    llvm_processor._UNKNOWN = known
    place = llvm_processor.unknown_processor(device.int_ptr)
    llvm_processor._UNKNOWN = b"generic"
    ctypes.c_size_t.from_address(place).value = ctypes.addressof(unknown)
place = llvm_processor.unknown_processor(device.int_ptr)
handle = manager.default("portable")
x = Tensor.from_host(handle, np.arange(1000, dtype=np.float32))
assert (x * 3.0 + 1.0).numpy()[999] == 2998.0
print(ctypes.string_at(ctypes.c_size_t.from_address(place).value).decode())
"""


@pytest.mark.skipif(
    not any(pocl_major(platform.version) == 3 for platform, _ in manager.discover()),
    reason="needs PoCL 3: later ones name the processor themselves",
)
def test_kernels_build_for_a_level_where_pocl_does_not_know_the_processor(tmp_path, monkeypatch) -> None:
    """The program is not in PoCL's cache, so it must be built."""
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path))
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == llvm_processor.level(llvm_processor._flags())
