"""Libraries on device "ocl" with small random models, against PyTorch on the CPU.

    python tests/libraries.py trainer peft accelerate diffusers lightning torchmetrics geometric ultralytics timm

It prints one line for each, and ends with 1 if a number differs by more than 1e-4. A library that is not installed is
named.
"""

from __future__ import annotations

import contextlib
import copy
import io
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

TOLERANCE = 1e-4
CHECKS: dict[str, Callable[[str], list[float]]] = {}


def check(function: Callable[[str], list[float]]) -> Callable[[str], list[float]]:
    """Adds a function of the device, which returns numbers."""
    CHECKS[function.__name__] = function
    return function


def _gpt2() -> Any:
    import transformers

    torch.manual_seed(0)
    options = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99, "n_positions": 32}
    dropouts = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**options, **dropouts))


@contextlib.contextmanager
def device_of_accelerate(device: str) -> Any:
    """Makes ``device`` the one of accelerate, which knows the names of others only: ACCELERATE_TORCH_DEVICE."""
    from accelerate.state import AcceleratorState, GradientState, PartialState

    for state in (AcceleratorState, GradientState, PartialState):
        state._reset_state()
    os.environ["ACCELERATE_TORCH_DEVICE"] = device
    try:
        yield
    finally:
        del os.environ["ACCELERATE_TORCH_DEVICE"]


def _sum_of(model: nn.Module) -> float:
    return sum(parameter.detach().double().cpu().abs().sum().item() for parameter in model.parameters())


def _ids(*shape: int) -> torch.Tensor:
    return torch.randint(0, 99, shape, generator=torch.Generator().manual_seed(1))


@check
def trainer(device: str) -> list[float]:
    """transformers: Trainer for 20 steps, save_pretrained and from_pretrained."""
    import transformers

    rows = [{"input_ids": row, "labels": row} for row in _ids(40, 8)]
    with tempfile.TemporaryDirectory() as folder, device_of_accelerate(device):
        options = {"report_to": [], "save_strategy": "no", "disable_tqdm": True}
        arguments = transformers.TrainingArguments(
            folder, max_steps=20, per_device_train_batch_size=4, learning_rate=1e-3, seed=0, **options
        )
        run = transformers.Trainer(_gpt2(), arguments, train_dataset=rows)
        result = run.train()
        assert run.model.device.type == device
        run.model.save_pretrained(folder)
        again = transformers.GPT2LMHeadModel.from_pretrained(folder).to(device)
        loss = again(input_ids=_ids(2, 8).to(device), labels=_ids(2, 8).to(device)).loss.item()
    return [result.training_loss, loss, _sum_of(again) / 1000]


@check
def peft(device: str) -> list[float]:
    """peft: steps of LoRA, and its merge."""
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(_gpt2(), LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True)).to(device)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    ids, losses = _ids(2, 8).to(device), []
    for _ in range(5):
        optimizer.zero_grad()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    merged = model.merge_and_unload()
    return [*losses, merged(input_ids=ids, labels=ids).loss.item()]


@check
def accelerate(device: str) -> list[float]:
    """accelerate: a loop with prepare and backward."""
    from accelerate import Accelerator

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
    data = torch.randn(32, 4)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(data, data.sum(1, keepdim=True)), batch_size=8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    with device_of_accelerate(device):
        accelerator = Accelerator()
        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        for x, y in loader:
            assert x.device.type == device
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            losses.append(loss.item())
    return losses


@check
def diffusers(device: str) -> list[float]:
    """diffusers: a step of a UNet, and a loop of DDPM."""
    from diffusers import DDPMScheduler, UNet2DModel

    torch.manual_seed(0)
    blocks = {"down_block_types": ("DownBlock2D", "AttnDownBlock2D"), "up_block_types": ("AttnUpBlock2D", "UpBlock2D")}
    model = UNet2DModel(
        sample_size=8, in_channels=1, out_channels=1, block_out_channels=(8, 16), norm_num_groups=4,
        attention_head_dim=4, layers_per_block=1, **blocks,
    ).to(device)  # fmt: skip
    schedule = DDPMScheduler(num_train_timesteps=50)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    drawn = torch.Generator().manual_seed(1)
    images, noise = (torch.randn(2, 1, 8, 8, generator=drawn).to(device) for _ in range(2))
    losses = []
    for step in (3, 20, 40):
        times = torch.full((2,), step, device=device)
        loss = nn.functional.mse_loss(model(schedule.add_noise(images, noise, times), times).sample, noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    schedule.set_timesteps(5)
    sample = torch.randn(1, 1, 8, 8, generator=drawn).to(device)
    with torch.no_grad():
        for time_step in schedule.timesteps:
            sample = schedule.step(model(sample, time_step).sample, time_step, sample, generator=drawn).prev_sample
    return [*losses, sample.abs().mean().item()]


@check
def lightning(device: str) -> list[float]:
    """Lightning: a Trainer with a device of its own registry."""
    import lightning as pl
    from lightning.pytorch.accelerators import CPUAccelerator
    from lightning.pytorch.strategies import SingleDeviceStrategy

    class Accelerator(CPUAccelerator):
        def setup_device(self, device: torch.device) -> None:
            """Takes the device as it is."""

    class Model(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.seen = nn.Linear(4, 1), []

        def training_step(self, batch: Any, _: int) -> torch.Tensor:
            loss = nn.functional.mse_loss(self.layer(batch[0]), batch[0].sum(1, keepdim=True))
            self.seen.append(loss.item())
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.parameters(), lr=0.05)

    torch.manual_seed(0)
    model, data = Model(), torch.utils.data.TensorDataset(torch.randn(32, 4))
    strategy = SingleDeviceStrategy(torch.device(device), accelerator=Accelerator())
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    run = pl.Trainer(max_steps=8, strategy=strategy, enable_model_summary=False, **quiet)
    run.fit(model, torch.utils.data.DataLoader(data, batch_size=4))
    return list(model.seen)


@check
def torchmetrics(device: str) -> list[float]:
    """torchmetrics: metrics of random predictions."""
    import torchmetrics as metrics

    drawn = torch.Generator().manual_seed(0)
    scores, labels = (
        torch.rand(50, 5, generator=drawn).to(device),
        torch.randint(0, 5, (50,), generator=drawn).to(device),
    )
    made = [
        metrics.Accuracy("multiclass", num_classes=5),
        metrics.F1Score("multiclass", num_classes=5, average="macro"),
        metrics.AUROC("multiclass", num_classes=5),
        metrics.ConfusionMatrix("multiclass", num_classes=5),
        metrics.MeanSquaredError(),
    ]
    for metric in made[:-1]:
        metric.to(device).update(scores, labels)
    made[-1].to(device).update(scores[:, 0], scores[:, 1])
    return [metric.compute().float().square().sum().item() for metric in made]


@check
def geometric(device: str) -> list[float]:
    """torch_geometric: steps of a GCN on a random graph."""
    from torch_geometric.nn import GCNConv

    torch.manual_seed(0)
    layers = nn.ModuleList([GCNConv(6, 16), GCNConv(16, 3)]).to(device)
    drawn = torch.Generator().manual_seed(1)
    x, labels = torch.randn(20, 6, generator=drawn).to(device), torch.randint(0, 3, (20,), generator=drawn).to(device)
    edges = torch.randint(0, 20, (2, 60), generator=drawn).to(device)
    optimizer, losses = torch.optim.Adam(layers.parameters(), lr=0.01), []
    for _ in range(5):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(layers[1](layers[0](x, edges).relu(), edges), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@check
def ultralytics(device: str) -> list[float]:
    """ultralytics: two steps of a detection model."""
    from ultralytics.cfg import get_cfg
    from ultralytics.nn.tasks import DetectionModel

    torch.manual_seed(0)
    model = DetectionModel("yolov8n.yaml", nc=3, verbose=False).train()
    model.args = get_cfg()
    model = model.to(device)
    drawn = torch.Generator().manual_seed(1)
    batch = {
        "img": torch.rand(2, 3, 64, 64, generator=drawn),
        "batch_idx": torch.tensor([0.0, 0.0, 1.0]),
        "cls": torch.tensor([[0.0], [2.0], [1.0]]),
        "bboxes": torch.rand(3, 4, generator=drawn) * 0.4 + 0.3,
    }
    batch = {name: value.to(device) for name, value in batch.items()}
    optimizer, numbers = torch.optim.SGD(model.parameters(), lr=1e-3), []
    for _ in range(2):
        optimizer.zero_grad()
        loss, parts = model(batch)
        loss.sum().backward()
        optimizer.step()
        parts = parts.values() if isinstance(parts, dict) else parts
        numbers += [loss.sum().item(), *[float(part) for part in parts]]
    return numbers


@check
def timm(device: str) -> list[float]:
    """timm: its tiny model of each family, forward and backward."""
    import timm as models

    numbers = []
    for name in models.list_models("test_*"):
        torch.manual_seed(0)
        model = models.create_model(name, num_classes=5).to(device).train()
        x = torch.randn(2, *model.default_cfg["input_size"], generator=torch.Generator().manual_seed(1)).to(device)
        loss = nn.functional.cross_entropy(model(x), torch.tensor([1, 3], device=device))
        loss.backward()
        squares = sum(p.grad.square().sum().cpu().item() for p in model.parameters() if p.grad is not None)
        numbers += [loss.item(), squares**0.5]
    return numbers


def main(names: list[str]) -> int:
    """Runs the command."""
    warnings.simplefilter("ignore")
    failed = 0
    for name in names or CHECKS:
        began = time.time()
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                here, there = copy.deepcopy(CHECKS[name]("cpu")), CHECKS[name]("ocl")
        except ModuleNotFoundError as error:
            print(f"{name}: not installed: {error}")
            continue
        except Exception as error:  # noqa: BLE001 - it is printed
            failed += 1
            print(f"{name}: {type(error).__name__}: {' '.join(str(error).split())[:300]}", flush=True)
            continue
        far = max(abs(a - b) / max(1.0, abs(a)) for a, b in zip(here, there))
        right = far <= TOLERANCE and len(here) == len(there)
        failed += not right
        print(f"{name}: {'same' if right else 'DIFFERENT'} to {far:.1e} in {len(here)} numbers; "
              f"{time.time() - began:.1f} s", flush=True)  # fmt: skip
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
