"""Answer turns of Parley conversations from Python.

    import asyncio
    import parley

    async def answer(turn: parley.Turn) -> None:
        await turn.say(f"You said: {turn.text}")

    asyncio.run(parley.work("echo", answer))

A worker claims the turns of an agent name and answers them with the methods of
``Turn``. Each call is a step: it is durable when it returns, and it waits while the
connection is broken. A worker that continues a turn of another worker does not
repeat the steps that are in the log.
"""

from .errors import Expired, ParleyError, ToolFailed, TurnLost, UnknownOutcome, Withdrawn
from .turn import Answer, Decision, Permission, Turn
from .types import Artifact, Call, Event, Option, Task, WorkstreamStatus
from .work import Handler, work
from .writer import Writer

__all__ = [
    "Answer", "Artifact", "Call", "Decision", "Event", "Expired", "Handler", "Option", "ParleyError", "Permission",
    "Task", "ToolFailed", "Turn", "TurnLost", "UnknownOutcome", "Withdrawn", "WorkstreamStatus", "Writer", "work",
]
