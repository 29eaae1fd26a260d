"""The fixture ``no_leftovers``: what a test leaves running makes it fail."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

LEAVES = """
import subprocess
import pytest
import trio
from hypothesis import given, settings, strategies as st
from dsh.testing import memory_agent, text

pytestmark = pytest.mark.usefixtures("no_leftovers")

async def test_leaves_a_task():
    trio.lowlevel.spawn_system_task(trio.sleep_forever, name="stray task")

@settings(max_examples=2)
@given(n=st.integers())
async def test_leaves_a_task_for_some_input(n):
    trio.lowlevel.spawn_system_task(trio.sleep_forever, name="other task")

def test_leaves_a_process():
    global child
    child = subprocess.Popen(["sleep", "600"])

def test_did_not_start_it():
    child.kill()
    child.wait()

async def test_tidies_up():
    async with memory_agent(text("hi")) as agent:
        assert (await agent.run("go")).text == "hi"

async def test_may_leave_tasks_to_a_fixture(nursery):
    nursery.start_soon(trio.sleep_forever)

async def test_skips():
    pytest.skip("its own reason to skip")

async def test_fails_by_itself():
    trio.lowlevel.spawn_system_task(trio.sleep_forever)
    assert False, "its own reason"
"""


def test_tasks_and_processes_that_are_left_fail_the_test(pytester: pytest.Pytester) -> None:
    if not Path("/proc/self/stat").exists():
        pytest.skip("needs /proc to see other processes")
    pytester.makepyfile(LEAVES)
    pytester.makeini("[pytest]\ntrio_mode = true\n")
    pytester.makeconftest("import dsh.testing.plugin\ndsh.testing.plugin.PATIENCE = 0.2\n")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-rfEs")
    result.assert_outcomes(passed=4, failed=3, errors=1, skipped=1)
    result.stdout.fnmatch_lines_random(
        [
            "*AssertionError: the test left tasks behind: stray task",
            "*AssertionError: the test left tasks behind: other task",
            "*Failed: the test left child processes behind: *",
            "*AssertionError: its own reason",
            "SKIPPED*test_tasks_and_processes_that_are_left_fail_the_test.py:*: its own reason to skip",
        ]
    )
