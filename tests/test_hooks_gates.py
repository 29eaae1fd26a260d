"""Gates: a guard that fails denies, and a denial is final."""

from __future__ import annotations

import types
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any, Protocol

import attrs
import pytest
import trio

from dsh import Accept, Allow, Ask, Block, Deny, HookContext, PluginSource, Text, gate, hookimpl
from dsh.hooks import Act, PluginManager, Settings, Trace


class Hooks(Protocol):
    @gate
    async def may_run(self, x: Any) -> Any: ...

    @gate(on_error="block")
    async def may_enter(self, x: Any) -> Any: ...

    @gate(on_error="raise")
    async def reviewed(self, x: Any) -> Any: ...


def managed(specs: type, settings: Settings | None = None) -> PluginManager:
    manager = PluginManager(settings=settings)
    manager.add_hookspecs(specs)
    return manager


def add(manager: PluginManager, name: str, **functions: Callable[..., Any]) -> types.ModuleType:
    """Register a module of that name with these implementations."""
    module = types.ModuleType(name)
    vars(module).update(functions)
    manager.register(module, name)
    return module


def traced() -> tuple[PluginManager, list[Act]]:
    acts: list[Act] = []
    settings = Settings(on_trace=lambda trace: acts.extend(trace.acts))
    return managed(Hooks, settings), acts


def giving(answer: Any, heard: list[Any] | None = None, *, asynchronous: bool = False) -> Callable[..., Any]:
    """An implementation that notes what it was given, and answers, or raises, `answer`."""

    def plain(x: Any) -> Any:
        if heard is not None:
            heard.append(x)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def awaiting(x: Any) -> Any:
        await trio.lowlevel.checkpoint()
        return plain(x)

    mark: Any = hookimpl
    marked: Callable[..., Any] = mark(awaiting if asynchronous else plain)
    return marked


def becoming(change: Callable[[Any], Any], *, asynchronous: bool = False) -> Callable[..., Any]:
    """A wrapper that hands back what `change` makes of the verdict."""

    def plain() -> Generator[None, Any, Any]:
        return change((yield))

    async def awaiting() -> AsyncGenerator[Any, Any]:
        verdict = yield
        await trio.lowlevel.checkpoint()
        yield change(verdict)

    return hookimpl(wrapper=True)(awaiting if asynchronous else plain)


def noting(seen: list[Any]) -> Callable[..., Any]:
    """A wrapper that notes the verdict and leaves it."""

    def note(verdict: Any) -> Any:
        seen.append(verdict)
        return verdict

    return becoming(note)


both = pytest.mark.parametrize("asynchronous", [False, True])


# -- composition


async def test_nobody_objecting_is_allow() -> None:
    manager = managed(Hooks)
    assert await manager.relay.may_run(x=1) == Allow()
    assert await manager.relay.may_enter(x=1) == Allow()
    assert await manager.relay.reviewed(x=1) == Accept()

    add(manager, "a", may_run=giving(None), may_enter=giving(None), reviewed=giving(None))
    assert await manager.relay.may_run(x=1) == Allow()
    assert await manager.relay.may_enter(x=1) == Allow()
    assert await manager.relay.reviewed(x=1) == Accept()


@both
async def test_nothing_but_a_denial_stops_the_others_and_all_get_the_same_arguments(asynchronous: bool) -> None:
    manager = managed(Hooks)
    heard: list[Any] = []
    given = object()
    add(manager, "never", may_run=giving(None, heard, asynchronous=asynchronous))
    add(manager, "denies", may_run=giving(Deny("no"), heard, asynchronous=asynchronous))
    for number, answer in enumerate([Allow(), None, Ask("hm"), Allow()]):
        add(manager, f"p{number}", may_run=giving(answer, heard, asynchronous=asynchronous))

    assert await manager.relay.may_run(x=given) == Deny("no")
    assert len(heard) == 5
    assert all(x is given for x in heard)


@pytest.mark.parametrize("answers", [(Ask("a"), Allow()), (Allow(), Ask("a")), (None, Ask("a"), None)])
async def test_a_question_is_more_severe_than_a_yes(answers: tuple[Any, ...]) -> None:
    manager = managed(Hooks)
    for number, answer in enumerate(answers):
        add(manager, f"p{number}", may_run=giving(answer))
    seen: list[Any] = []
    add(manager, "w", may_run=noting(seen))

    await manager.relay.may_run(x=1)
    assert seen == [Ask("a")]


async def test_of_several_questions_the_first_is_asked() -> None:
    manager = managed(Hooks)
    add(manager, "second", may_run=giving(Ask("second")))
    add(manager, "first", may_run=giving(Ask("first")))

    verdict = await manager.relay.may_run(x=1)
    assert verdict.reason.endswith(": first")


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("reason", [None, "is it safe?"])
async def test_a_question_that_nobody_answers_is_a_denial(wrapped: bool, reason: str | None) -> None:
    manager = managed(Hooks)
    add(manager, "asks", may_run=giving(Ask(reason)))
    if wrapped:
        add(manager, "w", may_run=becoming(lambda verdict: verdict))

    verdict = await manager.relay.may_run(x=1)
    assert isinstance(verdict, Deny)
    assert verdict.unanswered
    assert "nobody" in verdict.reason
    assert (reason or "nobody") in verdict.reason


async def test_contexts_of_all_are_kept_in_order_with_their_source() -> None:
    manager = managed(Hooks)
    own = HookContext("own source", PluginSource("somebody"))
    add(manager, "d", may_enter=giving(Allow(context=(own, HookContext("more", PluginSource("d"))))))
    add(manager, "c", may_enter=giving(None))
    add(manager, "b", may_enter=giving(Allow(context=Text("block"))))
    add(manager, "a", may_enter=giving(Allow(context="text")))

    verdict = await manager.relay.may_enter(x=1)
    assert verdict == Allow(
        context=(
            HookContext("text", PluginSource("a")),
            HookContext("block", PluginSource("b")),
            own,
            HookContext("more", PluginSource("d")),
        )
    )


async def test_contexts_come_in_any_form() -> None:
    manager = managed(Hooks)
    source = PluginSource("p")
    own = HookContext("own", PluginSource("q"))
    forms: list[tuple[Any, tuple[HookContext, ...]]] = [
        ((), ()),
        ([], ()),
        ([own], (own,)),
        (own, (own,)),
        ((own, "and text"), (own, HookContext("and text", source))),
        ((Text("a"), Text("b")), (HookContext((Text("a"), Text("b")), source),)),
        ((item for item in [own]), (own,)),
    ]
    for given, expected in forms:
        module = add(manager, "p", may_enter=giving(Allow(context=given)))
        assert (await manager.relay.may_enter(x=1)).context == expected
        manager.unregister(module)


@pytest.mark.parametrize("context", [5, [5], object()])
async def test_a_context_that_is_no_content_is_a_failure_of_the_plugin(context: Any) -> None:
    manager = managed(Hooks)
    add(manager, "odd", may_enter=giving(Allow(context=context)))
    verdict = await manager.relay.may_enter(x=1)
    assert isinstance(verdict, Block)
    assert "odd" in verdict.reason

    other = managed(Hooks)
    add(other, "odd", may_enter=becoming(lambda verdict: Allow(context=context)))
    verdict = await other.relay.may_enter(x=1)
    assert isinstance(verdict, Block)
    assert "odd" in verdict.reason


async def test_the_first_content_wins_and_the_others_are_recorded_as_unused() -> None:
    manager, acts = traced()
    add(manager, "third", may_enter=giving(Allow(content="third")))
    add(manager, "second", may_enter=giving(Allow(context="c")))
    add(manager, "first", may_enter=giving(Allow(content="first")))

    verdict = await manager.relay.may_enter(x=1)
    assert verdict == Allow(content="first", context=(HookContext("c", PluginSource("second")),))
    assert [(act.plugin, "not used" in (act.reason or "")) for act in acts] == [
        ("first", False),
        ("second", False),
        ("third", True),
    ]


async def test_a_block_keeps_the_contexts_given_before_it() -> None:
    manager = managed(Hooks)
    add(manager, "blocks", reviewed=giving(Block("withheld", context="why")))
    add(manager, "notes", reviewed=giving(Accept(content="new", context="note")))

    verdict = await manager.relay.reviewed(x=1)
    assert verdict.reason == "withheld"
    assert [context.source.plugin for context in verdict.context] == ["notes", "blocks"]


# -- failures


@both
async def test_an_implementation_that_raises_denies_and_stops(asynchronous: bool) -> None:
    manager, acts = traced()
    heard: list[Any] = []
    add(manager, "never", may_run=giving(Allow(), heard))
    add(manager, "broken", may_run=giving(ZeroDivisionError("oops"), asynchronous=asynchronous))

    verdict = await manager.relay.may_run(x=1)
    assert isinstance(verdict, Deny)
    assert "broken" in verdict.reason
    assert "oops" in verdict.reason
    assert not verdict.unanswered
    assert heard == []
    assert [(act.plugin, act.verdict) for act in acts] == [("broken", "raised")]


@pytest.mark.parametrize("answer", [True, "yes", Block("x"), Accept(), Deny, object()])
@pytest.mark.parametrize("wrapper", [False, True])
async def test_an_answer_of_another_type_denies(answer: Any, wrapper: bool) -> None:
    manager, acts = traced()
    add(manager, "odd", may_run=becoming(lambda verdict: answer) if wrapper else giving(answer))

    verdict = await manager.relay.may_run(x=1)
    assert isinstance(verdict, Deny)
    assert "odd" in verdict.reason
    assert "Allow or Ask or Deny" in verdict.reason
    assert [(act.plugin, act.verdict) for act in acts] == [("odd", "raised")]


@pytest.mark.parametrize("answer", [Deny("x"), Ask("x"), Accept()])
async def test_a_prompt_gate_knows_allow_and_block_alone(answer: Any) -> None:
    manager = managed(Hooks)
    add(manager, "odd", may_enter=giving(answer))

    verdict = await manager.relay.may_enter(x=1)
    assert isinstance(verdict, Block)
    assert "Allow or Block" in verdict.reason


@both
@pytest.mark.parametrize("half", ["first", "second", "lost", "no yield", "too often"])
async def test_a_half_of_a_wrapper_that_fails_denies_and_outer_wrappers_see_it(half: str, asynchronous: bool) -> None:
    manager, acts = traced()
    heard: list[Any] = []
    seen: list[Any] = []

    def plain() -> Generator[None, Any, Any]:
        if half == "no yield":
            return None
        if half == "first":
            raise ValueError("oops")
        yield
        if half == "second":
            raise ValueError("oops")
        if half == "too often":
            yield
        return None

    async def awaiting() -> AsyncGenerator[Any, Any]:
        if half == "no yield":
            return
        if half == "first":
            raise ValueError("oops")
        yield
        if half == "second":
            raise ValueError("oops")
        yield None
        if half == "too often":
            yield

    add(manager, "allows", may_run=giving(Allow(), heard))
    add(manager, "broken", may_run=hookimpl(wrapper=True)(awaiting if asynchronous else plain))
    add(manager, "outer", may_run=noting(seen))

    verdict = await manager.relay.may_run(x=1)
    assert isinstance(verdict, Deny)
    assert "broken" in verdict.reason
    assert seen == [verdict]
    assert heard == ([] if half in ("first", "no yield") else [1])
    assert ("broken", "raised") in [(act.plugin, act.verdict) for act in acts]


async def test_an_error_group_from_an_implementations_nursery_denies() -> None:
    manager = managed(Hooks)

    @hookimpl
    async def may_run() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            raise ValueError("in a nursery")

    add(manager, "broken", may_run=may_run)
    verdict = await manager.relay.may_run(x=1)
    assert isinstance(verdict, Deny)
    assert "broken" in verdict.reason


# -- wrappers


@both
async def test_an_approver_answers_a_question(asynchronous: bool) -> None:
    manager, acts = traced()
    add(manager, "asks", may_run=giving(Ask("?")))
    add(manager, "person", may_run=becoming(lambda verdict: Allow(), asynchronous=asynchronous))

    assert await manager.relay.may_run(x=1) == Allow()
    assert [(act.plugin, act.verdict, act.reason) for act in acts] == [("asks", "ask", "?"), ("person", "allow", None)]


@both
async def test_a_wrapper_may_tighten(asynchronous: bool) -> None:
    manager = managed(Hooks)
    add(manager, "allows", may_run=giving(Allow()))
    add(manager, "asks", may_run=becoming(lambda verdict: Ask("really?"), asynchronous=asynchronous))
    add(manager, "denies", may_run=becoming(lambda verdict: Deny(f"was {verdict!r}"), asynchronous=asynchronous))

    assert await manager.relay.may_run(x=1) == Deny("was Ask(reason='really?')")


@both
@pytest.mark.parametrize("instead", [Allow(), Ask("?"), Deny("another reason")])
async def test_a_denial_is_put_back_after_each_wrapper_and_that_is_recorded(instead: Any, asynchronous: bool) -> None:
    manager, acts = traced()
    seen: list[Any] = []
    add(manager, "denies", may_run=giving(Deny("final")))
    add(manager, "tries", may_run=becoming(lambda verdict: instead, asynchronous=asynchronous))
    add(manager, "sees", may_run=noting(seen))
    add(manager, "tries too", may_run=becoming(lambda verdict: instead, asynchronous=asynchronous))

    assert await manager.relay.may_run(x=1) == Deny("final")
    assert seen == [Deny("final")]
    assert [(act.plugin, act.verdict) for act in acts] == [
        ("denies", "deny"),
        ("tries", "restored"),
        ("tries too", "restored"),
    ]
    assert "final" in (acts[1].reason or "")


async def test_the_denial_of_a_failure_is_put_back_too() -> None:
    manager = managed(Hooks)
    add(manager, "broken", may_run=giving(ValueError("oops")))
    add(manager, "tries", may_run=becoming(lambda verdict: Allow()))

    assert isinstance(await manager.relay.may_run(x=1), Deny)


async def test_a_wrapper_that_fails_over_a_denial_leaves_its_reason() -> None:
    manager, acts = traced()
    add(manager, "denies", may_run=giving(Deny("the reason")))
    add(manager, "broken", may_run=becoming(lambda verdict: None))

    assert await manager.relay.may_run(x=1) == Deny("the reason")
    assert [(act.plugin, act.verdict) for act in acts] == [("denies", "deny"), ("broken", "raised")]


async def test_a_wrapper_may_rewrite_after_all_others() -> None:
    manager, acts = traced()
    add(manager, "says", may_enter=giving(Allow(content="one", context="kept")))
    rewrite = becoming(lambda verdict: attrs.evolve(verdict, content="two", context=(*verdict.context, "added")))
    add(manager, "rewrites", may_enter=rewrite)

    verdict = await manager.relay.may_enter(x=1)
    assert verdict.content == (Text("two"),)
    assert [context.source.plugin for context in verdict.context] == ["says", "rewrites"]
    assert acts[-1].verdict == "changed"
    assert acts[-1].changed == ("content", "context")


async def test_a_blocked_prompt_stays_blocked() -> None:
    manager = managed(Hooks)
    add(manager, "blocks", may_enter=giving(Block("no")))
    add(manager, "tries", may_enter=becoming(lambda verdict: Allow()))

    assert await manager.relay.may_enter(x=1) == Block("no")


# -- cancellation from outside


@both
async def test_a_cancelled_turn_is_no_denial(asynchronous: bool) -> None:
    manager, acts = traced()
    seen: list[Any] = []

    @hookimpl
    async def may_run() -> None:
        await trio.sleep_forever()

    def plain() -> Generator[None, Any, Any]:
        try:
            return (yield)
        except BaseException as error:
            seen.append(type(error))
            raise

    async def awaiting() -> AsyncGenerator[Any, Any]:
        try:
            yield
        except BaseException as error:
            seen.append(type(error))
            raise

    add(manager, "waits", may_run=may_run)
    add(manager, "w", may_run=hookimpl(wrapper=True)(awaiting if asynchronous else plain))

    with trio.move_on_after(0) as turn:
        await manager.relay.may_run(x=1)
        pytest.fail("the cancellation was lost")
    assert turn.cancelled_caught
    assert seen == [trio.Cancelled]
    assert acts == []


@pytest.mark.parametrize("half", ["first", "second"])
@pytest.mark.parametrize("deadline", [60.0, None])
async def test_a_turn_cancelled_inside_a_half_of_a_wrapper_is_no_denial(half: str, deadline: float | None) -> None:
    manager, acts = traced()

    @hookimpl(wrapper=True, deadline=deadline)
    async def may_run() -> AsyncGenerator[Any, Any]:
        if half == "first":
            await trio.sleep_forever()
        yield
        await trio.sleep_forever()

    add(manager, "w", may_run=may_run)

    with trio.move_on_after(0) as turn:
        await manager.relay.may_run(x=1)
        pytest.fail("the cancellation was lost")
    assert turn.cancelled_caught
    assert acts == []


@both
@pytest.mark.parametrize("how", ["answers", "raises", "loses"])
async def test_a_wrapper_cannot_end_the_cancellation_of_a_turn(how: str, asynchronous: bool) -> None:
    manager = managed(Hooks)

    def instead() -> Any:
        if how == "raises":
            raise ValueError("instead")
        return Allow() if how == "answers" else None

    def plain() -> Generator[None, Any, Any]:
        try:
            return (yield)
        except trio.Cancelled:
            return instead()

    async def awaiting() -> AsyncGenerator[Any, Any]:
        try:
            answer = yield
        except trio.Cancelled:
            answer = instead()
        yield answer

    @hookimpl
    async def may_run() -> None:
        await trio.sleep_forever()

    add(manager, "waits", may_run=may_run)
    add(manager, "swallows", may_run=hookimpl(wrapper=True)(awaiting if asynchronous else plain))

    with trio.move_on_after(0) as turn:
        await manager.relay.may_run(x=1)
        pytest.fail("the cancellation was lost")
    assert turn.cancelled_caught


async def test_a_wrappers_own_cancel_scope_is_its_own_affair(autojump_clock: trio.testing.MockClock) -> None:
    manager = managed(Hooks)

    @hookimpl
    async def may_run() -> None:
        await trio.sleep_forever()

    @hookimpl(wrapper=True)
    async def bounded() -> AsyncGenerator[Any, Any]:
        verdict: Any = Deny("too slow")
        with trio.move_on_after(5):
            verdict = yield
        yield verdict

    add(manager, "waits", may_run=hookimpl(deadline=None)(may_run))
    add(manager, "bound", may_run=bounded)

    assert await manager.relay.may_run(x=1) == Deny("too slow")


async def test_a_wrapper_that_ends_its_own_scope_with_an_error_denies(autojump_clock: trio.testing.MockClock) -> None:
    manager = managed(Hooks)

    async def may_run() -> None:
        await trio.sleep_forever()

    @hookimpl(wrapper=True)
    async def bounded() -> AsyncGenerator[Any, Any]:
        with trio.fail_after(5):
            yield

    add(manager, "waits", may_run=hookimpl(deadline=None)(may_run))
    add(manager, "bound", may_run=bounded)

    verdict = await manager.relay.may_run(x=1)
    assert isinstance(verdict, Deny)
    assert "bound" in verdict.reason
    await trio.lowlevel.checkpoint()  # nothing of the cancellation is left


async def test_a_wrapper_may_hold_a_nursery_in_a_gate() -> None:
    manager = managed(Hooks)
    log: list[str] = []

    @hookimpl(wrapper=True)
    async def beside() -> AsyncGenerator[Any, Any]:
        async def work() -> None:
            log.append("works")
            await trio.sleep_forever()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(work)
            verdict = yield
            nursery.cancel_scope.cancel()
        yield verdict

    @hookimpl
    async def may_run() -> Deny:
        await trio.testing.wait_all_tasks_blocked()
        return Deny(",".join(log))

    add(manager, "x", may_run=may_run)
    add(manager, "w", may_run=beside)

    assert await manager.relay.may_run(x=1) == Deny("works")


# -- a gate whose errors reach the caller


@both
async def test_the_error_of_a_review_reaches_the_caller(asynchronous: bool) -> None:
    manager, acts = traced()
    heard: list[Any] = []
    add(manager, "never", reviewed=giving(Accept(), heard))
    add(manager, "broken", reviewed=giving(ZeroDivisionError("oops"), asynchronous=asynchronous))
    add(manager, "w", reviewed=becoming(lambda verdict: verdict))

    with pytest.raises(ZeroDivisionError, match="oops") as caught:
        await manager.relay.reviewed(x=1)
    assert caught.value.__notes__ == ["raised by reviewed of the plugin 'broken'"]
    assert heard == []
    assert [(act.plugin, act.verdict) for act in acts] == [("broken", "raised")]


@pytest.mark.parametrize("half", ["first", "second"])
async def test_the_error_of_a_reviewing_wrapper_reaches_the_caller(half: str) -> None:
    manager = managed(Hooks)

    @hookimpl(wrapper=True)
    def broken() -> Generator[None, Any, Any]:
        if half == "first":
            raise ValueError("oops")
        yield
        raise ValueError("oops")

    add(manager, "broken", reviewed=broken)
    add(manager, "outer", reviewed=becoming(lambda verdict: verdict))

    with pytest.raises(ValueError, match="oops"):
        await manager.relay.reviewed(x=1)


@both
async def test_no_wrapper_turns_the_error_of_a_review_into_an_accept(asynchronous: bool) -> None:
    manager, acts = traced()

    def plain() -> Generator[None, Any, Any]:
        try:
            return (yield)
        except ValueError:
            return Accept()

    async def awaiting() -> AsyncGenerator[Any, Any]:
        try:
            verdict = yield
        except ValueError:
            verdict = Accept()
        yield verdict

    add(manager, "broken", reviewed=giving(ValueError("oops")))
    add(manager, "hides", reviewed=hookimpl(wrapper=True)(awaiting if asynchronous else plain))

    with pytest.raises(ValueError, match="oops"):
        await manager.relay.reviewed(x=1)
    assert [(act.plugin, act.verdict) for act in acts] == [("broken", "raised"), ("hides", "restored")]


async def test_a_wrapper_may_turn_the_error_of_a_review_into_a_block() -> None:
    manager = managed(Hooks)

    @hookimpl(wrapper=True)
    def withholds() -> Generator[None, Any, Any]:
        try:
            return (yield)
        except ValueError:
            return Block("withheld")

    add(manager, "broken", reviewed=giving(ValueError("oops")))
    add(manager, "w", reviewed=withholds)

    assert await manager.relay.reviewed(x=1) == Block("withheld")


async def test_a_block_of_a_review_is_final() -> None:
    manager, acts = traced()
    heard: list[Any] = []
    add(manager, "never", reviewed=giving(Accept(), heard))
    add(manager, "blocks", reviewed=giving(Block("secret")))
    add(manager, "tries", reviewed=becoming(lambda verdict: Accept(content="all of it")))

    assert await manager.relay.reviewed(x=1) == Block("secret")
    assert heard == []
    assert acts[-1].verdict == "restored"


async def test_what_ends_the_program_passes_a_gate() -> None:
    manager = managed(Hooks)

    @hookimpl
    def may_run() -> None:
        raise KeyboardInterrupt

    add(manager, "interrupted", may_run=may_run)
    add(manager, "w", may_run=becoming(lambda verdict: verdict))

    with pytest.raises(KeyboardInterrupt):
        await manager.relay.may_run(x=1)


async def test_the_hook_and_arguments_are_traced_with_the_acts() -> None:
    traces: list[Trace] = []
    manager = managed(Hooks, Settings(on_trace=traces.append))
    add(manager, "a", may_run=giving(Deny("no")))

    await manager.relay.may_run(x="given")
    (trace,) = traces
    assert (trace.hook, dict(trace.arguments)) == ("may_run", {"x": "given"})
    assert [(act.plugin, act.verdict, act.reason, act.changed) for act in trace.acts] == [("a", "deny", "no", None)]
