"""The errors: their built-in bases, their fields, their messages, and that they survive pickling."""

from __future__ import annotations

import pickle

import pytest

from netcl.core import errors

BASES = {
    "ArgumentError": ValueError,
    "AxisError": IndexError,
    "ConfigError": ValueError,
    "ShapeError": ValueError,
    "DTypeError": ValueError,
    "BackendMismatchError": ValueError,
    "ExpressionError": ValueError,
    "DeviceNotFoundError": LookupError,
    "SingularMatrixError": RuntimeError,
    "UnsupportedError": TypeError,
    "DeviceLostError": RuntimeError,
    "ForkedProcessError": RuntimeError,
    "CaptureError": RuntimeError,
    "CollectiveMismatchError": RuntimeError,
    "CollectiveTimeoutError": TimeoutError,
    "DeviceTimeoutError": TimeoutError,
    "NonFiniteError": FloatingPointError,
    "OutOfMemoryError": MemoryError,
    "KernelBuildError": RuntimeError,
    "KeyKindError": IndexError,
    "NoDataError": NotImplementedError,
    "OutOfRangeError": IndexError,
}


def test_the_table_is_complete():
    classes = {name for name in errors.__all__ if isinstance(getattr(errors, name), type)}
    assert classes == {*BASES, "ForwardOnlyWarning", "NetclError"}


@pytest.mark.parametrize("name", BASES)
def test_bases(name):
    cls = getattr(errors, name)
    assert issubclass(cls, errors.NetclError)
    assert issubclass(cls, RuntimeError)
    assert issubclass(cls, BASES[name])


@pytest.mark.parametrize("name", sorted(set(BASES) - {"OutOfMemoryError", "KernelBuildError"}))
def test_fields_message_and_pickle(name):
    cls = getattr(errors, name)
    error = cls("what was given", op="matmul", parameter="b")
    assert (str(error), error.op, error.parameter) == ("what was given", "matmul", "b")
    assert (cls("x").op, cls("x").parameter) == (None, None)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is cls
    assert (str(again), again.op, again.parameter) == ("what was given", "matmul", "b")


def test_out_of_memory_names_sizes_and_holders():
    holders = [("Tensor (4096, 4096) float32", 64 << 20), ("pool bucket 1 MiB", 3 << 20)]
    error = errors.OutOfMemoryError(3 << 30, 1 << 20, 2 << 30, holders, device="a device", op="matmul")
    assert (error.requested, error.free, error.largest, error.op) == (3 << 30, 1 << 20, 2 << 30, "matmul")
    assert error.holders == tuple(holders)
    text = str(error)
    for part in ("a device", "3 GiB requested", "1 MiB free", "2 GiB", "Tensor (4096, 4096) float32 (64 MiB)"):
        assert part in text
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.holders, again.op) == (text, error.holders, "matmul")
    assert "free" not in str(errors.OutOfMemoryError(10)).split(".")[0]


SOURCE = "\n".join(f"line{n};" for n in range(1, 101))


@pytest.mark.parametrize(
    "log",
    [
        "<kernel>:50:7: error: use of undeclared identifier 'x'",
        "error: /cache/tempfile_abc.cl:50:7: use of undeclared identifier 'x'",
        "1:50:7: error: use of undeclared identifier 'x'",
        "prog.cl(50): error: identifier 'x' is undefined",
        "line 50: error: syntax",
    ],
)
def test_build_error_marks_the_line_of_each_driver_style(log):
    error = errors.KernelBuildError(SOURCE, "-cl-mad-enable", log, "a device", "driver 1.2", op="relu")
    text = str(error)
    assert log in text
    for part in (
        "relu",
        "a device",
        "driver 1.2",
        "-cl-mad-enable",
        ">   50 | line50;",
        "    46 | line46;",
        "    54 |",
    ):
        assert part in text
    assert "line45;" not in text
    assert "line55;" not in text
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.source, again.log, again.driver) == (text, SOURCE, log, "driver 1.2")


def test_build_error_without_position_shows_the_beginning():
    text = str(errors.KernelBuildError(SOURCE, log=""))
    assert "no log" in text
    assert "     1 | line1;" in text
    assert "line100;" not in text
    assert "..." in text


def test_build_error_of_a_real_driver():
    cl = pytest.importorskip("pyopencl", reason="needs pyopencl", exc_type=ImportError)
    from netcl.core.device import manager

    handle = manager.default("opencl")
    if handle is None:
        pytest.skip("needs an OpenCL device")
    source = "__kernel void f(__global float* x) {\n    size_t i = get_global_id(0);\n    x[i] = undeclared;\n}\n"
    with pytest.raises(cl.RuntimeError) as caught:
        cl.Program(handle.context, source).build()
    assert ">    3 |     x[i] = undeclared;" in str(errors.KernelBuildError(source, log=str(caught.value)))


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (5 << 30, "5 GiB"),
        (1 << 52, "4096 TiB"),
    ],
)
def test_format_bytes(nbytes, text):
    assert errors.format_bytes(nbytes) == text
