"""Request headers in the log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh.errors import CorruptSession
from dsh.messages import CallConfig, Message, ToolSchema
from dsh.session import Session, canonical, diff, fold, owed
from dsh.session.events import Header, LinesDelta, RequestHeader, RequestHeaderDelta, ToolsDelta
from dsh.session.header import same

CONFIG = CallConfig("p/m")


def tool(name: str, description: str = "") -> ToolSchema:
    return ToolSchema(name, description, {"type": "object"})


def test_emptiness_is_absence() -> None:
    assert canonical(Header(CONFIG, "", (), ())) == Header(CONFIG)
    full = Header(CONFIG, "s", (tool("a"),), (Message("user", "x"),))
    assert canonical(full) is full


@pytest.mark.parametrize(
    ("old", "new", "delta"),
    [
        ("a\na", "a", LinesDelta(1, 0, ())),
        ("a\nb\nc", "a\nx\nc", LinesDelta(1, 1, ("x",))),
        (None, "a\nb", LinesDelta(0, 0, ("a", "b"))),
        ("a", None, LinesDelta(0, 0, ())),
        ("a", "a\na", LinesDelta(1, 0, ("a",))),
    ],
)
def test_text_changes_by_lines(old: str | None, new: str | None, delta: LinesDelta) -> None:
    """G07."""
    before, after = Header(CONFIG, old), Header(CONFIG, new)

    found = diff(before, after)

    assert found == RequestHeaderDelta(system=delta)
    assert fold(before, RequestHeaderDelta(system=delta), 1) == after


def test_tools_change_by_name() -> None:
    before = Header(CONFIG, tools=(tool("a"), tool("b"), tool("c")))
    after = Header(CONFIG, tools=(tool("a"), tool("c", "new"), tool("d")))

    delta = diff(before, after)

    assert delta == RequestHeaderDelta(tools=ToolsDelta((tool("d"),), ("b",), (tool("c", "new"),)))
    assert fold(before, delta, 1) == after


def test_a_new_order_of_tools_cannot_be_said() -> None:
    assert diff(Header(CONFIG, tools=(tool("a"), tool("b"))), Header(CONFIG, tools=(tool("b"), tool("a")))) is None


def test_a_prefix_can_go() -> None:
    before = Header(CONFIG, message_prefix=(Message("user", "x"),))

    assert diff(before, Header(CONFIG)) == RequestHeaderDelta(message_prefix=())
    assert fold(before, RequestHeaderDelta(message_prefix=()), 1) == Header(CONFIG)


def test_sameness_is_of_bytes() -> None:
    one = ToolSchema("a", "", {"type": "object", "required": []})
    other = ToolSchema("a", "", {"required": [], "type": "object"})

    assert one == other
    assert not same(Header(CONFIG, tools=(one,)), Header(CONFIG, tools=(other,)))
    assert not same(
        Header(CONFIG, tools=(ToolSchema("a", "", {"x": 1}),)),
        Header(CONFIG, tools=(ToolSchema("a", "", {"x": True}),)),
    )
    assert not same(Header(CallConfig("p/m", stop=())), Header(CONFIG))


@pytest.mark.parametrize(
    "delta",
    [
        RequestHeaderDelta(system=LinesDelta(2, 1, ())),
        RequestHeaderDelta(system=LinesDelta(-1, 0, ())),
        RequestHeaderDelta(tools=ToolsDelta((), ("x",), ())),
        RequestHeaderDelta(tools=ToolsDelta((), (), (tool("x"),))),
    ],
)
def test_a_delta_that_does_not_fit_is_corrupt(delta: RequestHeaderDelta) -> None:
    with pytest.raises(CorruptSession, match="event 12 "):
        fold(Header(CONFIG, "a\nb", (tool("a"),)), delta, 12)


def test_a_delta_before_any_header_is_corrupt() -> None:
    """G08."""
    with pytest.raises(CorruptSession, match="event 12 "):
        fold(None, RequestHeaderDelta(config=CONFIG), 12)


def test_what_is_owed() -> None:
    session = Session("a")
    first = Header(CONFIG, "one", (tool("a"), tool("b")))

    assert owed(session, first, False) == RequestHeader(first, "initial")
    session.append(RequestHeader(first, "initial"))
    assert owed(session, Header(CONFIG, "one", (tool("a"), tool("b")), ()), True) is None
    assert owed(session, first, False) == RequestHeader(first, "resume")
    second = Header(CONFIG, "two", (tool("a"), tool("b")))
    assert owed(session, second, True) == RequestHeaderDelta(system=LinesDelta(0, 0, ("two",)))
    turned = Header(CONFIG, "one", (tool("b"), tool("a")))
    assert owed(session, turned, True) == RequestHeader(turned, "fallback")
    assert owed(session, Header(CONFIG, ""), False) == RequestHeader(Header(CONFIG), "resume")


lines = st.lists(st.sampled_from(["", "a", "b", "c"]), max_size=6).map("\n".join)
tools = st.lists(
    st.builds(tool, st.sampled_from("abcd"), st.sampled_from(["", "x"])), max_size=4, unique_by=lambda t: t.name
)
headers = st.builds(
    lambda model, system, tools, prefix: canonical(Header(CallConfig(model), system, tuple(tools), tuple(prefix))),
    st.sampled_from(["p/m", "p/n"]),
    st.none() | lines,
    tools,
    st.lists(st.builds(Message, st.just("user"), st.sampled_from(["x", "y"])), max_size=2),
)


@given(st.lists(headers, min_size=1, max_size=6))
def test_the_log_says_what_every_request_held(wanted: list[Header]) -> None:
    session = Session("a")
    anchored = False
    for header in wanted:
        data = owed(session, header, anchored)
        if data is not None:
            session.append(data)
        anchored = True
        folded = session.request_header()
        assert folded == header
        assert same(folded, header)
    assert Session("b", session.events).request_header() == wanted[-1]


@given(headers, headers)
def test_only_a_new_order_needs_a_whole_header(old: Header, new: Header) -> None:
    delta = diff(old, new)

    if delta is not None:
        assert same(fold(old, delta, 1), new)
    else:
        kept = [tool.name for tool in old.tools or () if tool.name in {t.name for t in new.tools or ()}]
        assert [tool.name for tool in new.tools or ()][: len(kept)] != kept
