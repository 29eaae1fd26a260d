"""Tools made of typed functions: what the model sees, and what the function gets."""

from __future__ import annotations

import dataclasses
import enum
import json
import operator
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, NewType, TypedDict

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh import Text, Tool, ToolArgsError, ToolResult, tool
from dsh.tools.schema import check_arguments, violations
from dsh.tools.tool import ToolCall as Call

if TYPE_CHECKING:
    from dsh import Agent, ToolCall


def run(made: Tool, arguments: dict[str, Any], agent: Any = None) -> Any:
    """What the pipeline does with a call."""
    call = Call("1", made.name, arguments, agent)
    check_arguments(made, call.arguments)
    return made.execute(call.arguments, call)


def properties(made: Tool) -> Any:
    return json.loads(json.dumps(made.parameters))["properties"]


class Color(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


@attrs.frozen
class Place:
    """Where something is.

    Not for the model.
    """

    city: Annotated[str, "its name"]
    _zone: int = 0
    tags: tuple[str, ...] = attrs.field(default=(), metadata={"description": "labels"})


@attrs.frozen
class Tree:
    value: int
    kids: list[Tree] = attrs.field(factory=list)


@dataclasses.dataclass
class Point:
    x: float
    y: float = 0.5
    seen: list[int] = dataclasses.field(default_factory=list)


class Options(TypedDict, total=False):
    depth: int
    color: Color


Seconds = NewType("Seconds", int)


# -- what the model sees


def test_a_function_becomes_a_tool_with_its_name_docstring_and_parameters() -> None:
    @tool
    def weather(city: str, days: int = 1, metric: bool = True) -> str:
        """Look up the forecast.

        It is often right.

        Args:
            city: where; a town
                or a region.
            days (int): how far ahead.

        Returns:
            Text for people.
        """
        return f"{city} {days} {metric}"

    assert isinstance(weather, Tool)
    assert (weather.name, weather.parallel) == ("weather", False)
    assert weather.description == "Look up the forecast.\n\nIt is often right."
    assert json.loads(json.dumps(weather.parameters)) == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "where; a town or a region."},
            "days": {"type": "integer", "description": "how far ahead.", "default": 1},
            "metric": {"type": "boolean", "default": True},
        },
        "required": ["city"],
    }
    assert run(weather, {"city": "Rome", "days": 3.0}) == "Rome 3 True"


def test_fields_of_a_docstring_describe_parameters_too() -> None:
    @tool
    def find(pattern: str, path: str = ".") -> str:
        """Find files.

        :param pattern: what to look for,
            as a glob
        :param str path: where
        :returns: names
        """
        return pattern + path

    assert find.description == "Find files."
    assert [field.get("description") for field in properties(find).values()] == ["what to look for, as a glob", "where"]


def test_annotated_text_wins_and_an_annotated_dict_adds_to_the_schema() -> None:
    @tool
    def wait(seconds: Annotated[int, "how long", {"minimum": 1}] = 5) -> str:
        """Wait.

        Args:
            seconds: not this.
        """
        return str(seconds)

    assert properties(wait) == {"seconds": {"type": "integer", "description": "how long", "minimum": 1, "default": 5}}
    with pytest.raises(ToolArgsError, match='"seconds" must be at least 1, got 0'):
        run(wait, {"seconds": 0})


def test_options_of_the_decorator() -> None:
    def show(arguments: Mapping[str, Any]) -> None:
        return None

    @tool(name="find-it", description="Other words.", parallel=True, present_call=show)
    def find() -> str:
        """Words."""
        return ""

    assert (find.name, find.description, find.parallel, find.present_call) == ("find-it", "Other words.", True, show)
    assert json.loads(json.dumps(find.parameters)) == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("annotation", "schema", "data", "value"),
    [
        (str, {"type": "string"}, "x", "x"),
        (float, {"type": "number"}, 3, 3),
        (None, {"type": "null"}, None, None),
        (Any, {}, {"a": [1]}, {"a": [1]}),
        (Seconds, {"type": "integer"}, 3.0, 3),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, "a", "a"),
        (Literal[1, "b", None], {"enum": [1, "b", None]}, 1.0, 1),
        (Color, {"type": "string", "enum": ["red", "blue"]}, "red", Color.RED),
        (Level, {"type": "integer", "enum": [1, 2]}, 2, Level.HIGH),
        (list, {"type": "array"}, [1, "a"], [1, "a"]),
        (list[int], {"type": "array", "items": {"type": "integer"}}, [1.0], [1]),
        (
            Sequence[Color],
            {"type": "array", "items": {"type": "string", "enum": ["red", "blue"]}},
            ["red"],
            [Color.RED],
        ),
        (set[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, [1, 2], {1, 2}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}, [1], (1,)),
        (dict, {"type": "object"}, {"a": 1}, {"a": 1}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1.0}, {"a": 1}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}, None, None),
        (
            Color | int,
            {"anyOf": [{"type": "string", "enum": ["red", "blue"]}, {"type": "integer"}]},
            "blue",
            Color.BLUE,
        ),
    ],
)
def test_types(annotation: Any, schema: Any, data: Any, value: Any) -> None:
    got: list[Any] = []

    def take(x: Any) -> None:
        got.append(x)

    take.__annotations__ = {"x": annotation}
    made = tool(take)

    assert properties(made) == {"x": schema}
    run(made, {"x": data})
    assert got == [value]
    assert type(got[0]) is type(value)


def test_containers_are_the_functions_own_to_change() -> None:
    @tool
    def add(items: list[Any], table: dict[str, Any]) -> int:
        items.append(1)
        items[0]["a"] = 2
        table["b"] = 3
        return len(items)

    assert run(add, {"items": [{}], "table": {}}) == "2"


def test_attrs_classes_with_descriptions_defaults_and_private_fields() -> None:
    got: list[Any] = []

    @tool
    def go(place: Place, via: tuple[Place, int]) -> None:
        got.extend((place, via))

    assert properties(go)["place"] == {
        "type": "object",
        "description": "Where something is.",
        "properties": {
            "city": {"type": "string", "description": "its name"},
            "zone": {"type": "integer", "default": 0},
            "tags": {"type": "array", "items": {"type": "string"}, "description": "labels", "default": []},
        },
        "required": ["city"],
    }
    run(go, {"place": {"city": "a", "zone": 2, "tags": ["x"], "unknown": 1}, "via": [{"city": "b"}, 1]})
    assert got == [Place("a", 2, ("x",)), (Place("b"), 1)]
    with pytest.raises(ToolArgsError, match=r'"place.city" is required .*; "via\[0\].zone" must be an integer'):
        run(go, {"place": {}, "via": [{"city": "x", "zone": "y"}, 1]})


def test_dataclasses_and_typed_dicts() -> None:
    got: list[Any] = []

    @tool
    def go(point: Point, options: Options) -> None:
        got.extend((point, options))

    assert properties(go)["options"] == {
        "type": "object",
        "properties": {"depth": {"type": "integer"}, "color": {"type": "string", "enum": ["red", "blue"]}},
    }
    assert properties(go)["point"]["required"] == ["x"]
    run(go, {"point": {"x": 1, "seen": [2.0]}, "options": {"color": "red"}})
    assert got == [Point(1, 0.5, [2]), {"color": Color.RED}]


def test_a_class_that_contains_itself_is_a_definition() -> None:
    @tool
    def plant(tree: Tree, other: Tree | None = None) -> int:
        return tree.value + sum(kid.value for kid in tree.kids)

    schema = json.loads(json.dumps(plant.parameters))
    assert schema["properties"]["tree"] == {"$ref": "#/$defs/Tree"}
    assert schema["$defs"]["Tree"]["properties"]["kids"] == {"type": "array", "items": {"$ref": "#/$defs/Tree"}}
    assert run(plant, {"tree": {"value": 1, "kids": [{"value": 2, "kids": []}]}, "other": {"value": 1}}) == "3"
    with pytest.raises(ToolArgsError, match=r'"tree.kids\[0\].value" must be an integer'):
        run(plant, {"tree": {"value": 1, "kids": [{"value": "2"}]}})


def test_defaults_that_are_not_json_are_not_shown() -> None:
    @tool
    def go(color: Color = Color.RED, place: Place = Place("x"), size: tuple[int, int] = (1, 2)) -> str:
        return f"{color} {place.city} {size}"

    assert properties(go)["color"]["default"] == "red"
    assert "default" not in properties(go)["place"]
    assert properties(go)["size"]["default"] == [1, 2]
    assert run(go, {}) == "red x (1, 2)"


# -- what the harness gives


def test_the_call_and_the_agent_are_given_and_not_shown() -> None:
    @tool
    def who(text: str, call: ToolCall, agent: Agent | None, *, plain: Annotated[Agent, "hidden"]) -> str:
        return f"{text} {call.id} {agent} {plain}"

    assert list(properties(who)) == ["text"]
    assert run(who, {"text": "x", "call": "mine", "agent": "mine"}, agent="the agent") == "x 1 the agent the agent"


async def test_async_functions_are_awaited() -> None:
    @tool
    async def slow(n: int) -> list[int]:
        return [n, n]

    assert await run(slow, {"n": 2}) == "[2,2]"


@pytest.mark.parametrize(
    ("returned", "output"),
    [
        ("text", "text"),
        ({"a": 1}, '{"a":1}'),
        ([], "[]"),
        ([1, None], "[1,null]"),
        (True, "true"),
        (Text("x"), Text("x")),
        ([Text("x")], (Text("x"),)),
        (None, ToolResult(())),
        (ToolResult("x", is_error=True), ToolResult("x", is_error=True)),
    ],
)
def test_what_a_function_may_return(returned: Any, output: Any) -> None:
    @tool
    def give() -> Any:
        return returned

    assert run(give, {}) == output


def test_returning_anything_else_is_an_error_that_says_what_may_be() -> None:
    @tool
    def give() -> object:
        return object()

    with pytest.raises(TypeError, match="'give' returned a object; return text, blocks, a ToolResult or JSON"):
        run(give, {})


def test_what_a_class_refuses_is_a_violation() -> None:
    @attrs.frozen
    class Even:
        number: int = attrs.field()

        @number.validator
        def _check(self, attribute: Any, value: int) -> None:
            if value % 2:
                raise ValueError(f"{value} is odd")

    @tool
    def halve(even: Even) -> int:
        return even.number // 2

    assert run(halve, {"even": {"number": 4}}) == "2"
    with pytest.raises(ToolArgsError, match='invalid arguments for halve: "even": 3 is odd'):
        run(halve, {"even": {"number": 3}})


def test_keys_that_are_no_parameters_are_left_out() -> None:
    @tool
    def echo(text: str) -> str:
        return text

    assert run(echo, {"text": "x", "why": "because"}) == "x"


def test_a_bound_method_makes_a_tool() -> None:
    class Counter:
        count = 0

        def add(self, by: int = 1) -> int:
            """Count."""
            self.count += by
            return self.count

    counter = Counter()
    assert (run(tool(counter.add), {"by": 2}), counter.count) == ("2", 2)


# -- what is refused


class Pair(NamedTuple):
    a: int


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (object(), "has no JSON schema"),
        (bytes, "bytes has no JSON schema"),
        (Pair, "Pair has no JSON schema"),
        (dict[int, str], "the keys of a JSON object are strings, not int"),
        (list[bytes], "bytes has no JSON schema"),
        ("list[ToolCall]", "ToolCall"),
        (Literal[b"x"], "Literal"),
        ("Nowhere", "cannot be resolved: name 'Nowhere' is not defined"),
        ("list[", "cannot be resolved"),
    ],
)
def test_an_annotation_without_a_schema_names_function_and_parameter(annotation: Any, message: str) -> None:
    def odd(fine: int, wrong: int) -> None: ...

    odd.__annotations__ = {"fine": int, "wrong": annotation}

    with pytest.raises(TypeError, match=f"tool 'odd', parameter 'wrong': .*{message}"):
        tool(odd)


def test_a_field_without_a_schema_is_named() -> None:
    @attrs.frozen
    class Bad:
        data: bytes

    with pytest.raises(TypeError, match=r"tool 'odd', parameter 'bad': Bad.data: bytes has no JSON schema"):

        @tool
        def odd(bad: Bad) -> None: ...


def test_signatures_that_cannot_be_called_by_name_are_refused() -> None:
    def star(*args: int) -> None: ...
    def stars(**kwargs: int) -> None: ...
    def positional(a: int, /) -> None: ...
    def bare(a) -> None: ...  # type: ignore[no-untyped-def]  # the annotation is left out to see it refused

    for function, message in (
        (star, "parameter 'args': .* named one by one"),
        (stars, "parameter 'kwargs': .* named one by one"),
        (positional, "parameter 'a': .* take the '/' out"),
        (bare, "parameter 'a': it has no annotation"),
    ):
        with pytest.raises(TypeError, match=message):
            tool(function)


@pytest.mark.parametrize("name", ["a b", "", "ä", "x" * 65, "a.b"])
def test_a_name_that_providers_refuse_is_refused(name: str) -> None:
    def fine() -> None: ...

    fine.__name__ = name

    with pytest.raises(ValueError, match="cannot be a tool's name"):
        tool(fine)


def test_making_a_tool_imports_no_cattrs() -> None:
    code = "import sys\nfrom dsh import tool\n@tool\ndef f(x: int) -> str: return ''\nprint('cattrs' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


# -- the rule behind all of it

leaves = st.sampled_from([str, int, bool, None, Color, Level, Place, Literal["a", 3]])


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        inner.map(lambda one: list.__class_getitem__(one)),
        inner.map(lambda one: dict.__class_getitem__((str, one))),
        st.tuples(inner, inner).map(lambda two: tuple.__class_getitem__(two)),
        inner.map(lambda one: operator.getitem(Annotated, (one, "text"))),
    )


annotated_types: st.SearchStrategy[Any] = st.recursive(leaves, containers, max_leaves=4)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["red", "a", 3.0]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["city", "zone", "x"]), inner, max_size=2)
    ),
    max_leaves=6,
)


@given(annotated_types, json_values)
def test_what_passes_the_check_can_be_structured(annotation: Any, data: Any) -> None:
    def take(x: Any) -> str:
        return "ran"

    take.__annotations__ = {"x": annotation}
    made = tool(take)

    if violations(made.parameters, {"x": data}):
        with pytest.raises(ToolArgsError):
            run(made, {"x": data})
    else:
        assert run(made, {"x": data}) == "ran"
