"""Objects of programs written for PyTorch: error classes, tensors without memory."""

from __future__ import annotations

import dataclasses
import io
import math
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

import netcl.torch as torch
from netcl.core.device import device, use_pytorch_names
from netcl.torch.parts import whole_modules

F, nn = torch.nn.functional, torch.nn


@pytest.fixture
def pytorch_names() -> Iterator[None]:
    use_pytorch_names()
    yield
    use_pytorch_names(False)


def _zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape)


def _infinite() -> nn.Parameter:
    p = nn.Parameter(torch.ones(1))
    p.grad = torch.tensor([math.inf])
    return p


_WHOLE = torch.tensor([1, 2])

# By PyTorch 2.13 on a CPU.
WRONG: dict[type[Exception], dict[str, Callable[[], object]]] = {
    RuntimeError: {
        "add": lambda: _zeros(2) + _zeros(3),
        "matmul": lambda: _zeros(2, 3) @ _zeros(2, 3),
        "matmul of two dtypes": lambda: _zeros(2, 2) @ _zeros(2, 2).double(),
        "linear of two dtypes": lambda: F.linear(_zeros(2, 2), _zeros(2, 2).double()),
        "conv2d of two dtypes": lambda: F.conv2d(_zeros(1, 1, 3, 3).double(), _zeros(1, 1, 3, 3)),
        "bmm": lambda: torch.bmm(_zeros(2, 3), _zeros(2, 3)),
        "view": lambda: _zeros(3).view(2, 2),
        "cat": lambda: torch.cat([_zeros(2, 2), _zeros(3, 3)], 1),
        "stack": lambda: torch.stack([_zeros(2), _zeros(3)]),
        "default_collate": lambda: torch.utils.data.default_collate([_zeros(2), _zeros(3)]),
        "Linear": lambda: nn.Linear(3, 2)(_zeros(1, 4)),
        "Conv2d": lambda: nn.Conv2d(3, 4, 3)(_zeros(1, 2, 8, 8)),
        "LSTM": lambda: nn.LSTM(3, 4)(_zeros(5, 2, 7)),
        "item": lambda: _zeros(2).item(),
        "bool": lambda: bool(_zeros(2)),
        "topk": lambda: _zeros(3).topk(5),
        "einsum": lambda: torch.einsum("ij,jk", _zeros(2, 3), _zeros(2, 3)),
        "multinomial": lambda: torch.multinomial(_zeros(3), 1),
        "arange": lambda: torch.arange(0, 3, -1),
        "linspace": lambda: torch.linspace(0, 1, -1),
        "randint": lambda: torch.randint(5, 5, (2,)),
        "expand": lambda: _zeros(2).expand(3),
        "split": lambda: _zeros(3).split([1, 1]),
        "narrow": lambda: _zeros(3).narrow(0, 1, 5),
        "assignment": lambda: _zeros(3).__setitem__(0, _zeros(2)),
        "mean of integers": _WHOLE.mean,
        "var of integers": _WHOLE.var,
        "softmax of integers": lambda: _WHOLE.softmax(0),
        "norm of integers": _WHOLE.norm,
        "in-place float": lambda: _zeros(3).int().add_(0.5),
        "device": lambda: _zeros(2).to("foo"),
        "numpy of a leaf": lambda: torch.ones(3, requires_grad=True).numpy(),
        "clip_grad_norm_": lambda: nn.utils.clip_grad_norm_([_infinite()], 1.0, error_if_nonfinite=True),
        "grad": lambda: setattr(torch.ones(3, requires_grad=True), "grad", _zeros(2)),
        "gather": lambda: _zeros(3).gather(0, torch.tensor([5])).tolist(),
        "div": lambda: _zeros(2).div(2, rounding_mode="up"),
        "bitwise and": lambda: _zeros(2) & _zeros(2),
    },
    IndexError: {
        "sum": lambda: _zeros(3).sum(2),
        "squeeze": lambda: _zeros(3).squeeze(4),
        "transpose": lambda: _zeros(3).transpose(0, 2),
        "softmax": lambda: F.softmax(_zeros(3), 4),
        "flatten": lambda: _zeros(2).flatten(1, 0),
        "argmax of nothing": lambda: _zeros(0).argmax(),
        "element": lambda: _zeros(3)[5],
        "two indices": lambda: _zeros(3)[1, 1],
        "indices on the device": lambda: _zeros(3)[torch.tensor([7])].tolist(),
        "number as index": lambda: _zeros(3)[1.5],
        "embedding": lambda: nn.Embedding(3, 2)(torch.tensor([5])).tolist(),
        "cross_entropy": lambda: F.cross_entropy(_zeros(2, 3), torch.tensor([0, 5])).item(),
    },
    TypeError: {
        "None": lambda: _zeros(3) + None,
        "text": lambda: _zeros(3) + "a",
        "equal": lambda: torch.equal(_zeros(2), 1),
        "set_grad_enabled": lambda: torch.set_grad_enabled("x"),
        "keyword": lambda: torch.sum(_zeros(2), other=1),
    },
    ValueError: {
        "BatchNorm1d": lambda: nn.BatchNorm1d(3)(_zeros(1, 3)),
        "SGD": lambda: torch.optim.SGD([_zeros(2)], lr=-1.0),
    },
    AssertionError: {"heads": lambda: nn.MultiheadAttention(5, 2)},
}
NEEDS = {"device": "opencl-kernels"}  # without pyopencl a name that may be a device's raises ImportError


@pytest.mark.usefixtures("pytorch_names")
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param(kind, name, marks=pytest.mark.level(NEEDS[name]) if name in NEEDS else ())
        for kind, calls in WRONG.items()
        for name in calls
    ],
)
def test_wrong_calls_raise_pytorchs_class(kind: type[Exception], name: str) -> None:
    with pytest.raises(kind):
        WRONG[kind][name]()


@pytest.mark.usefixtures("pytorch_names")
def test_the_default_device_is_that_of_tensors() -> None:
    device, default = _zeros(2).device, torch.get_default_device()
    assert (default, str(default), repr(default)) == (torch.device(str(device)), str(device), repr(device))
    assert torch.device(device) == device


def test_whole_numbers_and_two_dtypes_are_computed_without_pytorchs_names() -> None:
    assert _WHOLE.float().mean().item() == 1.5
    assert _WHOLE.mean().item() == 1.5
    assert torch.ones(1, requires_grad=True).numpy().tolist() == [1]


@pytest.mark.usefixtures("pytorch_names")
def test_a_module_is_built_without_memory_and_takes_the_tensors_of_a_state() -> None:
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 100_000))
    assert {p.device.type for p in model.parameters()} == {"meta"}
    assert model(torch.empty(2, 3, device="meta")).shape == (2, 100_000)
    assert repr(model[0].bias) == "Parameter containing:\ntensor(..., device='meta', size=(4,), requires_grad=True)"
    with pytest.raises(NotImplementedError, match="no data"):
        model.to("cpu")
    model[2] = nn.Linear(4, 2, device="meta")
    with device("cpu"):
        same = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
        model.load_state_dict(same.state_dict(), assign=True)
        x = torch.randn(5, 3)
        assert torch.equal(model(x), same(x))
    assert model[0].weight.requires_grad
    empty = nn.Linear(3, 4, device="meta").to_empty(device="cpu")
    assert (empty.weight.device.type, empty.weight.shape) == ("cpu", (4, 3))


@pytest.fixture(scope="module")
def kinds() -> SimpleNamespace:
    """Classes of a program, defined here since the first one changes the functions of torch in this process."""

    class _Plain(torch.Tensor):
        """A class without methods of its own."""

    class _Logged(torch.Tensor):
        """A class that notes what is called."""

        calls: list[str] = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.calls.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    class _Tagged(torch.Tensor):
        """A class with a field, which results take over, and a method that calls its base's."""

        @staticmethod
        def __new__(cls, data, tag):
            made = torch.Tensor._make_subclass(cls, torch.as_tensor(data))
            made.tag = tag
            return made

        def __init__(self, data, tag):
            pass

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            result = super().__torch_function__(func, types, args, kwargs or {})
            if isinstance(result, cls):
                result.tag = func.__name__
            return result

        def add(self, other):
            return super().add(other * 10)

    return SimpleNamespace(plain=_Plain, logged=_Logged, tagged=_Tagged)


def test_results_keep_the_class(kinds: SimpleNamespace) -> None:
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).as_subclass(kinds.plain)
    results = (x + 1, 1 + x, torch.ones(2, 2) @ x, x[0], x.T, torch.cat([x, x]), F.relu(x), x.max(0).values)
    assert {type(result) for result in (*results, nn.Linear(2, 2)(x), *x.unbind(0))} == {kinds.plain}
    assert (type(x.tolist()), type(x.shape), x.ndim) == (list, type(torch.ones(1).shape), 2)
    x += 1
    assert (type(x), x.tolist()) == (kinds.plain, [[2, 3], [4, 5]])
    assert type(torch.ones(2) + 1) is torch.Tensor
    assert type(kinds.plain([1.0])) is kinds.plain


@pytest.mark.usefixtures("pytorch_names")
def test_a_class_of_the_program_prints_its_name(kinds: SimpleNamespace) -> None:
    with device("cpu"):
        assert repr(kinds.plain([1.0, 2.0])) == "_Plain([1., 2.])"


def test_leaves_of_a_class_take_part_in_gradients(kinds: SimpleNamespace) -> None:
    leaf = torch.Tensor._make_subclass(kinds.plain, torch.ones(2), True)
    (leaf * leaf).sum().backward()
    assert leaf.grad.tolist() == [2, 2]
    assert leaf.is_leaf


def test_torch_function_sees_functions_methods_and_operators(kinds: SimpleNamespace) -> None:
    kinds.logged.calls = []
    x = torch.ones(2, 2).as_subclass(kinds.logged)
    x = torch.ones(2, 2) - (x + 1) * x
    torch.matmul(x, x)
    F.softmax(x, -1).mean(0)
    assert kinds.logged.calls == ["add", "mul", "sub", "matmul", "softmax", "mean"]
    with torch.overrides.DisableTorchFunctionSubclass():
        assert type(x + 1) is torch.Tensor
    assert len(kinds.logged.calls) == 6


def test_methods_of_a_class_call_those_of_its_base(kinds: SimpleNamespace) -> None:
    x = kinds.tagged([1.0, 2.0], tag="begin")
    assert (x.tag, x.add(1).tolist(), (x * 2).tag) == ("begin", [11, 12], "mul")


def test_two_classes_without_a_common_one_are_refused(kinds: SimpleNamespace) -> None:
    with pytest.raises(TypeError, match="no implementation found for"):
        torch.ones(1).as_subclass(kinds.plain) + torch.ones(1).as_subclass(kinds.logged)


class _Like:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return f"like {func.__name__}"


def test_functions_of_a_program_can_be_overridden(kinds: SimpleNamespace) -> None:
    overrides = torch.overrides

    def function(x):
        if overrides.has_torch_function((x,)):
            return overrides.handle_torch_function(function, (x,), x)
        return "plain"

    assert (function(_Like()), function(torch.ones(1)), torch.add(_Like(), 1)) == ("like function", "plain", "like add")
    assert (overrides.is_tensor_like(_Like()), overrides.is_tensor_like(1)) == (True, False)
    assert overrides.resolve_name(torch.Tensor.add) == "torch.Tensor.add"


def test_a_mode_sees_calls_of_its_block() -> None:
    seen = []

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    with Mode():
        (torch.ones(2) + 1).sum()
    torch.ones(2) + 1
    assert seen == ["ones", "add", "sum"]


def test_a_function_that_is_differentiable_once_says_so() -> None:
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * 3 * x**2

    x = torch.tensor([2.0], requires_grad=True)
    (grad,) = torch.autograd.grad(Cube.apply(x) * x, x, create_graph=True)
    assert grad.tolist() == [32]
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()
    Cube.apply(x).sum().backward()
    assert x.grad.tolist() == [12]


def test_dual_tensors_have_tangents() -> None:
    forward_ad = torch.autograd.forward_ad
    x, v = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 0.5])
    weight = torch.tensor([3.0, 4.0], requires_grad=True)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, v)
        value, tangent = forward_ad.unpack_dual((dual * dual).sin())
        assert torch.allclose(value, (x * x).sin())
        assert torch.allclose(tangent, (x * x).cos() * 2 * x * v)
        assert not value.requires_grad
        assert torch.equal(forward_ad.unpack_dual(dual).tangent, v)
        assert forward_ad.unpack_dual(torch.ones(2)).tangent is None
        tangent = forward_ad.unpack_dual(forward_ad.make_dual(x, v.double()) * weight).tangent
        assert torch.equal(tangent, weight * v)
        assert tangent.dtype == torch.float32
        with pytest.raises(RuntimeError, match="floating"):
            forward_ad.make_dual(x, v.long())
        tangent = forward_ad.unpack_dual(dual * weight * weight).tangent
        tangent.sum().backward()  # of 2 w v
        with pytest.raises(RuntimeError, match="nested"):
            forward_ad.enter_dual_level()
    assert torch.allclose(weight.grad, 2 * weight.detach() * v)
    assert forward_ad.unpack_dual(dual).tangent is None


@pytest.mark.parametrize("name", ["arange", "empty", "eye", "full", "linspace", "ones", "rand", "randn", "zeros"])
def test_functions_that_make_tensors_write_into_out(name: str) -> None:
    arguments = {"full": ((3,), 4.0), "linspace": (0, 1, 3)}.get(name, (3,))
    out = torch.full((3, 3) if name == "eye" else (3,), 7.0)
    function = getattr(torch, name)
    assert function(*arguments, out=out) is out
    if name not in ("empty", "rand", "randn"):
        assert torch.equal(out, function(*arguments).float())
    with pytest.raises(RuntimeError, match="expected out of shape"):
        function(*arguments, out=torch.zeros(5))


def test_old_names_of_types_and_new_make_tensors() -> None:
    x = torch.tensor([1.5, -2.0])
    assert x.type(torch.LongTensor).tolist() == [1, -2]
    assert x.type(torch.FloatTensor) is x
    assert x.long().type(torch.Tensor).dtype == torch.get_default_dtype()
    assert (x.new(2, 3).shape, x.new(x.shape).shape, x.new().shape) == ((2, 3), (2,), (0,))
    assert (x.new([1, 2]).tolist(), str(x.long().new([3.0]).dtype)) == ([1.0, 2.0], "int64")


@pytest.mark.level("opencl-kernels")  # as for NEEDS
@pytest.mark.parametrize("name", ["FloatTensor", "LongTensor", "BoolTensor"])
def test_types_of_gpus_make_tensors_on_gpus(name: str) -> None:
    here, gpu = getattr(torch, name), getattr(torch.cuda, name)
    x = here([1, 0])
    assert isinstance(x, here)
    assert not isinstance(x, gpu)
    makers = (lambda: gpu([1, 0]), lambda: x.type(gpu), lambda: x.type(f"torch.cuda.{name}"))
    for make in makers:
        if torch.cuda.is_available():
            assert isinstance(make(), gpu)
            assert make().type() == f"{x.type().partition('.')[0]}.cuda.{name}"
        else:
            with pytest.raises(RuntimeError, match="cuda"):
                make()
    with pytest.raises(TypeError, match="set_default_device"):
        torch.set_default_tensor_type(gpu)


class _Stream:
    """A stream that cannot seek."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes) -> int:
        self.data += data
        return len(data)


def test_save_writes_to_streams_that_cannot_seek(tmp_path) -> None:
    stream = _Stream()
    torch.save({"a": torch.ones(2)}, stream)
    assert torch.load(io.BytesIO(stream.data))["a"].tolist() == [1, 1]
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive, archive.open("state.pt", "w") as member:
        torch.save({"a": torch.ones(2)}, member)
    with zipfile.ZipFile(tmp_path / "all.zip") as archive:
        assert torch.load(io.BytesIO(archive.read("state.pt")))["a"].tolist() == [1, 1]


@dataclasses.dataclass
class _Arguments:
    rate: float
    scale: object = None


def test_objects_of_other_classes_are_saved_for_this_process() -> None:
    given, file = _Arguments(0.5, torch.ones(2)), io.BytesIO()
    torch.save({"arguments": [given], "step": 3}, file)
    given.rate = 0.0
    file.seek(0)
    found = torch.load(file, weights_only=False)
    assert (found["arguments"][0].rate, found["arguments"][0].scale.tolist(), found["step"]) == (0.5, [1, 1], 3)
    file.seek(0)
    with pytest.raises(RuntimeError, match="weights_only=False"):
        torch.load(file)
    whole_modules._structures.clear()  # as in another process
    file.seek(0)
    with pytest.raises(RuntimeError, match="another process has saved this"):
        torch.load(file, weights_only=False)


def test_batch_norm_takes_states_without_a_count() -> None:
    layer = nn.Sequential(nn.BatchNorm1d(3))
    state = {name: value + 1 for name, value in layer.state_dict().items() if "num_batches" not in name}
    assert not layer.load_state_dict(state).missing_keys
    assert layer[0].running_var.tolist() == [2, 2, 2]
    newer = OrderedDict(state)
    newer._metadata = {"0": {"version": 2}}
    with pytest.raises(RuntimeError, match="num_batches_tracked"):
        layer.load_state_dict(newer)
