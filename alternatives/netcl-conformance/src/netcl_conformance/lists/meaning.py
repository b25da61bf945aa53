"""The meaning of the contract beyond docstrings: a chapter for each level, and entries that have no docstring.

``tools/write_contract.py`` writes both, with the typed signature and the docstring of each name, into
docs/reference/core-contract.md.
"""

from __future__ import annotations

__all__ = ["CHAPTERS", "MEANINGS"]

CHAPTERS: dict[str, str] = {
    "tensor": """
A tensor is dense, of fixed shape and dtype, on one device. `shape` is a tuple of ints, `dtype` one of
`dtypes.OBJECTS`, which is its name with attributes, `queue` an object of the device for which `is_queue` is true,
`engine` the one object of the core that computes on that queue: two tensors are on one device if their engines are the
same object. Methods accept selectors, handles and queues for a device. `Tensor` may be subclassed: `cls.__new__(cls)`
followed by `gradients.make_leaf(leaf, value)` makes a leaf on the storage of another tensor, as `Parameter` does.

**Host data.** `from_host(data)` copies arrays, lists and numbers to the active device; `from_host(queue, data, dtype)`
to another one. Arrays keep their dtype, but float64 becomes float32 unless a dtype is given; Python ints are int64,
floats float32. `to_host` and `numpy` return a contiguous array of the tensor's dtype, bfloat16 as float32; `item` and
`tolist` Python numbers. A read waits for all work before it and raises what kernels have reported, such as an index
out of range.

**Storage.** Results of reshape, permute, expand, basic indexing and diagonal are views: a write in place through one
tensor shows in all tensors on that memory. A core may share memory or copy and keep the copies current. `storage_id`
is equal for a tensor, its `detach()` and a reshape that copies nothing; `version` counts the writes in place into the
storage, so that a saved value that was overwritten is noticed. `data` is the same memory, its writes not counted.

**Devices.** `manager.default(selector)` returns a handle; `with device(selector):` makes it active for the thread, and
`str(device(selector))` is the selector. Selectors are `auto`, `cpu`, the name of a backend or an index, as
`netcl.core.device` documents; a core with other devices adds names of its own. `handle.queue` is the queue;
`queue.finish()` waits for its work. NETCL_DEVICE gives the default. A selector without a device raises
DeviceNotFoundError. `device_type` of a handle is `cpu`, `gpu`, `accel` or `other`.

**Configuration.** The packages above read the variables DEVICE, FAST_MATH, DETERMINISTIC, CHECK_CAPTURE,
DIST_TIMEOUT_S, RANK, WORLD_SIZE, LOCAL_RANK, RENDEZVOUS and SEED of docs/reference/variables.md.

**Writes.** `Tensor.write` replaces the content and is never recorded: RuntimeError for the result of a recorded op,
while a leaf that requires grad is written without an error, as loading parameters does. `in_place.write`, `copy` and
`fill` are recorded. `engine.copy(source, out, shape, source_strides, out_strides, source_offset, out_offset)` copies a
strided block, strides and offsets counted in elements from the first element of each tensor. `root_of` returns the same
object for all tensors on one storage. `Geometry` has the methods `reshaped` (None if that takes a copy), `permuted`,
`expanded`, `diagonal` and `sliced(starts, steps, sizes)`, each of which returns the Geometry of a view.

**Dtypes.** `promote` follows PyTorch: kinds are bool, integer, floating, a later kind absorbs an earlier one, numbers
change only the kind. docs/reference/numerics.md has the rules of every op.

**Errors.** All are subclasses of NetclError and of one error of Python: ValueError (ShapeError, BackendMismatchError,
ConfigError, ExpressionError), TypeError (DTypeError, UnsupportedError), LookupError (DeviceNotFoundError), TimeoutError
(the two timeouts), MemoryError (OutOfMemoryError), FloatingPointError (NonFiniteError), else RuntimeError. Their
attribute `op` is the name of the op, or None. Each message says what was given, what was expected and what to do.
""",
    "ops-basic": """
**The table.** Each op is one OpRow in `dispatch.TABLE` under its name, registered by `register_op`. A core without the
level expressions gives every row a `call`, a function of the arguments by their own names that returns a Tensor or a
tuple, or a `composite`, a function over other ops. `netcl.ops.<name>` is a function with the attribute `row`, made by
`netcl.ops.table.as_function(row, None)`. `signature` has the names and defaults that this document lists; parameters
annotated with Tensor or Expr are `operands`, all others `attributes`.

**Calls.** Every call goes through `call_row(row, args, kwargs, record)`. With `record=True` and a recorder set, the
recorder is called as `recorder(next, row, args, kwargs)` and calls `next(row, args, kwargs)`; `record=None` takes the
state of the composite op that is running (False outside of one), `record=False` never records. Inside of a `call`
nothing is recorded. Inside of a `composite` each op is recorded as the composite is. `execute(row, args, kwargs)` is
the innermost call. Hooks of a thread come around that, by layer, outermost first: profiler, autocast, the recorder,
tracer. A hook has the recorder's signature. A composite op is seen by profilers only, other hooks see the ops inside.
If `record` is None outside of a composite, an operand requires grad and a recorder is set, the call warns with
ForwardOnlyWarning and its result is outside of the graph. `SYNONYMS` of PyTorch (`dim`, `keepdim`, `input`, `other`)
are accepted for the row's own names. Keywords `out=` and `pool=` are accepted by every row: `out` takes the result
(its shape, dtype and device, else ShapeError or BackendMismatchError), `pool` may be ignored.

**Operands.** Of elementwise rows tensors, NumPy arrays and Python numbers, at least one a tensor, else TypeError.
Shapes broadcast as in NumPy, else ShapeError with both shapes. Dtypes are promoted by `dtypes.promote`; a 0-d tensor
among longer ones of the same kind does not raise their dtype. Tensors of two devices raise BackendMismatchError.
Comparisons and predicates give bool; `any`, `all` bool; positions are int64. Functions of the kind exp, sin and sqrt
give float32 for integers. Axes may be negative; one that is out of range raises ShapeError. `axis=None` is all axes;
`keepdims` leaves length 1. Empty tensors are legal operands: a sum is 0, a product 1, amax raises ShapeError.

**Special values** are NumPy's: NaN propagates through maximum, minimum, amax and amin and is the largest in a sort;
integers wrap; an integer quotient by zero is 0. The sign of zero is kept by +, -, *, /, neg and floor.

**The amp class** of a row says what autocast does with floating operands: `half` casts them to the half dtype (on CPUs
if that is faster), `float32` to float32, `widest` to the widest among them. `name`, `amp`, `signature`, `doc`,
`operands` and `attributes` are read by the packages above.

**Views** in the graph are tracked for the rows named reshape, permute, expand, strided_slice and diagonal, of which a
core without views of these names has copies. `getitem` of ints, slices, Ellipsis and None calls the row
strided_slice(x, starts, steps, sizes, shape) in netcl-core; a core may compute it in one row instead.
""",
    "ops-full": """
The other functions of `netcl.ops`, by the rules of ops-basic. The column *made of* says *ops* for a composite row:
netcl-core computes it by other functions of this document, so a core may do the same; such a row needs no gradient of
its own.

A core need not write the functions marked *decomposed*: `netcl_core_kit.decompositions.complete()`, called at the end
of `netcl.ops`, makes the ones that are absent of other functions of this document. They are slower than a row of the
core. A method of Tensor that the core makes of such a function has to look it up when it is called.
""",
    "gradient": """
netcl-autograd owns the graph. It calls `dispatch.set_recorder(hook)` and `gradients.register(methods)` when it is
imported; the core calls the registered methods from `Tensor.backward`, `register_hook`, `retain_grad`, writes in place
and the like (the protocol `Gradients`), and imports the packages of the entry-point group `netcl.gradients` at the
first `requires_grad = True`, so that a user need not import netcl.autograd.

A tensor stores `requires_grad`, `grad`, `grad_fn` and the object of `set_view`; `attach(tensor, grad_fn)` makes a
result of an op part of the graph, `mark_recorded` notes that it was recorded without a gradient, `is_recorded` is true
after either.

The registered object has these methods: `backward(tensor, grad, retain_graph, create_graph, inputs)`;
`register_hook(tensor, hook)`, `register_post_accumulate_grad_hook(tensor, hook)`, `retain_grad(tensor)`,
`retains_grad(tensor)`, `op_name(tensor)`, `creation_trace(tensor)` and `parents(tensor)` for the attributes of Tensor
with these names; `refuse_in_place(tensor, what)`, which raises while grad is enabled; `writing(target, value,
replaces)`, a context manager around each recorded write in place, whose value is the tensor to be stored in the memory
of `target` (`replaces`: a copy, else `value` is the result of an op on `target`); `assigned(target, key, value)`, which
records and runs `target[key] = value` and is False if there is nothing to record; `restructured(target, name, view)`,
which makes `target` the result of `view(target)`, for methods such as `unsqueeze_`; and `detached(target)`, called by
`detach_`.

If a hook of the thread has a method `before_write(target, value)`, that is called before each write in place, with the
tensor and a tensor of its new values, which broadcast and are converted; None in place of values from the host.

A core with views sets the attribute `several` of `view_of(result)` to True for each of the views that one function
returns together, as split, chunk and unbind: a write in place into one of them is then refused while grad is enabled.

**The gradient of a row** is found in this order:

1. `row.vjp(call, grad)`, if the row has one. `call` has each argument of the row as an attribute by name (tensors
   that `row.saves` does not name are objects with shape, dtype, queue and ndim only), results as `out`, `out1`,
   ..., the gradients of all outputs as `call.grads` (None if an output has none), `call.wants(name)`, true if the
   gradient of that operand is wanted, `call.op(name, *args)`, which runs a row, and `call.again`, true if the
   gradient is differentiated in turn: then all that it computes goes through `call.op`, else any means is allowed.
   `call.kept` is what `gradients.take_kept` returned for the first result right after the call: an object of the
   core, or None. Its attribute `version` is a constant; `saves` is true if it is freed with the tensors that the
   graph has saved; `separate(tensor)` is called before the result of the call is written into the memory of
   `tensor`. `grad` is `call.grads[0]`. The result maps names of operands to gradients of their shapes, or to lists
   of these for an operand that is a list; an operand that is missing has none. The gradient of a broadcast operand
   is summed to its shape by vjp.
2. A rule of netcl-autograd for a row without expression, by name (`netcl.autograd.rules`). Rules call rows of
   netcl-core that compute gradients (`index_select_grad`, `max_pool_grad`, ...); a core that gives its rows a vjp
   needs none of these.
3. The derivative of the row's expression, by `expr.vjp`, if the core keeps the level programs.
4. A composite row has the gradients of the ops it calls.

A row with none of these raises UnsupportedError at the backward pass.
""",
    "expressions": """
An expression is a tree over the elements of an iteration space: the shape to which inputs and outputs broadcast. Nodes
have a `dtype` and `children`; equal structure is the same object. `Load(slot, dtype)` is the element of an input,
`Scalar(name, dtype)` a number given at launch, `Const(value, dtype)` a number of the text, `Index(axis)` the position
along an axis (int32), `apply(name, *args)` a primitive on its arguments, promoted as in an op of that name: the basic
elementwise ops, logaddexp, `stop_gradient(x)`, and `require(condition, x, code, last)`, which is x and reports the
error of `engine.flag_code` for elements where the condition is false (`last` is the size that the message names),
`cast(x, dtype)`, and `reduce(kind, x, axes)` with kind sum, prod, max or min a reduction that keeps its axes with
length 1. The scalar `size:0,2` is bound to the number of elements of the axes 0 and 2. Nodes overload + - * / ** and
the comparisons < <= > >=, & | ~.

`evaluate(outputs, inputs, scalars, shapes=None, out=None)` computes expressions on the device of the inputs: one
tensor per output, of the shape that the inputs (or its entry of `shapes`) broadcast to, axes that a reduction removed
of length 1; `out` are tensors that take the results and may be inputs. All inputs are read before an output is
written. `evaluate_each` does so for each list of inputs, `reduce_each` gives parts of a reduction over all elements of
all inputs. These three are never recorded, and count as writes in place for `version`.

The text grammar of `parse` is C: loosest first `a ? b : c`, `||`, `&&`, `== !=`, `< <= > >=`, `+ -`, `* / %`, unary `-
+ !`, calls and parentheses, over `v0`, `v1`, ..., names that the caller gives, and the constants INFINITY, NAN,
M_PI_F, true and false. Functions are the primitives by name, and fabs, fmax, fmin, max, min, powf, rint, fmod and
select. What cannot be read raises ExpressionError with the
position; for an input beyond the arity the message has "is not one of the", by which netcl-autograd counts inputs.

`elementwise` and `expression` of `netcl.ops.table` make rows of texts and of builders: a builder gets a node per
operand (None for an absent one), attributes with a float default as Scalars and all others as they are, and a `space`
(a Space) if it has such a parameter, and returns an expression or a tuple of them. `shapes(shape, operand_shapes,
attributes)`, if given, turns the shape of an output in the iteration space into the final one. A tensor is a load of
its own dtype, but a 0-d one among longer ones of its kind has their dtype; a number is a load of the dtype to which it
promotes with them. Along an axis that a reduction in any of the outputs removes, an output that does not vary there has
length 1. A core without the level programs registers such a row with a `call`, which builds the expressions for the
shapes and dtypes given and evaluates them, and a `vjp`; a core may compute that gradient by any means, for example by
the automatic differentiation of the library it is made of.
""",
    "programs": """
The row of an expression as a Program for given shapes and dtypes: `bound(row, args, kwargs)` gives it with its
tensors, `run()` computes it. `vjp(outputs, grads, wrt, present)` gives the gradients of expressions by reverse-mode
differentiation, as expressions over the same loads, summed over the axes along which an input is broadcast (`present`:
by slot, the axes along which it is not). netcl-autograd derives, simplifies and caches gradient programs from these,
and saves only the tensors that they load.
""",
    "random": """
Philox 4x32-10 with a 64-bit seed: the counter is the position, a counter gives four words of 32 bits, and drawing n
words advances the position by n / 4, rounded up; a uniform float32 is the upper 24 bits of a word. So equal (seed,
position) give equal bits on every device. `manual_seed(seed)` sets the seed of all devices of the process,
`get_rng_state` returns a dict of the seed and the position (`offset`, the counters used), which `set_rng_state` takes.
The functions of dropout draw their masks by the row `dropout_mask(x, p=0.5, seed=None)`, one word for each element in
their order, so that netcl-distributed can draw the part of a shard as it is in the whole batch.
""",
    "half": """
`float16` and `bfloat16` are dtypes of tensors; sums and products of matrices accumulate in float32 and round once;
elementwise ops round once from float32. bfloat16 arrays of the host are float32.
""",
    "several-devices": """
`manager.select()` lists the handles of all devices, best first; `split(handle, n)` may divide one. `x.to(device)`
copies, in the graph if one is recorded (the row `transfer`, whose gradient is a copy back). Two handles have different
queues and engines. Ops on tensors of two devices raise BackendMismatchError.
""",
    "tracing": """
`netcl.autograd.jit` collects calls in a `Trace` and computes them as one `Fused` program. A core without this level
has none of the names below; jit then calls the function.
""",
    "capture": """
`capture(fn, *samples)` records one call of `fn`; `replay(*inputs)` gives what `fn(*inputs)` would, with its writes in
place. What cannot be replayed (a host read, another shape) raises CaptureError.
""",
    "prediction": """
`boundary(owner, engine)` ends a period of a loop: an optimizer has taken a step. `event(function)` makes calls of a
function that changes tensors or gradients a part of periods, as ops are; `function.refuses(pending, *args, **kwargs)`
returns why a call is none, and `function.changes_gradients` is True if it reads or sets `grad`. A core may compute
the calls of a period later than they are made, if no program can tell.
""",
    "staging": """
`Staging` makes memory of the host, which processes may share, page-locked for a device. Copies between it and parts of
tensors, and the work of a queue so far, are `Pending`. `host_call(action, reads, out)` calls a function in the order of
a queue, also in each replay of a captured step. `packed_tensors` makes tensors that are parts of one. A core with this
level has the variable DIST_STAGING of docs/reference/variables.md.
""",
    "profiling": """
`with profile() as p:` collects the kernels or calls of its block with their times; `p.table()` is the report.
""",
    "pools": """
Sizes of pooled memory by device. A core whose allocator is not its own may return zeros.
""",
    "packed": """
A PackedTensor is a constant matrix in one of the formats of GGUF that `FORMATS` has by name; a row of it has the
attributes `name`, `type_id` (GGUF's number), `block` (numbers), `nbytes` (of a block) and `bits`. `from_blocks` takes
GGUF's bytes, `to_blocks` returns them, and `unpack` gives the numbers of the package gguf to the bit in float32.
`rows(ids)` is an embedding without a gradient. `parts` are tensors whose layout is the core's own. `quantize` packs
floats in Q8_0, Q4_0 or Q4_K. `netcl.ops.packed_linear` multiplies x by the transpose; x, bias, norm and residual have
gradients. `netcl.ops.cached_attention` is the attention of one new token of each row of a batch to a cache of keys and
values, which it writes to; it has no gradient. A cache in int8 is one in Q8_0, with a scale for 32 neighbours.
""",
    "front": """
The names that docs/reference/torch.md lists and that are not above: methods of Tensor such as `clamp_max`, functions
of the front such as `nuclear_norm`, sparse tensors with operators and methods, the submodules named after PyTorch's.
Programs and extensions use them, the packages above otherwise not. A core may have any part of them without
declaring the level.
""",
    "opencl-kernels": """
Kernels of the user in OpenCL C, `netcl.core.kernels.KernelSpec`, and the texts of compiled kernels.
""",
}

_NODE = {"children": "The nodes that this one reads, in order.", "dtype": "The dtype of its value."}
_PROGRAM = {
    "finals": "The shapes of the results, without the axes that a reduction removed.",
    "gradients": "A dict in which netcl-autograd keeps the gradients of this program, by the inputs wanted.",
    "name": "The name of the row.",
    "outputs": "One expression per result, over loads of the inputs by position.",
    "present": "By input, the axes of the iteration space along which it has a length other than 1.",
    "relaxed": "True if it may be computed with fast math.",
    "shapes": "The shapes of the outputs in the iteration space.",
    "single": "True if the op returns one tensor, False if a tuple.",
}


def _fields(place: str, meanings: dict[str, str]) -> dict[str, str]:
    return {f"{place}.{name}": meaning for name, meaning in meanings.items()}


MEANINGS: dict[str, str] = {
    "netcl.core.manager": "The DeviceManager of the process.",
    "netcl.core.device.manager": "The DeviceManager of the process.",
    "netcl.core.process.contract.LEVELS": "The names of the levels that this core keeps, a frozenset.",
    "netcl.core.config.VARIABLES": "The variables by name, without the prefix NETCL_.",
    "netcl.core.dtypes.OBJECTS": "The DType of each supported dtype, by name.",
    "netcl.core.dtypes.SUPPORTED": "The names of the dtypes, as strings.",
    "netcl.core.process.grad_mode.state": "The state of the calling thread.",
    "netcl.core.tensor.generator.default_generator": "The Generator of the process.",
    "netcl.core.ops_table.dispatch.TABLE": "All rows by name.",
    "netcl.core.packed.FORMATS": "The formats of packed matrices by name.",
    "netcl.core.packed.PackedTensor.parts": "The tensors that hold the matrix.",
    "netcl.core.packed.PackedTensor.shape": "Rows and columns.",
    "netcl.core.expr.cost.RECOMPUTE_BUDGET": "The cost, in additions, up to which a gradient computes a value again.",
    "netcl.core.graph.region.LAST": "One more than the number of the last axis of a region.",
    "netcl.core.graph.trace.Trace.relaxed": "True if its programs may be computed with fast math.",
    "netcl.core.tensor.in_place.DATA": "The mark, as given to `set_view`, of a tensor that `data` returned.",
    "netcl.core.graph.trace.NOT_TRACED": "The result of `Trace.call` for a call that has to be run.",
    **_fields(
        "netcl.core.Tensor",
        {
            "dtype": "The dtype, a DType: its name, a string, with PyTorch's attributes.",
            "engine": "The object that computes on the tensor's device; the same object for all tensors there.",
            "shape": "The lengths of the axes, a tuple of ints.",
        },
    ),
    **_fields(
        "netcl.core.DeviceHandle",
        {
            "platform_name": "The name of the platform, a string.",
            "device_name": "The name of the device, a string.",
            "backend": "The name of the backend: `cl`, `cpu`, or that of another core.",
            "device_type": "`CPU`, `GPU` or `ACCELERATOR`.",
            "context": "An object of the backend, or None.",
            "queue": "The queue of the device; `is_queue` is true for it.",
        },
    ),
    **_fields(
        "netcl.core.device_profile.DeviceProfile",
        {
            "compute_units": "The number of cores or multiprocessors.",
            "device_type": "`CPU`, `GPU` or `ACCELERATOR`.",
            "global_mem_size": "Bytes of memory.",
            "has_fp16": "True if it computes in float16.",
            "has_fp64": "True if it computes in float64.",
            "name": "The name of the device.",
            "vendor": "The name of its vendor.",
        },
    ),
    **_fields(
        "netcl.core.process.grad_mode.state",
        {
            "anomaly": "True while anomalies are detected.",
            "enabled": "True while ops are recorded.",
            "tape": "The tape to whose list `nodes` recorded tensors are appended, or None.",
            "trace": "The Trace of the jitted function that is running, or None.",
        },
    ),
    **_fields(
        "netcl.core.ops_table.dispatch.OpRow",
        {
            "amp": "`half`, `float32` or `widest`: see the amp class.",
            "attributes": "The defaults of the parameters that are no operands, by name.",
            "call": "The function that computes the op; None for an expression or a composite.",
            "composite": "The function over other ops, or None.",
            "doc": "The docstring of the op.",
            "domain": "A Domain: the samples of the op's tests.",
            "dtypes": "The dtypes of the first operand of a computed row: `any`, `numbers` (no bool) or `floating`.",
            "expression": "A text or a builder; None for all rows of a core without the level programs.",
            "name": "The name of the op.",
            "operands": "The names of the parameters that are tensors, in order.",
            "saves": "By operand, the names of the operands and results that its gradient reads; None: all.",
            "signature": "An inspect.Signature with the parameters of the op.",
            "vjp": "The gradient of the row, see above; None for a rule or a derivative.",
        },
    ),
    **_fields(
        "netcl.core.ops_table.dispatch.Bound",
        {
            "inputs": "The tensors, in the order of the program's slots.",
            "program": "The Program.",
            "scalars": "The launch scalars by name.",
        },
    ),
    **_fields("netcl.core.ops_table.dispatch.Program", _PROGRAM),
    **_fields(
        "netcl.core.ops_table.dispatch.Record",
        {
            "computed": "True once the call was computed.",
            "nodes": "A dict in which netcl-autograd keeps what makes the gradient node of a call.",
        },
    ),
    **_fields(
        "netcl.core.ops_table.dispatch.Space",
        {
            "op": "The name of the op, for errors.",
            "rank": "The number of axes.",
            "shapes": "By operand, its shape aligned to the rank; None for a number.",
        },
    ),
    **_fields("netcl.core.expr.Expr", _NODE),
    **_fields("netcl.core.expr.Apply", {**_NODE, "args": "The arguments.", "prim": "The Primitive."}),
    **_fields("netcl.core.expr.Const", {**_NODE, "value": "The number."}),
    **_fields("netcl.core.expr.Index", {**_NODE, "axis": "The axis of the iteration space."}),
    **_fields("netcl.core.expr.Load", {**_NODE, "slot": "The position of the input."}),
    **_fields("netcl.core.expr.Scalar", {**_NODE, "name": "The name under which the number is given."}),
    **_fields(
        "netcl.core.expr.Reduce",
        {**_NODE, "arg": "What is reduced.", "axes": "Sorted axes.", "kind": "sum, prod, max or min."},
    ),
    **_fields("netcl.core.expr.Primitive", {"arity": "The number of arguments.", "name": "Its name."}),
    **_fields(
        "netcl.core.graph.region.Fused",
        {
            **_PROGRAM,
            "region": "The Region that it computes.",
            "results": "The numbers of the region's values that it returns.",
            "shift": "The number by which its axes differ from those of the region.",
        },
    ),
    **_fields(
        "netcl.core.graph.region.Region",
        {
            "inputs": "The numbers of the values that are inputs.",
            "sizes": "The length of each axis.",
            "stages": "The calls, in order.",
            "values": "All values, inputs and results.",
        },
    ),
    **_fields(
        "netcl.core.graph.region.Stage",
        {
            "axes": "The axis of the region for each axis of the call.",
            "names": "The names of its scalars in the region.",
            "operands": "The numbers of its operands.",
            "program": "Its Program; None for a reshape.",
            "recorded": "True if gradients flow through it.",
            "results": "The numbers of its results.",
            "shapes": "The shapes of its operands.",
        },
    ),
    **_fields(
        "netcl.core.graph.region.Value",
        {
            "axes": "The axes of its dimensions that are not 1.",
            "dtype": "Its dtype.",
            "expr": "Its expression in the region.",
            "requires_grad": "True if its gradient is wanted.",
            "shape": "Its shape.",
        },
    ),
    **_fields(
        "netcl.core.engine.protocol.DeviceBackend",
        {
            "context": "An object of the backend, or None.",
            "device_label": "The name of the device in messages.",
            "handle": "The DeviceHandle of its device.",
            "name": "The name of the backend, as `Tensor.backend`.",
            "queue": "The queue of its device.",
        },
    ),
}
