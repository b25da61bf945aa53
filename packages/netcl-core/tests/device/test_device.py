"""Devices: selectors, handles, the active device, order of choice, and life without pyopencl or driver."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import threading
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from netcl.core import Tensor, config
from netcl.core.device import (
    CPUQueue,
    DeviceHandle,
    DeviceManager,
    device,
    get_active_device,
    icd,
    manager,
    use_pytorch_names,
)
from netcl.core.errors import DeviceNotFoundError

OPENCL = manager.discover()
needs_opencl = pytest.mark.skipif(not OPENCL, reason="needs an OpenCL device")


@pytest.fixture(autouse=True)
def default_selection():
    with config.override(DEVICE="auto", PLATFORM_FILTER="", PROFILE_EVENTS=False):
        yield


def run_python(code, **environment):
    env = {k: v for k, v in os.environ.items() if not k.startswith("NETCL_")}
    return subprocess.run(
        [sys.executable, "-c", code], env={**env, **environment}, capture_output=True, text=True, timeout=60
    )


# --- the original samples --------------------------------------------------------------------------------------------


def test_sample_2_of_the_core_page(capsys):
    from netcl.core.device import manager

    # Returns the first GPU/CPU/Accelerator that was discovered.
    dev = manager.default("auto")
    print(dev.platform_name, dev.device_name, dev.backend, dev.device_type)
    print(type(dev.queue), type(dev.context))
    assert dev.backend in ("cl", "cpu")
    assert dev.device_type in capsys.readouterr().out


@pytest.mark.parametrize("selector", ["cpu", "auto"])
def test_sample_3_of_the_core_page(selector):
    before = get_active_device()
    with device(selector) as dev:
        assert get_active_device() is dev
    assert get_active_device() is before


def test_sample_3_of_the_core_page_with_a_gpu_or_the_named_error():
    if icd._pyopencl is None:
        with pytest.raises(ImportError, match="pyopencl required"), device("gpu"):
            pass
    elif manager.default("gpu") is not None:
        with device("gpu") as dev:
            assert dev.device_type == "gpu"
            assert get_active_device() is dev
    else:
        with pytest.raises(DeviceNotFoundError, match="'gpu'"), device("gpu"):
            pass
        assert get_active_device() is manager.default()


def test_sample_4_of_the_core_page_fields_of_a_handle():
    names = [field.name for field in dataclasses.fields(DeviceHandle)]
    assert names == ["platform_name", "device_name", "backend", "device_type", "context", "queue"]
    handle = manager.default("auto")
    with pytest.raises(dataclasses.FrozenInstanceError):
        handle.backend = "cl"


def test_sample_21_of_the_tensor_page_handle_unpacks():
    ctx, queue = device.manager.default()
    handle = manager.default()
    assert ctx is handle.context
    assert queue is handle.queue


# --- NumPy ------------------------------------------------------------------------------------------------------------


def test_cpu_is_numpy():
    handle = manager.default("cpu")
    assert (handle.platform_name, handle.backend, handle.device_type) == ("NumPy", "cpu", "cpu")
    assert handle.context is None
    assert handle.device is None
    assert handle.selector == "cpu"
    assert isinstance(handle.queue, CPUQueue)
    assert handle is manager.default("CPU") is manager.default("numpy") is manager.default("cpu:0")
    queue = CPUQueue()
    assert (queue.backend, queue.name, queue.context, queue.device) == ("cpu", "cpu", None, None)
    assert queue.finish() is None
    assert CPUQueue("other").name == "other"


# --- real devices -----------------------------------------------------------------------------------------------------


@needs_opencl
def test_selectors_share_one_handle():
    first = manager.default("opencl")
    assert first is manager.default("opencl:0") is manager.default(first) is manager.default(" OpenCL ")
    assert first is manager.default(first.selector)
    assert first.device in manager.devices
    for number, (platform, dev) in enumerate(OPENCL):
        handle = manager.default(number)
        assert handle.device == dev
        assert handle is manager.default(str(number)) is manager.default(handle.selector)
        assert handle.queue.context == handle.context
        assert handle in manager.select(platform=platform.name.upper())
        assert handle.profile is manager.profile(handle) is device.profile(handle.queue) is manager.profile(dev)


@needs_opencl
@pytest.mark.parametrize("name", ["pocl", "intel"])
def test_drivers_by_name(name):
    wanted = {"pocl": "Portable Computing Language", "intel": "Intel(R) OpenCL"}[name]
    if not any(platform.name == wanted for platform, _ in OPENCL):
        pytest.skip(f"needs the driver {wanted}")
    handle = manager.default(name)
    assert handle.platform_name == wanted
    assert handle is manager.default(name.upper()) is manager.default(f"opencl:{name}") is manager.default(f"{name}:0")
    with config.override(PLATFORM_FILTER=name):
        assert {platform.name for platform, _ in manager.discover()} == {wanted}
        assert manager.default() is handle
    with config.override(DEVICE=name):
        assert manager.default() is handle
        assert get_active_device() is handle


@needs_opencl
def test_intels_runtime_before_pocl():
    names = [platform.name for platform, _ in OPENCL]
    if not {"Portable Computing Language", "Intel(R) OpenCL"} <= set(names):
        pytest.skip("needs PoCL and Intel's CPU runtime")
    assert manager.default("opencl:cpu").platform_name == "Intel(R) OpenCL"


@needs_opencl
@pytest.mark.parametrize("platform", [p for p, _ in OPENCL], ids=lambda p: p.name)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_split_gives_devices_that_compute(platform, n):
    import pyopencl as cl

    handle = manager.default(next(number for number, (p, _) in enumerate(OPENCL) if p == platform))
    parts = manager.split(handle, n)
    assert len(parts) == n
    assert len({id(part.queue) for part in parts}) == n
    assert {part.selector for part in parts} == {handle.selector}
    units = [part.device.max_compute_units for part in parts]
    assert sum(units) == handle.device.max_compute_units or set(units) == {handle.device.max_compute_units}
    for index, part in enumerate(parts):
        source = "__kernel void fill(__global int* x, int v) { x[get_global_id(0)] = v; }"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pyopencl warns of any build log, and Intel's driver always has one
            kernel = cl.Program(part.context, source).build().fill
        buffer = cl.Buffer(part.context, cl.mem_flags.READ_WRITE, 4 * 16)
        kernel(part.queue, (16,), None, buffer, np.int32(index))
        host = np.empty(16, np.int32)
        cl.enqueue_copy(part.queue, host, buffer)
        assert (host == index).all()


def test_split_of_numpy_and_of_nothing():
    host = manager.default("cpu")
    parts = manager.split(host, 3)
    assert [part.queue.name for part in parts] == ["cpu:0", "cpu:1", "cpu:2"]
    assert manager.split(host, 1) == [host]
    with pytest.raises(ValueError, match="parts of at least 1, got 0"):
        manager.split(host, 0)


@needs_opencl
def test_profile_events_on_new_queues():
    import pyopencl as cl

    wanted = cl.command_queue_properties.PROFILING_ENABLE
    assert not manager.default("opencl").queue.properties & wanted
    with config.override(PROFILE_EVENTS=True):
        assert DeviceManager().default("opencl").queue.properties & wanted


def test_threads_share_one_handle_and_have_their_own_active_device():
    fresh = DeviceManager()
    found, active, barrier = [], [], threading.Barrier(8)

    def work():
        barrier.wait(10)
        found.append(fresh.default("auto"))
        active.append(get_active_device())

    with device("cpu"):
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert len(found) == 8
    assert len({id(handle) for handle in found}) == 1
    assert all(handle is manager.default() for handle in active)


def test_active_devices_nest_and_survive_exceptions():
    outer, inner = manager.default("cpu"), manager.split(manager.default("cpu"), 2)[1]
    with device(outer):
        with pytest.raises(KeyError), device(inner):
            assert get_active_device() is inner
            raise KeyError
        assert get_active_device() is outer
    same = device("cpu")
    with same as first, same as second:
        assert first is second
    assert get_active_device() is manager.default()


@needs_opencl
@pytest.mark.parametrize(
    "selector",
    ["no such device", "opencl:99", "opencl:0:99", "opencl:99:0", "99", 99, "gpu:99", "cpu:1", "-1", "opencl:"],
)
def test_unknown_selectors_list_all_devices(selector):
    with pytest.raises(DeviceNotFoundError) as caught:
        manager.default(selector)
    text = str(caught.value)
    assert str(selector) in text
    assert "NumPy" in text
    for platform, dev in OPENCL:
        assert platform.name.strip() in text
        assert dev.name.strip() in text


@needs_opencl
def test_a_default_that_is_not_there_names_the_variable():
    for wanted in ("no such device", "gpu:99"):
        with config.override(DEVICE=wanted), pytest.raises(DeviceNotFoundError, match=f"NETCL_DEVICE='{wanted}'"):
            manager.default()


# --- order and types, on devices as drivers report them ---------------------------------------------------------------

GPU, CPU, ACCEL, CUSTOM, ALL = 4, 2, 8, 16, 15


class Fake(SimpleNamespace):
    """A platform or device as a driver would report it."""

    __hash__ = object.__hash__


def fake_device(name, kind, memory=1, unified=False, extensions="", usable=True):
    fake = Fake(
        name=name, vendor=name, type=kind, available=usable, compiler_available=usable, host_unified_memory=unified,
        global_mem_size=memory << 30, extensions=extensions, max_compute_units=1, max_work_group_size=1,
        local_mem_size=1 << 15, opencl_c_version="OpenCL C 1.2", svm_capabilities=0,
    )  # fmt: skip
    fake.int_ptr = id(fake)
    return fake


class FakeManager(DeviceManager):
    """A manager of made-up devices; some may refuse to open."""

    def __init__(self, **platforms):
        super().__init__()
        self.pairs = [(Fake(name=name.replace("_", " ")), dev) for name, devs in platforms.items() for dev in devs]
        self.broken = ()

    def discover(self):
        return self.pairs

    def _new_handle(self, platform_name, dev):
        if dev.name in self.broken:
            import pyopencl as cl

            raise cl.LogicError("create context: out of resources")
        return DeviceHandle(platform_name, dev.name, "cl", self._device_type(dev), object(), CPUQueue())


needs_pyopencl = pytest.mark.skipif(icd._pyopencl is None, reason="needs pyopencl")


@pytest.mark.parametrize(
    ("bits", "kind"),
    [(GPU, "gpu"), (GPU | 1, "gpu"), (CPU, "cpu"), (CPU | 1, "cpu"), (ACCEL, "accel"), (CUSTOM, "other"), (0, "other")],
)
def test_device_type_of_a_bitfield(bits, kind):
    assert DeviceManager._device_type(SimpleNamespace(type=bits)) == kind


@pytest.fixture
def full():
    return FakeManager(
        Portable_Computing_Language=[fake_device("pthread-Intel Xeon", CPU, 64)],
        Oclgrind=[fake_device("Oclgrind Simulator", ALL, 128)],
        Intel_FPGA_Emulation_Platform=[fake_device("Intel FPGA Emulation Device", ACCEL)],
        Intel_OpenCL=[fake_device("Xeon", CPU, 64)],
        Intel_Graphics=[fake_device("Iris Xe", GPU, 48, unified=True)],
        rusticl=[fake_device("Radeon (rusticl)", GPU, 16)],
        AMD=[fake_device("Radeon", GPU, 16), fake_device("small Radeon", GPU, 4)],
        Xilinx=[fake_device("Alveo", ACCEL, usable=False), fake_device("board", ACCEL)],
    )


@needs_pyopencl
def test_a_device_prints_as_a_short_selector():
    """A tensor showed the names of device and driver, 45 characters; the text is a selector of the device."""
    for handle in manager.select():
        assert manager.default(str(handle)) is handle
        assert len(str(handle)) < 12
        assert repr(handle).startswith(f"DeviceHandle('{handle}', {handle.device_type}, ")
        assert f"<th>device</th><td>{handle}</td>" in handle._repr_html_()
        assert repr(Tensor.ones((2,), queue=handle.queue)) == f"Tensor([1., 1.], dtype=float32, device='{handle}')"
    parts = manager.split(manager.default("opencl"), 2)
    assert {str(part) for part in parts} == {str(manager.default("opencl"))}


@needs_pyopencl
@pytest.mark.parametrize("word", ["cuda", "cuda:1", "mps", "xpu"])
def test_a_word_of_pytorch_is_answered(full, word):
    full.pairs = full.pairs[3:4]
    with pytest.raises(DeviceNotFoundError, match=f"{word!r} is PyTorch's word; 'gpu' is the best GPU of any maker"):
        full.default(word)


@needs_pyopencl
def test_order_of_choice(full):
    ranked = [dev.name for _, dev in full._ranked()]
    assert ranked == [
        "Radeon", "small Radeon", "Radeon (rusticl)", "Iris Xe", "board", "Xeon", "pthread-Intel Xeon",
        "Oclgrind Simulator", "Intel FPGA Emulation Device",
    ]  # fmt: skip
    assert full.default("auto").device_name == "Radeon"
    full.pairs = full.pairs[:4]
    assert full.pick_default().device_name == "Xeon"
    full.pairs = full.pairs[:1]
    assert full.pick_default().device_name == "pthread-Intel Xeon"


@needs_pyopencl
@pytest.mark.parametrize(
    ("selector", "name"),
    [
        ("gpu", "Radeon"),
        ("gpu:0", "Radeon"),
        ("gpu:3", "Iris Xe"),
        ("accel", "board"),
        ("accelerator", "board"),
        ("opencl", "Radeon"),
        ("opencl:cpu", "Xeon"),
        ("opencl:cpu:1", "pthread-Intel Xeon"),
        ("opencl:gpu:1", "small Radeon"),
        ("opencl:5:0", "Radeon (rusticl)"),
        ("opencl:6:1", "small Radeon"),
        ("0", "pthread-Intel Xeon"),
        ("pocl", "pthread-Intel Xeon"),
        ("intel", "Iris Xe"),  # a platform's name comes before PoCL's device that names Intel
        ("intel:1", "Xeon"),
        ("iris xe", "Iris Xe"),
        ("small", "small Radeon"),
        ("pthread", "pthread-Intel Xeon"),
    ],
)
def test_selectors(full, selector, name):
    assert full.default(selector).device_name == name
    assert full.default(selector) is full.default(selector)


@needs_pyopencl
def test_a_maker_is_not_the_name_of_pocls_device():
    processor = FakeManager(Portable_Computing_Language=[fake_device("pthread-Intel Xeon", CPU)])
    with pytest.raises(DeviceNotFoundError, match="no device answers to 'intel'"):
        processor.default("intel")
    assert processor.default("xeon") is processor.default("pocl") is processor.default("intel xeon")
    graphics = FakeManager(rusticl=[fake_device("Intel Arc (rusticl)", GPU)])
    assert graphics.default("intel").device_name == "Intel Arc (rusticl)"


@needs_pyopencl
def test_a_type_without_match_is_none_and_a_gpu_never_another_type():
    only_cpu = FakeManager(Vendor=[fake_device("GPU-like name", CPU)])
    assert only_cpu.default("gpu") is None
    assert only_cpu.default("accel") is None
    assert only_cpu.default("opencl:cpu").device_name == "GPU-like name"
    assert only_cpu.default("cpu").backend == "cpu"
    with pytest.raises(DeviceNotFoundError):
        only_cpu.default("gpu:0")


@needs_pyopencl
def test_cpu_of_a_program_for_pytorch_is_numpy_next_to_a_gpu_alone():
    only_cpu = FakeManager(Vendor=[fake_device("Processor", CPU)])
    both = FakeManager(Vendor=[fake_device("Processor", CPU), fake_device("Card", GPU)])
    use_pytorch_names()
    try:
        assert only_cpu.default("cpu").device_name == only_cpu.default("auto").device_name == "Processor"
        assert both.default("cpu") is both.default("auto") is both.default("numpy")
        assert both.default("cuda").device_name == "Card"
        with config.override(DEVICE="processor"):
            assert both.default("cpu").device_name == both.default("auto").device_name == "Processor"
            assert both.default("cuda") is None
    finally:
        use_pytorch_names(False)


@needs_pyopencl
def test_select_by_name_platform_type_and_capability(full):
    full.pairs = [
        (Fake(name="One"), fake_device("a", GPU, extensions="cl_khr_fp16 cl_khr_subgroups cl_vendor_thing")),
        (Fake(name="Two"), fake_device("b", CPU, extensions="cl_khr_fp64 cl_khr_int64_base_atomics")),
    ]
    names = lambda **kwargs: [handle.device_name[:5] for handle in full.select(**kwargs)]  # noqa: E731
    assert names() == ["a", "b", "NumPy"]
    assert names(name="A") == ["a"]
    assert names(platform="two") == ["b"]
    assert names(device_type="cpu") == ["b", "NumPy"]
    assert names(device_type="gpu") == ["a"]
    assert names(requires="fp16") == ["a", "NumPy"]
    assert names(requires=("fp16", "subgroups")) == ["a"]
    assert names(requires=["fp64"]) == ["b", "NumPy"]
    assert names(requires=["int64_atomics"]) == ["b"]
    assert names(requires=["cl_vendor_thing"]) == ["a"]
    assert names(requires=["svm"]) == names(requires=["command_buffer"]) == []
    with pytest.raises(ValueError, match="fp12"):
        full.select(requires=["fp12"])
    with pytest.raises(ValueError, match="quantum"):
        full.select(device_type="quantum")


@needs_opencl
def test_what_the_loader_shows_twice_is_listed_once(monkeypatch):
    import pyopencl as cl

    twice = [*cl.get_platforms(), *cl.get_platforms()]
    monkeypatch.setattr(cl, "get_platforms", lambda: twice)
    assert manager.discover() == OPENCL


@needs_pyopencl
def test_a_device_that_does_not_open_is_passed_over(full, caplog):
    full.broken = ("Radeon",)
    with caplog.at_level("WARNING", "netcl"):
        assert full.default().device_name == "small Radeon"
    assert "Radeon (AMD) cannot be opened" in caplog.text
    with pytest.raises(DeviceNotFoundError, match="cannot be opened"):
        full.default("opencl:6:0")


@needs_pyopencl
def test_numpy_without_driver_is_said_once(caplog):
    empty = FakeManager()
    with caplog.at_level("WARNING", "netcl"):
        assert empty.default().backend == "cpu"
        with config.override(PLATFORM_FILTER="x"):
            assert empty.default().backend == "cpu"
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "\n" not in caplog.text.strip()
    assert "computing with NumPy" in caplog.text
    assert empty.default("gpu") is None
    with pytest.raises(DeviceNotFoundError, match="NumPy"):
        empty.default("intel")


# --- without pyopencl, without driver ---------------------------------------------------------------------------------

MASKED = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "pyopencl":
            raise ImportError("masked " + name)
sys.meta_path.insert(0, Block())
"""

WITHOUT_PYOPENCL = """
import logging
from netcl.core.device import device, get_active_device, manager
from netcl.core.kernel_selector import select_matmul_config
from netcl.core.capabilities import device_profile
import netcl.core.device_profile
assert manager.discover() == [] == manager.devices == manager.profiles
handle = manager.default("auto")
assert handle is get_active_device() is manager.default("cpu") and handle.backend == "cpu"
assert manager.default() is handle and manager.select() == [handle]
assert len(manager.split(handle, 2)) == 2
assert select_matmul_config(512, 512, 512).variant.name == "MATMUL_REGISTER_TILED"
for selector in ("gpu", "opencl", "intel", "opencl:0:0", "0", "anything"):
    try:
        manager.default(selector)
    except ImportError as error:
        assert "pyopencl required" in str(error), error
    else:
        raise AssertionError(selector)
try:
    with device("gpu"):
        raise AssertionError("entered")
except ImportError as error:
    assert "pyopencl required" in str(error)
with device("cpu") as host:
    assert host is handle
"""


@pytest.mark.parametrize("mask", [MASKED, "import sys; sys.modules['pyopencl'] = None\n"], ids=["finder", "None"])
def test_without_pyopencl(mask):
    done = run_python(mask + WITHOUT_PYOPENCL)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("computing with NumPy") == 1
    assert len(done.stderr.strip().splitlines()) == 1
    assert "pip install" in done.stderr


WITHOUT_DRIVER = """
from netcl.core.device import device, manager
assert manager.discover() == []
assert manager.default("auto").backend == "cpu"
assert manager.default("gpu") is None and manager.default("opencl") is None
for selector in ("gpu", "intel"):
    try:
        with device(selector):
            raise AssertionError("entered")
    except LookupError as error:
        assert type(error).__name__ == "DeviceNotFoundError", error
        assert "NumPy" in str(error) and "install" in str(error), error
"""


@needs_pyopencl
def test_without_driver(tmp_path):
    nothing = tmp_path / "none.icd"
    nothing.write_text("/nowhere/libnothing.so\n")
    done = run_python(WITHOUT_DRIVER, OCL_ICD_VENDORS=str(nothing))
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1


def test_import_loads_no_driver_and_prints_nothing():
    code = """
import os
import netcl.core.device as d
assert not d.drivers_loaded()
maps = open("/proc/self/maps").read() if os.path.exists("/proc/self/maps") else ""
assert "libpocl" not in maps and "libintelocl" not in maps
d.manager.default("auto")
assert d.drivers_loaded() == (d.manager.discover() != [] or d.cl is not None)
"""
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""


def test_the_report_of_the_command_line():
    done = run_python("import runpy; runpy.run_module('netcl.core', run_name='__main__')")
    assert done.returncode == 0, done.stderr
    for part in ("netcl-core", "drivers found", "platforms and devices", "NumPy", "default device", "what to install"):
        assert part in done.stdout
    for platform, dev in OPENCL:
        assert platform.name.strip() in done.stdout
        assert dev.name.strip() in done.stdout
    masked = run_python(MASKED + "import runpy; runpy.run_module('netcl.core', run_name='__main__')")
    assert masked.returncode == 0, masked.stderr
    assert "pip install" in masked.stdout
    missing = run_python(
        "import runpy; runpy.run_module('netcl.core', run_name='__main__')", NETCL_DEVICE="no such device"
    )
    assert missing.returncode == 1
    assert "no such device" in missing.stdout
