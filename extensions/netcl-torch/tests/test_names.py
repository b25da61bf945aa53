"""netcl.torch: PyTorch's names resolve to netcl's, devices mean what programs expect, and missing names say so."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import netcl.torch as torch
from netcl.core import manager
from netcl.core.device import use_pytorch_names
from netcl.torch import tree
from netcl.torch.table import PARTS


@pytest.fixture
def pytorch_names():
    use_pytorch_names()
    yield
    use_pytorch_names(False)


def test_names_of_the_table_are_the_layers_own():
    import netcl.nn as nn
    import netcl.nn.functional
    from netcl import optim

    assert torch.nn.Linear is nn.Linear
    assert torch.nn.functional.relu is netcl.nn.functional.relu
    assert torch.optim.AdamW is optim.AdamW
    assert torch.nn.modules.conv.Conv2d is nn.Conv2d
    assert isinstance(torch.nn.BatchNorm2d(2), torch.nn.modules.batchnorm._BatchNorm)


NEEDS = {
    **dict.fromkeys(("torch.autograd.profiler", "torch.cuda.nvtx", "torch.profiler"), "profiling"),
    **dict.fromkeys(("torch.linalg", "torch.sparse", "torch.special"), "front"),
}


@pytest.mark.parametrize(
    "place",
    [pytest.param(one, marks=pytest.mark.level(NEEDS[one]) if one in NEEDS else ()) for one in sorted(PARTS)],
)
def test_each_path_of_the_table_leads_to_an_object(place):
    part = PARTS[place]
    for source in part.sources:
        assert __import__(source)
    for path in part.names.values():
        assert tree.loaded(path) is not None
    assert all(hasattr(sys.modules[f"netcl.{place}"], name) for name in tree.names_of(place))


@pytest.mark.level("front")
def test_most_names_of_the_modules_that_programs_use_are_there():
    for place, least in (
        ("torch.nn", 0.94),
        ("torch.nn.functional", 0.84),
        ("torch.optim", 0.9),
        ("torch.Tensor", 0.8),
    ):
        known = tree.public_names()[place]
        there = set(dir(torch.Tensor)) if place == "torch.Tensor" else set(tree.names_of(place))
        assert len(known & there) / len(known) > least, (place, sorted(known - there))


def test_private_names_that_programs_use():
    torch._assert(torch.tensor(True), "not raised")
    with pytest.raises(AssertionError, match="expected 3 channels"):
        torch._assert(1 == 3, "expected 3 channels")
    assert torch.nn.modules.transformer._get_activation_fn("gelu") is torch.nn.functional.gelu


@pytest.mark.level("front")
def test_a_missing_name_says_what_to_write_and_is_remembered():
    with pytest.raises(AttributeError, match=r"torch\.stft is not in netcl: .*; see docs/reference/torch\.md"):
        torch.stft  # noqa: B018
    with pytest.raises(AttributeError, match="module 'torch' has no attribute 'no_such_name'"):
        torch.no_such_name  # noqa: B018
    with pytest.raises(ImportError, match=r"torch\.istft is not in netcl"):
        from netcl.torch import istft  # noqa: F401
    assert {"torch.stft", "torch.istft"} <= set(tree.missing)


def test_devices_mean_the_best_opencl_device_of_their_kind(pytorch_names):
    handle = manager.default("cpu")
    x = torch.zeros(2, device="cpu")
    assert x.device == handle
    assert x.device == torch.device("cpu")
    assert (x.device.type, x.device.index, x.is_cuda) == ("cpu", None, False)
    assert torch.device("cuda", 1) == torch.device("cuda:1")
    assert torch.cuda.device_count() == len(manager.gpus())
    assert torch.cuda.is_available() is torch.accelerator.is_available() is (torch.cuda.device_count() > 0)
    if not torch.cuda.is_available():
        with pytest.raises(LookupError, match="cuda"):
            torch.zeros(2, device="cuda")
        assert torch.accelerator.current_accelerator() is None
    assert torch.zeros(2, device="numpy").device.backend == "cpu"


@pytest.mark.level("front")
def test_flags_of_backends_are_kept_or_act():
    torch.backends.cudnn.benchmark = True
    assert torch.backends.cudnn.benchmark is True
    before = torch.get_float32_matmul_precision()
    torch.backends.cuda.matmul.allow_tf32 = True
    assert torch.get_float32_matmul_precision() == "high"
    torch.backends.cuda.matmul.allow_tf32 = False
    assert torch.get_float32_matmul_precision() == "highest"
    torch.set_float32_matmul_precision(before)
    assert torch.backends.mps.is_available() is torch.cuda.is_available()
    assert torch.backends.mkl.is_available() is False


def test_the_version_compares_by_its_numbers():
    assert torch.__version__ >= "2.1"
    assert torch.__version__ < "2.100"
    assert torch.torch_version.TorchVersion("2.9") < (2, 10)
    assert torch.version.cuda is None


def test_installed_once_import_torch_finds_it_and_its_submodules():
    code = (
        "import netcl.torch; netcl.torch.install(); netcl.torch.install()\n"
        "import torch, torch.nn.functional as F\n"
        "from torch.utils.data import DataLoader\n"
        "assert torch is netcl.torch and F.relu(torch.tensor([-1.0, 2.0])).tolist() == [0.0, 2.0]\n"
        "try:\n    import torch.quantization\nexcept ModuleNotFoundError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert "No module named 'torch.quantization' in netcl: there are no quantized dtypes" in done.stdout


def test_a_program_trains_after_install_on_every_core():
    code = (
        "import netcl.torch; netcl.torch.install()\n"
        "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n"
        "torch.manual_seed(0)\n"
        "model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(36, 2))\n"
        "updates = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)\n"
        "x, y = torch.randn(8, 1, 5, 5), torch.tensor([0, 1] * 4)\n"
        "losses = []\n"
        "for _ in range(20):\n"
        "    updates.zero_grad()\n    loss = F.cross_entropy(model(x), y)\n    loss.backward()\n    updates.step()\n"
        "    losses.append(loss.item())\n"
        "assert losses[-1] < 0.2 * losses[0], losses\n"
        "assert type(torch).__module__.rpartition('.')[0] == 'netcl.torch'\n"
        "w = torch.ones(2, requires_grad=True)\n"
        "(slope,) = torch.autograd.grad((w**3).sum(), w, create_graph=True)\n"
        "slope.sum().backward()\n"
        "assert w.grad.tolist() == [6.0, 6.0]\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr


def test_refused_names_raise_one_clear_sentence_when_they_are_used():
    for use, text in (
        (lambda: torch.hub.load("a", "b"), "downloads code"),
        (lambda: torch.hub.list("a"), "downloads code"),
        (lambda: torch.hub.load_state_dict_from_url("http://a/b.pth"), r"fetch http://a/b\.pth yourself"),
        (lambda: torch.utils.model_zoo.load_url("http://a/b.pth"), r"fetch http://a/b\.pth yourself"),
        (lambda: torch.utils.cpp_extension.load_inline("a", ""), "netcl.KernelSpec"),
        (lambda: torch.utils.cpp_extension.BuildExtension.with_options(a=1), "netcl.KernelSpec"),
        (lambda: torch.utils.cpp_extension.BuildExtension(), "netcl.KernelSpec"),
        (lambda: torch.ops.load_library("a.so"), "netcl.KernelSpec"),
        (lambda: torch.classes.load_library("a.so"), "netcl.KernelSpec"),
        (lambda: torch.jit.save(torch.nn.Linear(1, 1), "a"), r"torch\.save\(module\.state_dict"),
        (lambda: torch.utils.cpp_extension.load("a", ["b.cu"]), "netcl.KernelSpec"),
        (lambda: torch.jit.load("x.pt"), "load a state_dict"),
        (lambda: torch.cuda.CUDAGraph(), r"netcl\.runtime\.capture"),
        (lambda: torch.utils.cpp_extension.CUDAExtension("a", []), "netcl.KernelSpec"),
    ):
        with pytest.raises(TypeError, match=text):
            use()


def test_operators_of_extensions_are_absent_attributes():
    with pytest.raises(AttributeError, match=r"torch\.ops\.torchvision\.nms is not in netcl: operators of PyTorch"):
        torch.ops.torchvision.nms  # noqa: B018
    assert not hasattr(torch.classes, "a")
    with pytest.raises(
        AttributeError, match=r"'Linear' object has no attribute 'save': .*torch\.save\(module\.state_dict"
    ):
        torch.jit.script(torch.nn.Linear(1, 1)).save("a.pt")


LIBRARIES = """
import torch
for name in ("torchaudio", "torchtext.data", "torch.ao", "torchvision._C"):
    try:
        __import__(name)
    except ImportError as error:
        print(type(error).__name__, error)
import torchvision
from torchvision.ops import nms, RoIAlign
from torchvision.models import ResNet18_Weights, resnet18
calls = (
    lambda: nms(1, 2, 3), lambda: RoIAlign(1), lambda: torchvision.ops.roi_align(1),
    lambda: resnet18(weights=ResNet18_Weights.DEFAULT), lambda: resnet18(weights="DEFAULT"),
    lambda: resnet18(pretrained=True), lambda: torchvision.models.swin_t(),
)
for call in calls:
    try:
        call()
    except TypeError as error:
        print(type(error).__name__, error)
print(type(resnet18(weights=None)).__name__)
"""


@pytest.mark.level("front")
def test_libraries_over_pytorchs_own_say_so(tmp_path):
    (tmp_path / "program.py").write_text(LIBRARIES, encoding="utf-8")
    command = [sys.executable, "-m", "netcl.torch", "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    own = "it calls PyTorch's own library"
    assert lines[0].startswith(f"ModuleNotFoundError No module named 'torchaudio' in netcl: {own}; read files with")
    assert lines[1].startswith(f"ModuleNotFoundError No module named 'torchtext' in netcl: {own}")
    assert lines[2].startswith("ModuleNotFoundError No module named 'torch.ao' in netcl: there are no quantized dtypes")
    assert lines[3] == f"ModuleNotFoundError No module named 'torchvision._C' in netcl: {own}"
    for line, name in zip(lines[4:7], ("nms", "RoIAlign", "roi_align")):
        assert line.startswith(
            f"UnsupportedError torchvision.ops.{name} is not in netcl: netcl has no operations on boxes"
        )
    for line in lines[7:10]:
        assert line.startswith("UnsupportedError resnet18: trained weights are downloads, which netcl does not make")
    assert lines[10].startswith("UnsupportedError torchvision.models.swin_t is not in netcl: build it from torch.nn")
    assert lines[11:] == ["ResNet"]


def test_script_and_trace_give_the_module_back():
    layer = torch.nn.Linear(2, 2)
    assert torch.jit.script(layer) is layer
    assert torch.jit.trace(layer, torch.zeros(1, 2)) is layer
    assert torch.jit.is_scripting() is False


def test_assert_close_compares_values_dtypes_and_shapes():
    one = torch.tensor([1.0, 2.0])
    torch.testing.assert_close(one, one + 1e-7)
    torch.testing.assert_close({"a": [one]}, {"a": [one]})
    for other, text in (
        (torch.tensor([1.0, 2.1]), "1 of 2 elements differ"),
        (torch.tensor([1.0]), "shapes are not equal"),
        (torch.tensor([1, 2]), "dtypes are not equal"),
    ):
        with pytest.raises(AssertionError, match=text):
            torch.testing.assert_close(one, other)


def test_made_tensors_have_the_range_that_is_asked_for():
    made = torch.testing.make_tensor((200,), dtype=torch.float32, low=2, high=3).numpy()
    assert made.min() >= 2
    assert made.max() <= 3
    assert torch.testing.make_tensor(50, dtype=torch.int64, exclude_zero=True).ne(0).all()
    assert set(np.unique(torch.testing.make_tensor(50, dtype=torch.bool).numpy())) <= {False, True}


@pytest.mark.level("profiling")
def test_schedules_of_the_profiler_repeat():
    plan = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=1, skip_first=1)
    assert [plan(step).name for step in range(7)] == [
        *("NONE", "NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE", "NONE", "NONE"),
    ]


@pytest.mark.level("profiling")
def test_a_profile_has_a_table_and_a_trace(tmp_path):
    with torch.profiler.profile() as measured, torch.profiler.record_function("square"):
        (torch.ones(4) * 2).sum().item()
    assert measured.key_averages().table()
    measured.export_chrome_trace(str(tmp_path / "trace.json"))
    assert (tmp_path / "trace.json").stat().st_size > 0


@pytest.mark.level("half")
def test_a_scaler_and_autocast_take_pytorchs_arguments():
    scaler = torch.amp.GradScaler("cuda", init_scale=8.0)
    loss = torch.tensor(2.0, requires_grad=True)
    assert scaler.scale(loss).item() == 16.0
    assert [one.item() for one in scaler.scale([loss, loss])] == [16.0, 16.0]
    assert scaler.is_enabled() is True
    assert torch.cuda.amp.GradScaler(enabled=False).scale(loss).item() == 2.0
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.mm(torch.ones(2, 2), torch.ones(2, 2)).dtype == torch.bfloat16
    with torch.cuda.amp.autocast(enabled=False):
        assert torch.mm(torch.ones(2, 2), torch.ones(2, 2)).dtype == torch.float32


def test_a_model_for_several_devices_computes_on_one():
    layer = torch.nn.Linear(2, 3)
    wrapped = torch.nn.DataParallel(layer)
    x = torch.ones(4, 2)
    assert wrapped(x).tolist() == layer(x).tolist()
    assert list(wrapped.state_dict()) == ["module.weight", "module.bias"]
    # As in PyTorch, numbers of GPUs count if there is a GPU.
    assert torch.nn.DataParallel(layer, device_ids=[0, 1]).device_ids == ([0, 1] if torch.cuda.is_available() else [])


def test_a_group_of_one_process():
    assert torch.distributed.is_initialized() is False
    torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    try:
        assert (torch.distributed.get_rank(), torch.distributed.get_world_size()) == (0, 1)
        x = torch.ones(3)
        torch.distributed.all_reduce(x)
        assert x.tolist() == [1.0, 1.0, 1.0]
        assert torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))(torch.ones(1, 1)).shape == (1, 1)
    finally:
        torch.distributed.destroy_process_group()
    with pytest.raises(ValueError, match="init_process_group"):
        torch.distributed.get_rank()
    with pytest.raises(ValueError, match=r"netcl\.distributed\.run.*MASTER_PORT"):
        torch.distributed.init_process_group("gloo", rank=1, world_size=2)


def test_a_checkpointed_sequence_has_the_gradients_of_the_plain_one():
    layers = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2))
    x = torch.ones(2, 3, requires_grad=True)
    layers(x).sum().backward()
    expected = x.grad.tolist()
    x.grad = None
    torch.utils.checkpoint.checkpoint_sequential(layers, 2, x, use_reentrant=False).sum().backward()
    assert np.allclose(x.grad.tolist(), expected)
