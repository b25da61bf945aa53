"""torch.utils._pytree: nested containers as a list of leaves and a structure."""

from __future__ import annotations

import json
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

TORCH_NAMES = (
    "BUILTIN_TYPES", "Context", "GetAttrKey", "KeyEntry", "KeyPath", "LeafSpec", "MappingKey", "PyTree",
    "SUPPORTED_NODES", "SequenceKey", "TreeSpec", "_broadcast_to_and_flatten", "_deregister_pytree_node",
    "_dict_flatten", "_dict_flatten_with_keys", "_dict_unflatten", "_get_node_type", "_is_leaf", "_list_flatten",
    "_list_unflatten", "_register_pytree_node", "_tuple_flatten", "_tuple_unflatten", "arg_tree_leaves",
    "is_namedtuple", "is_namedtuple_class", "is_namedtuple_instance", "key_get", "keystr", "map_only",
    "register_dataclass", "register_pytree_node", "tree_all", "tree_all_only", "tree_any", "tree_any_only",
    "tree_flatten", "tree_flatten_with_path", "tree_is_leaf", "tree_iter", "tree_leaves", "tree_leaves_with_path",
    "tree_map", "tree_map_", "tree_map_only", "tree_map_only_", "tree_map_with_path", "tree_structure",
    "tree_unflatten", "treespec_dumps", "treespec_loads",
)  # fmt: skip

PyTree = Any
Context = Any
KeyEntry = Any
KeyPath = tuple[Any, ...]


@dataclass(frozen=True)
class SequenceKey:
    """A position in a sequence."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """Returns the child of ``sequence``."""
        return sequence[self.idx]


@dataclass(frozen=True)
class MappingKey:
    """A key of a mapping."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """Returns the child of ``mapping``."""
        return mapping[self.key]


@dataclass(frozen=True)
class GetAttrKey:
    """The name of an attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """Returns the child of ``obj``."""
        return getattr(obj, self.name)


def keystr(kp: KeyPath) -> str:
    """Returns a path as text, such as ``['a'][0].b``."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: KeyPath) -> Any:
    """Returns the part of a tree at a path."""
    for key in kp:
        obj = key.get(obj)
    return obj


class NodeDef(NamedTuple):
    """A kind of container: its type, its children and context, and the container of them."""

    type: Any
    flatten_fn: Callable[[Any], tuple[list[Any], Context]]
    unflatten_fn: Callable[[Iterable[Any], Context], Any]
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[Any, Any]], Context]] | None


def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], Context]:
    return list(d.values()), list(d.keys())


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[tuple[Any, Any]], Context]:
    return [(MappingKey(key), value) for key, value in d.items()], list(d.keys())


def _dict_unflatten(values: Iterable[Any], context: Context) -> dict[Any, Any]:
    return dict(zip(context, values))


def _list_flatten(d: Sequence[Any]) -> tuple[list[Any], Context]:
    return list(d), None


_tuple_flatten = _list_flatten


def _list_unflatten(values: Iterable[Any], context: Context) -> list[Any]:
    return list(values)


def _tuple_unflatten(values: Iterable[Any], context: Context) -> tuple[Any, ...]:
    return tuple(values)


SUPPORTED_NODES: dict[Any, NodeDef] = {
    tuple: NodeDef(tuple, _list_flatten, _tuple_unflatten, None),
    list: NodeDef(list, _list_flatten, _list_unflatten, None),
    dict: NodeDef(dict, _dict_flatten, _dict_unflatten, _dict_flatten_with_keys),
    OrderedDict: NodeDef(
        OrderedDict, _dict_flatten, lambda values, keys: OrderedDict(zip(keys, values)), _dict_flatten_with_keys
    ),
    defaultdict: NodeDef(
        defaultdict,
        lambda d: (list(d.values()), [d.default_factory, list(d.keys())]),
        lambda values, context: defaultdict(context[0], zip(context[1], values)),
        lambda d: (_dict_flatten_with_keys(d)[0], [d.default_factory, list(d.keys())]),
    ),
    deque: NodeDef(deque, lambda d: (list(d), d.maxlen), lambda values, length: deque(values, length), None),
    # Of each class of named tuples; the context is the class.
    NamedTuple: NodeDef(
        NamedTuple,
        lambda d: (list(d), type(d)),
        lambda values, kind: kind(*values),
        lambda d: ([(GetAttrKey(name), value) for name, value in zip(d._fields, d)], type(d)),
    ),
}
BUILTIN_TYPES = frozenset(SUPPORTED_NODES)


def _dumped_defaultdict(context: Context) -> Any:
    factory, keys = context
    return {
        "default_factory_module": factory.__module__,
        "default_factory_name": factory.__qualname__,
        "dict_context": keys,
    }


def _loaded_defaultdict(dumped: Any) -> Context:
    factory = getattr(import_module(dumped["default_factory_module"]), dumped["default_factory_name"])
    return [factory, dumped["dict_context"]]


# Names in texts of structures -> container, context to text, text to context.
_SERIALIZED: dict[str, tuple[Any, Callable[[Any], Any], Callable[[Any], Any]]] = {
    **{
        f"{kind.__module__}.{kind.__name__}": (kind, json.dumps, json.loads)
        for kind in (tuple, list, dict, OrderedDict, deque)
    },
    "collections.defaultdict": (defaultdict, _dumped_defaultdict, _loaded_defaultdict),
}


def register_pytree_node(
    cls: Any,
    flatten_fn: Any,
    unflatten_fn: Any,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Any = None,
    from_dumpable_context: Any = None,
    flatten_with_keys_fn: Any = None,
) -> None:
    """Makes a class a container: ``flatten_fn(x)`` gives its children and a context, ``unflatten_fn(children,
    context)`` an object. Raises ValueError for a class that is registered.
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
    if serialized_type_name is not None:
        _SERIALIZED[serialized_type_name] = cls, to_dumpable_context or json.dumps, from_dumpable_context or json.loads


_register_pytree_node = register_pytree_node


def _deregister_pytree_node(cls: Any) -> None:
    del SUPPORTED_NODES[cls]
    for name in [name for name, (kind, _, _) in _SERIALIZED.items() if kind is cls]:
        del _SERIALIZED[name]


def register_dataclass(
    cls: Any, *, field_names: Any = None, drop_field_names: Any = None, serialized_type_name: str | None = None
) -> None:
    """Makes a data class a container of its fields, or of those of ``field_names``."""
    left_out = set(drop_field_names or ())
    names = [each.name for each in fields(cls) if each.name not in left_out] if field_names is None else field_names
    register_pytree_node(
        cls,
        lambda obj: ([getattr(obj, name) for name in names], None),
        lambda values, context: cls(**dict(zip(names, values))),
        flatten_with_keys_fn=lambda obj: ([(GetAttrKey(name), getattr(obj, name)) for name in names], None),
    )


def is_namedtuple_class(cls: Any) -> bool:
    """True for classes of ``collections.namedtuple`` and subclasses."""
    return isinstance(cls, type) and issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def is_namedtuple(obj: Any) -> bool:
    """True for named tuples and their classes."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_namedtuple_instance(obj: Any) -> bool:
    """True for named tuples."""
    return is_namedtuple_class(type(obj))


def _get_node_type(tree: Any) -> Any:
    kind = type(tree)
    return NamedTuple if kind not in SUPPORTED_NODES and is_namedtuple_class(kind) else kind


def tree_is_leaf(tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """True if a tree is no container, or ``is_leaf`` says so."""
    return (is_leaf is not None and is_leaf(tree)) or _get_node_type(tree) not in SUPPORTED_NODES


_is_leaf = tree_is_leaf


@dataclass
class TreeSpec:
    """The structure of a tree: the type of the container, its context and the structures of its children."""

    type: Any
    context: Context
    children_specs: list[TreeSpec] = field(default_factory=list)

    def __post_init__(self) -> None:
        children = self.children_specs
        self.num_nodes: int = 1 + sum(child.num_nodes for child in children)
        self.num_leaves: int = sum(child.num_leaves for child in children) if self.type is not None else 1
        self.num_children: int = len(children)

    def __hash__(self) -> int:
        context = tuple(self.context) if isinstance(self.context, list) else self.context
        return hash((self.type, str(context), tuple(self.children_specs)))

    def __repr__(self) -> str:
        if self.is_leaf():
            return "*"
        return f"TreeSpec({self.type.__name__}, {self.context}, {self.children_specs})"

    def is_leaf(self) -> bool:
        """True for the structure of a leaf."""
        return self.type is None

    def children(self) -> list[TreeSpec]:
        """Returns the structures of the children."""
        return self.children_specs

    def child(self, index: int) -> TreeSpec:
        """Returns the structure of a child."""
        return self.children_specs[index]

    def flatten_up_to(self, tree: PyTree) -> list[PyTree]:
        """Returns the parts of a tree at the leaves of this structure. Raises ValueError for a tree of another one."""
        if self.is_leaf():
            return [tree]
        kind = _get_node_type(tree)
        maps = (dict, OrderedDict, defaultdict)
        if kind != self.type and not (kind in maps and self.type in maps):
            raise ValueError(f"Type mismatch; expected {self.type!r}, but got {kind!r}.")
        children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
        if self.type in maps:
            keys = self.context[1] if self.type is defaultdict else self.context
            if set(keys) != set(tree):
                raise ValueError(f"Node keys mismatch; expected {list(keys)}, but got {list(tree)}.")
            children = [tree[key] for key in keys]
        elif len(children) != self.num_children:
            raise ValueError(f"Node arity mismatch; expected {self.num_children}, but got {len(children)}.")
        elif self.type is not deque and context != self.context:
            raise ValueError(f"Node context mismatch for {kind!r}: expected {self.context}, but got {context}.")
        return [part for spec, child in zip(self.children_specs, children) for part in spec.flatten_up_to(child)]

    def unflatten(self, leaves: Iterable[Any]) -> PyTree:
        """Returns the tree of these leaves. Raises ValueError for another number of them."""
        values = list(leaves)
        if len(values) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(values)} but the spec refers to a pytree that "
                f"holds {self.num_leaves} items ({self})."
            )
        return self._built(iter(values))

    def _built(self, leaves: Iterator[Any]) -> PyTree:
        if self.is_leaf():
            return next(leaves)
        children = [child._built(leaves) for child in self.children_specs]
        return SUPPORTED_NODES[self.type].unflatten_fn(children, self.context)


class LeafSpec(TreeSpec):
    """The structure of a leaf."""

    def __init__(self) -> None:
        super().__init__(None, None, [])

    __hash__ = TreeSpec.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TreeSpec) and other.is_leaf()


class UnregisteredTypeError(NotImplementedError):
    """A container has no name by which it is written as text."""


def _schema(spec: TreeSpec) -> dict[str, Any]:
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    for name, (kind, dump, _) in _SERIALIZED.items():
        if kind is spec.type:
            children = [_schema(child) for child in spec.children_specs]
            return {"type": name, "context": dump(spec.context), "children_spec": children}
    raise UnregisteredTypeError(
        f"Serializing {spec.type} in pytree is not registered: write register_pytree_node(..., "
        "serialized_type_name=...)"
    )


def _of_schema(schema: dict[str, Any]) -> TreeSpec:
    if schema["type"] is None:
        return LeafSpec()
    if schema["type"] not in _SERIALIZED:
        raise UnregisteredTypeError(f"Deserializing {schema['type']} in pytree is not registered.")
    kind, _, load = _SERIALIZED[schema["type"]]
    return TreeSpec(kind, load(schema["context"]), [_of_schema(child) for child in schema["children_spec"]])


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """Returns the text of a structure, as PyTorch writes it. Raises NotImplementedError for a container without a
    serialized name.
    """
    if protocol not in (None, 1):
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [1]")
    return json.dumps([1, _schema(treespec)])


def treespec_loads(serialized: str) -> TreeSpec:
    """Returns the structure of a text of ``treespec_dumps``."""
    protocol, schema = json.loads(serialized)
    if protocol != 1:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [1]")
    return _of_schema(schema)


_LEAF = LeafSpec()


def _keyed(node: NodeDef, tree: PyTree) -> list[tuple[Any, Any]]:
    if node.flatten_with_keys_fn is not None:
        return list(node.flatten_with_keys_fn(tree)[0])
    if node.type not in BUILTIN_TYPES:
        raise ValueError(f"{node.type} has no flatten_with_keys_fn; give one to register_pytree_node")
    return [(SequenceKey(at), child) for at, child in enumerate(node.flatten_fn(tree)[0])]


def _visit(
    tree: PyTree, is_leaf: Any, leaves: list[Any], paths: list[KeyPath] | None = None, path: KeyPath = ()
) -> TreeSpec:
    """Appends the leaves of a tree, and their paths, to lists; returns its structure."""
    if tree_is_leaf(tree, is_leaf):
        leaves.append(tree)
        if paths is not None:
            paths.append(path)
        return _LEAF
    kind = _get_node_type(tree)
    node = SUPPORTED_NODES[kind]
    children, context = node.flatten_fn(tree)
    keys = [()] * len(children) if paths is None else [(*path, key) for key, _ in _keyed(node, tree)]
    return TreeSpec(kind, context, [_visit(child, is_leaf, leaves, paths, key) for key, child in zip(keys, children)])


def tree_flatten(tree: PyTree, is_leaf: Any = None) -> tuple[list[Any], TreeSpec]:
    """Returns the leaves of a tree, in order, and its structure; None is a leaf."""
    leaves: list[Any] = []
    spec = _visit(tree, is_leaf, leaves)
    return leaves, spec


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    """Returns the tree of a structure with these leaves."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            f"tree_unflatten(leaves, treespec): expected `treespec` to be instance of TreeSpec, got {type(treespec)}."
        )
    return treespec.unflatten(leaves)


def tree_leaves(tree: PyTree, is_leaf: Any = None) -> list[Any]:
    """Returns the leaves of a tree."""
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree: PyTree, is_leaf: Any = None) -> Iterator[Any]:
    """Iterates over the leaves of a tree."""
    return iter(tree_leaves(tree, is_leaf))


def tree_structure(tree: PyTree, is_leaf: Any = None) -> TreeSpec:
    """Returns the structure of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def tree_flatten_with_path(tree: PyTree, is_leaf: Any = None) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """Returns (path, leaf) of each leaf of a tree, and its structure."""
    leaves: list[Any] = []
    paths: list[KeyPath] = []
    spec = _visit(tree, is_leaf, leaves, paths)
    return list(zip(paths, leaves)), spec


def tree_leaves_with_path(tree: PyTree, is_leaf: Any = None) -> list[tuple[KeyPath, Any]]:
    """Returns (path, leaf) of each leaf of a tree."""
    return tree_flatten_with_path(tree, is_leaf)[0]


def tree_map(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: Any = None) -> PyTree:
    """Returns the tree of ``func`` of the leaves, and of the parts of ``rests`` at the same places."""
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten(map(func, leaves, *(spec.flatten_up_to(rest) for rest in rests)))


def tree_map_(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: Any = None) -> PyTree:
    """Calls ``func`` for the leaves as ``tree_map`` does and returns the tree itself."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_with_path(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: Any = None) -> PyTree:
    """``tree_map`` with the path of each leaf as the first argument of ``func``."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    paths, leaves = [path for path, _ in pairs], [leaf for _, leaf in pairs]
    return spec.unflatten(map(func, paths, leaves, *(spec.flatten_up_to(rest) for rest in rests)))


def _is_of(type_or_types: Any) -> Callable[[Any], bool]:
    if isinstance(type_or_types, (type, tuple)) or hasattr(type_or_types, "__args__"):
        return lambda x: isinstance(x, type_or_types)
    if callable(type_or_types):
        return type_or_types  # type: ignore[no-any-return]
    raise TypeError("Argument must be a type, a tuple of types, or a callable.")


def map_only(type_or_types_or_pred: Any, /) -> Callable[..., Any]:
    """Returns a decorator: the function leaves values of other types as they are."""
    fits = _is_of(type_or_types_or_pred)
    return lambda func: lambda x: func(x) if fits(x) else x


def tree_map_only(
    type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: PyTree, is_leaf: Any = None
) -> PyTree:
    """``tree_map`` over leaves of some types."""
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: PyTree, is_leaf: Any = None
) -> PyTree:
    """``tree_map_`` over leaves of some types."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def _reduced(reduce: Callable[[Iterable[bool]], bool], pred: Any, tree: PyTree, is_leaf: Any = None) -> bool:
    return reduce(map(pred, tree_leaves(tree, is_leaf)))


def _reduced_only(
    reduce: Callable[[Iterable[bool]], bool], types: Any, /, pred: Any, tree: PyTree, is_leaf: Any = None
) -> bool:
    fits = _is_of(types)
    return reduce(pred(leaf) for leaf in tree_leaves(tree, is_leaf) if fits(leaf))


tree_all: Callable[..., bool] = partial(_reduced, all)
tree_any: Callable[..., bool] = partial(_reduced, any)
tree_all_only: Callable[..., bool] = partial(_reduced_only, all)
tree_any_only: Callable[..., bool] = partial(_reduced_only, any)


def arg_tree_leaves(*args: PyTree, **kwargs: PyTree) -> list[Any]:
    """Returns the leaves of the arguments of a call."""
    return tree_leaves((args, kwargs))


def _broadcast_to_and_flatten(tree: PyTree, treespec: TreeSpec, is_leaf: Any = None) -> list[Any] | None:
    """The leaves of a tree for each leaf of a structure of which the tree is a beginning; None if it is not."""
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    if treespec.is_leaf() or _get_node_type(tree) != treespec.type:
        return None
    children, context = SUPPORTED_NODES[treespec.type].flatten_fn(tree)
    if len(children) != treespec.num_children or context != treespec.context:
        return None
    leaves: list[Any] = []
    for child, spec in zip(children, treespec.children_specs):
        part = _broadcast_to_and_flatten(child, spec, is_leaf)
        if part is None:
            return None
        leaves += part
    return leaves
