"""What the validator says of values that do not fit, and that nothing makes it raise."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh.errors import ToolArgsError
from dsh.jsonvalue import Json, freeze
from dsh.tools.schema import check_arguments, violations
from dsh.tools.tool import Tool

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "home": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        "mode": {"type": "string", "enum": ["fast", "slow"]},
    },
    "required": ["name"],
}


def test_every_violation_is_named_with_its_path_in_the_order_of_the_schema() -> None:
    found = violations(PERSON, {"age": "3", "tags": ["x", 3, None], "home": {}, "mode": "odd"})

    assert found == [
        '"name" is required and missing',
        '"age" must be an integer, got the string "3"',
        '"tags[1]" must be a string, got 3',
        '"tags[2]" must be a string, got null',
        '"home.city" is required and missing',
        '"mode" must be one of ["fast","slow"], got the string "odd"',
    ]


def test_a_fitting_value_and_keys_that_are_not_declared_are_fine() -> None:
    assert violations(PERSON, {"name": "x", "extra": 1, "home": {"city": "y", "more": []}}) == []


def test_frozen_arguments_are_judged_like_plain_ones() -> None:
    assert violations(freeze(PERSON), freeze({"name": "x", "tags": ["a"], "home": {"city": "y"}})) == []


def test_the_value_itself_goes_by_the_root_name() -> None:
    assert violations(PERSON, []) == ["arguments must be an object, got an array"]
    assert violations({"type": "string"}, 3, root="value") == ["value must be a string, got 3"]


def test_a_default_is_never_applied() -> None:
    schema = {"properties": {"n": {"type": "integer", "default": 1}}, "required": ["n"]}

    assert violations(schema, {}) == ['"n" is required and missing']


def test_a_missing_key_shows_the_unknown_one_that_came_instead() -> None:
    assert violations(PERSON, {"nmae": "x"}) == ['"name" is required and missing (there is no "nmae")']


@pytest.mark.parametrize(
    ("kind", "fits", "fails"),
    [
        ("string", ["", "x"], [1, None, True, [], {}]),
        ("integer", [0, -3, 3.0, 10**30], [3.5, True, "3", float("nan"), float("inf")]),
        ("number", [0, 2.5], [False, "2", None]),
        ("boolean", [True, False], [0, 1, "true"]),
        ("null", [None], [0, "", False]),
        ("array", [[]], [{}, "[]"]),
        ("object", [{}], [[], "{}"]),
        (["string", "null"], ["x", None], [1, []]),
    ],
)
def test_types(kind: Any, fits: list[Any], fails: list[Any]) -> None:
    assert [value for value in fits if violations({"type": kind}, value)] == []
    assert [value for value in fails if not violations({"type": kind}, value)] == []


def test_json_in_a_string_is_told_from_json() -> None:
    assert violations({"type": "array"}, '["ls"]') == [
        'arguments must be an array, got the string "[\\"ls\\"]"; send the value itself, not a string that holds it'
    ]


@pytest.mark.parametrize(
    ("schema", "value", "found"),
    [
        ({"minimum": 1}, 0, ["arguments must be at least 1, got 0"]),
        ({"maximum": 1}, 2, ["arguments must be at most 1, got 2"]),
        ({"exclusiveMinimum": 1}, 1, ["arguments must be greater than 1, got 1"]),
        ({"exclusiveMaximum": 1}, 1, ["arguments must be less than 1, got 1"]),
        ({"minimum": 1, "exclusiveMinimum": True}, 1, ["arguments must be greater than 1, got 1"]),
        ({"minimum": 1}, "0", []),
        ({"minLength": 2}, "x", ["arguments must have at least 2 characters, got 1"]),
        ({"maxLength": 1}, "xyz", ["arguments must have at most 1 character, got 3"]),
        ({"pattern": "^a+$"}, "ab", ['arguments must match the pattern ^a+$, got the string "ab"']),
        ({"pattern": "("}, "ab", []),
        ({"minItems": 1}, [], ["arguments must have at least 1 item, got 0"]),
        ({"maxItems": 1}, [1, 2], ["arguments must have at most 1 item, got 2"]),
        ({"uniqueItems": True}, [1, True, 1.0], ['"[2]" repeats "[0]", and items must be unique']),
        ({"uniqueItems": True}, [{"a": [1]}, {"a": [1]}], ['"[1]" repeats "[0]", and items must be unique']),
        ({"enum": [1, "1"]}, True, ['arguments must be one of [1,"1"], got true']),
        ({"enum": [{"a": 1}]}, {"a": 1.0}, []),
        ({"const": None}, 0, ["arguments must be null, got 0"]),
        ({"prefixItems": [{"type": "string"}], "items": False}, ["a", 1], ['"[1]" is not allowed']),
        ({"items": [{"type": "string"}]}, [1, 1], ['"[0]" must be a string, got 1']),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"b": 1}, ['"b" is not allowed; known are "a"']),
        ({"additionalProperties": {"type": "string"}}, {"b": 1}, ['"b" must be a string, got 1']),
        ({"patternProperties": {"^x": {"type": "string"}}, "additionalProperties": False}, {"xa": "1"}, []),
        ({"allOf": [{"type": "string"}, {"minLength": 2}]}, "x", ["arguments must have at least 2 characters, got 1"]),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 1, ["arguments must be a string or null, got 1"]),
        ({"anyOf": [{"type": "integer", "minimum": 3}, {"type": "null"}]}, 1, ["arguments must be at least 3, got 1"]),
        (
            {"oneOf": [{"minimum": 1}, {"maximum": 5}]},
            3,
            ["arguments fits 2 of 2 alternatives, and must fit one alone"],
        ),
        (False, 1, ["arguments is not allowed"]),
        (True, 1, []),
    ],
)
def test_keywords(schema: Any, value: Any, found: list[str]) -> None:
    assert violations(schema, value) == found


def test_alternatives_of_one_type_are_listed() -> None:
    pair = {"anyOf": [{"required": ["a"], "type": "object"}, {"required": ["b"], "type": "object"}]}

    assert violations(pair, {}) == [
        'arguments fits no alternative: "a" is required and missing | "b" is required and missing'
    ]


def test_references_into_the_schema_are_followed() -> None:
    tree = {
        "$ref": "#/$defs/a~1b",
        "$defs": {
            "a/b": {
                "type": "object",
                "properties": {"v": {"type": "integer"}, "kids": {"items": {"$ref": "#/$defs/a~1b"}}},
                "required": ["v"],
            }
        },
    }

    assert violations(tree, {"v": 1, "kids": [{"v": 2, "kids": [{"v": "3"}]}]}) == [
        '"kids[0].kids[0].v" must be an integer, got the string "3"'
    ]
    assert violations({"$ref": "#/$defs/x"}, 1, definitions={"$defs": {"x": {"type": "null"}}}) == [
        "arguments must be null, got 1"
    ]


@pytest.mark.parametrize(
    "ref", ["#", "#/nowhere", "#/$defs/loop", "https://elsewhere.example/x", "#/allOf/7", "", "#//"]
)
def test_references_that_lead_nowhere_or_in_circles_constrain_nothing(ref: str) -> None:
    schema = {"$ref": ref, "$defs": {"loop": {"allOf": [{"$ref": "#/$defs/loop"}]}}, "allOf": []}

    assert violations(schema, 1) == []


def test_a_circle_of_types_in_alternatives_ends() -> None:
    schema = {"$defs": {"a": {"$ref": "#/$defs/a"}}, "anyOf": [{"$ref": "#/$defs/a"}, False]}

    assert violations(schema, 1) == []
    assert violations({"anyOf": [False, {"$ref": "#"}]}, 1) == []


def test_what_is_nested_too_deeply_is_a_violation_and_no_crash() -> None:
    value: Any = 1
    for _ in range(5000):
        value = [value]
    schema: dict[str, Any] = {"items": {"$ref": "#"}}

    assert violations(schema, value) == ["arguments cannot be checked: schema or value is nested too deeply"]
    assert violations({"const": value}, value) == ["arguments cannot be checked: schema or value is nested too deeply"]


def test_keys_that_would_make_a_path_ambiguous_are_quoted() -> None:
    schema = {"additionalProperties": {"type": "string"}}

    assert violations(schema, {"a b": 1, "c.d": 1, "": 1}) == [
        '"["a b"]" must be a string, got 1',
        '"["c.d"]" must be a string, got 1',
        '"[""]" must be a string, got 1',
    ]


def test_long_values_are_shown_in_part() -> None:
    assert len(violations({"type": "integer"}, "x" * 10_000)[0]) < 200


def test_check_arguments_raises_with_all_of_them() -> None:
    tool = Tool("person", "", PERSON, lambda arguments, call: "")

    check_arguments(tool, {"name": "x"})
    with pytest.raises(ToolArgsError, match=r'invalid arguments for person: "name" is .*; "age" must') as caught:
        check_arguments(tool, {"age": None})
    assert caught.value.code == "INVALID_ARGS"
    assert caught.value.violations == ('"name" is required and missing', '"age" must be an integer, got null')
    with pytest.raises(ToolArgsError, match="arguments must be an object, got the string"):
        check_arguments(tool, "ls")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
KEYWORDS = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "patternProperties",
    "items",
    "prefixItems",
    "enum",
    "const",
    "anyOf",
    "oneOf",
    "allOf",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "uniqueItems",
    "$ref",
    "$defs",
    "description",
    "not",
    "format",
]
odd_schemas = st.recursive(
    json_values | st.sampled_from(["string", "object", "array", "#", "#/properties/a", "["]),
    lambda inner: st.dictionaries(st.sampled_from([*KEYWORDS, "a"]), inner | st.lists(inner, max_size=3), max_size=6),
    max_leaves=20,
)


@given(odd_schemas, json_values)
def test_no_schema_and_no_value_makes_it_raise(schema: Any, value: Any) -> None:
    found = violations(schema, value)

    assert all(isinstance(text, str) for text in found)
    assert found == violations(json.loads(json.dumps(schema)), value)


@given(json_values)
def test_a_value_fits_the_schema_that_names_it(value: Any) -> None:
    assert violations({"const": value}, value) == []
    assert violations({"enum": [value]}, json.loads(json.dumps(value))) == []
    assert violations({}, value) == []


@pytest.mark.parametrize("schema", [{"pattern": "(a+)+$"}, {"items": {"pattern": "^(a|a)*$"}}])
def test_a_pattern_that_never_ends_constrains_nothing(schema: Json) -> None:
    """Nothing else would ever run again; it is tried once."""
    text = "a" * 60 + "!"
    value = [text] * 1000 if "items" in schema else text
    before = signal.getsignal(signal.SIGVTALRM)
    assert violations(schema, value) == []
    assert violations({"pattern": "^a+$"}, text) == [f'arguments must match the pattern ^a+$, got the string "{text}"']
    assert signal.getsignal(signal.SIGVTALRM) is before
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
