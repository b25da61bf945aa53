"""Words of Keras and Lightning for arguments of the Trainer, with what to write here."""

from __future__ import annotations

_DEVICE = "the device is the model's: write `with netcl.device('gpu'):` around it, or model.to('gpu')"
_CHECKPOINT = "write callbacks=[ModelCheckpoint(folder)]"
_LOGGER = "write callbacks=[CSVLogger(path)], or TensorBoardLogger, WandbLogger, MLflowLogger"
_EPOCHS = "write trainer.fit(train_loader, val_loader, epochs=...)"

CONSTRUCTOR = {
    "max_epochs": _EPOCHS,
    "epochs": _EPOCHS,
    "max_steps": _EPOCHS,
    **dict.fromkeys(("accelerator", "devices", "device"), _DEVICE),
    "strategy": "write netcl.distributed.DataParallel(model) for several devices",
    "loss": "write loss_fn=...",
    "criterion": "write loss_fn=...",
    "gradient_clip_val": "write grad_clip=...",
    "accumulate_grad_batches": "write accumulation_steps=...",
    "gradient_accumulation_steps": "write accumulation_steps=...",
    "lr_scheduler": "write scheduler=...",
    "logger": _LOGGER,
    "default_root_dir": _CHECKPOINT,
    "enable_checkpointing": _CHECKPOINT,
    "enable_progress_bar": "write trainer.fit(loader, log_every=0) for no output",
    "log_every_n_steps": "write metrics_stride=...",
    "deterministic": "write netcl.manual_seed(0) before the model: a run on one device is repeated to the bit",
    "fast_dev_run": "write trainer.fit([next(iter(loader))])",
    "limit_train_batches": "write trainer.fit(list(itertools.islice(loader, count)))",
    "run_eagerly": "write compile=False",
    "fp16": "write precision='16-mixed'",
    "bf16": "write precision='bf16-mixed'",
    "amp": "write precision='bf16-mixed', or '16-mixed'",
}

FIT = {
    "max_epochs": "write epochs=...",
    "n_epochs": "write epochs=...",
    "batch_size": "write DataLoader((x, y), batch_size=...)",
    "shuffle": "write DataLoader((x, y), batch_size=..., shuffle=True)",
    "validation_data": "write val_loader=DataLoader((x, y), batch_size=...)",
    "val_dataloaders": "write val_loader=...",
    "val_dataloader": "write val_loader=...",
    "train_dataloaders": "write train_loader=...",
    "train_dataloader": "write train_loader=...",
    "validation_split": "write netcl.data.random_split(dataset, [0.8, 0.2]), and a DataLoader for each part",
    "callbacks": "write Trainer(model, optimizer, callbacks=[...])",
    "verbose": "write log_every=0 for no output",
    "ckpt_path": "write resume=...",
    "initial_epoch": "write resume=...",
    "class_weight": "write Trainer(loss_fn=nn.CrossEntropyLoss(weight=...))",
    "steps_per_epoch": "an epoch is a pass over train_loader",
    "x": "write fit(DataLoader((x, y), batch_size=...))",
    "y": "write fit(DataLoader((x, y), batch_size=...))",
    "datamodule": "write fit(train_loader, val_loader)",
}
