"""Maps over the containers of a batch keep their types."""

from __future__ import annotations

from collections import OrderedDict, UserDict, namedtuple
from types import MappingProxyType

import pytest

from netcl.data.tree import map_type, rebuild

Pair = namedtuple("Pair", ("a", "b"))


class Rows(list):
    """A list with an attribute."""


class Mine(tuple):
    """A tuple of another type."""

    __slots__ = ()


class Strict(tuple):
    """A tuple that is not made of its items alone."""

    __slots__ = ()

    def __new__(cls, first, *others):
        return super().__new__(cls, (first, *others))


@pytest.mark.parametrize(
    "tree",
    [
        [1, 2],
        (1, 2),
        Pair(1, [2]),
        {"a": 1},
        OrderedDict(b=1, a=2),
        UserDict(a=1),
        MappingProxyType({"a": 1}),
        Mine((1, 2)),
        (Rows([1, 2]), {"a": (Pair(1, 2),)}),
    ],
    ids=lambda tree: type(tree).__name__,
)
def test_the_same_types_and_values(tree):
    found = map_type(lambda x: x, int, tree)
    assert type(found) is type(tree)
    assert found == tree
    doubled = map_type(lambda x: 2 * x, int, tree)
    assert map_type(lambda x: x // 2, int, doubled) == tree
    assert doubled != tree


def test_attributes_are_kept_and_the_tree_is_not_changed():
    rows = Rows([1, 2])
    rows.name = "n"
    found = map_type(lambda x: x + 1, int, rows)
    assert (found, found.name, rows) == ([2, 3], "n", [1, 2])


def test_a_type_that_cannot_be_made_gives_a_plain_one():
    found = rebuild(Strict(1, 2), [3, 4])
    assert (type(found), found) == (tuple, (3, 4))
    found = map_type(str, int, type("Odd", (tuple,), {"__new__": lambda cls: tuple.__new__(cls, (1,))})())
    assert (type(found), found) == (tuple, ("1",))
