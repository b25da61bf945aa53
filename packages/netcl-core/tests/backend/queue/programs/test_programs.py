"""The program cache: memory and disk, what a second process finds, bad folders and bad files, builds that fail."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from netcl.core import config
from netcl.core.device import manager
from netcl.core.errors import DeviceNotFoundError, KernelBuildError

cl = pytest.importorskip("pyopencl", reason="OpenCL: pyopencl is not installed")
from netcl.core.backend.opencl.queue.programs import program_cache  # noqa: E402
from netcl.core.backend.opencl.queue.programs.program_cache import ProgramCache, default_cache  # noqa: E402
from netcl.runtime import cache as public  # noqa: E402

EXACT = "#pragma OPENCL FP_CONTRACT OFF\n"
SOURCE = "__kernel void twice(__global float* x) { size_t i = get_global_id(0); x[i] *= 2.0f; }"


@pytest.fixture(params=["pocl", "intel"])
def queue(request):
    try:
        return manager.default(request.param).queue
    except DeviceNotFoundError:
        pytest.skip(f"the OpenCL driver {request.param} is not installed")


def get(cache, queue, source=SOURCE, options=""):
    return cache.get_program(queue.context, source, queue.device, options)


def run(queue, program):
    values = np.arange(64, dtype=np.float32)
    buffer = cl.Buffer(queue.context, cl.mem_flags.COPY_HOST_PTR, hostbuf=values)
    kernel = cl.Kernel(program, "twice")
    kernel.set_arg(0, buffer)
    cl.enqueue_nd_range_kernel(queue, kernel, (64,), (64,))
    out = np.empty_like(values)
    cl.enqueue_copy(queue, out, buffer)
    assert np.array_equal(out, values * 2)


def test_one_build_then_memory_then_disk(queue, tmp_path):
    first = ProgramCache(tmp_path)
    program = get(first, queue)
    run(queue, program)
    assert get(first, queue) is program
    assert (first.stats.builds, first.stats.hits, first.stats.disk_hits) == (1, 1, 0)
    second = ProgramCache(tmp_path)
    run(queue, get(second, queue))
    assert (second.stats.builds, second.stats.disk_hits, second.stats.in_memory) == (0, 1, 1)


def test_key_has_source_and_options(queue, tmp_path):
    cache = ProgramCache(tmp_path)
    get(cache, queue)
    get(cache, queue, SOURCE + " ")
    get(cache, queue, options="-DX=1")
    assert cache.stats.builds == 3
    assert len(list(tmp_path.glob("*.clbin"))) == 3


def test_a_folder_whose_name_is_too_long_keeps_programs_in_memory(queue, tmp_path):
    for cache in (ProgramCache(tmp_path / ("a" * 300)), ProgramCache(tmp_path / "new")):
        assert not cache.has(queue.context, SOURCE, queue.device)
        assert cache.is_empty == (cache.folder.name == "new")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # once in a process
            run(queue, get(cache, queue))
        assert cache.has(queue.context, SOURCE, queue.device)


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "garbage"])
def test_corrupt_entry_is_rebuilt(queue, tmp_path, damage):
    get(ProgramCache(tmp_path), queue)
    (path,) = tmp_path.glob("*.clbin")
    content = path.read_bytes()
    flipped = content[:-10] + bytes([content[-10] ^ 1]) + content[-9:]
    path.write_bytes(
        {"truncate": content[: len(content) // 2], "flip": flipped, "empty": b"", "garbage": b"x" * 99}[damage]
    )
    cache = ProgramCache(tmp_path)
    run(queue, get(cache, queue))
    assert (cache.stats.builds, cache.stats.corrupt) == (1, 1)
    assert ProgramCache(tmp_path)._load(path, path.stem) is not None, "the entry is whole again"


def test_persist_stores_the_code_of_the_launches(queue, tmp_path):
    cache = ProgramCache(tmp_path)
    run(queue, get(cache, queue))
    cache.persist()
    again = ProgramCache(tmp_path)
    run(queue, get(again, queue))
    assert again.stats.disk_hits == 1


def test_folder_is_bounded_least_recently_used_first(queue, tmp_path):
    cache = ProgramCache(tmp_path)
    for i in range(3):
        get(cache, queue, SOURCE + f"// {i}")
        (newest,) = set(tmp_path.glob("*.clbin")) - {
            path for path in tmp_path.glob("*.clbin") if path.stat().st_mtime < 2e6
        }
        os.utime(newest, (1e6 + i, 1e6 + i))
    order = sorted(tmp_path.glob("*.clbin"), key=lambda path: path.stat().st_mtime)
    size = order[0].stat().st_size
    get(ProgramCache(tmp_path), queue, SOURCE + "// 0")  # now the most recently used
    get(ProgramCache(tmp_path, max_bytes=int(2.5 * size)), queue, SOURCE + "// 3")
    left = set(tmp_path.glob("*.clbin"))
    assert order[0] in left
    assert order[1] not in left
    assert len(left) == 2


def test_the_variable_bounds_the_folder(queue, tmp_path):
    left = []
    for megabytes in (1024, 0):
        folder = tmp_path / str(megabytes)
        with config.override(CACHE_MAX_MB=megabytes):
            for i in range(3):
                get(ProgramCache(folder), queue, SOURCE + f"// {i} of {megabytes}")
        left.append(len(list(folder.glob("*.clbin"))))
    assert left[0] == 3
    assert left[1] < 3


def test_unwritable_folder_warns_once_and_keeps_memory(queue, tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("not a folder")
    cache = ProgramCache(blocker / "programs")
    with pytest.warns(RuntimeWarning, match="kept in memory only"):
        run(queue, get(cache, queue))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        get(cache, queue, SOURCE + " ")
        get(cache, queue)
    assert (cache.stats.builds, cache.stats.hits) == (2, 1)


def test_folder_deleted_while_running(queue, tmp_path):
    cache = ProgramCache(tmp_path / "sub")
    get(cache, queue)
    for path in (tmp_path / "sub").iterdir():
        path.unlink()
    (tmp_path / "sub").rmdir()
    run(queue, get(cache, queue, SOURCE + " "))
    assert len(list((tmp_path / "sub").glob("*.clbin"))) == 1


def test_variables_choose_the_folder(tmp_path):
    cache = ProgramCache()
    with config.override(CACHE_DIR=tmp_path):
        assert cache.folder == tmp_path / "programs"
        with config.override(CACHE=False):
            assert cache.folder is None


def test_build_failure_is_named(queue, tmp_path):
    cache = ProgramCache(tmp_path)
    with pytest.raises(KernelBuildError) as caught:
        get(cache, queue, "__kernel void bad() {\n  undeclared = 1;\n}", "-DX")
    error = caught.value
    assert "undeclared" in error.source
    assert error.options == "-DX"
    assert "undeclared" in error.log
    assert queue.device.name.strip() == error.device
    assert queue.device.driver_version in error.driver
    assert "2 |" in str(error), "the source is numbered"
    assert not list(tmp_path.glob("*.clbin"))
    run(queue, get(cache, queue))


def test_a_build_log_is_no_warning(queue, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        get(ProgramCache(tmp_path), queue, "#warning look here\n" + SOURCE)


def test_texts_of_kernels_are_shown_on_request(queue, tmp_path, caplog):
    with config.override(LOG="info"):
        get(ProgramCache(tmp_path), queue)
    assert "twice" not in caplog.text
    for _ in range(2):  # built, and read from disk
        caplog.clear()
        with config.override(LOG="kernels"):
            get(ProgramCache(tmp_path), queue)
        assert SOURCE in caplog.text
        assert queue.device.name.strip() in caplog.text


@pytest.mark.parametrize(
    ("source", "options", "kind", "config", "rounded"),
    [
        (EXACT + SOURCE, "-w", 4, 128 + 63, True),
        (EXACT + SOURCE, "", 4, 63, False),  # the GPU has no such option
        (EXACT + SOURCE, "", 2, 128 + 63, False),  # a CPU divides so anyway
        (EXACT + SOURCE, "-cl-fast-relaxed-math", 4, 128, False),
        (SOURCE, "", 4, 128, False),  # a text of the user's own
    ],
)
def test_exact_texts_divide_exactly_on_gpus(source, options, kind, config, rounded):
    device = SimpleNamespace(type=kind, single_fp_config=config)
    found = program_cache._with_division(source, options, device)
    assert found == (f"{options} -cl-fp32-correctly-rounded-divide-sqrt".strip() if rounded else options)


def test_threads_build_once(queue, tmp_path):
    cache = ProgramCache(tmp_path)
    found = []
    threads = [threading.Thread(target=lambda: found.append(get(cache, queue))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.stats.builds == 1
    assert len({id(program) for program in found}) == 1


def test_clear(queue, tmp_path):
    cache = ProgramCache(tmp_path)
    get(cache, queue)
    cache.clear()
    assert cache.stats.in_memory == 0
    assert not list(tmp_path.glob("*.clbin"))
    get(cache, queue)
    assert cache.stats.builds == 2


def test_several_processes_share_a_folder(tmp_path):
    script = f"""
from netcl.core.device import manager
from netcl.core.backend.opencl.queue.programs.program_cache import ProgramCache
queue = manager.default("opencl").queue
cache = ProgramCache({str(tmp_path)!r})
for i in range(5):
    cache.get_program(queue.context, {SOURCE!r} + "// %d" % i, queue.device)
print(cache.stats.corrupt)
"""
    processes = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate(timeout=60)[0].strip() for process in processes] == ["0"] * 3
    assert len(list(tmp_path.glob("*.clbin"))) == 5
    assert not list(tmp_path.glob(".*.tmp"))


def test_public_face():
    assert public.ProgramCache is ProgramCache
    assert public.cacher is default_cache()


def test_instructions_that_pass_through_the_compiler_as_comments() -> None:
    from netcl.core.backend.opencl.queue.programs.program_cache import _retargeted

    binary = (
        b".version 9.0\n.target sm_90, texmode_independent\n{\n\t//@ wgmma.fence.sync.aligned;\n\t// a comment\n}\0"
    )
    expected = b".version 9.0\n.target sm_90a, texmode_independent\n{\n\twgmma.fence.sync.aligned;\n\t// a comment\n}"
    assert _retargeted(binary) == expected
    assert _retargeted(expected) == expected
