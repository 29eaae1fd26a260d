"""What a small model is shown."""

from __future__ import annotations

from typing import Any

from dsh_local.lean import lean, lean_schema
from hypothesis import given
from hypothesis import strategies as st

from dsh import ToolSchema
from dsh.prompt import Assembly, Section, render


def schema(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


PATH = {"type": "string", "description": "Path of the file. Relative ones start at the working directory."}
READ = ToolSchema(
    "read",
    "Read a text file. " + "Much more is to be said about it. " * 20,
    schema(["file_path"], file_path=PATH, offset={"type": "integer", "minimum": 1}, limit={"type": "integer"}),
)
BASH = ToolSchema("bash", "Run it", schema(["command"], command={"type": "string"}, workdir={"type": "string"}))
OTHERS = tuple(ToolSchema(f"other{n}", f"Tool {n}.", schema([])) for n in range(9))


def assembly(*tools: ToolSchema, cwd: str | None = "/home/me", persona: str = "", append: str = "") -> Assembly:
    sections = (
        Section("harness:identity", -100, "A long story about who it is."),
        Section("deployment:persona", 0, persona),
        Section("tool:bash", 105, "Check the exit marker. {{unknown_to_us}}"),
        Section("deployment:append", 900, append),
    )
    return Assembly(sections, {"cwd": cwd}, tools)


def test_the_prompt_is_short_and_names_the_folder() -> None:
    system = render(lean(assembly(READ), ["read"]))

    assert "/home/me" in system
    assert len(system) < 400
    assert "exit marker" not in system


def test_without_a_folder_none_is_named() -> None:
    assert "folder" not in render(lean(assembly(READ, cwd=None), ["read"]))


def test_what_a_person_added_to_the_prompt_stays() -> None:
    system = render(lean(assembly(READ, persona="You are a pirate.", append="Say arr."), ["read"]))

    assert "You are a pirate." in system
    assert system.endswith("Say arr.")


def test_the_named_tools_are_kept_in_that_order() -> None:
    shown = lean(assembly(*OTHERS, READ, BASH), ["bash", "read", "write"])

    assert [tool.name for tool in shown.tools] == ["bash", "read"]


def test_of_other_tools_the_first_five_are_shown() -> None:
    assert [tool.name for tool in lean(assembly(*OTHERS), ["read"]).tools] == [f"other{n}" for n in range(5)]


def test_a_schema_keeps_its_required_parameters_and_gets_an_example() -> None:
    shown = lean_schema(READ)

    assert shown.description == "Read a text file and return its contents."
    assert shown.parameters == {
        "type": "object",
        "properties": {
            "file_path": {"type": "string", "description": "Path of the file.", "examples": ["README.md"]},
        },
        "required": ["file_path"],
        "title": "What is in README.md?",
    }


def test_a_tool_of_the_same_name_with_other_parameters_gets_no_example() -> None:
    shown = lean_schema(ToolSchema("read", "Read it", schema(["url"], url={"type": "string"})))

    assert shown.parameters == {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]}


def test_what_limits_a_value_is_kept() -> None:
    choice = {"enum": ["a", "b"], "description": "One of them: a is this, and b is that"}
    shown = lean_schema(ToolSchema("pick", "Pick one", schema(["choice"], choice=choice)))

    assert shown.parameters["properties"]["choice"] == {"enum": ["a", "b"], "description": "One of them"}


@given(
    description=st.text(max_size=400),
    properties=st.dictionaries(
        st.text(min_size=1, max_size=5),
        st.fixed_dictionaries({"type": st.just("string")}, optional={"description": st.text(max_size=200)}),
        max_size=5,
    ),
    data=st.data(),
)
def test_any_schema_becomes_a_short_one(description: str, properties: dict[str, Any], data: st.DataObject) -> None:
    names = sorted(properties)
    required = data.draw(st.lists(st.sampled_from([*names, "gone"]), unique=True, max_size=6))

    shown = lean_schema(ToolSchema("any", description, schema(required, **properties)))

    assert len(shown.description) <= 100
    assert set(shown.parameters["properties"]) == set(shown.parameters["required"]) == set(required) & set(names)
    for parameter in shown.parameters["properties"].values():
        assert parameter["type"] == "string"
        assert len(parameter.get("description", "")) <= 40
