"""A small model of each family of timm on device "ocl" against PyTorch on the CPU: loss, and all gradients.

    NETCL_DEVICE=cpu python tests/timm_families.py resnet18 vit_tiny_patch16_224

A family is a module of timm. It prints a line for each model, and ends with 1 if a number differs by more than 1e-4, or
is twice as far from PyTorch's float64 as PyTorch's float32: batch norms of few elements magnify rounding. As a ReLU of
an input of 1e-7 may have either gradient, a model that differs is run on two other batches, of which one must agree.
"""

from __future__ import annotations

import sys
import time
import warnings

import timm
import torch
from torch import nn

from torch_netcl import words

TOLERANCE = 1e-4
MODELS = words(
    "beit_base_patch16_224 halonet_h1 gernet_s cait_xxs24_224 coat_tiny convit_tiny convmixer_768_32 "
    "convnext_atto cpubone_nano crossvit_tiny_240 csatv2 cs3darknet_focus_s cspnext_tiny davit_tiny "
    "deepseek_vit_412m deit_tiny_patch16_224 densenet121 dla34 dpn48b edgenext_xx_small efficientformer_l1 "
    "efficientformerv2_s0 tinynet_d efficientvim_m1 efficientvit_b0 efficientvit_m0 eva02_tiny_patch14_224 "
    "fasternet_t0 fastvit_t8 focalnet_tiny_srf gcvit_xxtiny gemma4_vit_167m_enc ghostnet_050 hardcorenas_b "
    "hgnetv2_b0 hiera_tiny_224 sam2_hiera_tiny hrnet_w18_small iformer_t inception_next_atto inception_resnet_v2 "
    "inception_v3 inception_v4 lcnetv2_small levit_128 lowformer_b0 mambaout_femto maxvit_pico_rw_256 "
    "poolformer_s12 gmlp_ti16_224 lcnet_035 mobilenetv5_base mobilevit_xxs mvitv2_tiny naflexvit_base_patch16_gap "
    "nasnetalarge nest_tiny nextvit_small nf_regnet_b0 pit_ti_224 pnasnet5large pvt_v2_b0 qwen3_vit_88m "
    "rdnet_tiny regnetx_002 repghostnet_050 repvit_m1 res2next50 resnest14d resnet18 resnetv2_18 rexnet_100 "
    "selecsls42 legacy_seresnet18 sequencer2d_s shvit_s1 skresnet18 starnet_s050 swiftformer_xs "
    "swin_tiny_patch4_window7_224 swinv2_tiny_window8_256 swinv2_cr_tiny_224 tiny_vit_5m_224 "
    "tnt_s_legacy_patch16_224 tresnet_m twins_svt_small vgg11 visformer_tiny vit_tiny_patch16_224 "
    "vit_tiny_r_s16_p8_224 vit_srelpos_small_patch16_224 samvit_base_patch16_224 vitamin_small_224 volo_d1_224 "
    "vovnet39a legacy_xception xception41p xcit_nano_12_p8_224 "
)
# Few layers of the large ones.
SHALLOW = {
    name: {"depth": 2}
    for name in words(
        "beit_base_patch16_224 deepseek_vit_412m gemma4_vit_167m_enc naflexvit_base_patch16_gap qwen3_vit_88m "
        "samvit_base_patch16_224"
    )
}
# Images of which the last batch norm has more than the two elements that magnify rounding most.
LARGER = dict.fromkeys(words("inception_next_atto inception_v3 inception_v4"), (3, 96, 96))
LARGER["inception_resnet_v2"] = (3, 160, 160)


def numbers(
    name: str, device: str, dtype: torch.dtype = torch.float32, seed: int = 1
) -> tuple[float, list[torch.Tensor]]:
    """Returns the loss of a batch, and the gradients of all parameters."""
    torch.manual_seed(0)
    model = timm.create_model(name, num_classes=5, **SHALLOW.get(name, {})).train()
    for module in model.modules():  # two devices draw other numbers
        for chance in ("p", "drop_rate", "drop_prob"):
            if isinstance(getattr(module, chance, None), float):
                setattr(module, chance, 0.0)
    settings = model.default_cfg
    size = settings["input_size"]
    if not settings.get("fixed_input_size"):
        size = settings.get("min_input_size") or LARGER.get(name) or (3, 64, 64)
    x = torch.randn(2, *size, generator=torch.Generator().manual_seed(seed)).to(device, dtype)
    model = model.to(device, dtype)
    output = model(x)
    while isinstance(output, (list, tuple)):
        output = output[0]
    output = output.flatten(1)[:, :5]
    loss = nn.functional.cross_entropy(output, torch.tensor([1, 3], device=device))
    loss.backward()
    return loss.item(), [p.grad.cpu() for p in model.parameters() if p.grad is not None]


def distance(got: list[torch.Tensor], wanted: list[torch.Tensor]) -> float:
    """Returns the largest difference over the largest element."""
    scale = max(1.0, *(x.abs().max().item() for x in wanted))
    return max((a - b).abs().max().item() for a, b in zip(wanted, got)) / scale


def compare(name: str, seed: int) -> tuple[bool, str]:
    """Returns True if a model's numbers of a batch are PyTorch's, and how far they are from these."""
    (here, wanted), (there, got) = (numbers(name, device, seed=seed) for device in ("cpu", "ocl"))
    far, allowed, beside = max(distance(got, wanted), abs(here - there)), TOLERANCE, ""
    if far > allowed:
        loss, exact = numbers(name, "cpu", torch.float64, seed)
        far, theirs = (max(distance(grads, exact), abs(own - loss)) for own, grads in ((there, got), (here, wanted)))
        allowed, beside = 2 * theirs, f" from float64, PyTorch {theirs:.1e}"
    said = f"loss {abs(here - there):.1e}, {len(got)} gradients: {far:.1e}{beside}"
    return far <= allowed and len(wanted) == len(got), said


def main(names: list[str]) -> int:
    """Runs the command."""
    warnings.simplefilter("ignore")
    failed = 0
    for name in names or MODELS:
        began, right, texts = time.time(), False, []
        for seed in (1, 2, 3):
            try:
                right, said = compare(name, seed)
            except Exception as error:  # noqa: BLE001 - it is printed
                texts.append(f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")
                break
            texts.append(said)
            if right:
                break
        failed += not right
        text = "; another batch: ".join(texts)
        print(f"{name}: {'same' if right else 'DIFFERENT'}: {text}; {time.time() - began:.1f} s", flush=True)
    print(f"{len(names or MODELS) - failed} of {len(names or MODELS)} families")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
