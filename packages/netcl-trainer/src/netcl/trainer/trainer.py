"""Trainer: trains a model on the batches of a loader, evaluates it, and predicts with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from html import escape
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import netcl.autograd as ag
from netcl import nn, ops
from netcl.amp import GradScaler
from netcl.core import Tensor
from netcl.core.errors import from_here
from netcl.optim import OneCycleLR, Optimizer, ReduceLROnPlateau
from netcl.trainer import words
from netcl.trainer.arguments import device_of, evaluating, half_dtype, queue_of, updates_per_epoch
from netcl.trainer.batches import StepInputs, batches, check_loader, on_device
from netcl.trainer.callbacks import Callback, EarlyStopping, check_monitors
from netcl.trainer.checkpoint import ModelCheckpoint
from netcl.trainer.class_names import keep_class_names
from netcl.trainer.compiled_step import CompiledStep
from netcl.trainer.few_frames import few_frames
from netcl.trainer.folder_lock import locked
from netcl.trainer.gradient_accumulation import GradientSums
from netcl.trainer.history import History
from netcl.trainer.lr_range_test import LearningRates, find_learning_rate
from netcl.trainer.metrics import DeviceMeans, Measures, Metric
from netcl.trainer.named_metrics import Chosen, chosen_metrics
from netcl.trainer.non_finite_guard import NonFiniteGuard
from netcl.trainer.progress import ProgressBar
from netcl.trainer.run_facts import check_resume_changes, facts_of
from netcl.trainer.run_state import RunState, find_checkpoint, load_run, save_run
from netcl.trainer.signals import Interruption
from netcl.trainer.step import TrainingStep, precision
from netcl.trainer.terminate_on_nan import TerminateOnNaN

LossFn = Callable[[Any, Any], Tensor]


class Trainer:
    """Trains ``model`` with ``optimizer``, which must hold parameters of the model; ``evaluate`` and ``predict`` need
    no optimizer.

    A batch is (inputs..., target), in NumPy arrays or tensors: the model is called with the inputs, the loss with
    output and target.

    Args:
        device_queue: the queue or DeviceHandle of the model; None: the queue of its parameters.
        mixed_precision: True or "float16": autocast with a GradScaler; "bfloat16": autocast alone. Weights, optimizer
            and checkpoints stay float32.
        precision: the same in Lightning's words, "16-mixed", "bf16-mixed" or "32-true".
        grad_clip: the maximum norm of all gradients as one vector; None: no limit.
        loss_fn: ``loss_fn(output, target)`` -> 0-d Tensor, the mean over the batch; None: ``ag.cross_entropy``.
        metrics: names, as ``["accuracy", "f1"]`` (known: accuracy, auc, confusion, f1, mae, mse, precision, r2, recall,
            rmse, top5), functions, or a dict of both. ``fn(output, target)`` returns a Tensor of one element, the mean
            over the batch, or a number: such a function gets the NumPy arrays of the whole epoch. None: accuracy if the
            loss is cross entropy, else nothing. auc, confusion, f1, r2 and functions of numbers read the output of each
            step.
        metrics_stride: steps between two reads of loss and metrics; in between they stay on the device.
        accumulation_steps: batches per optimizer step (gradient accumulation). Gradients are weighted by samples, so
            that short batches and a short group at the end of an epoch are weighted correctly.
        ema: a ``netcl.optim.ModelEMA`` or ``SWA`` of the model, updated after each step. Validation in ``fit`` and the
            best files of ModelCheckpoint use the averages; the model itself keeps its own weights (``with
            ema.averaged():`` swaps them).
        scheduler: stepped after each epoch; OneCycleLR after each step. ReduceLROnPlateau gets ``val_loss`` or
            ``loss``, for mode "max" the accuracy.
        callbacks: see ``Callback``. ``fit`` adds a ProgressBar if none is given.
        compile: capture the step after two steps of a batch shape and replay it without Python; see ``CompiledStep``.
            Python values that the model computes are constant then; values that change from step to step must be
            tensors.
        seed: seeds netcl's generators (dropout) when the Trainer is created. Model and loaders have seeds of their own.

    Raises ValueError if the optimizer and the model share no parameter, BackendMismatchError if ``device_queue`` is not
    the model's queue.
    """

    _words_of_others = words.CONSTRUCTOR

    def __init__(
        self,
        model: nn.Module,
        optimizer: Any = None,
        device_queue: Any = None,
        mixed_precision: bool | str = False,
        grad_clip: float | None = None,
        loss_fn: LossFn | None = None,
        metrics: Mapping[str, Metric | str] | Sequence[Metric | str] | str | None = None,
        metrics_stride: int = 10,
        accumulation_steps: int = 1,
        ema: Any = None,
        scheduler: Any = None,
        callbacks: Sequence[Callback] = (),
        compile: bool = True,
        seed: int | None = None,
        precision: str | int | None = None,
    ) -> None:
        if not hasattr(model, "parameters"):  # as nn.Module and DataParallel have
            raise TypeError(f"model must be an nn.Module, got {type(model).__name__}")
        parameters = list(model.parameters())
        if optimizer is not None:
            if not hasattr(optimizer, "param_groups"):
                raise TypeError(
                    f"optimizer must be an Optimizer, got {optimizer!r}; write netcl.optim.Adam(model.parameters())"
                )
            stepped = {id(p) for group in optimizer.param_groups for p in group["params"]}
            if not any(id(p) in stepped for p in parameters):
                raise ValueError("the optimizer steps no parameter of this model: make it from model.parameters()")
        if grad_clip is not None and not grad_clip > 0:
            raise ValueError(f"grad_clip must be a positive number or None, got {grad_clip!r}")
        if loss_fn is not None and not callable(loss_fn):
            raise TypeError(f"loss_fn must be a function of output and target, got {loss_fn!r}; write nn.functional's")
        callback_list: list[Any] = [callbacks] if isinstance(callbacks, Callback) else list(callbacks)
        for callback in callback_list:
            if not isinstance(callback, Callback):
                hint = f"; write {callback.__name__}()" if isinstance(callback, type) else ""
                raise TypeError(f"callbacks must be instances of netcl.trainer.Callback, got {callback!r}{hint}")
        if metrics_stride < 1 or accumulation_steps < 1:
            raise ValueError(
                f"metrics_stride and accumulation_steps must be at least 1, got {metrics_stride!r} and "
                f"{accumulation_steps!r}"
            )
        self.model: nn.Module = model
        self.optimizer: Any | None = optimizer
        self.scheduler: Any = scheduler
        self.ema: Any = ema
        self.queue: Any = queue_of(device_queue, parameters)
        self.autocast_dtype: str | None = half_dtype(mixed_precision, precision)
        self.scaler: GradScaler | None = GradScaler() if self.autocast_dtype == "float16" else None
        self.grad_clip: float | None = grad_clip
        self.loss_fn: LossFn | None = loss_fn
        self.metrics_stride: int = metrics_stride
        self.compile: bool = compile
        self.accumulation_steps = accumulation_steps
        self.metrics: Chosen | None = chosen_metrics(metrics)
        self.callbacks: list[Callback] = callback_list
        self.history: History = History()
        self.epochs: int
        self.epoch: int
        self.epoch = self.epochs = 0
        self.step: int = 0  # updates of the weights, over all fits
        self.samples: int = 0  # seen in this epoch
        self.steps_per_epoch: int | None = None
        self.should_stop: bool = False
        self.run: RunState = RunState()
        self.recent: list[StepInputs] = []  # since the loss was last read; kept only for TerminateOnNaN
        self._step: CompiledStep | None = None
        self._policy: str | None = None
        self._interruption = Interruption()
        if seed is not None:
            ops.manual_seed(seed)

    def __repr__(self) -> str:
        facts = "".join(f", {name}={text}" for name, text in self._facts().items() if name != "model")
        return f"Trainer({type(self.model).__name__}{facts})"

    def _repr_html_(self) -> str:
        """Returns the table of settings that a notebook shows, and the history if there is one."""
        rows = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in self._facts().items()
        )
        epochs = self.history._repr_html_() if self.history else ""
        return f"<table class='netcl-trainer'>{rows}</table>{epochs}"

    def _facts(self) -> dict[str, str]:
        """Returns the settings by name, as short texts."""
        count = sum(parameter.size for parameter in self.model.parameters())
        facts = {"model": f"{type(self.model).__name__}, {count:,} parameters", "device": str(device_of(self.model))}
        if self.optimizer is not None:
            facts["optimizer"] = type(self.optimizer).__name__
        for name in ("scheduler", "ema"):
            if getattr(self, name) is not None:
                facts[name] = type(getattr(self, name)).__name__
        if self.autocast_dtype is not None:
            facts["precision"] = self.autocast_dtype
        if self.callbacks:
            facts["callbacks"] = f"[{', '.join(type(callback).__name__ for callback in self.callbacks)}]"
        return {**facts, "epochs": f"{len(self.history)}", "step": f"{self.step}"}

    # -- training ----------------------------------------------------------------------------------------------------

    @few_frames(**words.FIT)
    def fit(
        self,
        train_loader: Iterable[Any],
        val_loader: Iterable[Any] | None = None,
        epochs: int = 1,
        loss_fn: LossFn | None = None,
        log_every: int = 1,
        resume: str | PathLike[str] | None = None,
        resume_changes: str | Iterable[str] = "refuse",
    ) -> History:
        """Trains for ``epochs`` passes over ``train_loader``, evaluates on ``val_loader`` after each, and returns the
        History.

        Prints loss, metrics and samples per second every ``log_every`` epochs (0: never), and in a terminal shows a bar
        while an epoch runs. ``resume``: a checkpoint, or a folder of them; "auto": the furthest one in the folder of
        the ModelCheckpoint, or a new run if there is none. The run then continues to ``epochs`` with the numbers of an
        uninterrupted run; a loader without ``state_dict`` is read again up to the saved position.

        A checkpoint records the facts of its run: optimizer, scheduler, loss, accumulation, model, loader, batch_size,
        drop_last and data, and lr, device, driver, versions and others. A change of the former refuses the resume with
        CheckpointError, a change of the latter is reported by a warning. ``resume_changes="allow"``, or a list of these
        names, accepts changes: the new value is used, the state of a changed optimizer or schedule is not loaded, and
        an interrupted epoch begins again if one of the first kind changed. A refused resume changes nothing.

        After the first SIGINT, SIGTERM or SIGHUP the current step is finished, each ModelCheckpoint saves
        ``last.netcl``, and KeyboardInterrupt, SystemExit(143) or SystemExit(129) is raised; a second signal ends the
        process at once with that exit code (130 for SIGINT). Raises ValueError if the loader yields no batch, and
        CheckpointError if another run saves to the folder of a ModelCheckpoint.
        """
        if not isinstance(resume_changes, str) and isinstance(resume_changes, Iterable):
            resume_changes = list(resume_changes)
        check_resume_changes(resume_changes)
        if epochs < 0 or log_every < 0:
            raise ValueError(f"epochs and log_every must be at least 0, got {epochs} and {log_every}")
        if self.optimizer is None:
            raise ValueError("fit needs an optimizer: Trainer(model, optimizer)")
        check_loader(train_loader, "train_loader")
        if val_loader is not None:
            check_loader(val_loader, "val_loader")
        callbacks = list(self.callbacks)
        if log_every and not any(isinstance(callback, ProgressBar) for callback in callbacks):
            callbacks.append(ProgressBar(log_every))
        # ModelCheckpoint is called last: its files contain the changes of all other callbacks to the epoch.
        callbacks.sort(key=lambda callback: isinstance(callback, ModelCheckpoint))
        folders = [callback.folder for callback in callbacks if isinstance(callback, ModelCheckpoint)]
        first_rank = getattr(getattr(self.model, "group", None), "rank", 0) == 0
        with locked(folders if first_rank else ()):  # ranks of one run may share a folder
            checkpoint = None if resume is None else find_checkpoint(resume, folders)
            step = self._compiled(self.loss_fn if loss_fn is None else loss_fn, callbacks)
            return self._fit(train_loader, val_loader, epochs, step, callbacks, checkpoint, resume_changes)

    def _fit(
        self,
        train_loader: Iterable[Any],
        val_loader: Iterable[Any] | None,
        epochs: int,
        step: CompiledStep,
        callbacks: list[Callback],
        checkpoint: Path | None,
        resume_changes: str | Iterable[str],
    ) -> History:
        before, modes = self._place(), [(module, module.training) for module in self.model.modules()]
        self.history, self.epochs, self.should_stop, self.epoch = History(), epochs, False, 0
        self.run = RunState(train_loader, val_loader, callbacks, facts=facts_of(self, train_loader))
        self.steps_per_epoch = updates_per_epoch(train_loader, self.accumulation_steps)
        keep_class_names(self.model, train_loader)
        self.model.train()
        with Interruption() as self._interruption:
            try:
                self._check_monitors()
                for callback in callbacks:
                    if checkpoint is None and isinstance(callback, ModelCheckpoint) and callback.last_path.exists():
                        self.announce(f"the run in {callback.folder} is replaced; resume='auto' would continue it")
                    callback.on_fit_start(self)
                if checkpoint is not None:
                    try:
                        load_run(self, self.run, checkpoint, resume_changes)
                    except BaseException:
                        vars(self).update(before)
                        for module, mode in modes:
                            module.training = mode
                        raise
                    self._say_what_is_left(checkpoint)
                step.begin()
                self._epochs(step)
                for callback in callbacks:
                    callback.on_fit_end(self)
            except BaseException as error:
                for callback in callbacks:
                    callback.on_exception(self, error)
                raise
            finally:
                self._interruption = Interruption()
                self.recent.clear()
                self.history.source = (self, val_loader)
        return self.history

    def _check_monitors(self) -> None:
        """Raises MonitorError, which is a KeyError, if a callback or the schedule follows a value that no epoch has."""
        names = self.means.names
        validated = self.run.val_loader is not None
        check_monitors(self.run.callbacks, names, validated)
        if isinstance(self.scheduler, ReduceLROnPlateau) and self.scheduler.mode == "max" and "accuracy" not in names:
            raise ValueError(
                f"ReduceLROnPlateau(mode='max') follows the accuracy, but the metrics are {', '.join(names)}"
            )

    def _say_what_is_left(self, checkpoint: Path) -> None:
        if self.should_stop:
            self.announce(f"nothing to train: the run of {checkpoint} was stopped after epoch {self.epoch}")
        elif self.epoch >= self.epochs and self.run.stage == "start":
            self.announce(
                f"nothing to train: the run of {checkpoint} has its {self.epoch} epochs; give more epochs to go on"
            )

    def announce(self, text: str) -> None:
        """Prints a line about the run next to the lines of its epochs; nothing with ``log_every=0``."""
        for callback in self.run.callbacks:
            if isinstance(callback, ProgressBar):
                callback.say(text)

    def _place(self) -> dict[str, Any]:
        """Returns the attributes that describe the position of a run."""
        names = ("history", "epochs", "epoch", "step", "samples", "should_stop", "run", "steps_per_epoch")
        return {name: getattr(self, name) for name in names}

    def _epochs(self, step: CompiledStep) -> None:
        run = self.run
        for epoch in range(self.epoch + (run.stage == "start"), self.epochs + 1):
            if self.should_stop:
                return
            self.epoch = epoch
            if run.stage != "validate":
                run.row = self._train_epoch(step)
                run.stage = "validate"
            row = run.row
            if run.val_loader is not None:
                with self.averaged():
                    measured = self._evaluate(run.val_loader, step.step.measures.loss_fn, "the validation loader")
                row.update({f"val_{name}": value for name, value in measured.items()})
            # Timing last: it is the least important for a reader.
            row.update({name: row.pop(name) for name in ("seconds", "samples_per_second")})
            self._schedule(row)
            self.history.append(row)
            run.stage, run.batches, run.row = "start", 0, {}
            for callback in run.callbacks:
                stopped = self._is_stopped()
                callback.on_epoch_end(self, row)
                if self._is_stopped() and not (stopped or isinstance(callback, EarlyStopping)):  # which says why
                    self.announce(f"stopped after epoch {epoch} of {self.epochs} by {type(callback).__name__}")
            self._handle_signal()

    def _is_stopped(self) -> bool:
        return self.should_stop

    def _train_epoch(self, step: CompiledStep) -> dict[str, Any]:
        run = self.run
        if run.stage == "start":
            self.means.reset()
            self.samples, run.batches, run.seconds, run.stage = 0, 0, 0.0, "train"
            for callback in run.callbacks:
                callback.on_epoch_start(self)
        start = time.perf_counter() - run.seconds
        if run.stage == "train":
            self._train_batches(step, start)
        if not run.batches:
            raise ValueError("fit: the training loader gave no batch (drop_last with fewer samples than batch_size?)")
        logs = self.means.result()
        seconds = run.seconds = time.perf_counter() - start
        timing = {"seconds": seconds, "samples_per_second": self.samples / seconds}
        return {"epoch": self.epoch, "step": self.step, **logs, **timing}

    def _train_batches(self, step: CompiledStep, start: float) -> None:
        """Trains on the batches of the epoch that are left; an incomplete group at its end is an update, too."""
        run, group = self.run, self.accumulation_steps
        stream = islice(batches(run.train_loader), run.skip, None)
        run.skip = 0
        explaining = step.step.guard is not None
        for batch in stream:
            first = run.batches % group == 0
            run.batches += 1
            last = run.batches % group == 0
            if explaining:
                if first:
                    self.recent.append(StepInputs(ops.get_rng_state(), []))
                self.recent[-1].batches.append(batch)
            step(batch, first, last)
            self.samples += len(batch)
            if last:
                run.seconds = time.perf_counter() - start
                self._end_step(run.batches // group)
        if run.batches % group:
            step.finish()
            # The loader is in its next epoch already: a run that is saved from here on must not read from it.
            run.stage = "trained"
            self._end_step(run.batches // group + 1)

    def _end_step(self, number: int) -> None:
        """Runs after update ``number`` of the epoch: schedule, metrics, callbacks, and a pending signal."""
        self.step += 1
        if isinstance(self.scheduler, OneCycleLR):
            self.scheduler.step()
        logs = self.means.read() if number % self.metrics_stride == 0 or number == self.steps_per_epoch else {}
        for callback in self.run.callbacks:
            callback.on_step_end(self, logs)
        if logs:
            self.recent.clear()
        self._handle_signal()

    def _handle_signal(self) -> None:
        """Saves the run and ends it if a signal has arrived."""
        number = self._interruption.pending
        if number is None:
            return
        for callback in self.run.callbacks:
            if isinstance(callback, ModelCheckpoint):
                callback.save_last_file(self)
        raise self._interruption.error(number)

    def save_checkpoint(self, path: str | PathLike[str]) -> None:
        """Writes the current state of the run to ``path``, for ``fit(resume=path)``; ModelCheckpoint calls it. Raises
        CheckpointError if the file cannot be written; an old file is intact then.
        """
        save_run(self, self.run, path)

    @property
    def means(self) -> DeviceMeans:
        """The loss and metrics of the current epoch. Raises RuntimeError before the first ``fit``."""
        return self.training_step.measures.means

    @property
    def training_step(self) -> TrainingStep:
        """The step that ``fit`` runs. Raises RuntimeError before the first ``fit``."""
        if self._step is None:
            raise RuntimeError("the Trainer has not trained yet: there is no run to save")
        return self._step.step

    @property
    def captured(self) -> bool:
        """True if steps have been replayed from a capture."""
        return self._step is not None and self._step.replays > 0

    def _compiled(self, loss_fn: LossFn | None, callbacks: Sequence[Callback] = ()) -> CompiledStep:
        """Returns the step for this loss; if the loss is the same, the step of the last fit with its captures."""
        chosen = ag.cross_entropy if loss_fn is None else loss_fn
        policy = next((callback.policy for callback in callbacks if isinstance(callback, TerminateOnNaN)), None)
        last_step = self._step
        if last_step is not None and last_step.step.measures.loss_fn is chosen and self._policy == policy:
            return last_step
        if policy is not None and not isinstance(self.optimizer, Optimizer):
            raise TypeError(
                f"TerminateOnNaN holds back the optimizer on the device, which {type(self.optimizer).__name__} does "
                "not support; use an optimizer of netcl.optim"
            )
        plain = TrainingStep(
            self.model,
            self.optimizer,
            self._measures(chosen),
            self.grad_clip,
            self.ema,
            autocast_dtype=self.autocast_dtype,
            scaler=self.scaler,
            sums=GradientSums(self.optimizer, self.queue) if self.accumulation_steps > 1 else None,
            guard=None if policy is None else NonFiniteGuard(self.model, policy != "skip", self.queue),
        )
        self._step, self._policy = CompiledStep(plain, self.queue, self.compile), policy
        if policy is None and isinstance(self.optimizer, Optimizer):
            self.optimizer.found_inf = None
        return self._step

    def _measures(self, loss_fn: LossFn) -> Measures:
        metrics = self.metrics
        if metrics is None:
            classes = loss_fn is ag.cross_entropy or isinstance(loss_fn, nn.CrossEntropyLoss)
            metrics = {"accuracy": "accuracy"} if classes else {}
        return Measures(loss_fn, metrics, self.queue)

    def _schedule(self, row: Mapping[str, Any]) -> None:
        """Steps the scheduler at the end of an epoch."""
        if isinstance(self.scheduler, ReduceLROnPlateau):
            kind = "loss" if self.scheduler.mode == "min" else "accuracy"
            self.scheduler.step(row.get(f"val_{kind}", row[kind]))
        elif self.scheduler is not None and not isinstance(self.scheduler, OneCycleLR):
            self.scheduler.step()

    def averaged(self) -> AbstractContextManager[None]:
        """Gives the model its averaged weights inside the block, if ``ema`` is set."""
        context: AbstractContextManager[None] = nullcontext() if self.ema is None else self.ema.averaged()
        return context

    @few_frames()
    def lr_find(
        self, loader: Iterable[Any], min_lr: float = 1e-7, max_lr: float = 1.0, steps: int = 100
    ) -> LearningRates:
        """Runs the learning-rate range test (Smith 2017): increases the learning rate from ``min_lr`` to ``max_lr``
        over ``steps`` steps and records the loss of each; ``.suggestion`` is the rate at which it falls fastest.

        Model, optimizer, random numbers and the loader's position are restored at the end. ``loader`` is repeated if it
        has fewer batches.
        """
        if self.optimizer is None:
            raise ValueError("lr_find needs an optimizer: Trainer(model, optimizer)")
        return find_learning_rate(self._compiled(self.loss_fn).step, loader, self.queue, min_lr, max_lr, steps)

    # -- evaluation and prediction -------------------------------------------------------------------------------------

    @few_frames()
    def evaluate(self, loader: Iterable[Any], loss_fn: LossFn | None = None) -> dict[str, float]:
        """Returns ``{"loss": ..., metric: ...}``, means over all samples, in eval mode and without gradients. Raises
        ValueError if there is no batch.
        """
        chosen = self.loss_fn if loss_fn is None else loss_fn
        return self._evaluate(loader, ag.cross_entropy if chosen is None else chosen, "the loader")

    def _evaluate(self, loader: Iterable[Any], loss_fn: LossFn, what: str) -> dict[str, float]:
        measures = self._measures(loss_fn)
        with evaluating(self.model), ag.no_grad(), precision(self.autocast_dtype):
            for number, batch in enumerate(batches(loader), 1):
                # Within fit: an interrupted validation is repeated when the run is resumed.
                self._handle_signal()
                *inputs, target = (on_device(value, self.queue) for value in batch.fields)
                output = self.model(*inputs)
                measures.add(output, target, measures.loss(output, target))
                measures.means.count(len(batch))
                measures.collect(output, target)
                # Read regularly, so that the float32 sums and the queue of launches stay short.
                if number % 100 == 0:
                    measures.means.read()
        result = measures.means.result()
        if not result:
            raise ValueError(f"evaluate: {what} gave no batch")
        return result

    @few_frames()
    def predict(self, loader: Iterable[Any]) -> npt.NDArray[Any]:
        """Returns the model's outputs for all samples, (N, ...), in eval mode and without gradients.

        A batch is an array, or a tuple as in ``fit`` with an ignored target. Raises ValueError if there is no batch,
        TypeError if the model returns anything but one tensor.
        """
        outputs: list[npt.NDArray[Any]] = []
        with evaluating(self.model), ag.no_grad(), precision(self.autocast_dtype):
            for batch in batches(loader, targets=False):
                output = self.model(*(on_device(value, self.queue) for value in batch.inputs))
                if not isinstance(output, Tensor):
                    raise TypeError(
                        f"predict: expected one Tensor from the model, got {type(output).__name__}; "
                        "call the model itself"
                    )
                outputs.append(output.to_host())
        if not outputs:
            raise ValueError("predict: the loader gave no batch")
        return np.concatenate(outputs)


from_here(globals())
