"""netcl-trainer with all layers: one epoch on the digits."""

from __future__ import annotations

from netcl import nn
from netcl.data import ArrayDataset, DataLoader
from netcl.data.readers import example_digits
from netcl.optim import AdamW
from netcl.trainer import Trainer

x, y = example_digits()
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
loader = DataLoader(ArrayDataset(x, y), batch_size=64, shuffle=True, seed=0)
trainer = Trainer(model, AdamW(model.parameters(), lr=1e-2), seed=0)
assert len(trainer.fit(loader, epochs=1)) == 1
assert trainer.evaluate(loader)["accuracy"] > 0.5
