"""A worker in a process of its own, which is killed in the middle of a turn."""

import asyncio
import sys

import parley


async def answer(turn: parley.Turn) -> None:
    await turn.tool("count", {}, lambda: 1)
    async with turn.stream() as out:
        await out.write("one ")
        await asyncio.sleep(3600)


asyncio.run(parley.work("py", answer, url=sys.argv[1]))
