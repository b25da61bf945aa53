"""Names that libraries import: private ones that work, and placeholders that raise the reason at their first use."""

from __future__ import annotations

import subprocess
import sys
from collections import OrderedDict, defaultdict, deque, namedtuple

import numpy as np
import pytest

import netcl.torch as torch
from netcl.torch import tree
from netcl.torch.parts import trees
from netcl.torch.placeholders import PLACEHOLDERS

pytestmark = pytest.mark.level("front")


@pytest.mark.parametrize("place", sorted(PLACEHOLDERS))
def test_a_placeholder_can_be_named_and_raises_the_reason_when_it_is_used(place):
    names, reason = PLACEHOLDERS[place]
    module = sys.modules[f"netcl.{place}"]
    for name in names.split():
        value = getattr(module, name)
        derived = type("Derived", (value,), {})
        for use in (value, derived):
            with pytest.raises(TypeError) as raised:
                use(1, key=2)
            assert str(raised.value) == f"{place}.{name} is not in netcl: {reason}"
        assert not isinstance(torch.ones(1), value)
        assert not hasattr(value, "from_local")
        assert value[int] | None


def test_a_name_that_is_there_is_no_placeholder():
    for place, (names, _) in PLACEHOLDERS.items():
        real = {name for name in names.split() if not isinstance(tree.find(place, name), tree.placeholders.NotHere)}
        assert not real, place


PRIVATE = """
torch.ops.transformers torch.ops.aten torch.nn.init._calculate_correct_fan torch.distributions.wishart.Wishart
torch.distributed.ReduceOp.RedOpType torch.nn.modules.module._IncompatibleKeys torch.profiler.kineto_available
torch.distributed.constants.default_pg_timeout torch._tensor_str._str torch._tensor_str.set_printoptions
torch.utils.data.dataloader._BaseDataLoaderIter torch.utils.data.dataloader._MultiProcessingDataLoaderIter
torch.serialization.MAP_LOCATION torch.types._Number torch._C._nn.gelu torch.storage.UntypedStorage
torch.distributed.distributed_c10d.ProcessGroup torch.distributed.distributed_c10d.all_reduce
torch.distributed.distributed_c10d._get_default_group torch.autograd.function.FunctionCtx
torch.fx.experimental.proxy_tensor.get_proxy_mode torch.nn.MultiheadAttention._reset_parameters
torch.distributions.utils.lazy_property torch.distributions.constraints.positive torch.distributions.constraints.real
torch.distributions.constraints.simplex torch.distributions.constraints.unit_interval
torch.distributions.constraints.cat
"""


@pytest.mark.parametrize("name", PRIVATE.split())
def test_a_name_that_libraries_import_is_there(name):
    value = torch
    for part in name.split(".")[1:]:
        value = getattr(value, part)
    assert value is not None


def test_probabilities_logits_and_triangles():
    utils, p = torch.distributions.utils, torch.tensor([0.0, 0.25, 1.0])
    assert [part.tolist() for part in utils.broadcast_all(1, torch.zeros(2))] == [[1.0, 1.0], [0.0, 0.0]]
    assert utils.broadcast_all(1, 2)[0].dtype == torch.float32
    eps = np.finfo(np.float32).eps
    clamped = np.clip([0.0, 0.25, 1.0], eps, 1 - eps)
    np.testing.assert_allclose(utils.probs_to_logits(p).numpy(), np.log(clamped), rtol=1e-4, atol=1e-6)
    logits = np.log(clamped) - np.log1p(-clamped)
    np.testing.assert_allclose(utils.probs_to_logits(p, True).numpy(), logits, rtol=1e-4)
    np.testing.assert_allclose(utils.logits_to_probs(p, True).numpy(), 1 / (1 + np.exp(-p.numpy())), rtol=1e-5)
    assert utils.logits_to_probs(p).sum().item() == pytest.approx(1)
    matrices = np.arange(18.0).reshape(2, 3, 3)
    for diag in (-1, 0, 1):
        rows, columns = np.tril_indices(3, diag)
        vectors = utils.tril_matrix_to_vec(torch.tensor(matrices), diag)
        np.testing.assert_array_equal(vectors.numpy(), matrices[:, rows, columns])
        np.testing.assert_array_equal(utils.vec_to_tril_matrix(vectors, diag).numpy(), np.tril(matrices, diag))
    for call in (
        lambda: utils.broadcast_all("a", 1),
        lambda: utils.tril_matrix_to_vec(torch.ones(3, 3), 3),
        lambda: utils.vec_to_tril_matrix(torch.ones(4)),
    ):
        with pytest.raises((ValueError, RuntimeError)):
            call()

    class Lazy:
        @utils.lazy_property
        def values(self):
            return [1]

    lazy = Lazy()
    assert lazy.values is lazy.values


def test_private_names_do_what_they_do_in_pytorch():
    weight, operations = torch.ones(3, 4), torch.distributed.ReduceOp
    assert torch.nn.init._calculate_correct_fan(weight, "FAN_OUT") == 3
    with pytest.raises(ValueError, match="not supported"):
        torch.nn.init._calculate_correct_fan(weight, "fan")
    assert isinstance(operations.SUM, operations.RedOpType)
    assert not isinstance("other", operations.RedOpType)
    assert torch.distributed.constants.default_pg_timeout.total_seconds() == 1800
    assert torch._tensor_str._str(weight) == repr(weight)
    assert isinstance(
        torch.nn.Linear(1, 1).load_state_dict({}, strict=False), torch.nn.modules.module._IncompatibleKeys
    )
    with pytest.raises(ValueError, match="group"):
        torch.distributed.distributed_c10d._get_default_group()

    class Attention(torch.nn.MultiheadAttention):
        def _reset_parameters(self):
            super()._reset_parameters()
            torch.nn.init.ones_(self.in_proj_weight)

    assert Attention(4, 2).in_proj_weight.sum().item() == 48


INSTALLED = """
import importlib.metadata, importlib.util, pickle
import torch, torchvision
print(torch.__name__, torch.nn.functional.__name__, torch.torch is torch)
print(torch.Tensor, torch.nn.Parameter, pickle.loads(pickle.dumps(torch.nn.Parameter(torch.ones(1)))).tolist())
print(importlib.metadata.version("torch") == torch.__version__, importlib.metadata.version("torchvision")[:3])
print(importlib.metadata.packages_distributions()["torch"], importlib.metadata.metadata("torch")["Name"])
for name in ("torch.no_such_module", "torch.distributed.no", "torchaudio", "torch.nn"):
    print(importlib.util.find_spec(name) is None)
try:
    import torch.no_such_module
except ModuleNotFoundError as error:
    print(error)
from torch.distributed.tensor import DTensor, Replicate, Shard
print(Shard(0) == Shard(0), Shard(1).is_shard(0), Replicate().is_replicate())
try:
    DTensor.from_local
except AttributeError as error:
    print(error)
"""


def _printed(program, folder):
    """Returns the lines that a program prints under the runner."""
    (folder / "program.py").write_text(program, encoding="utf-8")
    command = [sys.executable, "-m", "netcl.torch", "program.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_an_installed_torch_has_pytorchs_names_and_metadata(tmp_path):
    lines = _printed(INSTALLED, tmp_path)
    assert lines[:2] == [
        "torch torch.nn.functional True",
        "<class 'torch.Tensor'> <class 'torch.nn.parameter.Parameter'> [1.0]",
    ]
    assert lines[2:8] == ["True 0.2", "['torch'] torch", "True", "True", "True", "False"]
    assert lines[8].startswith("No module named 'torch.no_such_module' in netcl")
    assert lines[9:] == ["True False True", "type object 'DTensor' has no attribute 'from_local'"]


HOMES = """
import pickle, torch, torch.utils.data
from torch import nn
kinds = (nn.Linear, nn.LSTM, nn.MSELoss, nn.Sequential, torch.optim.Adam, torch.utils.data.TensorDataset)
print(*(f"{kind.__module__}.{kind.__name__}" for kind in (*kinds, torch.distributions.Normal, torch.Size)))
class Own(nn.Linear):
    pass
kinds = (type(torch.float32), torch.no_grad, torch.inference_mode, torch.amp.GradScaler, torch.Generator)
print(*(f"{kind.__module__}.{kind.__qualname__}" for kind in (*kinds, torch.autograd.Function, torch.autocast)))
functions = (nn.utils.clip_grad_norm_, nn.init.trunc_normal_, nn.functional.mse_loss, torch.load)
print(*(f"{function.__module__}.{function.__name__}" for function in functions))
for kind in (torch.dtype, torch.float32, torch.no_grad, torch.Generator, *functions):
    assert pickle.loads(pickle.dumps(kind)) is kind
print(Own.__module__, type(nn.ReLU()))
try:
    nn.Linear(2, 2)([[1.0, 2.0]])
except TypeError as error:
    print(error)
"""


def test_classes_say_the_modules_of_pytorch_that_define_them(tmp_path):
    layers = "torch.nn.modules.linear.Linear torch.nn.modules.rnn.LSTM torch.nn.modules.loss.MSELoss"
    others = "torch.nn.modules.container.Sequential torch.optim.adam.Adam torch.utils.data.dataset.TensorDataset"
    assert _printed(HOMES, tmp_path) == [
        f"{layers} {others} torch.distributions.normal.Normal torch.Size",
        "torch.dtype torch.autograd.grad_mode.no_grad torch.autograd.grad_mode.inference_mode "
        "torch.amp.grad_scaler.GradScaler torch._C.Generator torch.autograd.function.Function "
        "torch.amp.autocast_mode.autocast",
        "torch.nn.utils.clip_grad.clip_grad_norm_ torch.nn.init.trunc_normal_ torch.nn.functional.mse_loss "
        "torch.serialization.load",
        "__main__ <class 'torch.nn.modules.activation.ReLU'>",
        "Linear: expected tensors, got list; write netcl.tensor(...)",
    ]
    here = [sys.executable, "-c", "import netcl.torch as torch; print(torch.nn.Linear.__module__)"]
    assert subprocess.run(here, capture_output=True, text=True, timeout=100, check=True).stdout == "netcl.nn.linear\n"


# Of each function: the arguments, in place or not, and NumPy's result for [1, 4] and [[9]].
FOREACH = {
    "add": ((2,), lambda x: x + 2),
    "sub": (([1.0, 2.0],), None),
    "mul": ((3.0,), lambda x: x * 3),
    "div": ((2.0,), lambda x: x / 2),
    "pow": ((2,), np.square),
    "sqrt": ((), np.sqrt),
    "neg": ((), np.negative),
    "exp": ((), np.exp),
    "abs": ((), np.abs),
    "sign": ((), np.sign),
    "reciprocal": ((), np.reciprocal),
    "maximum": ((3.0,), lambda x: np.maximum(x, 3)),
    "clamp_max": ((3.0,), lambda x: np.minimum(x, 3)),
}


def _lists():
    return [torch.tensor([1.0, 4.0]), torch.tensor([[9.0]])]


@pytest.mark.parametrize("name", sorted(FOREACH))
def test_an_operation_for_each_tensor_of_a_list(name):
    args, expected = FOREACH[name]
    wanted = [[0.0, 3.0], [[7.0]]] if expected is None else [expected(x.numpy()).tolist() for x in _lists()]
    made = getattr(torch, f"_foreach_{name}")(_lists(), *args)
    assert isinstance(made, tuple)
    tensors = _lists()
    assert getattr(torch, f"_foreach_{name}_")(tensors, *args) is tensors
    for result in (made, tensors):
        assert all(np.allclose(x.numpy(), y, rtol=1e-6) for x, y in zip(result, wanted))


def test_lists_and_factors_of_foreach():
    tensors = _lists()
    torch._foreach_addcmul_(tensors, _lists(), _lists(), torch.tensor([1.0, 2.0]))
    assert [x.tolist() for x in tensors] == [[2.0, 20.0], [[171.0]]]
    torch._foreach_addcdiv_(tensors, _lists(), _lists(), -1.0)
    assert [x.tolist() for x in tensors] == [[1.0, 19.0], [[170.0]]]
    torch._foreach_lerp_(tensors, _lists(), 1.0)
    torch._foreach_add_(tensors, _lists(), alpha=2)
    assert [x.tolist() for x in tensors] == [[3.0, 12.0], [[27.0]]]
    assert [x.item() for x in torch._foreach_norm(_lists(), float("inf"))] == [4.0, 9.0]
    assert [x.item() for x in torch._foreach_max(_lists())] == [4.0, 9.0]
    assert [x.tolist() for x in torch._foreach_pow(2.0, _lists())] == [[2.0, 16.0], [[512.0]]]
    torch._foreach_copy_(tensors, _lists())
    assert tensors[0].tolist() == [1.0, 4.0]
    torch._foreach_zero_(tensors)
    assert tensors[1].tolist() == [[0.0]]
    for use, error in (
        (lambda: torch._foreach_add([], 1), RuntimeError),
        (lambda: torch._foreach_add(tensors, [1.0]), RuntimeError),
        (lambda: torch._foreach_add(tensors[0], 1), TypeError),
    ):
        with pytest.raises(error):
            use()


Point = namedtuple("Point", "x y")
TREES = (
    1,
    None,
    [1, (2, 3), {"b": 4, "a": [5]}],
    OrderedDict(z=1, a=[2]),
    defaultdict(list, k=[1, 2]),
    deque([1, [2]], maxlen=4),
    Point(1, [2, {"k": 3}]),
    ([], {}, ()),
)


@pytest.mark.parametrize("value", TREES, ids=str)
def test_a_tree_is_its_leaves_and_its_structure(value):
    pytree = torch.utils._pytree
    leaves, spec = pytree.tree_flatten(value)
    again = pytree.tree_unflatten(leaves, spec)
    assert again == value
    assert type(again) is type(value)
    assert spec == pytree.tree_structure(value)
    assert spec.num_leaves == len(leaves)
    assert pytree.tree_leaves(pytree.tree_map(lambda a, b: (a, b), value, value)) == [
        leaf for each in leaves for leaf in (each, each)
    ]
    assert all(pytree.key_get(value, path) is leaf for path, leaf in pytree.tree_leaves_with_path(value))


def test_functions_over_trees():
    pytree = torch.utils._pytree
    value = {"a": [1, "t"], "b": (2.0, Point(3, None))}
    assert pytree.tree_map_only(int, lambda x: -x, value) == {"a": [-1, "t"], "b": (2.0, Point(-3, None))}
    paths = [pytree.keystr(path) for path, _ in pytree.tree_leaves_with_path(value)]
    assert paths == ["['a'][0]", "['a'][1]", "['b'][0]", "['b'][1].x", "['b'][1].y"]
    assert pytree.tree_any_only(int, lambda x: x > 2, value)
    assert not pytree.tree_all_only(int, lambda x: x > 2, value)
    assert pytree.tree_leaves(value, is_leaf=lambda x: isinstance(x, tuple))[2:] == [value["b"]]
    assert pytree._broadcast_to_and_flatten([1, 2], pytree.tree_structure([(0, 0), 0])) == [1, 1, 2]
    with pytest.raises(ValueError, match="Node arity mismatch; expected 2, but got 3"):
        pytree.tree_map(lambda a, b: a, [1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match="has length 1"):
        pytree.tree_unflatten([1], pytree.tree_structure([1, 2]))


def test_a_class_becomes_a_container():
    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

    pytree = torch.utils._pytree
    pytree.register_pytree_node(Pair, lambda p: ([p.a, p.b], "context"), lambda parts, context: Pair(*parts))
    try:
        made = pytree.tree_map(lambda x: x * 2, [Pair(1, (2, 3))])[0]
        assert (made.a, made.b) == (2, (4, 6))
        with pytest.raises(ValueError, match="already registered"):
            pytree.register_pytree_node(Pair, None, None)
    finally:
        trees._deregister_pytree_node(Pair)


def test_an_operator_in_python_has_its_gradients():
    @torch.library.custom_op("tests::scaled", mutates_args=())
    def scaled(x: torch.Tensor, parts: list[torch.Tensor], factor: float = 2.0) -> torch.Tensor:
        return x * factor + parts[0] * parts[1]

    def setup_context(ctx, inputs, output):
        x, parts, ctx.factor = inputs
        ctx.save_for_backward(*parts)
        assert ctx.needs_input_grad[0] is True
        assert ctx.needs_input_grad[1] == [True, False]

    def backward(ctx, grad):
        first, second = ctx.saved_tensors
        return grad * ctx.factor, [grad * second, grad * first], None

    x, a, b = torch.tensor([1.0], requires_grad=True), torch.tensor([3.0], requires_grad=True), torch.tensor([5.0])
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        scaled(x, [a, b]).sum().backward()
    torch.library.register_autograd("tests::scaled", backward, setup_context=setup_context)
    result = torch.ops.tests.scaled(x, [a, b], factor=4.0)
    result.sum().backward()
    assert (result.item(), x.grad.item(), a.grad.item()) == (19.0, 4.0, 5.0)
    assert torch.ops.tests.scaled.default is scaled
    assert not hasattr(torch.ops.tests, "absent")
    assert not hasattr(torch.ops.aten, "absent")
    assert not hasattr(torch.ops, "__wrapped__")


def test_an_operator_of_a_library_has_functions_by_device():
    library = torch.library.Library("tests_library", "DEF")
    library.define("doubled(Tensor x) -> Tensor")
    with pytest.raises(NotImplementedError, match="expected a kernel for"):
        torch.ops.tests_library.doubled(torch.ones(1))
    library.impl("doubled", lambda x: x * 2, "CompositeImplicitAutograd")
    x = torch.ones(1, requires_grad=True)
    torch.ops.tests_library.doubled(x).sum().backward()
    assert x.grad.item() == 2.0
    with pytest.raises(ValueError, match="a name with a namespace"):
        torch.library.custom_op("name", lambda x: x, mutates_args=())
    with pytest.raises(RuntimeError, match="does not exist"):
        torch.library.register_fake("tests::no_such_op")


def test_a_timer_measures_a_statement():
    timer = torch.utils.benchmark.Timer("x + 1", globals={"x": 1}, label="sum", sub_label="int", description="plain")
    measured = timer.blocked_autorange(min_run_time=0.01)
    assert 0 < measured.median < 1e-3
    assert sum(measured.raw_times) >= 0.01
    assert "sum: int" in repr(measured)
    once = timer.timeit(10)
    assert (once.number_per_run, len(once.times)) == (10, 1)
    table = str(torch.utils.benchmark.Compare([measured, once]))
    assert "[ sum ]" in table
    assert "int" in table
    assert "\nTimes are in " in table


def test_a_storage_of_a_file(tmp_path):
    (tmp_path / "bytes").write_bytes(np.arange(6, dtype="<f4").tobytes())
    storage = torch.UntypedStorage.from_file(str(tmp_path / "bytes"), shared=False, nbytes=24)
    x = torch.asarray(storage[8:24], dtype=torch.uint8).view(dtype=torch.float32).reshape([2, 2])
    assert x.tolist() == [[2.0, 3.0], [4.0, 5.0]]
    assert torch.asarray(storage[4:8], dtype=torch.uint8).tolist() == list(np.float32(1).tobytes())
    assert torch.asarray([1, 2]).tolist() == [1, 2]
    assert isinstance(storage, torch.UntypedStorage)
    assert isinstance(x.untyped_storage(), torch.UntypedStorage)
    assert not isinstance(x, torch.UntypedStorage)
    assert torch.asarray(storage[8:23], dtype=torch.float32).tolist() == [2.0, 3.0, 4.0]
    assert torch.UntypedStorage(4).nbytes() == 4
    assert torch.UntypedStorage([7, 8])[1] == 8


def test_a_storage_of_a_tensor():
    x = torch.arange(6.0).reshape(2, 3)
    storage = x[1].storage()
    assert isinstance(storage, torch.storage.TypedStorage)
    assert not isinstance(storage, torch.UntypedStorage)
    assert torch.is_storage(storage)
    for same in (storage, storage.untyped()):
        assert torch.asarray(same, dtype=torch.float32).tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    storage[4] = 9
    assert (x[1, 1].item(), storage[4]) == (9.0, 9.0)
    with pytest.raises(TypeError, match="cannot be read as"):
        torch.asarray(storage, dtype=torch.int32)


def test_no_module_is_a_compiled_one():
    assert not isinstance(torch.nn.Linear(1, 1), torch.jit.ScriptModule)
    assert isinstance(torch.jit.ScriptModule(), torch.nn.Module)


def test_dtypes_to_compare_with_have_their_attributes():
    for name, size, floats, signed in (
        ("float8_e4m3fn", 1, True, True),
        ("float8_e8m0fnu", 1, True, False),
        ("uint4", 1, False, False),
        ("complex64", 8, False, True),
    ):
        dtype = getattr(torch, name)
        assert isinstance(dtype, torch.dtype)
        assert (dtype.itemsize, dtype.is_floating_point, dtype.is_signed) == (size, floats, signed)
        with pytest.raises(TypeError, match="unsupported dtype"):
            torch.zeros(1, dtype=dtype)
    assert torch.finfo(torch.float8_e5m2).max == 57344.0


def test_checks_raise_errors_of_their_kinds():
    for check, error in (
        (torch._check, RuntimeError),
        (torch._check_index, IndexError),
        (torch._check_value, ValueError),
        (torch._check_type, TypeError),
        (torch._check_not_implemented, NotImplementedError),
    ):
        check(True)
        with pytest.raises(error, match="the text"):
            check(False, lambda: "the text")
    with pytest.raises(RuntimeError, match="expected positive"):
        torch._check_tensor_all(torch.tensor([True, False]), "expected positive")


def test_tensors_in_one_axis_and_back():
    tensors = [torch.ones(2, 2), torch.zeros(3)]
    flat = torch._utils._flatten_dense_tensors(tensors)
    assert [x.tolist() for x in torch._utils._unflatten_dense_tensors(flat, tensors)] == [x.tolist() for x in tensors]
    assert [len(group) for group in torch._utils._take_tensors([torch.ones(2)] * 3, 16)] == [2, 1]


def test_tensors_are_variables():
    x = torch.ones(2)
    assert torch.autograd.Variable(x) is x
    assert torch.autograd.Variable(x, requires_grad=True).requires_grad
    assert isinstance(x, torch.autograd.Variable)
    assert not isinstance(1, torch.autograd.Variable)


def test_a_writer_takes_tensors_and_parameters(tmp_path):
    pytest.importorskip("tensorboardX", reason="needs tensorboardX of the extra 'tensorboard'")
    (tmp_path / "program.py").write_text(
        "import torch\nfrom torch.utils.tensorboard import SummaryWriter\n"
        "writer = SummaryWriter('runs')\n"
        "writer.add_scalar('loss', torch.tensor(0.5), 0)\n"
        "writer.add_histogram('weight', torch.nn.Linear(2, 2).weight, 0)\n"
        "model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))\n"
        "writer.add_graph(model, torch.ones(4, 2))\n"
        "writer.close()\n"
        "from torch.utils.tensorboard._pytorch_graph import graph\n"
        "for node in graph(model, torch.ones(4, 2))[0].node:\n"
        "    print(node.name, *node.input, [d.size for d in node.attr['_output_shapes'].list.shape[0].dim])\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "netcl.torch", "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "runs").iterdir())) == 1
    assert done.stdout.splitlines() == [
        "input/input_0 [4, 2]",
        "Sequential/0/weight [3, 2]",
        "Sequential/0/bias [3]",
        "Sequential/2/weight [1, 3]",
        "Sequential/2/bias [1]",
        "Sequential/0/linear_0 input/input_0 Sequential/0/weight Sequential/0/bias [4, 3]",
        "Sequential/relu_1 Sequential/0/linear_0 [4, 3]",
        "Sequential/2/linear_2 Sequential/relu_1 Sequential/2/weight Sequential/2/bias [4, 1]",
        "output/output_0 Sequential/2/linear_2 [4, 1]",
    ]


def test_names_that_loaders_of_weights_read():
    layer = torch.nn.Module()
    layer.register_buffer("table", torch.ones(1), persistent=False)
    assert layer._non_persistent_buffers_set == {"table"}
    assert torch.nn.modules.module._EXTRA_STATE_KEY_SUFFIX == "_extra_state"


def test_a_sparse_tensor_of_the_old_constructor():
    matrix = torch.sparse.FloatTensor(torch.tensor([[0], [1]]), torch.tensor([2.0]), torch.Size([2, 2]))
    assert torch.spmm(matrix, torch.ones(2, 1)).tolist() == [[2.0], [0.0]]


def test_structures_of_trees_as_texts():
    class Pair:
        pass

    nested = [1, {"a": (2, None)}, OrderedDict(b=deque([1, 2], 3)), defaultdict(list, c=[1])]
    spec = trees.tree_flatten(nested)[1]
    text = trees.treespec_dumps(spec)
    assert trees.treespec_loads(text) == spec
    leaf = '{"type": null, "context": null, "children_spec": []}'
    made = trees.treespec_dumps(trees.tree_flatten([3])[1])
    assert made == f'[1, {{"type": "builtins.list", "context": "null", "children_spec": [{leaf}]}}]'
    trees.register_pytree_node(Pair, lambda x: ([], [1]), lambda x, c: Pair(), serialized_type_name="tests.Pair")
    own = trees.tree_flatten(Pair())[1]
    assert trees.treespec_loads(trees.treespec_dumps(own)) == own
    trees._deregister_pytree_node(Pair)
    with pytest.raises(NotImplementedError):
        trees.treespec_dumps(own)
    with pytest.raises(NotImplementedError):
        trees.treespec_dumps(trees.tree_flatten(namedtuple("Two", "a b")(1, 2))[1])
    with pytest.raises(ValueError, match="protocol"):
        trees.treespec_loads("[2, {}]")
