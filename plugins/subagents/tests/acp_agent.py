"""An agent that speaks the Agent Client Protocol, well or badly: ``acp_agent.py BEHAVIOUR [JSON]``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

BEHAVIOUR = sys.argv[1]
MORE: Any = json.loads(sys.argv[2]) if len(sys.argv) > 2 else None
SESSION = "s-1"
DEAF = ("deaf", "stay", "busy")


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def receive() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        while BEHAVIOUR in DEAF:
            time.sleep(60)
        sys.exit(0)
    found: dict[str, Any] = json.loads(line)
    return found


def update(**fields: Any) -> None:
    send({"method": "session/update", "params": {"sessionId": SESSION, "update": fields}})


def say(text: str) -> None:
    update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})


def ask(method: str, **params: Any) -> Any:
    """The result of a request, or the error."""
    send({"id": "r", "method": method, "params": {"sessionId": SESSION, **params}})
    while True:
        message = receive()
        if message.get("id") == "r" and "method" not in message:
            return message.get("result", message.get("error"))


def answer(id: Any, stop: str = "end_turn", **more: Any) -> None:
    send({"id": id, "result": {"stopReason": stop, **more}})


def use_tool() -> None:
    update(sessionUpdate="tool_call", toolCallId="t1", title="look", kind="search", status="pending")
    update(sessionUpdate="tool_call_update", toolCallId="t1", status="in_progress")
    update(sessionUpdate="tool_call_update", toolCallId="t1", status="completed")


def work(id: Any, prompt: str) -> None:
    match BEHAVIOUR:
        case "answer" | "stay":
            update(sessionUpdate="agent_thought_chunk", content={"type": "text", "text": "hm"})
            say("I look.")
            use_tool()
            say("The ")
            say("answer.")
            answer(id, usage={"totalTokens": 9, "inputTokens": 5, "outputTokens": 4})
        case "echo":
            say(prompt)
            answer(id)
        case "patient":
            while not os.path.exists(MORE):
                time.sleep(0.01)
            say(prompt)
            answer(id)
        case "environment":
            say(json.dumps({"env": dict(os.environ), "cwd": os.getcwd(), "group": os.getpgrp() == os.getpid()}))
            answer(id)
        case "killed":
            say("so far")
            os.kill(os.getpid(), signal.SIGKILL)
        case "holder":
            say("so far")
            subprocess.Popen(["sleep", "1000"])  # holds stdout open
            os.kill(os.getpid(), signal.SIGKILL)
        case "exits":
            say("so far")
            print("it broke", file=sys.stderr)
            sys.exit(3)
        case "hang" | "deaf":
            say("so far")
            while True:
                if receive().get("method") == "session/cancel" and BEHAVIOUR == "hang":
                    say("late")
                    answer(id, "cancelled")
                    return
        case "noise":
            for number in range(20_000):
                print(f"line {number} of a log")
            print("\0" * 100)
            print('{"half": ')
            print("[1, 2]")
            say("said")
            answer(id)
        case "flood":
            say("so far")
            while True:
                print("noise" * 1000)
        case "long-noise":
            print("x" * 50_000_000)
            say("said")
            answer(id)
        case "long-message":
            say("so far")
            say("x" * 50_000_000)
            answer(id)
        case "talks":
            while True:
                say("word " * 10_000)
        case "stop":
            say("so far")
            answer(id, MORE)
        case "error":
            say("so far")
            send({"id": id, "error": {"code": -32603, "message": "no credit", "data": "pay"}})
        case "ask":
            say(json.dumps([ask(method, **params) for method, params in MORE]))
            answer(id)
        case "terminal":
            made = ask("terminal/create", **MORE)
            if "terminalId" not in made:
                say(json.dumps(made))
            else:
                name = made["terminalId"]
                ended = ask("terminal/wait_for_exit", terminalId=name)
                found = ask("terminal/output", terminalId=name)
                ask("terminal/release", terminalId=name)
                say(json.dumps([ended, found, ask("terminal/output", terminalId=name)]))
            answer(id)
        case "kill-terminal":
            name = ask("terminal/create", **MORE)["terminalId"]
            ask("terminal/kill", terminalId=name)
            say(json.dumps(ask("terminal/output", terminalId=name)))
            answer(id)
        case "helpers" | "busy":
            subprocess.Popen(["sleep", "1000"])
            subprocess.Popen(["sleep", "1000"], start_new_session=True)
            say("started")
            while BEHAVIOUR == "busy":
                time.sleep(60)
            answer(id)


def main() -> None:
    if BEHAVIOUR in DEAF:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        message = receive()
        match message.get("method"):
            case "initialize" if BEHAVIOUR == "mute":
                pass
            case "initialize" if BEHAVIOUR == "gone":
                sys.exit("not today")
            case "initialize":
                version = 7 if BEHAVIOUR == "version" else message["params"]["protocolVersion"]
                send({"id": message["id"], "result": {"protocolVersion": version, "agentCapabilities": {}}})
            case "session/new" if BEHAVIOUR == "login":
                send({"id": message["id"], "error": {"code": -32000, "message": "who are you?"}})
            case "session/new":
                send({"id": message["id"], "result": {"sessionId": SESSION}})
                if BEHAVIOUR == "early":
                    os.kill(os.getpid(), signal.SIGKILL)
                while BEHAVIOUR == "blind":  # it reads nothing any more
                    time.sleep(60)
            case "session/prompt":
                work(message["id"], "\n".join(block["text"] for block in message["params"]["prompt"]))


main()
