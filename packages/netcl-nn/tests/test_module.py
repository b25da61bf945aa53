"""Module: names, state, modes, moves and hooks."""

from __future__ import annotations

import copy
import subprocess
import sys

import numpy as np
import pytest

import netcl.autograd as ag
from netcl import nn
from netcl.core import Tensor
from netcl.core.errors import CaptureError, ShapeError


class Block(nn.Module):
    def __init__(self, width: int = 3) -> None:
        super().__init__()
        self.width = width
        self.body = nn.Sequential(nn.Linear(width, width), nn.BatchNorm1d(width))
        self.scale = ag.Parameter(Tensor.ones((width,)))
        self.register_buffer("offset", Tensor.zeros((width,)))
        self.register_buffer("scratch", Tensor.zeros((width,)), persistent=False)

    def forward(self, x):
        return ag.add(ag.mul(self.body(x), self.scale), self.offset)


NAMES = [
    "scale",
    "offset",
    "body.0.weight",
    "body.0.bias",
    "body.1.weight",
    "body.1.bias",
    "body.1.running_mean",
    "body.1.running_var",
    "body.1.num_batches_tracked",
]


def test_names() -> None:
    block = Block()
    assert [name for name, _ in block.named_modules()] == ["", "body", "body.0", "body.1"]
    assert [name for name, _ in block.named_parameters()] == [n for n in NAMES if n in dict(block.named_parameters())]
    assert sorted(dict(block.named_parameters())) == sorted(
        n for n in NAMES if "running" not in n and "num" not in n and n != "offset"
    )
    assert "scratch" in dict(block.named_buffers())
    assert list(block.state_dict()) == NAMES
    assert len(list(block.parameters(recurse=False))) == 1
    assert block.get_submodule("body.1") is block.body[1]
    assert list(block.children()) == [block.body]


def test_a_shared_module_counts_once_and_is_saved_under_each_name() -> None:
    layer = nn.Linear(2, 2)
    model = nn.Sequential(layer, nn.ReLU(), layer)
    assert len(list(model.parameters())) == 2
    assert sorted(model.state_dict()) == ["0.bias", "0.weight", "2.bias", "2.weight"]
    moved = model.to(dtype="float16")
    assert moved[0].weight is moved[2].weight


def test_state_goes_round() -> None:
    one, two = Block(), Block()
    assert two.load_state_dict(one.state_dict()) == ([], [])
    for name, tensor in one.state_dict().items():
        np.testing.assert_array_equal(two.state_dict()[name].to_host(), tensor.to_host())
    arrays = {name: tensor.to_host() + 1 for name, tensor in one.state_dict().items()}
    weight = two.body[0].weight
    two.load_state_dict(arrays)
    assert two.body[0].weight is weight
    np.testing.assert_array_equal(weight.to_host(), arrays["body.0.weight"])


def test_a_state_that_does_not_fit_lists_everything_and_writes_nothing() -> None:
    block = Block()
    before = {name: tensor.to_host() for name, tensor in block.state_dict().items()}
    state = {name: value + 1 for name, value in before.items()}
    del state["scale"]
    state["extra"] = np.zeros(1)
    state["body.0.weight"] = np.zeros((3, 4), np.float32)
    state["offset"] = np.zeros(3, np.int32)
    with pytest.raises(nn.StateError) as caught:
        block.load_state_dict(state)
    text = str(caught.value)
    for part in (
        "missing: scale (3,)",
        "unexpected: extra",
        "body.0.weight: (3, 4)",
        "(3, 3)",
        "dtype of offset: int32",
    ):
        assert part in text
    assert isinstance(caught.value, RuntimeError)
    for name, tensor in block.state_dict().items():
        np.testing.assert_array_equal(tensor.to_host(), before[name])
    del state["body.0.weight"], state["offset"]
    missing, unexpected = block.load_state_dict(state, strict=False)
    assert missing == ["scale", "offset", "body.0.weight"]
    assert unexpected == ["extra"]
    np.testing.assert_array_equal(block.body[0].bias.to_host(), state["body.0.bias"])


def test_modes_and_freezing() -> None:
    block = Block()
    assert block.eval() is block
    assert not any(module.training for module in block.modules())
    assert block.train().body[1].training
    block.freeze()
    assert list(block.trainable_parameters()) == []
    assert len(list(block.unfreeze().trainable_parameters())) == 5
    block.scale.requires_grad = False
    assert len(list(block.trainable_parameters())) == 4
    seen = []
    block.apply(lambda module: seen.append(type(module).__name__))
    assert seen == ["Linear", "BatchNorm1d", "Sequential", "Block"]


def test_zero_grad(normal) -> None:
    layer = nn.Linear(2, 2)
    ag.sum(layer(normal(3, 2))).backward()
    assert layer.weight.grad is not None
    layer.zero_grad(set_to_none=False)
    assert not layer.weight.grad.to_host().any()
    layer.zero_grad()
    assert layer.weight.grad is None


def test_to_dtype_keeps_whole_numbers_and_flags() -> None:
    block = Block()
    block.scale.requires_grad = False
    weight = block.body[0].weight.to_host()
    assert block.to(dtype="bfloat16") is block
    assert {t.dtype for n, t in block.state_dict().items() if "num" not in n} == {"bfloat16"}
    assert block.body[1].num_batches_tracked.dtype == "int64"
    assert isinstance(block.body[0].weight, ag.Parameter)
    assert not block.scale.requires_grad
    np.testing.assert_allclose(block.body[0].weight.to_host(), weight, rtol=4e-3)


def test_to_another_device(normal) -> None:
    block = Block().to("cpu").eval()
    assert {t.device.backend for t in block.state_dict().values()} == {"cpu"}
    x = normal(4, 3)
    assert block(x.to("cpu")).shape == (4, 3)
    assert nn.Linear(2, 2, device="cpu", dtype="float64").weight.dtype == "float64"
    assert nn.Linear(2, 2, device="cpu").weight.device.backend == "cpu"


def test_deepcopy_shares_nothing_but_what_was_shared() -> None:
    block = Block()
    block.twin = block.body
    block.scale.requires_grad = False
    other = copy.deepcopy(block)
    assert other.twin is other.body
    assert other.body is not block.body
    assert not other.scale.requires_grad
    assert isinstance(other.scale, ag.Parameter)
    before = other.body[0].weight.to_host()
    np.testing.assert_array_equal(before, block.body[0].weight.to_host())
    block.body[0].weight.write(before + 1)
    np.testing.assert_array_equal(other.body[0].weight.to_host(), before)
    assert list(other.state_dict()) == list(block.state_dict())


def test_forward_hooks(normal) -> None:
    layer, x = nn.Linear(2, 2), normal(3, 2)
    plain = layer(x).to_host()
    calls = []
    first = layer.register_forward_pre_hook(lambda module, args: calls.append(args[0].shape) or (ag.mul(args[0], 0.0),))
    second = layer.register_forward_hook(lambda module, args, output: ag.add(output, 1.0))
    np.testing.assert_allclose(layer(x).to_host(), np.broadcast_to(layer.bias.to_host() + 1, (3, 2)), rtol=1e-6)
    assert calls == [(3, 2)]
    first.remove()
    np.testing.assert_allclose(layer(x).to_host(), plain + 1, rtol=1e-6)
    with second:
        pass
    second.remove()
    np.testing.assert_array_equal(layer(x).to_host(), plain)


def test_full_backward_hook(normal) -> None:
    layer = nn.Linear(2, 3)
    x = ag.Parameter(normal(4, 2))
    seen = []

    def hook(module, grad_input, grad_output):
        seen.append((module, [g.to_host() for g in grad_input], [g.to_host() for g in grad_output]))
        return (ag.mul(grad_input[0], 2.0),)

    handle = layer.register_full_backward_hook(hook)
    ag.sum(layer(x)).backward()
    ((module, grad_input, grad_output),) = seen
    assert module is layer
    np.testing.assert_array_equal(grad_output[0], np.ones((4, 3)))
    expected = np.ones((4, 3)) @ layer.weight.to_host()
    np.testing.assert_allclose(grad_input[0], expected, rtol=1e-5)
    np.testing.assert_allclose(x.grad.to_host(), 2 * expected, rtol=1e-5)
    handle.remove()
    ag.sum(layer(x)).backward()
    assert len(seen) == 1


def test_full_backward_hook_on_plain_input(normal) -> None:
    layer, seen = nn.Linear(2, 3), []
    layer.register_full_backward_hook(lambda module, gi, go: seen.append((gi, go[0].shape)))
    ag.sum(layer(normal(4, 2))).backward()
    assert seen == [((None,), (4, 3))]
    assert layer.weight.grad.shape == (3, 2)


def test_mistakes_are_named() -> None:
    class Forgetful(nn.Module):
        def __init__(self) -> None:
            self.layer = nn.ReLU()

    with pytest.raises(AttributeError, match=r"super\(\).__init__"):
        Forgetful()
    block = Block()
    with pytest.raises(AttributeError, match="'Block' object has no attribute 'nothing'"):
        _ = block.nothing
    with pytest.raises(TypeError, match="cannot become a int"):
        block.scale = 3
    with pytest.raises(TypeError, match="expected a Parameter"):
        block.register_parameter("p", Tensor.zeros((1,)))
    with pytest.raises(ValueError, match="no dot"):
        block.register_buffer("a.b", None)
    with pytest.raises(ValueError, match="'forward' already"):
        block.add_module("forward", nn.ReLU())
    with pytest.raises(TypeError, match="has no forward"):
        nn.Module()(1)
    with pytest.raises(TypeError, match="number 0 is a function"):
        nn.Sequential(lambda x: x)


def test_reassigning() -> None:
    block = Block()
    block.scale = None
    assert "scale" not in block.state_dict()
    block.scale = ag.Parameter(Tensor.zeros((3,)))
    block.offset = Tensor.ones((3,))
    assert block.state_dict(keep_vars=True)["offset"] is block.offset
    block.body = nn.Identity()
    assert sorted(block.state_dict()) == ["offset", "scale"]
    del block.scale
    assert sorted(block.state_dict()) == ["offset"]


def test_an_error_names_the_path_of_the_layer() -> None:
    model = nn.Sequential({"body": Block(4), "head": nn.Sequential(nn.ReLU(), nn.Linear(4, 3), nn.Linear(4, 2))})
    x = Tensor.ones((2, 4))
    with pytest.raises(
        ShapeError, match=r"^head\.2 in Sequential: Linear\(in_features=4.*expected x \(\.\.\., 4\), got \(2, 3\)"
    ):
        model(x)
    with pytest.raises(ShapeError, match=r"^Linear\(in_features=4"):
        model.head[1](Tensor.ones((2, 5)))
    model.head.register_forward_pre_hook(lambda module, args: None)
    with pytest.raises(ShapeError, match=r"^head\.2 in Sequential: "):
        model(x)


def test_summary_of_layers_with_several_results() -> None:
    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(10, 4)
            self.net = nn.LSTM(4, 6, bidirectional=True)
            self.attention = nn.MultiheadAttention(12, 2)

        def forward(self, ids):
            y = self.net(self.table(ids))[0]
            return self.attention(y, y, y)

    text = Reader().summary((5, 3), dtype="int64")
    rows = {line.split()[0]: line for line in text.splitlines()}
    assert "(5, 3, 12), (2, 3, 6), (2, 3, 6)" in rows["net"]
    assert rows["net"].split()[-1] == f"{15 * 480:,}"
    projections, products = 3 * 15 * 12 * 12, 2 * 3 * 5 * 5 * 12
    assert rows["attention"].split()[-2:] == [f"{3 * 12 * 13}", f"{projections + products:,}"]
    assert rows["attention.out_proj"].split()[-1] == f"{15 * 144:,}"


def test_the_import_is_small() -> None:
    """Neither files nor anything optional is loaded by layers alone."""
    code = (
        "import sys, numpy\n"
        "import netcl.core\n"
        "before = {name.split('.')[0] for name in sys.modules}\n"
        "import netcl.nn\n"
        "print(*{name.split('.')[0] for name in sys.modules} - before - set(sys.stdlib_module_names))\n"
        "print(*(name for name in sys.modules if name.startswith(('netcl.io', 'netcl.profiling', 'netcl.nn.summary'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100)
    assert done.stdout.split("\n")[:2] == ["", ""]


def test_repr_and_summary() -> None:
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding="same", bias=False), nn.Flatten(), nn.Linear(4 * 25, 2))
    assert repr(model) == (
        "Sequential(\n"
        "  (0): Conv2d(1, 4, kernel_size=(3, 3), stride=(1, 1), padding=same, bias=False)\n"
        "  (1): Flatten(start_dim=1, end_dim=-1)\n"
        "  (2): Linear(in_features=100, out_features=2, bias=True)\n"
        ")"
    )
    model.train()
    text = model.summary((1, 1, 5, 5))
    assert "0 (Conv2d)" in text
    assert "(1, 4, 5, 5)" in text
    rows = {line.split()[0]: line.split() for line in text.splitlines()}
    assert rows["0"][-2:] == ["36", str(4 * 25 * 9)]
    assert rows["2"][-2:] == ["202", "200"]
    assert rows["total"][1:] == ["238", "1,100"]
    assert model.training
    assert not model[0]._forward_hooks


def test_values_of_a_state_are_outside_of_the_graph() -> None:
    layer = nn.Linear(2, 2)
    state = layer.state_dict()
    assert not state["weight"].requires_grad
    state["weight"].mul_(0.0)
    assert layer.weight.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert repr(layer.load_state_dict(state)) == "<All keys matched successfully>"
    assert "missing_keys=['bias']" in repr(layer.load_state_dict({"weight": state["weight"]}, strict=False))


def test_layers_write_in_place() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True), nn.Linear(4, 2))
    x = Tensor.from_host(np.array([[0.5, -1.0, 2.0], [1.0, 1.0, -3.0]], np.float32))
    hidden = net[0](x)
    assert net[1](hidden) is hidden
    assert hidden.to_host().min() == 0.0
    (hidden + hidden).sum().backward()
    active = hidden.to_host() > 0
    np.testing.assert_allclose(net[0].bias.grad.to_host(), 2.0 * active.sum(0))
    np.testing.assert_allclose(net[0].weight.grad.to_host(), 2.0 * active.T.astype(np.float32) @ x.to_host())
    dropout = nn.Dropout(0.5, inplace=True)
    assert dropout(x) is x
    assert set(np.unique(x.to_host())) <= {0.0, 1.0, -2.0, 4.0, 2.0, -6.0}
    assert dropout.eval()(x) is x
    with pytest.raises(RuntimeError, match="a leaf tensor that requires grad is written in place"):
        nn.ELU(inplace=True)(net[0].bias)


def test_activations_take_inplace_by_position() -> None:
    x = Tensor.from_host(np.array([-1.0, 2.0], np.float32))
    assert nn.functional.elu(x, 1.0, False) is not x
    assert nn.functional.relu6(x, True) is x
    assert x.tolist() == [0.0, 2.0]


@pytest.mark.level("capture")
def test_walks_are_those_by_name_and_replays_see_each_change() -> None:
    from netcl.runtime.capture import capture

    block = Block()
    block.again = block.body  # shared: counts once
    assert [id(m) for m in block.modules()] == [id(m) for _, m in block.named_modules()]
    assert [id(p) for p in block.parameters()] == [id(p) for _, p in block.named_parameters()]
    assert [id(b) for b in block.buffers()] == [id(b) for _, b in block.named_buffers()]
    assert [id(p) for p in block.parameters(recurse=False)] == [id(block.scale)]
    step = capture(lambda x: block(x), Tensor.ones((2, 3)))
    step.replay(Tensor.ones((2, 3)))
    changes = {
        "training": lambda: block.body[1].eval(),
        "requires_grad": lambda: block.scale.requires_grad_(False),
        "a parameter": lambda: setattr(block, "scale", ag.Parameter(Tensor.ones((3,)))),
        "a buffer": lambda: block.register_buffer("other", Tensor.zeros((3,))),
        "a module": lambda: setattr(block, "head", nn.Linear(3, 3)),
    }
    for change in changes.values():
        change()
        with pytest.raises(CaptureError, match="capture again"):
            step.replay(Tensor.ones((2, 3)))
        step = capture(lambda x: block(x), Tensor.ones((2, 3)))
        step.replay(Tensor.ones((2, 3)))


def test_a_state_knows_the_versions_of_its_layers():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    state = model.state_dict()
    assert state._metadata == {"": {"version": 1}, "0": {"version": 1}, "1": {"version": 2}}
    del state["1.num_batches_tracked"]
    with pytest.raises(RuntimeError, match="num_batches_tracked"):
        model.load_state_dict(state)
    state._metadata["1"]["version"] = 1  # as of before the count
    model.load_state_dict(state)
    model.load_state_dict(dict(state))  # of no version


def test_a_summary_is_shown_as_a_table():
    """At a prompt it was the text in quotes, with its line ends written as two characters."""
    table = nn.Sequential(nn.Linear(4, 2), nn.ReLU()).summary((1, 4))
    assert repr(table) == str(table)
    assert "\n0 (Linear) " in repr(table)
    assert "<th" in table._repr_html_()
    assert ">0 (Linear)</td>" in table._repr_html_()
    assert table._repr_html_().count("<tr>") == 5


@pytest.mark.parametrize("name", ["fit", "predict", "evaluate"])
def test_methods_of_other_libraries_are_answered(name):
    with pytest.raises(AttributeError, match=rf"no attribute '{name}': write netcl.trainer.Trainer\(model.*{name}"):
        getattr(nn.Linear(1, 1), name)
    assert not hasattr(nn.Linear(1, 1), name)


def test_a_compile_of_keras_is_answered():
    with pytest.raises(TypeError, match="write netcl.trainer.Trainer"):
        nn.Linear(1, 1).compile(optimizer="adam", loss="mse")


@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (lambda: nn.Conv2d(1, 8, kernel=3), "Conv2d.* 'kernel'; write kernel_size=..."),
        (lambda: nn.Conv2d(1, filters=8, kernel_size=3), "Conv2d.* 'filters'; write out_channels=..."),
        (lambda: nn.Linear(3, units=2), "Linear.* 'units'; write out_features=..."),
        (lambda: nn.Dropout(rate=0.5), "Dropout.* 'rate'; write p=..."),
        (lambda: nn.LSTM(3, 4, num_layer=2), "LSTM.* 'num_layer'; write num_layers=..."),
        (lambda: nn.Linear(3, 2, colour=1), "its arguments are in_features, out_features, bias"),
    ],
)
def test_a_wrong_keyword_of_a_layer_is_answered(make, advice):
    """The error named `_Convolution.__init__()` and no argument."""
    with pytest.raises(TypeError, match=advice):
        make()
