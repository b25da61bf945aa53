"""A program with a model, workers, mixed precision, schedules and checkpoints runs while warnings are errors."""

from __future__ import annotations

import subprocess
import sys

ROWS = """
import torch


class Rows(torch.utils.data.Dataset):
    def __init__(self):
        self.x = torch.randn(32, 1, 8, 8)

    def __len__(self):
        return 32

    def __getitem__(self, at):
        return self.x[at], at % 4


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(range(4))
"""

PROGRAM = """
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
import torchvision
from rows import Rows, Stream
from torch.optim.lr_scheduler import OneCycleLR, ReduceLROnPlateau, StepLR
from torch.utils.data import DataLoader, random_split
from torchvision import datasets, transforms

torch.manual_seed(0)
torch.backends.cudnn.benchmark = True
torch.backends.cudnn.deterministic = True
torch.set_float32_matmul_precision("high")
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.bn = nn.BatchNorm2d(8)
        self.drop = nn.Dropout2d(0.1)
        self.lstm = nn.LSTM(8, 8, num_layers=2, dropout=0.1, batch_first=True)
        self.attention = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1)
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.drop(self.bn(self.conv(x)))), 4)
        x, _ = self.lstm(x.flatten(2).transpose(1, 2))
        return F.log_softmax(self.fc(self.attention(x).mean(1)), dim=1)


model = Net().to(device)
averaged = optim.swa_utils.AveragedModel(model)
train, test = random_split(Rows(), [24, 8])
loader = DataLoader(train, batch_size=8, shuffle=True, num_workers=2, pin_memory=True, drop_last=True)
tests = DataLoader(test, batch_size=8, num_workers=1, persistent_workers=True)
for make, plan in (
    (lambda p: optim.SGD(p, 0.1, momentum=0.9, nesterov=True), lambda o: StepLR(o, 1)),
    (lambda p: optim.AdamW(p, 1e-3), lambda o: OneCycleLR(o, 1e-2, total_steps=20)),
    (lambda p: optim.Adadelta(p), lambda o: ReduceLROnPlateau(o, "min")),
):
    optimizer = make(model.parameters())
    scheduler = plan(optimizer)
    scaler = torch.amp.GradScaler(device.type)
    model.train()
    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device_type=device.type, dtype=torch.bfloat16):
            loss = F.nll_loss(model(x).float(), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        averaged.update_parameters(model)
    scheduler.step(loss.item()) if isinstance(scheduler, ReduceLROnPlateau) else scheduler.step()
    model.eval()
    with torch.no_grad():
        for x, y in tests:
            model(x.to(device)).argmax(1).eq(y.to(device)).sum().item()
    parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
    torch.save({**{name: one.state_dict() for name, one in parts.items()}, "rng": torch.get_rng_state()}, "c.pt")
    state = torch.load("c.pt", map_location=device, weights_only=True)
    for name, one in parts.items():
        one.load_state_dict(state[name])
    torch.set_rng_state(state["rng"])
print([x.tolist() for x in DataLoader(Stream(), 2, num_workers=2)])

x = torch.randn(3, 4, requires_grad=True)
x.to(device).double().sum().backward()
np.asarray(x.detach())
torch.from_numpy(np.ones(3))
float(torch.tensor(np.float64(2)))
torch.jit.script(model)
torch.compile(model)(torch.randn(8, 1, 8, 8, device=device))
torch.utils.checkpoint.checkpoint(lambda a: a * 2, x, use_reentrant=False).sum().backward()
scaled = transforms.Normalize((0.5,), (0.5,))
change = transforms.Compose([transforms.Resize(8), transforms.RandomHorizontalFlip(), transforms.ToTensor(), scaled])
images, _ = next(iter(DataLoader(datasets.FakeData(4, (3, 16, 16), 2, transform=change), 2, num_workers=1)))
nn.DataParallel(model)(torch.randn(2, 1, 8, 8, device=device))
torch.func.grad(lambda v: (v**2).sum())(torch.ones(2))
F.interpolate(torch.ones(1, 1, 4, 4), scale_factor=2, mode="bilinear", align_corners=False)
torch.distributions.Categorical(torch.ones(3)).log_prob(torch.tensor(1))
with torch.profiler.profile():
    torch.ones(2) + 1
print("done", tuple(images.shape))
"""


def test_nothing_warns_without_reason(tmp_path):
    (tmp_path / "rows.py").write_text(ROWS, encoding="utf-8")
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "netcl.torch", "program.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[[0, 1], [0, 1], [2, 3], [2, 3]]\ndone (2, 3, 8, 8)\n"
    assert done.stderr == ""
