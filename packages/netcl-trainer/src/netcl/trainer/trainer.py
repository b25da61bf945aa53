"""Trainer: fits a model to the batches of a loader, evaluates it, and predicts with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt

import netcl.autograd as ag
from netcl import nn, ops
from netcl.core import DeviceHandle, Tensor
from netcl.core.device import get_active_device
from netcl.core.errors import BackendMismatchError
from netcl.optim import OneCycleLR, ReduceLROnPlateau
from netcl.trainer.batches import batches, on_device
from netcl.trainer.callbacks import Callback
from netcl.trainer.history import History
from netcl.trainer.metrics import Measures, Metric, accuracy
from netcl.trainer.progress import ProgressBar
from netcl.trainer.step import CompiledStep, TrainingStep

__all__ = ["Trainer"]

LossFn = Callable[[Any, Any], Tensor]


class Trainer:
    """Trains ``model`` with ``optimizer``, which steps parameters of the model; ``evaluate`` and ``predict`` need none.

    A batch is (inputs..., target), in NumPy arrays or tensors: the model is called with the inputs, the loss with
    output and target.

    Args:
        device_queue: a queue or DeviceHandle, where the model has to be; None: wherever its parameters are.
        grad_clip: the largest norm of all gradients as one vector; None: no limit.
        loss_fn: ``loss_fn(output, target)`` -> 0-d Tensor, the mean over the batch; None: ``ag.cross_entropy``.
        metrics: ``{name: fn(output, target)}``, each giving a Tensor of one element, the mean over the batch; None:
            accuracy where the loss is cross entropy, else nothing.
        metrics_stride: steps from one read of loss and metrics to the next; they stay on the device between.
        ema: a ``netcl.optim.ModelEMA`` or ``SWA`` of the model, updated after each step. Validation in ``fit`` and
            ModelCheckpoint use the averages; the model itself keeps its own weights (``with ema.averaged():`` swaps
            them).
        scheduler: stepped after each epoch; OneCycleLR after each step. ReduceLROnPlateau gets ``val_loss`` or
            ``loss``, for mode "max" the accuracy.
        callbacks: see ``Callback``. ``fit`` adds a ProgressBar where none is given.
        compile: capture the step after two steps of a batch shape and replay it without Python; see ``CompiledStep``.
            Python values that the model computes are frozen then; what changes from step to step has to be a tensor.
        seed: seeds netcl's generators (dropout) when the Trainer is made. Model and loaders have seeds of their own.

    Raises ValueError where the optimizer and the model share no parameter, BackendMismatchError where ``device_queue``
    is elsewhere.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Any = None,
        device_queue: Any = None,
        *,
        grad_clip: float | None = None,
        loss_fn: LossFn | None = None,
        metrics: Mapping[str, Metric] | None = None,
        metrics_stride: int = 10,
        ema: Any = None,
        scheduler: Any = None,
        callbacks: Sequence[Callback] = (),
        compile: bool = True,
        seed: int | None = None,
    ) -> None:
        own = list(model.parameters())
        if optimizer is not None:
            stepped = {id(p) for group in optimizer.param_groups for p in group["params"]}
            if not any(id(p) in stepped for p in own):
                raise ValueError("the optimizer steps no parameter of this model: make it from model.parameters()")
        if grad_clip is not None and not grad_clip > 0:
            raise ValueError(f"grad_clip is a positive number or None, not {grad_clip!r}")
        if metrics_stride < 1:
            raise ValueError(f"metrics_stride is at least 1, not {metrics_stride!r}")
        self.model, self.optimizer, self.scheduler, self.ema = model, optimizer, scheduler, ema
        self.queue = _queue(device_queue, own)
        self.grad_clip, self.loss_fn, self.metrics_stride, self.compile = grad_clip, loss_fn, metrics_stride, compile
        self.metrics = None if metrics is None else dict(metrics)
        self.callbacks = list(callbacks)
        self.history = History()
        self.epoch = self.epochs = 0
        self.step = 0  # steps made, over all fits
        self.samples = 0  # seen in this epoch
        self.steps_per_epoch: int | None = None
        self.should_stop = False
        self._step: CompiledStep | None = None
        if seed is not None:
            ops.manual_seed(seed)

    # -- training ----------------------------------------------------------------------------------------------------

    def fit(
        self,
        train_loader: Iterable[Any],
        val_loader: Iterable[Any] | None = None,
        epochs: int = 1,
        loss_fn: LossFn | None = None,
        log_every: int = 1,
    ) -> History:
        """Trains for ``epochs`` passes over ``train_loader``, evaluating on ``val_loader`` after each, and gives their
        History.

        Prints loss, metrics and samples per second every ``log_every`` epochs (0: never), and in a terminal shows a bar
        while an epoch runs. ValueError where the loader gives no batch.
        """
        if epochs < 0 or log_every < 0:
            raise ValueError(f"epochs and log_every are at least 0, not {epochs} and {log_every}")
        if self.optimizer is None:
            raise ValueError("fit needs an optimizer: Trainer(model, optimizer)")
        step = self._compiled(self.loss_fn if loss_fn is None else loss_fn)
        callbacks = list(self.callbacks)
        if log_every and not any(isinstance(callback, ProgressBar) for callback in callbacks):
            callbacks.append(ProgressBar(log_every))
        self.history, self.epochs, self.should_stop = History(), epochs, False
        self.steps_per_epoch = _length(train_loader)
        self.model.train()
        try:
            for callback in callbacks:
                callback.on_fit_start(self)
            for self.epoch in range(1, epochs + 1):
                row = self._train_epoch(train_loader, step, callbacks)
                if val_loader is not None:
                    with self.averaged():
                        measured = self._evaluate(val_loader, step.step.measures.loss_fn, "the validation loader")
                    row.update({f"val_{name}": value for name, value in measured.items()})
                # Timing last: it is what a reader needs least.
                row.update({name: row.pop(name) for name in ("seconds", "samples_per_second")})
                self._schedule(row)
                for callback in callbacks:
                    callback.on_epoch_end(self, row)
                self.history.append(row)
                if self.should_stop:
                    break
            for callback in callbacks:
                callback.on_fit_end(self)
        except BaseException as error:
            for callback in callbacks:
                callback.on_exception(self, error)
            raise
        return self.history

    def _train_epoch(self, loader: Iterable[Any], step: CompiledStep, callbacks: Sequence[Callback]) -> dict[str, Any]:
        means = step.step.measures.means
        means.reset()
        self.samples = number = 0
        for callback in callbacks:
            callback.on_epoch_start(self)
        start = time.perf_counter()
        for number, batch in enumerate(batches(loader), 1):
            step(batch)
            self.step += 1
            self.samples += len(batch)
            if isinstance(self.scheduler, OneCycleLR):
                self.scheduler.step()
            logs = means.read() if number % self.metrics_stride == 0 or number == self.steps_per_epoch else {}
            for callback in callbacks:
                callback.on_step_end(self, logs)
        if not number:
            raise ValueError("fit: the training loader gave no batch (drop_last with fewer samples than batch_size?)")
        logs = means.read()
        seconds = time.perf_counter() - start
        timing = {"seconds": seconds, "samples_per_second": self.samples / seconds}
        return {"epoch": self.epoch, "step": self.step, **logs, **timing}

    def _compiled(self, loss_fn: LossFn | None) -> CompiledStep:
        """The step for this loss; the one of the last fit where it is the same, with its captures."""
        chosen = ag.cross_entropy if loss_fn is None else loss_fn
        if self._step is None or self._step.step.measures.loss_fn is not chosen:
            plain = TrainingStep(self.model, self.optimizer, self._measures(chosen), self.grad_clip, self.ema)
            self._step = CompiledStep(plain, self.queue, self.compile)
        return self._step

    def _measures(self, loss_fn: LossFn) -> Measures:
        metrics = self.metrics
        if metrics is None:
            classes = loss_fn is ag.cross_entropy or isinstance(loss_fn, nn.CrossEntropyLoss)
            metrics = {"accuracy": accuracy} if classes else {}
        return Measures(loss_fn, metrics, self.queue)

    def _schedule(self, row: Mapping[str, Any]) -> None:
        """The scheduler's step at the end of an epoch."""
        if isinstance(self.scheduler, ReduceLROnPlateau):
            kind = "loss" if self.scheduler.mode == "min" else "accuracy"
            if kind not in row:
                raise ValueError(
                    f"ReduceLROnPlateau(mode='max') follows the accuracy, but the metrics are {', '.join(row)}"
                )
            self.scheduler.step(row.get(f"val_{kind}", row[kind]))
        elif self.scheduler is not None and not isinstance(self.scheduler, OneCycleLR):
            self.scheduler.step()

    def averaged(self) -> AbstractContextManager[None]:
        """Within the block the model holds its averaged weights, where ``ema`` was given."""
        context: AbstractContextManager[None] = nullcontext() if self.ema is None else self.ema.averaged()
        return context

    # -- using the model -----------------------------------------------------------------------------------------------

    def evaluate(self, loader: Iterable[Any], loss_fn: LossFn | None = None) -> dict[str, float]:
        """``{"loss": ..., metric: ...}``, means over all samples, in eval mode and without gradients. ValueError for no
        batch.
        """
        chosen = self.loss_fn if loss_fn is None else loss_fn
        return self._evaluate(loader, ag.cross_entropy if chosen is None else chosen, "the loader")

    def _evaluate(self, loader: Iterable[Any], loss_fn: LossFn, what: str) -> dict[str, float]:
        measures = self._measures(loss_fn)
        with _evaluating(self.model), ag.no_grad():
            for number, batch in enumerate(batches(loader), 1):
                *inputs, target = (on_device(value, self.queue) for value in batch.fields)
                output = self.model(*inputs)
                measures.add(output, target, measures.loss(output, target))
                measures.means.count(len(batch))
                # Now and then, so that no sum in float32 grows long and no queue of work does.
                if number % 100 == 0:
                    measures.means.read()
        result = measures.means.read()
        if not result:
            raise ValueError(f"evaluate: {what} gave no batch")
        return result

    def predict(self, loader: Iterable[Any]) -> npt.NDArray[Any]:
        """The model's outputs for all samples, (N, ...), in eval mode and without gradients.

        A batch is an array, or a tuple as in ``fit``, whose target is left aside. ValueError for no batch, TypeError
        where the model gives anything but one tensor.
        """
        found: list[npt.NDArray[Any]] = []
        with _evaluating(self.model), ag.no_grad():
            for batch in batches(loader, targets=False):
                output = self.model(*(on_device(value, self.queue) for value in batch.inputs))
                if not isinstance(output, Tensor):
                    raise TypeError(
                        f"predict: the model gave {type(output).__name__}, not one Tensor; call the model itself"
                    )
                found.append(output.to_host())
        if not found:
            raise ValueError("predict: the loader gave no batch")
        return np.concatenate(found)


def _queue(given: Any, parameters: Sequence[Tensor]) -> Any:
    """The queue of the model; BackendMismatchError where ``given`` is another."""
    wanted = given.queue if isinstance(given, DeviceHandle) else given
    if not parameters:
        return wanted if wanted is not None else get_active_device().queue
    first = parameters[0]
    if wanted is not None and wanted is not first.queue:
        raise BackendMismatchError(
            f"the model's parameters are on {first.device.device_name}, device_queue is another: make the model inside "
            "`with device(...)`, or move it with model.to(device) before making the optimizer"
        )
    return first.queue


def _length(loader: Iterable[Any]) -> int | None:
    try:
        return len(loader)  # type: ignore[arg-type]
    except TypeError:
        return None


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode for the block; afterwards each module has the mode it had."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
