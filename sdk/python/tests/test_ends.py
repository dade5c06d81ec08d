"""The end of workers and the release of turns, against a scripted server."""

from __future__ import annotations

import asyncio
import json
import unittest
from typing import Any, Awaitable, Callable

from websockets.asyncio.server import ServerConnection, serve

import parley
from parley.turn import within

Script = Callable[[ServerConnection, dict[str, Any]], Awaitable[None]]

TURN = {"op": "turn", "turn": {"session_id": "s", "turn_id": "t-1", "attempt": 1, "agent": "py",
                               "trigger": {"type": "user.message", "payload": {"text": "hi"}}}}


async def nothing(turn: parley.Turn) -> None:
    pass


class EndTest(unittest.IsolatedAsyncioTestCase):
    async def work(self, *scripts: Script, answer: parley.Handler = nothing) -> list[list[str]]:
        """Runs a worker; each connection follows the next script. Returns the turns named at each connection."""
        named: list[list[str]] = []

        async def handle(conn: ServerConnection) -> None:
            ready = json.loads(await conn.recv())
            named.append(ready["turns"])
            await scripts[len(named) - 1](conn, ready)

        async with serve(handle, "127.0.0.1", 0) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            try:
                await asyncio.wait_for(parley.work("py", answer, url=f"http://127.0.0.1:{port}", grace=3600, backoff=(0.001, 0.002)), 20)
            except parley.ParleyError as err:
                self.assertEqual(err.code, "unauthenticated")
        return named

    async def test_worker_ends_with_its_credential(self) -> None:
        async def bye(conn: ServerConnection, _: dict[str, Any]) -> None:
            await conn.send(json.dumps({"op": "bye", "error": {"code": "unauthenticated", "message": "expired"}, "retry": False}))

        async def code(conn: ServerConnection, _: dict[str, Any]) -> None:
            await conn.close(4401, "sign in again")

        for script in (bye, code):
            self.assertEqual(await self.work(script), [[]])

    async def test_what_is_refused_for_the_moment_is_sent_again(self) -> None:
        sent: list[str] = []

        async def refuse(conn: ServerConnection, _: dict[str, Any]) -> None:
            await conn.send(json.dumps(TURN))
            for _ in range(10):  # more often than a call is repeated
                frame = json.loads(await conn.recv())
                sent.append(frame["op"])
                if len(sent) < 10:
                    await conn.send(json.dumps({"op": "error", "id": frame["id"], "error": {"code": "unavailable", "message": "no node can write"}}))
            await conn.send(json.dumps({"op": "ok", "id": frame["id"]}))
            await conn.close(4401, "sign in again")

        await self.work(refuse)
        self.assertEqual(sent, ["done"] * 10)

    async def test_turn_that_is_given_again_while_its_report_is_refused_is_reported_again(self) -> None:
        reports: list[str] = []

        async def refuse(conn: ServerConnection, _: dict[str, Any]) -> None:
            await conn.send(json.dumps(TURN))
            frame = json.loads(await conn.recv())
            await conn.send(json.dumps(TURN))
            await conn.send(json.dumps({"op": "error", "id": frame["id"], "error": {"code": "conflict", "message": "the turn is not yours"}}))
            frame = json.loads(await conn.recv())
            reports.append(frame["op"])
            await conn.send(json.dumps({"op": "ok", "id": frame["id"]}))
            await conn.close(4401, "sign in again")

        await self.work(refuse)
        self.assertEqual(reports, ["done"])

    async def test_turn_is_released_when_the_reply_to_done_is_lost(self) -> None:
        async def cut(conn: ServerConnection, _: dict[str, Any]) -> None:
            await conn.send(json.dumps(TURN))
            self.assertEqual(json.loads(await conn.recv())["op"], "done")

        async def ended(conn: ServerConnection, _: dict[str, Any]) -> None:
            await conn.send(json.dumps({"op": "ended", "turn_id": "t-1"}))

        async def leave(conn: ServerConnection, _: dict[str, Any]) -> None:
            await conn.close(4401, "sign in again")

        self.assertEqual(await self.work(cut, ended, leave), [[], ["t-1"], []])

    async def test_handler_is_cancelled_when_the_turn_has_ended(self) -> None:
        lost = asyncio.Event()

        async def answer(turn: parley.Turn) -> None:
            try:
                await turn.status("begun")
            except asyncio.CancelledError:
                lost.set()
                raise

        async def cut(conn: ServerConnection, _: dict[str, Any]) -> None:
            await conn.send(json.dumps(TURN))
            await conn.recv()

        async def ended(conn: ServerConnection, _: dict[str, Any]) -> None:
            await conn.send(json.dumps({"op": "ended", "turn_id": "t-1"}))
            await lost.wait()
            await conn.close(4401, "sign in again")

        self.assertEqual(await self.work(cut, ended, answer=answer), [[], ["t-1"]])

    async def test_cancellation_together_with_a_result_is_raised(self) -> None:
        for steps in range(4):
            result: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            task = asyncio.create_task(within(60, result))
            await asyncio.sleep(0)
            result.set_result(1)
            for _ in range(steps):
                await asyncio.sleep(0)
            if not task.done():
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task


if __name__ == "__main__":
    unittest.main()
