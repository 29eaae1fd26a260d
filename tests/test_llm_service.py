"""Which adapter serves a model, and how anybody asks it."""

from __future__ import annotations

from contextlib import aclosing

import pytest

from dsh.errors import LlmError
from dsh.llm.adapter import Request
from dsh.llm.chunks import Chunk
from dsh.llm.scripted import ScriptedModel, fail, text
from dsh.messages import Message
from dsh.testing import memory_harness, plugin_of

REQUEST = Request("scripted/model", (Message("user", "hi"),))


async def test_anybody_may_ask_a_model() -> None:
    chunks: list[Chunk] = []
    async with memory_harness(text("x")) as harness, aclosing(await harness.llm.stream(REQUEST)) as stream:
        chunks += [chunk async for chunk in stream]
    assert tuple(chunks) == text("x").chunks


async def test_models_are_listed_by_provider() -> None:
    async with memory_harness(plugins={"other": ScriptedModel(provider="other")}) as harness:
        assert harness.llm.models() == ["scripted/model", "other/model"]


async def test_a_model_is_found_by_its_provider() -> None:
    model = ScriptedModel()
    async with memory_harness(model=model) as harness:
        assert harness.llm.resolve("scripted/any/thing") == (model, "any/thing")
        assert harness.llm.resolve("model") == (model, "model")


@pytest.mark.parametrize("name", ["scriptd/model", "modl", "nowhere/x", ""])
async def test_a_model_that_nobody_serves_is_an_error_that_says_what_there_is(name: str) -> None:
    """K02."""
    async with memory_harness() as harness:
        with pytest.raises(LlmError, match="the providers are: scripted") as caught:
            harness.llm.resolve(name)
        assert caught.value.code == "NO_ADAPTER"


async def test_a_misspelt_model_gets_a_guess() -> None:
    async with memory_harness() as harness:
        with pytest.raises(LlmError, match="did you mean scripted"):
            harness.llm.resolve("scriptd/model")


async def test_a_request_for_an_unknown_model_fails_when_it_is_asked() -> None:
    async with memory_harness() as harness:
        with pytest.raises(LlmError, match="no provider"):
            await harness.llm.stream(Request("nowhere/x", ()))


async def test_two_plugins_cannot_serve_one_provider() -> None:
    """K02."""
    plugins = {"one": ScriptedModel(provider="p"), "two": ScriptedModel(provider="p")}
    with pytest.raises(LlmError, match="'p' is served by two plugins: one and two") as caught:
        async with memory_harness(plugins=plugins):
            pass
    assert caught.value.code == "DUPLICATE_ADAPTER"


async def test_a_plugin_may_answer_in_place_of_the_adapter() -> None:
    instead = ScriptedModel(text("instead"))
    async with memory_harness() as harness:
        harness.plugins.register(plugin_of(llm_stream=lambda request: instead.stream(request, "x")))
        async with aclosing(await harness.llm.stream(Request("nowhere/x", ()))) as stream:
            assert tuple([chunk async for chunk in stream]) == text("instead").chunks


async def test_a_failure_comes_out_of_the_stream() -> None:
    async with memory_harness(fail("no", code="AUTH")) as harness:
        stream = await harness.llm.stream(REQUEST)
        async with aclosing(stream):
            with pytest.raises(LlmError, match="no"):
                await anext(aiter(stream))


async def test_adapters_are_closed_with_the_harness_whatever_others_do() -> None:
    closed: list[str] = []

    class Closing(ScriptedModel):
        async def aclose(self) -> None:
            closed.append(self.provider)
            if self.provider == "a":
                raise RuntimeError("cannot close")

    def unconfigure() -> None:
        raise RuntimeError("cannot unconfigure")

    plugins = {"a": Closing(provider="a"), "b": Closing(provider="b"), "c": plugin_of(dsh_unconfigure=unconfigure)}
    with pytest.raises(ExceptionGroup) as caught:
        async with memory_harness(plugins=plugins):
            pass
    assert closed == ["a", "b"]
    assert [str(error) for error in caught.value.exceptions] == ["cannot unconfigure", "cannot close"]
