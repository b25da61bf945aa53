"""Trains a random YOLOv8n of ultralytics to find bright squares.

python extensions/torch-netcl/examples/train_yolo.py --device ocl
"""

from __future__ import annotations

import argparse

import torch
from torchvision.ops import box_iou
from ultralytics.cfg import get_cfg
from ultralytics.nn.tasks import DetectionModel
from ultralytics.utils.ops import xywh2xyxy


def batch_of(count: int) -> dict[str, torch.Tensor]:
    """Returns images with a bright square in each, and its box."""
    places = torch.randint(8, 32, (count, 2))
    images = torch.rand(count, 3, 64, 64) * 0.2
    for image, (row, column) in zip(images, places.tolist()):
        image[:, row : row + 24, column : column + 24] += 0.8
    boxes = torch.cat([(places.flip(1) + 12) / 64, torch.full((count, 2), 24 / 64)], 1)
    return {"img": images, "batch_idx": torch.arange(float(count)), "cls": torch.zeros(count, 1), "bboxes": boxes}


def overlap(model: DetectionModel, batch: dict[str, torch.Tensor]) -> float:
    """Returns the mean overlap of each image's surest box with the square."""
    with torch.no_grad():
        found = model.eval()(batch["img"])[0].cpu()  # images, 4 of the box and 1 score, places
    model.train()
    surest = found.gather(2, found[:, 4:].argmax(2, keepdim=True).expand(-1, 4, -1)).squeeze(2)
    return float(box_iou(xywh2xyxy(surest), xywh2xyxy(batch["bboxes"].cpu() * 64)).diagonal().mean())


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="ocl")
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    torch.manual_seed(0)
    model = DetectionModel("yolov8n.yaml", nc=1, verbose=False).train()
    for layer in model.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.momentum = 0.3  # few steps
    model.args = get_cfg()
    model = model.to(options.device)
    test = {name: value.to(options.device) for name, value in batch_of(16).items()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    before = overlap(model, test)
    for _ in range(options.steps):
        batch = {name: value.to(options.device) for name, value in batch_of(4).items()}
        loss = model(batch)[0].sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"{next(model.parameters()).device}: overlap of boxes {before:.2f} to {overlap(model, test):.2f}")


if __name__ == "__main__":
    main()
