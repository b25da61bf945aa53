"""The declarations that stand for PoCL's header: the same overloads, the same code, and the header where they do not
do."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from netcl.core import config
from netcl.core.backend.opencl.queue.programs.declarations import declarations, declared
from netcl.core.device import manager
from netcl.core.device.drivers.llvm_processor import multiplies_and_adds
from netcl.core.errors import DeviceNotFoundError

cl = pytest.importorskip("pyopencl", reason="OpenCL: pyopencl is not installed")
from netcl.core.backend.opencl.queue.programs import program_cache  # noqa: E402
from netcl.core.backend.opencl.queue.programs.program_cache import ProgramCache  # noqa: E402

SOURCE = "__kernel void root(__global float* x) { size_t i = get_global_id(0); x[i] = fmax(sqrt(x[i]), 2.0f); }"
ATTRIBUTES = {"__cnfn": "const", "__purefn": "pure", "__conv": "convergent"}


@pytest.fixture
def queue():
    try:
        return manager.default("pocl").queue
    except DeviceNotFoundError:
        pytest.skip("the OpenCL driver pocl is not installed")


def signature(result, name, parameters):
    """Returns result and parameters without the names of parameters, spelt in one way."""
    kinds = []
    for one in parameters.replace("unsigned int", "uint").split(","):
        words = [word for word in re.findall(r"\w+|\*", one) if word != "__private"]
        after = words.index("*") + 1 if "*" in words else 1 + sum(word in ("const", "volatile") for word in words)
        kinds.append(" ".join(words[:after]))
    return f"{result.replace('unsigned int', 'uint')} {name}({', '.join(kinds)})"


def of_the_table(name):
    found = set()
    for text in declarations()[name]:
        attributes, head, parameters = re.fullmatch(r"__attribute__\(\((.*?)\)\) (.*)\((.*)\);", text).groups()
        found.add((attributes.removeprefix("overloadable").lstrip(", "), signature(head.split()[0], name, parameters)))
    return found


def of_the_header(name, header):
    found = set()
    for line in re.findall(rf"^(.*[ \t]{name}\(.*\));", header, re.MULTILINE):
        if "*" in line and not re.search("__(global|local|constant|private)", line):
            continue  # for pointers to anywhere, which PoCL's C has not
        head, parameters = line.split("(", 1)
        words = [word for word in head.split() if word != "__ovld"]
        attributes = [ATTRIBUTES[word] for word in words if word in ATTRIBUTES]
        result = " ".join(word for word in words[:-1] if word not in ATTRIBUTES)
        found.add((", ".join(attributes), signature(result, name, parameters.rstrip(")"))))
    # Those for devices with half arithmetic, which get the header; the access functions take half for everybody.
    return {row for row in found if "half" in name or "half" not in row[1]}


def test_overloads_are_those_of_the_header():
    package = find_spec("pocl_binary_distribution")
    if package is None:
        pytest.skip("PoCL's header is not where pip puts it")
    header = Path(package.submodule_search_locations[0]) / ".libs" / "share" / "pocl" / "include" / "opencl-c.h"
    text = header.read_text()
    for name in declarations():
        assert of_the_table(name) == of_the_header(name, text), name


def test_what_a_text_calls_is_declared():
    text = declared(SOURCE)
    assert text.endswith(SOURCE)
    assert set(re.findall(r"(\w+)\(", text[: -len(SOURCE)])) == {"__attribute__", "get_global_id", "fmax", "sqrt"}
    joined = declared(
        "#define JOIN(a, b) a##b\n__kernel void f(__global int8* x) { x[0] = JOIN(convert_int, 8)(x[1]); }"
    )
    assert "int8 convert_int8(float8);" in joined
    assert "vload" not in joined


@pytest.mark.parametrize(
    "source",
    [
        SOURCE.replace("sqrt(", "native_sqrt("),  # not in the table
        "#define APPLY(f, x) f(x)\n" + SOURCE.replace("sqrt(x[i])", "APPLY(native_sqrt, x[i])"),  # not seen before
    ],
)
def test_other_texts_get_the_header(queue, tmp_path, source):
    values = np.full(16, 16, np.float32)
    buffer = cl.Buffer(queue.context, cl.mem_flags.COPY_HOST_PTR, hostbuf=values)
    program = ProgramCache(tmp_path).get_program(queue.context, source, queue.device)
    cl.Kernel(program, "root")(queue, (16,), (1,), buffer)
    cl.enqueue_copy(queue, values, buffer)
    assert (values == 4).all()


def test_pocl_3_builds_from_declarations(queue, tmp_path):
    if "PoCL 3.0" not in queue.device.platform.version:
        pytest.skip("another PoCL")
    program = ProgramCache(tmp_path).get_program(queue.context, SOURCE, queue.device)
    assert program.get_info(cl.program_info.SOURCE) == declared(SOURCE, multiplies_and_adds(queue.device))
    assert program_cache._with_declarations(SOURCE, "-cl-std=CL1.1", queue.device) is None


@pytest.mark.parametrize("kept", [True, False])
def test_pocl_keeps_its_own_programs(queue, tmp_path, monkeypatch, kept):
    monkeypatch.setenv("POCL_KERNEL_CACHE", str(int(kept)))
    cache = ProgramCache()
    with config.override(CACHE_DIR=tmp_path):
        cache.get_program(queue.context, SOURCE + "// kept", queue.device)
        cache.persist()
    (entry,) = tmp_path.rglob("*.clbin")
    assert (b"kept by the driver" in entry.read_bytes()) is kept  # in place of a binary
    if kept:
        written, bounded = entry.stat().st_mtime_ns, []
        monkeypatch.setattr(ProgramCache, "_bound", lambda self, folder: bounded.append(folder))
        with config.override(CACHE_DIR=tmp_path):
            other = ProgramCache()
            for number in range(3):
                other.get_program(queue.context, SOURCE + "// kept" + " again" * number, queue.device)
        assert entry.stat().st_mtime_ns == written
        assert len(list(tmp_path.rglob("*.clbin"))) == 3
        assert not bounded  # a process would look at all entries for each of its programs
