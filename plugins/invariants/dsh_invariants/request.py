"""A request, compared with the one that the log says it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsh import CorruptSession
from dsh.session import rebuild_request

if TYPE_CHECKING:
    from dsh import Request, Session

__all__ = ["difference"]


def difference(request: Request, session: Session) -> str | None:
    """How the request of the open step differs from its reconstruction; None if it does not."""
    turn, step = session.open_turn, session.open_step
    if turn is None or step is None:
        return "a request outside of a step"
    try:
        header, messages = rebuild_request(session.events, turn, step)
    except (ValueError, CorruptSession) as error:
        return f"the request cannot be made again: {error}"
    config = header.config
    pairs = {
        "model": (request.model, config.model),
        "temperature": (request.temperature, config.temperature),
        "max_tokens": (request.max_tokens, config.max_tokens),
        "stop": (request.stop, config.stop),
        "reasoning_effort": (request.reasoning_effort, config.reasoning_effort),
        "system": (request.system, header.system),
        "tools": (request.tools, header.tools),
    }
    found = [f"{name} is not that of the header in the log" for name, (sent, logged) in pairs.items() if sent != logged]
    if len(request.messages) != len(messages):
        found.append(f"it has {len(request.messages)} messages, and the log makes {len(messages)}")
    else:
        places = zip(request.messages, messages, strict=True)
        different = [str(place) for place, (sent, logged) in enumerate(places) if sent != logged]
        if different:
            found.append(f"messages that the log makes otherwise: {', '.join(different)}")
    return "; ".join(found) or None
