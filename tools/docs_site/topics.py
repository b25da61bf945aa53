"""The pages of the reference, and the sections of each page by what a reader looks for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from docs_site.names import Entry


@dataclass(frozen=True)
class Topic:
    """A page of the reference: its file name, title, lead, and its headings with the modules that define their entries.

    Modules are written without ``netcl.``, separated by spaces; ``""`` is the front. A module holds the modules below
    it. A page with the heading ``""`` has one section without a heading.
    """

    slug: str
    title: str
    lead: str
    sections: dict[str, str]

    def modules(self) -> Iterator[tuple[str, str]]:
        """Yields each module in full with its heading."""
        for heading, modules in self.sections.items():
            for module in modules.split() or [""]:
                yield f"netcl.{module}".rstrip("."), heading


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
            {
                "The tensor": "core.tensor.tensor",
                "Sizes": "core.storage.size",
                "Random generators": "core.tensor.generator",
                "How tensors are printed": "core.tensor.printing",
                "Classes by dtype": "core.tensor.typed",
            },
        ),
        Topic(
            "factories",
            "Making tensors",
            "Functions that make tensors: filled, random, from data.",
            {
                "From data, filled, ranges": "core.tensor.factories",
                "Random numbers": "ops.random",
                "Random masks": "ops.noise",
                "Copies and further names of PyTorch": "core.tensor.functions",
            },
        ),
        Topic(
            "elementwise",
            "Elementwise functions",
            _OPS,
            {
                "Arithmetic, comparisons, rounding, exponentials": "ops.elementwise",
                "Activations": "ops.activation",
                "Masks": "ops.masking",
                "Gamma and error functions": "ops.special ops.incomplete_gamma special",
                "The normal distribution": "ops.normal_distribution",
                "Bessel functions": "ops.bessel",
                "Polynomials": "ops.polynomials",
            },
        ),
        Topic(
            "reductions",
            "Reductions, scans, sorting and statistics",
            _OPS,
            {
                "Reductions": "ops.reduce",
                "Cumulative sums and products": "ops.scan",
                "Sorting and quantiles": "ops.sort",
                "Searching and counting": "ops.search",
                "Covariance and histograms": "ops.statistics",
                "Differences and integrals": "ops.calculus",
            },
        ),
        Topic(
            "shapes",
            "Shapes, joining, indexing",
            _OPS,
            {
                "Reshaping, stacking, transposing": "ops.shape",
                "Joining, windows, diagonals of blocks": "ops.join",
                "Repeating, splitting, rolling, diagonals": "ops.arrange",
                "Indexing with brackets": "ops.getitem",
                "Selecting by index": "ops.index",
                "Writing by index": "ops.scatter",
                "Padding": "ops.pad",
                "Channels of images": "ops.channels",
            },
        ),
        Topic(
            "linear-algebra",
            "Linear algebra",
            _OPS,
            {
                "Products": "ops.linalg linalg",
                "Sums of products by indices": "ops.einsum",
                "Factorizations, inverses, systems of equations": "ops.factorizations",
                "Triangular and LU factors": "ops.lu ops.ldl",
                "Norms, powers, diagonals": "ops.matrix",
                "Products of reflections": "ops.reflections",
                "Few singular values": "core.tensor.lowrank",
                "Distances": "ops.distance",
                "Precision of products": "core.tuning",
            },
        ),
        Topic(
            "network-ops",
            "Convolution, pooling, normalization, attention",
            _OPS,
            {
                "Convolution": "ops.conv",
                "Transposed convolution": "ops.conv_transpose",
                "Pooling": "ops.pool",
                "Adaptive pooling": "ops.adaptive",
                "Fractional pooling": "ops.fractional",
                "Unpooling": "ops.unpool",
                "Normalization": "ops.norm",
                "Attention": "ops.attention",
                "Recurrence": "ops.recurrence",
                "Resizing": "ops.resample",
                "Sampling at a grid": "ops.grid",
                "Windows as columns": "ops.unfold",
                "Connectionist temporal classification": "ops.ctc",
            },
        ),
        Topic(
            "pytorch-functions",
            "Further functions of PyTorch's top level",
            "Functions with PyTorch's names that are made of ops, and forms that write into their first argument.",
            {"": "core.tensor.methods"},
        ),
        Topic(
            "sparse",
            "Sparse tensors",
            "Tensors in COO and CSR, and their functions.",
            {"Sparse tensors and their products": "core.tensor.sparse", "Functions of netcl.sparse": "sparse"},
        ),
        Topic(
            "dtypes",
            "Dtypes, modes and settings",
            "Dtypes, promotion, gradient modes and settings of the process.",
            {
                "Dtypes": "core.dtypes",
                "Promotion of dtypes": "core.tensor.promotion",
                "Gradient modes": "core.process.grad_mode",
                "Determinism, threads, denormals": "core.process.settings",
                "Layouts and memory formats": "core.tensor.memory_format",
            },
        ),
        Topic(
            "devices",
            "Devices and memory",
            "Discovery and choice of devices, queues, memory pools.",
            {
                "Devices": "core.device",
                "Pools of memory": "core.memory.pools",
                "Buffers and statistics": "core.memory.allocation",
                "Queues, pinned buffers, summaries": "core.memory core.memory.queue_pools",
            },
        ),
        Topic(
            "kernels",
            "Kernels and ops of your own",
            "OpenCL kernels as Python objects, and new rows of the op table.",
            {
                "Kernels of your own": "core.kernels",
                "Ops of your own": "ops.table",
                "Compiled programs": "core.backend.opencl",
            },
        ),
        Topic(
            "errors",
            "Errors and warnings",
            "Every exception of netcl-core, and what it is raised for.",
            {"": "core.errors"},
        ),
        Topic(
            "runtime",
            "Capture, graphs, streams, caches",
            "Steps that are recorded once and replayed.",
            {
                "Captured steps": "runtime.capture runtime",
                "Graphs": "runtime.graph",
                "Streams": "runtime.stream",
                "Host data of captured steps": "runtime.staging",
                "Caches of programs": "runtime.cache",
            },
        ),
        Topic(
            "profiling",
            "Profiling and autotuning",
            "Times of kernels, traces, rooflines and tuned kernels.",
            {
                "Profiles and traces": "profiling.trace",
                "Times of kernels": "profiling.timing",
                "Names of layers": "profiling.layers",
                "Rooflines and reports": "profiling.report profiling",
                "Tuned kernels": "profiling.autotuner",
            },
        ),
        Topic(
            "testing",
            "Testing",
            "Checks of devices and backends, and fixtures of pytest.",
            {"Checks of devices and engines": "core.testing.conformance", "Tolerances": "core.testing"},
        ),
        Topic(
            "array-api-names",
            "Array API namespace",
            "The names of the Python array API standard.",
            {
                "The array": "array_api.array",
                "Making arrays": "array_api.creation",
                "Elementwise functions": "array_api.elementwise",
                "Linear algebra": "array_api.linalg",
                "Shapes": "array_api.manipulation",
                "Searching, sorting, sets": "array_api.searching",
                "Reductions": "array_api.statistics",
                "Dtypes": "array_api.data_types",
                "Constants": "array_api",
                "What the namespace can do": "array_api.info",
            },
        ),
        Topic(
            "front",
            "The package ``netcl``",
            "Constants, the error for a layer that is not installed, and the packages that ``netcl`` loads.",
            {"Constants and errors": "", "Packages": "core ops", "Warnings of your own": "core.process.user_frame"},
        ),
    ),
    "netcl-autograd": (
        Topic(
            "autograd",
            "Gradients",
            "The tape, functions with gradients of your own, checkpoints, jit.",
            {
                "Gradients of a function": "autograd.backward autograd.graph",
                "The tape": "autograd.tape autograd.node",
                "Functions with gradients of your own": "autograd.function",
                "Compiled functions": "autograd.compiler autograd.training_compiler",
                "Memory for time": "autograd.checkpoint",
                "Clipping": "autograd.clipping",
                "Checks of gradients": "autograd.gradcheck autograd.mode",
            },
        ),
        Topic(
            "losses",
            "Losses and composed ops",
            "Losses as functions; their layers are in netcl.nn.",
            {"Losses": "autograd.losses", "Composed ops": "autograd.ops autograd"},
        ),
        Topic(
            "amp",
            "Mixed precision",
            "Autocast and loss scaling.",
            {"Autocast": "amp.autocast amp", "Loss scaling": "amp.scaler", "The dtype of each op": "amp.policy"},
        ),
    ),
    "netcl-nn": (
        Topic(
            "modules",
            "Modules and containers",
            "The base class, containers, state, hooks, placement.",
            {
                "The base class": "nn.module",
                "Containers": "nn.container nn.lists",
                "State, buffers, hooks": "nn.state nn.placement nn.hooks",
                "Initialization": "nn.init",
                "Layers whose sizes are found at the first call": "nn.lazy",
                "Weights computed from others": "nn.reparameterize",
                "Clipping, fusing, vectors of parameters": "nn.utils",
                "Layers by name": "nn.registry",
            },
        ),
        Topic(
            "layers",
            "Layers",
            "Linear, convolutional, pooling, normalizing and recurrent layers, activations.",
            {
                "Linear layers and shapes": "nn.linear",
                "Convolution": "nn.conv",
                "Normalization": "nn.norm",
                "Activations": "nn.activation",
                "Pooling, padding, resizing": "nn.pool",
                "Dropout": "nn.dropout",
                "Recurrent layers": "nn.recurrent",
                "Embedding": "nn.embedding",
                "Channels and further pooling": "nn.channels",
                "Small networks for images": "nn.vision",
            },
        ),
        Topic(
            "attention",
            "Attention, transformers and whole networks",
            "Layers of transformers, a GPT, ResNets and perceptrons.",
            {
                "Attention": "nn.attention",
                "Transformers": "nn.transformer",
                "GPT": "nn.gpt",
                "ResNets": "nn.resnet",
                "Perceptrons": "nn.simple",
            },
        ),
        Topic(
            "loss-layers",
            "Losses as layers",
            "A loss with its options, called with output and target.",
            {"Losses": "nn.losses", "A softmax for many classes": "nn.adaptive_softmax"},
        ),
        Topic(
            "functional",
            "netcl.nn.functional",
            "The functions of the layers that are not ops themselves.",
            {"": "nn.functional nn"},
        ),
        Topic(
            "io",
            "Model files",
            "Files of models, checkpoints and weights.",
            {
                "Whole models": "io.model",
                "Checkpoints": "io.checkpoint",
                "Weights as safetensors": "io.safetensors",
                "PyTorch's files": "io.torch io.torch_writer",
                "ONNX": "io.onnx",
                "Any object": "io.save_load",
                "Limits and errors of readers": "io.budget io.errors io",
            },
        ),
        Topic(
            "distributions",
            "Distributions",
            "Probability distributions, transforms and divergences.",
            {
                "Of real numbers": "distributions.continuous distributions.gamma",
                "Of classes and counts": "distributions.discrete distributions.counts",
                "Of vectors": "distributions.multivariate_normal",
                "Relaxed to be differentiable": "distributions.relaxed",
                "Made of others": "distributions.transformed distributions.mixture distributions.independent",
                "Divergences": "distributions.kl",
                "The base class": "distributions.distribution distributions",
                "Transforms": "distributions.transforms",
                "Constraints": "distributions.constraints",
            },
        ),
    ),
    "netcl-optim": (
        Topic(
            "optim",
            "Optimizers",
            "Optimizers, averages of weights, clipping of gradients.",
            {
                "Adam and its variants": "optim.adam optim.adam_variants optim.sparse_adam optim.lamb optim.adafactor",
                "SGD and averaged SGD": "optim.sgd optim.asgd",
                "Further optimizers": "optim.adagrad optim.rmsprop optim.rprop optim.lion optim.muon optim.lbfgs",
                "Averages of weights": "optim.ema optim.swa_utils",
                "The base class, hooks, rules of your own": "optim.optimizer optim.hooks optim.fused optim",
            },
        ),
        Topic(
            "schedules",
            "Schedules",
            "Learning rates that change during a run.",
            {"By step or epoch": "optim.schedules optim.lr_scheduler", "By a metric": "optim.plateau"},
        ),
    ),
    "netcl-data": (
        Topic(
            "data",
            "Data sets and loaders",
            "Data sets, samplers, the loader with its workers, readers of files.",
            {
                "The loader": "data.loader data.collate",
                "Data sets of your own": "data.dataset",
                "Tables": "data.tables",
                "Files as arrays": "data.readers",
                "Data sets with torchvision's names": "data.datasets",
                "Samplers": "data.sampler",
                "Images as files": "data.image_grid",
                "Random numbers of a sample": "data.sample_random",
                "Workers and shared memory": "data.worker_process data.shared_batch",
                "Limits and errors of readers": "data.budget data.errors data",
            },
        ),
        Topic(
            "transforms",
            "Transforms of images",
            "Transforms with torchvision's names, augmentation, filters.",
            {
                "Transforms with torchvision's names": "data.transforms",
                "Augmentation of batches": "data.augment",
                "Augmentation on a device": "data.augment_gpu",
                "Filters of a loader": "data.filters",
            },
        ),
    ),
    "netcl-distributed": (
        Topic(
            "distributed",
            "Several devices and processes",
            "Groups, collectives, data-parallel training.",
            {
                "Data-parallel training": "distributed.training",
                "Optimizers over ranks": "distributed.optim",
                "Groups of processes": "distributed.group distributed.init_group distributed.current",
                "Collectives that return a tensor": "distributed.collectives",
                "Collectives that write into their arguments": "distributed.in_place distributed.work",
                "Collectives of Python objects": "distributed.objects",
                "Names of PyTorch's distributed": "distributed.distributed_c10d",
                "Ranks in one process": "distributed.transports",
                "Errors": "distributed.errors distributed",
            },
        ),
    ),
    "netcl-trainer": (
        Topic(
            "trainer",
            "Trainer and callbacks",
            "Training loops, history, reports.",
            {
                "Trainer": "trainer.trainer trainer",
                "Callbacks": "trainer.callbacks trainer.terminate_on_nan trainer.profiler trainer.progress",
                "Checkpoints": "trainer.checkpoint",
                "Loggers": "trainer.loggers",
                "History and metrics": "trainer.history trainer.named_metrics",
                "The learning rate": "trainer.lr_range_test",
                "A run as callbacks see it": "trainer.run_view",
                "The command from Python": "trainer.cli",
            },
        ),
    ),
    "netcl-torch": (
        Topic(
            "torch-vision",
            "netcl.torch_vision",
            "torchvision's layout over netcl.data.",
            {
                "Models": "torch_vision.models",
                "Transforms": "torch_vision.transforms torch_vision.tv_tensors torch_vision.draws",
                "Data sets": "torch_vision.datasets",
                "Files of images": "torch_vision.io torch_vision.grids",
                "Layers": "torch_vision.ops",
                "The package": "torch_vision",
            },
        ),
    ),
    "netcl-llm": (
        Topic(
            "llm",
            "netcl.llm",
            "Language models: loading, generation.",
            {
                "Models": "llm.model llm.generation",
                "Generation": "llm.sampling",
                "Decoders": "llm.decoder llm.config",
                "Files": "llm.gguf",
                "The package": "llm",
            },
        ),
    ),
}


def section_of(entry: Entry) -> tuple[Topic, str]:
    """Returns the page of an entry and its heading there: the ones with the longest module name that holds it.

    Raises LookupError if no page has the entry. The front holds its own names, not the modules below it.
    """
    fitting = [
        (len(module), topic, heading)
        for topic in TOPICS[entry.distribution]
        for module, heading in topic.modules()
        if entry.origin == module or (module != "netcl" and entry.origin.startswith(f"{module}."))
    ]
    if not fitting:
        raise LookupError(f"{entry.name}, defined in {entry.origin}, is on no page of tools/docs_site/topics.py")
    return max(fitting, key=lambda one: one[0])[1:]


def page_of(entry: Entry) -> Topic:
    """Returns the page of an entry."""
    return section_of(entry)[0]
