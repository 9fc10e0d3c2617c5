"""Trees of containers: apart and together again, equality of structures, messages."""

from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracejit.errors import StructureError
from tracejit.frontend.pytree import LEAF, difference, flatten, is_container, paths, tree_map

Point = namedtuple("Point", "x y")


class Typed(NamedTuple):
    a: float
    b: Any = None


@dataclass
class Plain:
    w: Any
    b: Any = 0.0


@dataclass(frozen=True)
class Frozen:
    w: Any
    double: Any = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "double", 2 * self.w)


@dataclass(slots=True)
class Slotted:
    w: Any
    unset: Any = field(init=False)


class UserDict(dict):
    """A dict that may mean something else by its entries."""


trees = st.recursive(
    st.one_of(st.none(), st.integers(), st.floats(allow_nan=False), st.text(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.one_of(st.text(max_size=2), st.integers(0, 9)), inner, max_size=3),
        st.dictionaries(st.text(max_size=2), inner, max_size=3).map(OrderedDict),
        st.dictionaries(st.integers(0, 5), inner, max_size=3).map(lambda d: defaultdict(list, d)),
        st.builds(Point, inner, inner),
        st.builds(Typed, inner, inner),
        st.builds(Plain, inner, inner),
    ),
    max_leaves=12,
)


def key_orders(tree: Any) -> list[Any]:
    if isinstance(tree, dict):
        return [list(tree), *(key_orders(value) for value in tree.values())]
    if isinstance(tree, (list, tuple)):
        return [key_orders(value) for value in tree]
    return [key_orders(tree.w), key_orders(tree.b)] if isinstance(tree, Plain) else []


@given(trees)
def test_round_trip(tree: Any) -> None:
    leaves, structure = flatten(tree)
    again = structure.unflatten(leaves)
    assert again == tree
    assert type(again) is type(tree)
    assert key_orders(again) == key_orders(tree)
    assert len(leaves) == structure.size == len(paths(structure, "t"))
    assert not any(is_container(leaf) for leaf in leaves)
    assert flatten(again)[1] == structure
    assert hash(flatten(again)[1]) == hash(structure)


@given(trees)
def test_paths_are_python(tree: Any) -> None:
    leaves, structure = flatten(tree)
    for path, leaf in zip(paths(structure, "t"), leaves, strict=True):
        assert eval(path, {"t": tree}) is leaf


def test_none_is_a_leaf() -> None:
    assert flatten(None) == ([None], LEAF)
    assert flatten([None, 1])[0] == [None, 1]


def test_dict_order_does_not_matter_for_equality_and_is_kept() -> None:
    one, first = flatten({"b": 1, "a": 2})
    two, second = flatten({"a": 2, "b": 1})
    assert one == two
    assert first == second
    assert hash(first) == hash(second)
    assert list(first.unflatten(one)) == ["b", "a"]
    assert list(second.unflatten(one)) == ["a", "b"]


def test_keys_of_several_types() -> None:
    assert flatten({1: "i", "a": "s"})[1] == flatten({"a": "s", 1: "i"})[1]
    unordered = {1j: 1, 2j: 2}
    leaves, structure = flatten(unordered)
    assert structure.unflatten(leaves) == unordered


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ([1], (1,)),
        ([1], [1, 2]),
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, OrderedDict(a=1)),
        (defaultdict(int, a=1), defaultdict(list, a=1)),
        (Point(1, 2), (1, 2)),
        (Point(1, 2), Typed(1, 2)),
        (Plain(1), Frozen(1)),
        ([[], 1], [1, []]),
        (1, [1]),
    ],
)
def test_unequal_structures(left: Any, right: Any) -> None:
    assert flatten(left)[1] != flatten(right)[1]
    with pytest.raises(StructureError, match="different structure"):
        tree_map(lambda a, b: a, left, right)


def test_dataclasses_are_rebuilt_without_running_their_code() -> None:
    leaves, structure = flatten(Frozen(3.0))
    assert leaves == [3.0, 6.0]
    made = structure.unflatten([1.0, 5.0])
    assert (made.w, made.double) == (1.0, 5.0)
    assert type(made) is Frozen


def test_dataclass_attributes_that_are_no_fields_survive() -> None:
    record = Plain(1.0)
    record.note = "kept"  # type: ignore[attr-defined]
    leaves, structure = flatten(record)
    assert leaves == [1.0, 0.0, "kept"]
    assert structure.unflatten(leaves).note == "kept"


def test_slots_and_unset_fields() -> None:
    leaves, structure = flatten(Slotted(1.0))
    assert leaves == [1.0]
    made = structure.unflatten([2.0])
    assert made.w == 2.0
    assert not hasattr(made, "unset")


def test_defaultdict_keeps_its_factory() -> None:
    leaves, structure = flatten(defaultdict(list, a=1))
    assert structure.unflatten(leaves)["missing"] == []


@pytest.mark.parametrize("leaf", [UserDict(a=1), {1, 2}, "text", np.ones(3), range(3), Plain, Point, len])
def test_everything_else_is_a_leaf(leaf: Any) -> None:
    leaves, structure = flatten([leaf])
    assert leaves[0] is leaf
    assert structure.size == 1


def test_is_leaf() -> None:
    leaves, structure = flatten([(1, 2), [3]], is_leaf=lambda value: isinstance(value, tuple))
    assert leaves == [(1, 2), 3]
    assert structure.unflatten(leaves) == [(1, 2), [3]]


def test_text() -> None:
    tree = {"p": Point(1, [2]), "q": (1,), "r": defaultdict(int, a=1), "s": Plain(None)}
    assert (
        str(flatten(tree)[1])
        == "{'p': Point(x=*, y=[*]), 'q': (*,), 'r': defaultdict({'a': *}), 's': Plain(w=*, b=*)}"
    )


def test_paths() -> None:
    tree = {"layers": [Plain(1.0, Point(2.0, 3.0))], 4: (5.0,)}
    assert sorted(paths(flatten(tree)[1], "p")) == [
        "p['layers'][0].b.x",
        "p['layers'][0].b.y",
        "p['layers'][0].w",
        "p[4][0]",
    ]


def test_containers_that_contain_themselves() -> None:
    loop: list[Any] = [1]
    loop.append({"again": loop})
    with pytest.raises(StructureError, match="a list contains itself"):
        flatten(loop)
    record = Plain(1.0)
    record.b = (record,)
    with pytest.raises(StructureError, match="a Plain contains itself"):
        flatten(record)


def test_the_same_container_twice_is_no_cycle() -> None:
    shared = [1]
    assert flatten([shared, shared])[0] == [1, 1]


def test_tree_map() -> None:
    assert tree_map(lambda a, b: a * b, [1, Point(2, 3)], [10, Point(10, 10)]) == [10, Point(20, 30)]
    assert tree_map(lambda a: a + 1, 1) == 2


def test_mismatch_says_where() -> None:
    left = {"layers": [Plain(1.0, {"k": 1, "m": 2})]}
    right = {"layers": [Plain(1.0, {"k": 1})]}
    with pytest.raises(StructureError) as caught:
        tree_map(lambda a, b: a, left, right)
    message = str(caught.value)
    assert "at ['layers'][0].b, the first has a dict of k, m and number 2 has a dict of k" in message
    assert difference(flatten(1)[1], flatten([])[1]) == ("", "a leaf", "a list of 0")


def test_wrong_number_of_leaves() -> None:
    structure = flatten([1, 2])[1]
    for leaves in ([1], [1, 2, 3]):
        with pytest.raises(StructureError, match=r"leaves for a structure of 2"):
            structure.unflatten(leaves)
