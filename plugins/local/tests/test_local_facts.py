"""What is known of the model on this machine: that it costs nothing, and how much it takes in."""

from __future__ import annotations

from typing import Any

import dsh_local
import pytest

from dsh.config import Config
from dsh.models import ModelFacts, Price
from dsh.testing import memory_harness


@pytest.mark.parametrize(
    ("table", "window"),
    [({}, 8192), ({"context": 1024}, 1024), ({"server_url": "http://127.0.0.1:1/v1"}, None)],
)
async def test_it_costs_nothing_and_the_window_is_the_one_that_we_serve(
    table: dict[str, Any], window: int | None
) -> None:
    config = Config(tables={"local": {"detect": False, **table}})
    async with memory_harness(plugins={"local": dsh_local}, config=config) as harness:
        facts = await harness.models.look_up("local/any")
        other = await harness.models.look_up("localhost/any")
    assert facts == ModelFacts(window, None, Price(0.0, 0.0))
    assert other == ModelFacts()
