"""netcl.torch: PyTorch's call forms, defaults and texts, where those of netcl are others."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

import netcl.torch as torch
from netcl.core.device import device, use_pytorch_names

F, nn = torch.nn.functional, torch.nn


@pytest.fixture
def pytorch_names():
    use_pytorch_names()
    yield
    use_pytorch_names(False)


@pytest.fixture
def numpy_device():
    """A tensor of a GPU prints its device too."""
    with device("cpu"):
        yield


@pytest.fixture
def x():
    return torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])


def test_losses_take_pytorchs_names(x):
    target = torch.tensor([2, 0])
    assert torch.equal(F.cross_entropy(input=x, target=target), F.cross_entropy(x, target))
    assert torch.equal(F.nll_loss(input=x, target=target), F.nll_loss(x, target))
    ranks = F.margin_ranking_loss(input1=x[0], input2=x[1], target=torch.ones(3))
    assert torch.equal(ranks, F.margin_ranking_loss(x[0], x[1], torch.ones(3)))
    assert F.cosine_embedding_loss(input1=x, input2=x, target=torch.ones(2)).item() == pytest.approx(0, abs=1e-6)


def test_losses_take_the_deprecated_flags_with_a_warning(x):
    target = torch.tensor([2, 0])
    with pytest.warns(UserWarning, match="reduction='sum'"):
        total = F.cross_entropy(x, target, size_average=False)
    assert torch.equal(total, F.cross_entropy(x, target, reduction="sum"))
    with pytest.warns(UserWarning, match="reduction='none'"):
        each = F.mse_loss(x, x + 1, reduce=False)
    assert each.shape == (2, 3)
    with pytest.warns(UserWarning, match="reduction='sum'"):
        assert nn.CrossEntropyLoss(size_average=False).reduction == "sum"


def test_positional_arguments_of_losses_are_in_pytorchs_order(x):
    ones = torch.ones(2, 3)
    total = F.binary_cross_entropy_with_logits(x, ones, None, None, None, "sum", ones * 2)
    assert torch.equal(total, F.binary_cross_entropy_with_logits(x, ones, reduction="sum", pos_weight=ones * 2))


@pytest.mark.level("front")
@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 3, 4), (2, 3, 4, 5)])
def test_softmax_without_a_dim_guesses_it_as_pytorch_does(shape):
    given = torch.ones(shape)
    dim = {1: 0, 2: 1, 3: 0, 4: 1}[len(shape)]
    with pytest.warns(UserWarning, match="Implicit dimension choice for softmax"):
        assert torch.equal(F.softmax(given), F.softmax(given, dim))
    with pytest.warns(UserWarning, match="Implicit dimension choice for log_softmax"):
        assert torch.equal(nn.LogSoftmax()(given), F.log_softmax(given, dim))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(nn.Softmax(dim)(given), F.softmax(given, dim))


def test_defaults_of_optimizers_are_pytorchs():
    assert torch.optim.SGD([nn.Parameter(torch.ones(1))]).param_groups[0]["lr"] == 1e-3
    assert isinstance(torch.optim.SGD([nn.Parameter(torch.ones(1))]), torch.optim.Optimizer)


def test_rms_norm_has_the_epsilon_of_the_dtype():
    small = torch.full((1, 4), 1e-3)
    assert F.rms_norm(small, (4,))[0, 0].item() == pytest.approx(1e-3 / (1e-6 + 2.0**-23) ** 0.5)


@pytest.mark.level("front")
def test_functions_take_pytorchs_forms(x):
    assert torch.allclose(input=x, other=x)
    assert torch.equal(input=x, other=x)
    assert torch.where(condition=x > 0, input=x, other=0.0).min().item() == 0
    assert [len(places) for places in torch.where(x > 0)] == [4, 4]
    assert torch.transpose(input=x, dim0=0, dim1=1).shape == (3, 2)
    assert torch.einsum("ij,kj->ik", [x, x]).shape == (2, 2)
    assert torch.norm(x, p="fro").item() == pytest.approx(np.linalg.norm(x.numpy()))
    assert torch.std(x, False).item() == pytest.approx(x.numpy().std())
    assert torch.var(x, 1, False, True).shape == (2, 1)
    assert torch.repeat_interleave(torch.tensor([1, 2])).tolist() == [0, 1, 1]
    assert torch.searchsorted(torch.tensor([3.0, 1.0]), torch.tensor([2.0]), sorter=torch.tensor([1, 0])).tolist() == [
        1
    ]
    assert torch.unique(torch.tensor([[1, 2], [1, 2], [0, 1]]), dim=0).tolist() == [[0, 1], [1, 2]]
    assert torch.tril_indices(2, 2, device="cpu").tolist() == [[0, 1, 1], [0, 0, 1]]
    assert torch.pinverse(torch.eye(2), rcond=1e-10).tolist() == [[1.0, 0.0], [0.0, 1.0]]


@pytest.mark.level("front")
def test_results_have_pytorchs_fields(x):
    square = torch.eye(2) * 3
    assert torch.linalg.eigh(square).eigenvalues.tolist() == [3.0, 3.0]
    assert torch.linalg.svd(square).Vh.shape == (2, 2)
    assert torch.linalg.slogdet(square).sign.item() == 1
    assert torch.linalg.lstsq(square, torch.ones(2, 1)).solution.shape == (2, 1)
    assert torch.aminmax(x).max.item() == 2
    counts = torch.histogram(torch.tensor([1.0, 2.0, 1.0]), bins=2, range=(0.0, 3.0))
    assert counts.hist.tolist() == [2.0, 1.0]
    assert counts.bin_edges.tolist() == [0.0, 1.5, 3.0]


@pytest.mark.level("front")
def test_limits_of_dtypes_are_objects_of_pytorchs_form():
    assert torch.finfo(torch.float32).tiny == pytest.approx(2.0**-126)
    assert torch.finfo().dtype == "float32"
    assert torch.finfo(torch.bfloat16).resolution == 0.01
    assert repr(torch.iinfo(torch.int8)) == "iinfo(min=-128, max=127, dtype=int8)"


def test_grad_takes_pytorchs_arguments():
    x, unused = torch.ones(2, requires_grad=True), torch.ones(1, requires_grad=True)
    (found,) = torch.autograd.grad((x * x).sum(), x, None, True, True, True)
    assert found.tolist() == [2.0, 2.0]
    assert found.requires_grad
    _, zeros = torch.autograd.grad((x * 2).sum(), [x, unused], materialize_grads=True)
    assert zeros.tolist() == [0.0]
    with pytest.raises(RuntimeError):
        torch.autograd.grad((x * 2).sum(), [x, unused])
    with pytest.raises(Exception, match="is_grads_batched"):
        torch.autograd.grad(x.sum(), x, is_grads_batched=True)


@pytest.mark.parametrize(
    "place", [lambda storage, place: storage, {"cuda:0": "cpu"}, lambda storage, place: storage.cpu(), None, "cpu"]
)
def test_load_takes_every_kind_of_map_location(tmp_path, place):
    torch.save({"w": torch.ones(2)}, tmp_path / "w.pt")
    assert torch.load(tmp_path / "w.pt", map_location=place)["w"].tolist() == [1.0, 1.0]


def test_load_refuses_several_devices_and_a_file_that_is_not_there(tmp_path):
    torch.save({"w": torch.ones(2)}, tmp_path / "w.pt")
    with pytest.raises(Exception, match="one device for all"):
        torch.load(tmp_path / "w.pt", map_location={"cuda:0": "cpu", "cuda:1": "cuda:0"})
    with pytest.raises(FileNotFoundError):
        torch.load(tmp_path / "other.pt")


def test_a_state_can_be_changed_in_place():
    layer = nn.Linear(2, 2)
    before = layer.weight.detach().clone()
    state = layer.state_dict()
    for value in state.values():
        value.mul_(2)
    assert torch.equal(layer.weight, before * 2)
    assert not state["weight"].requires_grad
    assert layer.state_dict(keep_vars=True)["weight"] is layer.weight


def test_default_collate_keeps_the_tuple_of_texts():
    assert torch.utils.data.default_collate([("a", 1), ("b", 2)])[0] == ("a", "b")
    assert torch.utils.data.default_collate(["a", "b"]) == ["a", "b"]


TEXTS = [
    ([1.0, 2.5], "float32", "tensor([1.0000, 2.5000])"),
    (3, "int64", "tensor(3)"),
    ([[1, 2], [3, 4]], "int32", "tensor([[1, 2],\n        [3, 4]], dtype=torch.int32)"),
    ([1e-8, 1.0], "float32", "tensor([1.0000e-08, 1.0000e+00])"),
    ([1.0, float("nan"), float("-inf")], "float32", "tensor([1., nan, -inf])"),
    ([[]], "float32", "tensor([], size=(1, 0))"),
    ([0.0, 0.0], "float64", "tensor([0., 0.], dtype=torch.float64)"),
    ([True, False], "bool", "tensor([ True, False])"),
]


@pytest.mark.level("front")
@pytest.mark.parametrize(("values", "dtype", "text"), TEXTS)
def test_tensors_print_as_pytorchs(pytorch_names, numpy_device, values, dtype, text):
    assert repr(torch.tensor(values, dtype=dtype)) == text


@pytest.mark.level("front")
def test_long_tensors_and_graphs_print_as_pytorchs(pytorch_names, numpy_device):
    assert repr(torch.arange(2000)) == "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])"
    assert repr(nn.Parameter(torch.ones(2))) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    assert repr(torch.ones(2, requires_grad=True) * 2) == "tensor([2., 2.], grad_fn=<MulBackward0>)"
    assert repr(torch.cat([torch.ones(1, requires_grad=True)])) == "tensor([1.], grad_fn=<CatBackward0>)"
    assert f"{torch.tensor(1.5)} {torch.tensor(2.0):.2f} {torch.ones(1)}" == "1.5 2.00 tensor([1.])"


def test_states_are_ordered_dicts_also_in_files(tmp_path):
    state = nn.Linear(2, 1).state_dict()
    assert type(state) is OrderedDict
    torch.save({"model": state, "epoch": 3}, tmp_path / "state.pt")
    found = torch.load(tmp_path / "state.pt")
    assert (type(found), type(found["model"]), list(found["model"])) == (dict, OrderedDict, ["weight", "bias"])
    assert found["model"]["weight"].tolist() == state["weight"].tolist()


@pytest.mark.level("front")
def test_sizes_dtypes_and_devices_print_as_pytorchs(pytorch_names):
    assert repr(torch.ones(2, 3).shape) == repr(torch.ones(2, 3).size()) == "torch.Size([2, 3])"
    assert torch.ones(2, 3).shape.numel() == 6
    assert isinstance(torch.ones(2).shape, torch.Size)
    assert repr(torch.float32) == str(torch.float32) == f"{torch.ones(1).dtype}" == "torch.float32"
    assert {str(torch.int64): 1}[str(torch.arange(2).dtype)] == 1
    assert getattr(torch, str(torch.ones(1).dtype).split(".")[-1]) is torch.float32
    assert (str(torch.bool), f"{torch.bfloat16:>16}") == ("torch.bool", "  torch.bfloat16")
    assert repr(torch.device("cpu")) == "device(type='cpu')"


@pytest.mark.level("front")
def test_texts_are_netcls_own_without_the_setting():
    assert repr(torch.ones(2, 3).shape) == "(2, 3)"
    assert repr(torch.float32) == "netcl.float32"
    assert str(torch.float32) == f"{torch.float32}" == "float32"
    assert repr(torch.ones(1)).startswith("Tensor([1.]")


def test_a_module_can_be_imported_with_a_star():
    space: dict[str, object] = {}
    exec("from netcl.torch.utils.data import *", space)
    assert {"DataLoader", "Dataset", "random_split"} <= set(space)


def test_modules_that_are_not_there_say_so():
    code = (
        "import netcl.torch; netcl.torch.install()\n"
        "import torch\n"
        "for name in ('torch.export', 'torch.package'):\n"
        "    try: __import__(name)\n"
        "    except ModuleNotFoundError as error: print(error)\n"
        "for name in ('nested', 'quantization'):\n"
        "    try: getattr(torch, name)\n"
        "    except AttributeError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert [line.partition(" in netcl")[2] for line in lines[:2]] == [
        ": write netcl.io.export_onnx; see docs/reference/torch.md",
        "; see docs/reference/torch.md",
    ]
    assert [line.partition(":")[0] for line in lines[2:]] == [
        "torch.nested is not in netcl",
        "torch.quantization is not in netcl",
    ]


@pytest.mark.level("front")
def test_a_program_prints_as_under_pytorch(tmp_path: Path):
    program = tmp_path / "program.py"
    program.write_text(
        "import torch\nx = torch.ones(2, 2)\nprint(x.shape, x, f'{x.sum()}', x.dtype.is_floating_point)\n"
    )
    command = [sys.executable, "-m", "netcl.torch", str(program)]
    env = {**os.environ, "NETCL_DEVICE": "cpu"}  # a tensor of a GPU prints its device too
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    assert done.stdout == "torch.Size([2, 2]) tensor([[1., 1.],\n        [1., 1.]]) 4.0 True\n"


def test_a_tied_weight_is_saved_once(tmp_path: Path):
    layer, other = nn.Linear(64, 64, bias=False), nn.Linear(64, 64, bias=False)
    other.weight = layer.weight
    torch.save(OrderedDict(a=layer.weight), tmp_path / "one.pt")
    torch.save(nn.Sequential(layer, other).state_dict(), tmp_path / "two.pt")
    sizes = [(tmp_path / name).stat().st_size for name in ("one.pt", "two.pt")]
    assert sizes[1] < 1.2 * sizes[0]


def test_a_backward_pass_from_several_tensors_is_one():
    leaf = torch.tensor([1.0, 2.0], requires_grad=True)
    shared, seen = leaf * 2, []
    shared.register_hook(lambda grad: seen.append(grad.tolist()))
    torch.autograd.backward([(shared * 3).sum(), (shared * shared).sum()])
    assert seen == [[7.0, 11.0]]
    assert leaf.grad.tolist() == [14.0, 22.0]
    with pytest.raises(RuntimeError, match="for each of 2 tensors, got 1"):
        torch.autograd.backward([leaf.sum(), leaf.sum()], [torch.tensor(1.0)])


@pytest.mark.level("front")
def test_values_of_an_assignment_may_have_more_first_axes_of_length_one():
    x, v = torch.zeros(3, 2), torch.full((1, 1), 2.0, requires_grad=True)
    x[0, 0] = torch.ones(1, 1)
    x[1] = torch.ones(1, 1, 2)
    x[torch.tensor([2])] = torch.ones(1, 1, 2) * 5
    x[x == 0] = torch.ones(1, 1) * 7
    assert x.tolist() == [[1, 7], [1, 1], [5, 5]]
    y = torch.zeros(3)
    y[1] = v * 3
    y.sum().backward()
    assert v.grad.tolist() == [[3]]
    with pytest.raises(RuntimeError, match="do not fit"):
        x[0] = torch.ones(2, 2)


def test_a_list_of_sequences_is_a_tuple_as_an_index():
    x, t = torch.arange(12).reshape(3, 4), torch.tensor
    for key, expected in (
        ([t([0]), t([1])], [1]),
        ([[0], [1]], [1]),
        ([[0, 1], [1, 2]], [1, 6]),
        ([[0, 1], 1], [1, 5]),
        ([(0, 1), range(1, 3)], [1, 6]),
        ([[0, 1]], [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ([0, 1], [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ([True, False, True], [[0, 1, 2, 3], [8, 9, 10, 11]]),
        ([[[0, 1]]], [[[0, 1, 2, 3], [4, 5, 6, 7]]]),
    ):
        assert x[key].tolist() == expected, key
    x[[[0], [1]]] = -1
    assert x[0].tolist() == [0, -1, 2, 3]
    assert x[1:].min() == 4


def test_what_makes_tensors_writes_into_an_out_without_elements():
    for call, shape in (
        (lambda out: torch.arange(4, out=out), (4,)),
        (lambda out: torch.rand(3, out=out), (3,)),
        (lambda out: torch.where(torch.ones(2, 1) > 0, torch.ones(2), torch.zeros(2), out=out), (2, 2)),
    ):
        out = torch.empty(0)
        assert call(out) is out
        assert out.shape == shape
    with pytest.raises(RuntimeError, match="expected out to take float32, got a tensor of int64"):
        torch.where(torch.ones(2) > 0, torch.ones(2), torch.zeros(2), out=torch.empty(2, dtype=torch.int64))


def test_gradients_of_exponential_units_keep_their_digits_far_below_zero():
    f = torch.nn.functional
    for function, slope in ((f.elu, 1.0), (f.celu, 1.0), (f.selu, 1.7580993408473766), (torch.expm1, 1.0)):
        x = torch.tensor([-20.0, -15.0, -10.0], requires_grad=True)
        function(x).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), slope * np.exp([-20.0, -15.0, -10.0]), rtol=1e-5)


@pytest.mark.level("opencl-kernels")  # without pyopencl a name that may be a device's raises ImportError
@pytest.mark.parametrize("name", ["nope", "cpu:x", ""])
def test_names_of_no_device_are_refused(name, pytorch_names):
    with pytest.raises(RuntimeError, match=name or "no device|none"):
        torch.device(name)


@pytest.mark.level("front")
def test_arguments_that_pytorch_refuses(pytorch_names):
    scores, ids = torch.zeros(2, 3), torch.tensor([0, 1])
    for kind, text, call in (
        (
            RuntimeError,
            "expected out to take",
            lambda: torch.where(scores > 0, scores, scores, out=torch.zeros(2, 3).long()),
        ),
        (TypeError, "write torch.float32", lambda: torch.zeros(2, dtype="float32")),
        (TypeError, "write torch.int64", lambda: torch.full((2,), 1, dtype="int64")),
    ):
        with pytest.raises(kind, match=text):
            call()
    assert str(torch.device("xla:1")) == "xla:1"
    assert F.nll_loss(scores, ids.byte()).item() == 0


@pytest.mark.level("front")
def test_a_file_takes_the_options_of_other_formats(tmp_path):
    x = torch.tensor([1.0, 2.0])
    for options in ({"pickle_protocol": 4}, {"_use_new_zipfile_serialization": False}):
        torch.save({"x": x}, tmp_path / "x.pt", **options)
        assert torch.load(tmp_path / "x.pt")["x"].tolist() == [1, 2]


@pytest.mark.level("front")
def test_groups_of_one_value_are_refused_by_the_functional_form_alone():
    x = torch.full((1, 3), 2.0)
    assert torch.group_norm(x, 3, bias=torch.ones(3)).tolist() == [[1, 1, 1]]
    with pytest.raises(ValueError, match="one value per group"):
        F.group_norm(x, 3)
    assert F.instance_norm(torch.zeros(2, 0, 4)).shape == (2, 0, 4)
