"""The pages of the reference, and the modules of a distribution on each page."""

from __future__ import annotations

from dataclasses import dataclass

from docs_site.names import Entry


@dataclass(frozen=True)
class Topic:
    """A page of the reference: its file name, title and the modules that define its entries."""

    slug: str
    title: str
    lead: str
    modules: tuple[str, ...]

    def holds(self, entry: Entry) -> bool:
        """Returns True if the entry is defined in one of the modules, or in a module below one of them."""
        return any(entry.origin == module or entry.origin.startswith(f"{module}.") for module in self.modules)


def _ops(*names: str) -> tuple[str, ...]:
    return tuple(f"netcl.ops.{name}" for name in names)


_OPS = (
    "An op has one entry with all of its names. ``netcl`` and ``netcl.autograd`` record it for gradients, "
    "``netcl.ops`` does not."
)

TOPICS: dict[str, tuple[Topic, ...]] = {
    "netcl-core": (
        Topic(
            "tensor",
            "Tensors",
            "The class of tensors with its methods, sizes and random generators.",
            tuple(f"netcl.core.tensor.{name}" for name in ("tensor", "typed", "size", "generator", "printing")),
        ),
        Topic(
            "factories",
            "Making tensors",
            "Functions that make tensors: filled, random, from data.",
            ("netcl.core.tensor.factories", "netcl.core.tensor.functions", *_ops("random", "noise")),
        ),
        Topic(
            "elementwise",
            "Elementwise functions",
            _OPS,
            (
                *_ops("elementwise", "activation", "special", "bessel", "normal_distribution", "masking"),
                "netcl.special",
            ),
        ),
        Topic(
            "reductions",
            "Reductions, scans, sorting and statistics",
            _OPS,
            _ops("reduce", "scan", "sort", "search", "statistics", "calculus"),
        ),
        Topic(
            "shapes",
            "Shapes, joining, indexing",
            _OPS,
            _ops("shape", "join", "arrange", "index", "getitem", "scatter", "pad", "channels"),
        ),
        Topic(
            "linear-algebra",
            "Linear algebra",
            _OPS,
            (
                *_ops("linalg", "matrix", "factorizations", "lu", "einsum", "distance"),
                "netcl.linalg",
                "netcl.core.tuning",
            ),
        ),
        Topic(
            "network-ops",
            "Convolution, pooling, normalization, attention",
            _OPS,
            _ops(
                "conv",
                "conv_transpose",
                "unfold",
                "pool",
                "adaptive",
                "fractional",
                "unpool",
                "resample",
                "grid",
                "norm",
                "attention",
                "recurrence",
                "ctc",
            ),
        ),
        Topic(
            "pytorch-functions",
            "Further functions of PyTorch's top level",
            "Functions with PyTorch's names that are made of ops, and forms that write into their first argument.",
            ("netcl.core.tensor.methods",),
        ),
        Topic(
            "sparse",
            "Sparse tensors",
            "Tensors in COO and CSR, and their functions.",
            ("netcl.core.tensor.sparse", "netcl.sparse"),
        ),
        Topic(
            "dtypes",
            "Dtypes, modes and settings",
            "Dtypes, promotion, gradient modes and settings of the process.",
            (
                "netcl.core.dtypes",
                "netcl.core.tensor.promotion",
                "netcl.core.tensor.memory_format",
                "netcl.core.process_settings",
                "netcl.core.grad_mode",
            ),
        ),
        Topic(
            "devices",
            "Devices and memory",
            "Discovery and choice of devices, queues, memory pools.",
            ("netcl.core.device", "netcl.core.memory"),
        ),
        Topic(
            "kernels",
            "Kernels and ops of your own",
            "OpenCL kernels as Python objects, and new rows of the op table.",
            ("netcl.core.kernels", "netcl.ops.table"),
        ),
        Topic(
            "errors",
            "Errors and warnings",
            "Every exception of netcl-core, and what it is raised for.",
            ("netcl.core.errors",),
        ),
        Topic(
            "runtime",
            "Capture, graphs, streams, caches",
            "Steps that are recorded once and replayed.",
            ("netcl.runtime",),
        ),
        Topic(
            "profiling",
            "Profiling and autotuning",
            "Times of kernels, traces, rooflines and tuned kernels.",
            ("netcl.profiling",),
        ),
        Topic("testing", "Testing", "Checks of devices and backends, and fixtures of pytest.", ("netcl.core.testing",)),
        Topic(
            "array-api-names",
            "Array API namespace",
            "The names of the Python array API standard.",
            ("netcl.array_api",),
        ),
        Topic("front", "The front ``netcl``", "Other names of the front, and the packages that it loads.", ("netcl",)),
    ),
    "netcl-autograd": (
        Topic(
            "autograd",
            "Gradients",
            "The tape, functions with gradients of your own, checkpoints, jit.",
            tuple(
                f"netcl.autograd.{name}"
                for name in (
                    "tape",
                    "node",
                    "function",
                    "backward",
                    "mode",
                    "checkpoint",
                    "gradcheck",
                    "compiler",
                    "graph",
                    "training_compiler",
                    "clipping",
                )
            ),
        ),
        Topic(
            "losses",
            "Losses and composed ops",
            "Losses as functions; their layers are in netcl.nn.",
            ("netcl.autograd.losses", "netcl.autograd.ops", "netcl.autograd"),
        ),
        Topic("amp", "Mixed precision", "Autocast and loss scaling.", ("netcl.amp",)),
    ),
    "netcl-nn": (
        Topic(
            "modules",
            "Modules and containers",
            "The base class, containers, state, hooks, placement.",
            tuple(
                f"netcl.nn.{name}"
                for name in (
                    "module",
                    "container",
                    "lists",
                    "state",
                    "hooks",
                    "registry",
                    "placement",
                    "lazy",
                    "reparameterize",
                    "utils",
                    "init",
                )
            ),
        ),
        Topic(
            "layers",
            "Layers",
            "Linear, convolutional, pooling, normalizing and recurrent layers, activations.",
            tuple(
                f"netcl.nn.{name}"
                for name in (
                    "linear",
                    "conv",
                    "pool",
                    "norm",
                    "activation",
                    "dropout",
                    "channels",
                    "vision",
                    "embedding",
                    "recurrent",
                )
            ),
        ),
        Topic(
            "attention",
            "Attention and transformers",
            "Layers of transformers, and a GPT.",
            tuple(f"netcl.nn.{name}" for name in ("attention", "transformer", "gpt", "simple", "resnet")),
        ),
        Topic(
            "loss-layers",
            "Losses as layers",
            "A loss with its options, called with output and target.",
            ("netcl.nn.losses", "netcl.nn.adaptive_softmax"),
        ),
        Topic(
            "functional",
            "netcl.nn.functional",
            "The functions of the layers that are not ops themselves.",
            ("netcl.nn.functional", "netcl.nn"),
        ),
        Topic("io", "Model files", "Files of models, checkpoints and weights.", ("netcl.io",)),
        Topic(
            "distributions",
            "Distributions",
            "Probability distributions, transforms and divergences.",
            ("netcl.distributions",),
        ),
    ),
    "netcl-optim": (
        Topic("optim", "Optimizers", "Optimizers, averages of weights, clipping of gradients.", ("netcl.optim",)),
        Topic(
            "schedules",
            "Schedules",
            "Learning rates that change during a run.",
            ("netcl.optim.schedules", "netcl.optim.plateau"),
        ),
    ),
    "netcl-data": (
        Topic(
            "data",
            "Data sets and loaders",
            "Data sets, samplers, the loader with its workers, readers of files.",
            ("netcl.data",),
        ),
        Topic(
            "transforms",
            "Transforms of images",
            "Transforms with torchvision's names, augmentation, filters.",
            tuple(f"netcl.data.{name}" for name in ("transforms", "augment", "augment_gpu", "filters")),
        ),
    ),
    "netcl-distributed": (
        Topic(
            "distributed",
            "Several devices and processes",
            "Groups, collectives, data-parallel training.",
            ("netcl.distributed",),
        ),
    ),
    "netcl-trainer": (
        Topic("trainer", "Trainer and callbacks", "Training loops, history, reports.", ("netcl.trainer",)),
    ),
    "netcl-torch": (
        Topic("torch-vision", "netcl.torch_vision", "torchvision's layout over netcl.data.", ("netcl.torch_vision",)),
    ),
}


def page_of(entry: Entry) -> Topic:
    """Returns the page of an entry: the one with the longest module name that holds it; raises LookupError if none."""
    fitting = [
        (
            max(
                len(module)
                for module in topic.modules
                if entry.origin == module or entry.origin.startswith(f"{module}.")
            ),
            index,
        )
        for index, topic in enumerate(TOPICS[entry.distribution])
        if topic.holds(entry)
    ]
    if not fitting:
        raise LookupError(f"{entry.name}, defined in {entry.origin}, is on no page of tools/docs_site/topics.py")
    return TOPICS[entry.distribution][max(fitting)[1]]
