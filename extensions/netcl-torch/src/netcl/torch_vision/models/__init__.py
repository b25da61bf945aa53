"""``torchvision.models``: classification models without trained weights; other models raise when they are called."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from netcl.core.errors import UnsupportedError
from netcl.torch_vision.models import branched, feature_extraction, inverted, plain, resnet, staged
from netcl.torch_vision.models.blocks import BUILDERS
from netcl.torch_vision.models.resnet import (
    ResNet,
    resnet18,
    resnet34,
    resnet50,
    resnet101,
    resnet152,
    resnext50_32x4d,
    resnext101_32x8d,
    resnext101_64x4d,
    wide_resnet50_2,
    wide_resnet101_2,
)
from netcl.torch_vision.refused import Refusals

__all__ = [
    "ResNet",
    "feature_extraction",
    "get_model",
    "list_models",
    "resnet",
    "resnet101",
    "resnet152",
    "resnet18",
    "resnet34",
    "resnet50",
    "resnext101_32x8d",
    "resnext101_64x4d",
    "resnext50_32x4d",
    "wide_resnet101_2",
    "wide_resnet50_2",
]

# Modules of torchvision with the file that has their classes and builders.
FAMILIES: dict[str, ModuleType] = {
    **dict.fromkeys(("alexnet", "squeezenet", "vgg"), plain),
    **dict.fromkeys(("efficientnet", "mnasnet", "mobilenet", "mobilenetv2", "mobilenetv3"), inverted),
    **dict.fromkeys(("densenet", "googlenet", "shufflenetv2"), branched),
    **dict.fromkeys(("convnext", "regnet", "vision_transformer"), staged),
}


def list_models(module: Any = None, include: Any = None, exclude: Any = None) -> list[str]:
    """Returns the names of the models that are here, in alphabetical order. Filters raise UnsupportedError."""
    if module is not None or include is not None or exclude is not None:
        raise UnsupportedError("list_models takes no filters here", op="list_models")
    return sorted(BUILDERS)


def get_model(name: str, **config: Any) -> Any:
    """Returns the model of a name, built with the keywords. Raises ValueError for a name that is not here."""
    builder = BUILDERS.get(name.lower())
    if builder is None:
        raise ValueError(f"there is no model {name!r} in netcl; there are {', '.join(list_models())}")
    return builder(**config)


_NO_WEIGHTS = "trained weights are downloads, which netcl does not make"
_weights = Refusals(
    "models",
    "AlexNet_Weights ConvNeXt_Base_Weights ConvNeXt_Large_Weights ConvNeXt_Small_Weights ConvNeXt_Tiny_Weights "
    "DenseNet121_Weights DenseNet161_Weights DenseNet169_Weights DenseNet201_Weights EfficientNet_B0_Weights "
    "EfficientNet_B1_Weights EfficientNet_B2_Weights EfficientNet_B3_Weights EfficientNet_B4_Weights "
    "EfficientNet_B5_Weights EfficientNet_B6_Weights EfficientNet_B7_Weights EfficientNet_V2_L_Weights "
    "EfficientNet_V2_M_Weights EfficientNet_V2_S_Weights GoogLeNet_Weights Inception_V3_Weights "
    "MNASNet0_5_Weights MNASNet0_75_Weights MNASNet1_0_Weights MNASNet1_3_Weights MaxVit_T_Weights "
    "MobileNet_V2_Weights MobileNet_V3_Large_Weights MobileNet_V3_Small_Weights RegNet_X_16GF_Weights "
    "RegNet_X_1_6GF_Weights RegNet_X_32GF_Weights RegNet_X_3_2GF_Weights RegNet_X_400MF_Weights "
    "RegNet_X_800MF_Weights RegNet_X_8GF_Weights RegNet_Y_128GF_Weights RegNet_Y_16GF_Weights "
    "RegNet_Y_1_6GF_Weights RegNet_Y_32GF_Weights RegNet_Y_3_2GF_Weights RegNet_Y_400MF_Weights "
    "RegNet_Y_800MF_Weights RegNet_Y_8GF_Weights ResNeXt101_32X8D_Weights ResNeXt101_64X4D_Weights "
    "ResNeXt50_32X4D_Weights ResNet101_Weights ResNet152_Weights ResNet18_Weights ResNet34_Weights "
    "ResNet50_Weights ShuffleNet_V2_X0_5_Weights ShuffleNet_V2_X1_0_Weights ShuffleNet_V2_X1_5_Weights "
    "ShuffleNet_V2_X2_0_Weights SqueezeNet1_0_Weights SqueezeNet1_1_Weights Swin_B_Weights Swin_S_Weights "
    "Swin_T_Weights Swin_V2_B_Weights Swin_V2_S_Weights Swin_V2_T_Weights VGG11_BN_Weights VGG11_Weights "
    "VGG13_BN_Weights VGG13_Weights VGG16_BN_Weights VGG16_Weights VGG19_BN_Weights VGG19_Weights "
    "ViT_B_16_Weights ViT_B_32_Weights ViT_H_14_Weights ViT_L_16_Weights ViT_L_32_Weights Weights WeightsEnum "
    "Wide_ResNet101_2_Weights Wide_ResNet50_2_Weights get_model_weights get_weight",
    _NO_WEIGHTS,
)
_refusals = Refusals(
    "models",
    "Inception3 InceptionOutputs MaxVit SwinTransformer inception_v3 maxvit_t swin_b swin_s swin_t swin_v2_b "
    "swin_v2_s swin_v2_t",
    "build it from torch.nn, or take another of torchvision.models.list_models()",
)


def __getattr__(name: str) -> Any:
    if name in BUILDERS:
        return BUILDERS[name]
    for family in dict.fromkeys(FAMILIES.values()):
        if name in family.__all__:
            return getattr(family, name)
    return (_weights if name in _weights.names else _refusals).find(name)


for _family in FAMILIES.values():
    vars(_family).setdefault("__getattr__", _weights.find)


def __dir__() -> list[str]:
    classes = (name for family in FAMILIES.values() for name in family.__all__)
    return sorted({*globals(), *BUILDERS, *classes, *_weights.names, *_refusals.names})
