"""torchvision's layout over netcl: names that programs import, tensors, models, and what is refused."""

from __future__ import annotations

import copy
import importlib
import io
import pickle
import sys

import numpy as np
import pytest

import netcl as nc
import netcl.autograd as ag
from netcl import nn, ops, torch_vision
from netcl.core import Tensor
from netcl.core.errors import NetclError, UnsupportedError
from netcl.data import DataLoader
from netcl.data.transforms.draws import current, use_draws
from netcl.torch_vision import datasets, models, transforms, utils
from netcl.torch_vision import ops as vision_ops
from netcl.torch_vision.models.resnet import BasicBlock
from netcl.torch_vision.tensors import tensor_of
from netcl.torch_vision.transforms import functional as F
from netcl.torch_vision.transforms import host_chain, v2

ROWS = np.random.default_rng(0).integers(0, 256, (12, 16, 3), dtype=np.uint8)
PLANES = (ROWS.transpose(2, 0, 1) / 255).astype(np.float32)


@pytest.fixture
def installed(monkeypatch):
    """Puts the modules into sys.modules for a test."""
    for place, module in torch_vision.modules().items():
        monkeypatch.setitem(sys.modules, place, module)


# The modules and names that timm 1.0 imports when it is loaded, and the programs of pytorch/examples.
IMPORTED = [
    ("torchvision", "datasets models transforms utils ops io"),
    ("torchvision.transforms", "functional Compose Normalize Resize CenterCrop RandomHorizontalFlip ToTensor Lambda"),
    ("torchvision.transforms.functional", "InterpolationMode resize crop pad get_dimensions get_image_size to_tensor"),
    ("torchvision.transforms.v2", "Compose ToImage ToDtype Resize Normalize functional CutMix MixUp"),
    ("torchvision.transforms.v2.functional", "to_image to_dtype horizontal_flip resize"),
    ("torchvision.ops", "FrozenBatchNorm2d nms roi_align StochasticDepth misc"),
    ("torchvision.ops.misc", "FrozenBatchNorm2d Conv2dNormActivation SqueezeExcitation"),
    ("torchvision.models", "resnet18 resnet50 resnet vgg16 ResNet18_Weights VGG16_Weights detection"),
    ("torchvision.models.resnet", "Bottleneck BasicBlock ResNet"),
    ("torchvision.models.feature_extraction", "create_feature_extractor get_graph_node_names"),
    ("torchvision.models.detection", "fasterrcnn_resnet50_fpn"),
    ("torchvision.datasets", "CIFAR100 CIFAR10 MNIST KMNIST FashionMNIST ImageFolder Places365 LSUN FakeData"),
    ("torchvision.datasets.folder", "default_loader IMG_EXTENSIONS DatasetFolder"),
    ("torchvision.datasets.utils", "download_url"),
    ("torchvision.utils", "save_image make_grid draw_bounding_boxes"),
    ("torchvision.io", "read_image ImageReadMode read_video"),
    ("torchvision.tv_tensors", "Image Mask"),
]


@pytest.mark.parametrize(("place", "names"), IMPORTED)
def test_programs_find_what_they_import(installed, place, names):
    module = importlib.import_module(place)
    for name in names.split():
        assert getattr(module, name) is not None
        assert name in dir(module)


@pytest.mark.parametrize("name", models.list_models())
def test_a_model_is_a_function_though_a_module_has_its_name(installed, name):
    assert callable(getattr(sys.modules["torchvision.models"], name))


@pytest.mark.parametrize("name", ["vit_b_16", "convnext_tiny", "alexnet", "googlenet"])
def test_models_are_built_without_memory(installed, name):
    with nc.device("meta"):
        model = getattr(sys.modules["torchvision.models"], name)()
    assert all(parameter.is_meta for parameter in model.parameters())


def test_the_modules_hang_together(installed):
    import torchvision

    assert isinstance(torchvision.__version__, str)
    for place, module in torch_vision.modules().items():
        found = torchvision
        for name in place.split(".")[1:]:
            found = getattr(found, name)
        # The attribute with the name of a model is its function.
        assert found.__name__ == (place.rpartition(".")[2] if callable(found) else module.__name__)
    with pytest.raises(AttributeError, match="has no attribute 'something'"):
        _ = torchvision.ops.something


REFUSED = [
    (vision_ops, "nms", "torchvision.ops.nms is not in netcl"),
    (datasets, "LSUN", "it is a download"),
    (models, "swin_t", "build it from torch.nn"),
    (models.feature_extraction, "create_feature_extractor", "register_forward_hook"),
    (transforms, "AutoAugment", "RandomChoice"),
    (F, "elastic_transform", "affine"),
    (v2, "MixUp", "not in netcl"),
    (utils, "draw_bounding_boxes", "PIL.ImageDraw"),
    (torch_vision.io, "read_video", "videos are not read"),
    (torch_vision.tv_tensors, "Mask", "plain tensors"),
]


@pytest.mark.parametrize(("module", "name", "sentence"), REFUSED, ids=lambda value: value if type(value) is str else "")
def test_what_is_not_here_raises_when_it_is_called(module, name, sentence):
    refused = getattr(module, name)
    with pytest.raises(UnsupportedError, match=sentence):
        refused(1, key=2)
    assert not isinstance(3, refused)

    class Derived(refused):
        pass

    with pytest.raises(UnsupportedError, match=sentence):
        Derived()


# Transforms


def test_conversions_give_tensors():
    from PIL import Image

    made = transforms.ToTensor()(Image.fromarray(ROWS))
    assert isinstance(made, Tensor)
    assert made.dtype == "float32"
    np.testing.assert_array_equal(made.to_host(), PLANES)
    whole = transforms.PILToTensor()(Image.fromarray(ROWS))
    assert (whole.dtype, whole.shape) == ("uint8", (3, 12, 16))
    assert F.to_tensor(ROWS.astype(np.float64)).dtype == "float64"
    image = v2.ToImage()(ROWS)
    assert (image.dtype, image.shape) == ("uint8", (3, 12, 16))
    scaled, label = v2.Compose([v2.ToImage(), v2.ToDtype("float32", scale=True)])(ROWS, 4)
    np.testing.assert_allclose(scaled.to_host(), PLANES, atol=1e-7)
    assert label == 4
    back = transforms.ToPILImage()(made)
    np.testing.assert_array_equal(np.asarray(back), (PLANES * 255).astype(np.uint8).transpose(1, 2, 0))
    assert transforms.ToPILImage()(np.zeros((3, 4, 1), np.float32)).mode == "F"
    with pytest.raises(TypeError, match="floating array"):
        transforms.ToPILImage()(np.zeros((3, 4, 3), np.float32))


def test_transforms_keep_tensors_on_their_device(handle):
    x = Tensor.from_host(handle.queue, PLANES)
    for transform in (
        transforms.Resize(6),
        transforms.CenterCrop(8),
        transforms.Normalize((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
        transforms.RandomHorizontalFlip(1.0),
        transforms.ConvertImageDtype("uint8"),
        transforms.RandomErasing(1.0, value="random"),
        transforms.GaussianBlur(3),
    ):
        np.random.seed(1)
        made = transform(x)
        np.random.seed(1)
        expected = transform(PLANES)
        assert isinstance(made, Tensor)
        assert made.queue is x.queue
        np.testing.assert_array_equal(made.to_host(), expected)
    batch = Tensor.from_host(handle.queue, np.stack([PLANES, PLANES]))
    assert F.hflip(batch).shape == (2, 3, 12, 16)
    assert F.get_dimensions(x) == [3, 12, 16]


def test_a_chain_makes_one_tensor_and_gives_functions_tensors(monkeypatch):
    made = []
    monkeypatch.setattr(host_chain, "tensor_of", lambda array: made.append(array) or tensor_of(array))
    seen = []
    crop, normalize = (5, 7), ((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
    for module, first in ((transforms, [transforms.ToTensor()]), (v2, [v2.ToImage(), v2.ToDtype("float32", True)])):
        made.clear()
        rest = [module.CenterCrop(crop), module.Normalize(*normalize)]
        x = module.Compose([*first, *rest])(ROWS)
        assert isinstance(x, Tensor)
        assert len(made) == 1
        expected = F.normalize(F.center_crop(PLANES, crop), *normalize)
        np.testing.assert_allclose(x.to_host(), expected, atol=1e-6)
        function = module.Lambda(lambda image: seen.append(image) or image)
        y = module.Compose([*first, function, *rest])(ROWS)
        assert isinstance(seen[-1], Tensor)
        np.testing.assert_array_equal(y.to_host(), x.to_host())
        assert all(isinstance(one, Tensor) for one in module.Compose([*first, module.FiveCrop(4)])(ROWS))
        assert module.Compose([*first, module.ToPILImage()])(ROWS).size == (16, 12)
        assert module.Compose([*first, *rest])(tensor_of(PLANES) if module is v2 else ROWS).shape == (3, 5, 7)
    image, label = v2.Compose([v2.ToImage(), v2.CenterCrop(4)])(ROWS, 3)
    assert (image.shape, label) == ((3, 4, 4), 3)


class Doubled(transforms.Normalize):
    """A transform of a program, derived from one of torchvision, that expects a tensor."""

    def forward(self, img, /):
        return super().forward(img.mul(2.0))


def test_derived_transforms_get_tensors():
    prepare = transforms.Compose([transforms.ToTensor(), Doubled((0.0,), (1.0,))])
    np.testing.assert_allclose(prepare(ROWS).to_host(), PLANES * 2)
    assert pickle.loads(pickle.dumps(prepare))(ROWS).shape == (3, 12, 16)


def test_gradients_are_not_lost_in_silence():
    x = ag.Parameter(Tensor.from_host(PLANES))
    with pytest.raises(UnsupportedError, match="detach"):
        F.hflip(x)
    assert F.hflip(x.detach()).shape == (3, 12, 16)
    with ag.no_grad():
        assert F.hflip(x).shape == (3, 12, 16)


def test_bfloat16_stays():
    x = Tensor.from_host(PLANES, dtype="bfloat16")
    assert F.resize(x, 6).dtype == "bfloat16"


class Recorder:
    """A module of PyTorch's name that draws from a list and writes the calls down."""

    float32 = "float32"

    def __init__(self, *values):
        self.values, self.calls = list(values), []

    def _drawn(self, *call):
        self.calls.append(call)
        return Tensor.from_host(np.array(self.values.pop(0)))

    def rand(self, n):
        return self._drawn("rand", n)

    def randint(self, low, high, size):
        return self._drawn("randint", low, high, size)

    def randperm(self, n):
        return self._drawn("randperm", n)

    def empty(self, shape, dtype=None):
        recorder = self

        class Empty:
            def uniform_(self, low, high):
                return recorder._drawn("uniform_", shape, low, high)

            def normal_(self):
                return recorder._drawn("normal_", shape)

        return Empty()

    def tensor(self, values):
        return list(values)

    def multinomial(self, weights, count):
        return self._drawn("multinomial", tuple(weights), count)


def test_random_numbers_come_from_the_functions_of_torch():
    torch = Recorder([0.25], [3], [5], [2, 0, 1, 3], [1.5], [1])
    before = current()
    try:
        torch_vision.modules(torch)
        np.testing.assert_array_equal(transforms.RandomHorizontalFlip()(ROWS), ROWS[:, ::-1])
        np.testing.assert_array_equal(transforms.RandomCrop(6)(ROWS), ROWS[3:9, 5:11])
        expected = np.clip(ROWS.astype(np.float32) * 1.5, 0, 255).astype(np.uint8)
        np.testing.assert_array_equal(transforms.ColorJitter(brightness=0.5)(ROWS), expected)
        assert v2.RandomChoice([v2.CenterCrop(4), v2.CenterCrop(5)])(ROWS).shape == (5, 5, 3)
    finally:
        use_draws(before)
    assert torch.calls == [
        ("rand", 1),
        ("randint", 0, 7, (1,)),
        ("randint", 0, 11, (1,)),
        ("randperm", 4),
        ("uniform_", 1, 0.5, 1.5),
        ("multinomial", (0.5, 0.5), 1),
    ]


# Datasets


def make_mnist(root):
    images = np.random.default_rng(1).integers(0, 256, (6, 28, 28), dtype=np.uint8)
    labels = np.arange(6, dtype=np.uint8)
    folder = root / "MNIST" / "raw"
    folder.mkdir(parents=True)
    for name, array in (("train-images-idx3-ubyte", images), ("train-labels-idx1-ubyte", labels)):
        head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
        (folder / name).write_bytes(head + array.tobytes())
    return images, labels


def test_mnist_has_tensors_and_samples_follow_them(tmp_path):
    images, labels = make_mnist(tmp_path)
    found = datasets.MNIST(str(tmp_path), train=True, download=True, transform=transforms.ToTensor())
    assert isinstance(found.data, Tensor)
    assert (found.data.dtype, found.data.shape) == ("uint8", (6, 28, 28))
    assert found.targets.dtype == "int64"
    image, label = found[2]
    assert isinstance(image, Tensor)
    np.testing.assert_array_equal(image.to_host(), images[2][None] / np.float32(255))
    assert (type(label), label) == (int, 2)
    found.targets[2] = 7
    assert found[2][1] == 7
    found.data = found.data[3:]
    found.targets = found.targets[3:]
    assert len(found) == 3
    np.testing.assert_array_equal(found[0][0].to_host(), images[3][None] / np.float32(255))
    again = pickle.loads(pickle.dumps(found))
    assert again[1][1] == labels[4]
    with pytest.raises(RuntimeError, match="netcl downloads nothing"):
        datasets.MNIST(tmp_path / "none", download=True)
    assert issubclass(datasets.KMNIST, datasets.MNIST)
    assert datasets.FashionMNIST.classes[0] == "T-shirt/top"


def test_fake_data_reaches_a_loader():
    prepare = transforms.Compose([transforms.Resize(8), transforms.ToTensor(), transforms.Normalize((0.5,), (0.5,))])
    found = datasets.FakeData(4, (3, 16, 16), transform=prepare)
    images, labels = next(iter(DataLoader([(x.to_host(), y) for x, y in found], 4)))
    assert images.shape == (4, 3, 8, 8)
    assert images.min() >= -1
    assert labels.shape == (4,)


# Grids and files


def test_grids_are_tensors_on_the_device(handle):
    x = Tensor.from_host(handle.queue, np.stack([PLANES] * 3))
    grid = utils.make_grid(x, nrow=2, padding=1)
    assert isinstance(grid, Tensor)
    assert grid.queue is x.queue
    assert grid.shape == (3, 27, 35)
    np.testing.assert_array_equal(grid.to_host()[:, 1:13, 1:17], PLANES)
    np.testing.assert_array_equal(utils.make_grid([x[0], x[1]], nrow=2, padding=1).to_host(), grid.to_host()[:, :14])
    assert utils.make_grid(ag.Parameter(x)).requires_grad is False


def test_image_files_are_written_and_read(tmp_path):
    from netcl.torch_vision.io import (
        ImageReadMode,
        decode_image,
        encode_jpeg,
        encode_png,
        read_file,
        read_image,
        write_file,
        write_jpeg,
        write_png,
    )

    utils.save_image(F.to_tensor(ROWS), str(tmp_path / "a.png"))
    np.testing.assert_array_equal(read_image(str(tmp_path / "a.png")).to_host(), ROWS.transpose(2, 0, 1))
    assert read_image(tmp_path / "a.png", ImageReadMode.GRAY).shape == (1, 12, 16)
    whole = F.to_tensor(ROWS)
    pixels = Tensor.from_host(np.ascontiguousarray(ROWS.transpose(2, 0, 1)))
    write_png(pixels, tmp_path / "b.png")
    np.testing.assert_array_equal(decode_image(read_file(tmp_path / "b.png")).to_host(), pixels.to_host())
    write_file(tmp_path / "c.png", encode_png(pixels))
    np.testing.assert_array_equal(read_image(tmp_path / "c.png", "RGB").to_host(), pixels.to_host())
    write_jpeg(pixels, tmp_path / "d.jpg", quality=95)
    assert read_image(tmp_path / "d.jpg").shape == (3, 12, 16)
    assert encode_jpeg(pixels).ndim == 1
    with pytest.raises(NetclError, match="uint8"):
        write_png(whole, tmp_path / "e.png")


def test_image_files_are_read_within_a_budget(tmp_path):
    from PIL import Image

    from netcl.data import Budget
    from netcl.torch_vision.io import decode_image, read_file, read_image

    Image.new("L", (5900, 5900)).save(tmp_path / "wide.png")
    with pytest.raises(ValueError, match=r"wide\.png.*5900 x 5900 pixels takes"):
        read_image(tmp_path / "wide.png")
    with pytest.raises(ValueError, match=r"a file of .* bytes cannot be read.*5900 x 5900 pixels takes"):
        decode_image(read_file(tmp_path / "wide.png"))
    assert read_image(tmp_path / "wide.png", budget=Budget(bytes=1 << 30)).shape == (1, 5900, 5900)
    (tmp_path / "broken.png").write_bytes(b"\x89PNG and no more")
    with pytest.raises(ValueError, match=r"broken\.png cannot be read"):
        read_image(tmp_path / "broken.png")
    with pytest.raises(ValueError, match="mode must be one of UNCHANGED"):
        read_image(tmp_path / "wide.png", "sepia")


def test_a_cameras_orientation_is_applied_if_asked(tmp_path):
    from PIL import Image

    from netcl.torch_vision.io import read_image

    exif = Image.Exif()
    exif[0x0112] = 6
    stream = io.BytesIO()
    Image.fromarray(ROWS).save(stream, "PNG", exif=exif)
    (tmp_path / "turned.png").write_bytes(stream.getvalue())
    assert read_image(tmp_path / "turned.png").shape == (3, 12, 16)
    turned = read_image(tmp_path / "turned.png", apply_exif_orientation=True)
    np.testing.assert_array_equal(turned.to_host(), np.rot90(ROWS, -1).transpose(2, 0, 1))


# Layers and models


def test_frozen_batch_norm(handle):
    rng = np.random.default_rng(2)
    layer = vision_ops.FrozenBatchNorm2d(3, eps=1e-3)
    values = {
        name: rng.uniform(0.5, 2.0, 3).astype(np.float32) for name in ("weight", "bias", "running_mean", "running_var")
    }
    layer.load_state_dict({**values, "num_batches_tracked": np.array(5)})
    assert list(layer.state_dict()) == ["weight", "bias", "running_mean", "running_var"]
    assert list(layer.parameters()) == []
    layer.to(handle)
    x = rng.normal(size=(2, 3, 4, 5)).astype(np.float32)
    w, b, mean, var = (value.reshape(1, 3, 1, 1) for value in values.values())
    expected = (x - mean) / np.sqrt(var + 1e-3) * w + b
    inputs = ag.Parameter(Tensor.from_host(layer.weight.queue, x))
    made = layer.train()(inputs)
    np.testing.assert_allclose(made.to_host(), expected, rtol=1e-5, atol=1e-5)
    made.sum().backward()
    gradient = np.broadcast_to(w / np.sqrt(var + 1e-3), x.shape)
    np.testing.assert_allclose(inputs.grad.to_host(), gradient, rtol=1e-5)
    np.testing.assert_array_equal(layer.running_mean.to_host(), values["running_mean"])
    assert repr(layer) == "FrozenBatchNorm2d(3, eps=0.001)"


def count(model):
    return sum(int(np.prod(parameter.shape)) for parameter in model.parameters())


def test_resnet18_has_torchvisions_children_and_names():
    model = models.resnet18(weights=None, num_classes=1000)
    names = [name for name, _ in model.named_children()]
    assert names == ["conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3", "layer4", "avgpool", "fc"]
    assert count(model) == 11_689_512
    state = model.state_dict()
    assert len(state) == 122
    assert state["layer2.0.downsample.1.running_var"].shape == (128,)
    assert list(state) == [name.replace("flatten.", "") for name in nn.resnet.resnet18().state_dict()]
    assert model.fc.in_features == 512


def test_resnets_compute_what_netcls_own_compute():
    ops.manual_seed(0)
    own, model = nn.resnet.resnet18(10), models.resnet18(num_classes=10)
    model.load_state_dict(own.state_dict())
    x = ops.randn((2, 3, 64, 64))
    with ag.no_grad():
        np.testing.assert_allclose(model.eval()(x).to_host(), own.eval()(x).to_host(), rtol=1e-4, atol=1e-5)
        cut = nn.Sequential(*list(model.children())[:-1])
        assert cut.eval()(x).shape == (2, 512, 1, 1)


class Counted(models.ResNet):
    """A ResNet of two stages' worth of blocks, as programs derive them."""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("resnext50_32x4d", 25_028_904),
        pytest.param("wide_resnet50_2", 68_883_240, marks=pytest.mark.deep),
    ],
)
def test_grouped_and_wide_networks(name, expected):
    assert count(models.get_model(name)) == expected


def test_variants():
    model = Counted(BasicBlock, [1, 1, 1, 1], num_classes=3, zero_init_residual=True)
    assert not model.layer1[0].bn2.weight.to_host().any()
    frozen = models.ResNet(BasicBlock, [1, 1, 1, 1], norm_layer=vision_ops.FrozenBatchNorm2d)
    assert isinstance(frozen.layer1[0].bn2, vision_ops.FrozenBatchNorm2d)
    dilated = models.ResNet(models.resnet.Bottleneck, [1, 1, 1, 2], replace_stride_with_dilation=[False, True, True])
    assert dilated.layer4[1].conv2.dilation == (4, 4)
    with ag.no_grad():
        features = nn.Sequential(*list(dilated.children())[:-2]).eval()(
            Tensor.from_host(np.zeros((1, 3, 32, 32), np.float32))
        )
    assert features.shape == (1, 2048, 4, 4)
    assert "resnet18" in models.list_models()
    assert count(copy.deepcopy(model)) == count(model)


def test_trained_weights_are_refused_with_what_to_do():
    for keywords in ({"weights": models.ResNet18_Weights.DEFAULT}, {"weights": "IMAGENET1K_V1"}, {"pretrained": True}):
        with pytest.raises(UnsupportedError, match=r"trained weights are downloads.*load_state_dict"):
            models.resnet18(**keywords)
    with pytest.raises(ValueError, match="there is no model 'swin_t' in netcl"):
        models.get_model("swin_t")


# Of each model of torchvision: its parameters, as its pages state them, and names of its state.
MODELS = {
    "squeezenet1_1": (1_235_496, "features.3.squeeze.weight classifier.1.bias"),
    "mobilenet_v2": (3_504_872, "features.2.conv.0.1.running_mean features.18.0.weight classifier.1.weight"),
    "mobilenet_v3_small": (2_542_856, "features.4.block.2.fc1.weight features.12.1.bias classifier.3.weight"),
    "efficientnet_b0": (5_288_548, "features.2.0.block.2.fc2.bias features.8.0.weight classifier.1.weight"),
    "mnasnet0_5": (2_218_512, "layers.8.0.layers.3.weight layers.14.weight classifier.1.weight"),
    "shufflenet_v2_x0_5": (1_366_792, "stage2.0.branch1.0.weight stage2.1.branch2.3.weight conv5.0.weight fc.bias"),
    "densenet121": (7_978_856, "features.denseblock1.denselayer2.conv1.weight features.transition1.conv.weight"),
    "regnet_y_400mf": (
        4_344_144,
        "trunk_output.block1.block1-0.f.se.fc1.weight trunk_output.block2.block2-0.proj.0.weight",
    ),
    "regnet_x_400mf": (5_495_976, "trunk_output.block4.block4-0.f.a.0.weight stem.1.weight fc.weight"),
    "googlenet": (6_624_904, "inception3a.branch3.1.conv.weight fc.weight"),
}


@pytest.mark.parametrize("name", list(MODELS))
def test_a_classification_model_has_torchvisions_parameters_and_names(name):
    count, names = MODELS[name]
    options = {"aux_logits": False, "init_weights": False} if name == "googlenet" else {}
    model = models.get_model(name, **options)
    assert sum(parameter.numel() for parameter in model.parameters()) == count
    assert set(names.split()) <= set(model.state_dict())


@pytest.mark.parametrize("name", ["mobilenet_v2", "shufflenet_v2_x0_5", "squeezenet1_1", "regnet_x_400mf"])
def test_a_classification_model_computes_classes_and_gradients(name):
    model = models.get_model(name, num_classes=3)
    images = Tensor.from_host(np.random.default_rng(0).normal(size=(2, 3, 32, 32)).astype(np.float32))
    scores = model(images)
    assert scores.shape == (2, 3)
    scores.sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


SMALL = {
    "vit": (
        lambda: models.VisionTransformer(32, 16, 2, 2, 8, 16, num_classes=3),
        "class_token encoder.layers.encoder_layer_1.self_attention.in_proj_weight encoder.ln.bias heads.head.bias",
    ),
    "convnext": (
        lambda: models.ConvNeXt([(8, 1), (16, 2)], 0.5, num_classes=3),
        "features.1.0.layer_scale features.2.0.weight features.3.1.block.5.bias classifier.2.weight",
    ),
    "efficientnet": (
        lambda: models.EfficientNet([(models.inverted.MBConv, 6, 3, 1, 8, 8, 2)], 0.2, 0.5, num_classes=3),
        "features.1.1.block.2.fc1.weight classifier.1.weight",
    ),
    "vgg": (
        lambda: models.VGG(models.plain.make_layers([8, "M", 512], True), 3, init_weights=False),
        "features.1.running_mean features.4.weight classifier.6.bias",
    ),
}


@pytest.mark.parametrize("name", sorted(SMALL))
def test_small_models_of_the_large_families_train(name):
    make, names = SMALL[name]
    model = make()
    assert set(names.split()) <= set(model.state_dict())
    images = Tensor.from_host(np.random.default_rng(0).normal(size=(4, 3, 32, 32)).astype(np.float32))
    model.train()(images).sum().backward()
    assert model.eval()(images).shape == (4, 3)
    assert sum(parameter.grad is not None for parameter in model.parameters()) > 4


def test_stochastic_depth_drops_whole_samples():
    dropped = vision_ops.StochasticDepth(0.5)
    x = Tensor.full((64, 3, 2, 2), 1.0, "float32")
    rows = dropped(x).numpy().reshape(64, -1)
    assert set(np.unique(rows)) == {0.0, 2.0}
    assert (rows.min(1) == rows.max(1)).all()
    assert dropped.eval()(x) is x


def test_families_of_models_are_modules_with_their_names():
    found = torch_vision.modules()
    for name, names in (
        ("vgg", "VGG vgg16 vgg16_bn VGG16_Weights make_layers"),
        ("mobilenetv3", "MobileNetV3 mobilenet_v3_small"),
        ("densenet", "DenseNet densenet201"),
        ("vision_transformer", "VisionTransformer vit_l_16 ViT_L_16_Weights"),
    ):
        module = found[f"torchvision.models.{name}"]
        assert all(hasattr(module, each) for each in names.split())
    assert {"vgg19_bn", "efficientnet_v2_l", "convnext_base"} <= set(models.list_models())
    with pytest.raises(UnsupportedError, match=r"vgg16: trained weights are downloads"):
        models.vgg16(weights=models.VGG16_Weights.DEFAULT)
    with pytest.raises(ValueError, match="patches of 16 do not fill"):
        models.VisionTransformer(image_size=20)
