"""The worker against the real server: every method, kills of the server and of workers, two workers."""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import socket
import sys
import tempfile
import unittest
from typing import Any, AsyncIterator

import parley

sys.path.insert(0, os.path.dirname(__file__))

from server import Server  # noqa: E402

QUICK = (0.01, 0.1)


class Case(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        faulthandler.dump_traceback_later(180, exit=True)  # a test that hangs fails with its stack
        self.addCleanup(faulthandler.cancel_dump_traceback_later)

    async def serve(self, *flags: str) -> Server:
        server = Server(*flags)
        self.addAsyncCleanup(server.remove)
        await server.start()
        return server

    def start_worker(self, server: Server, answer: parley.Handler, slots: int = 4) -> asyncio.Task[None]:
        task = asyncio.create_task(parley.work("py", answer, url=server.url, slots=slots, backoff=QUICK))

        async def quit() -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        self.addAsyncCleanup(quit)
        return task


def texts(events: list[dict[str, Any]]) -> list[str]:
    return [e["payload"]["text"] for e in events if e["type"] == "agent.text"]


def end(events: list[dict[str, Any]]) -> dict[str, Any]:
    return [e for e in events if e["type"] == "turn.completed"][-1]["payload"]


class AddressTest(Case):
    async def test_wrong_address_is_refused(self) -> None:
        async def answer(turn: parley.Turn) -> None:
            raise AssertionError

        for url in "localhost:8000", "http://", "ws://127.0.0.1:8000", "http://127.0.0.1:8000,nonsense":
            with self.assertRaisesRegex(parley.ParleyError, "is not the address of a server"):
                await asyncio.wait_for(parley.work("py", answer, url=url), 10)

    async def test_server_that_is_not_running_is_reported(self) -> None:
        async def answer(turn: parley.Turn) -> None:
            raise AssertionError

        reported = asyncio.Event()

        class Report(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                if record.levelno == logging.WARNING and "cannot be reached" in record.getMessage():
                    reported.set()

        report = Report()
        logging.getLogger("parley").addHandler(report)
        self.addCleanup(logging.getLogger("parley").removeHandler, report)
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            task = asyncio.create_task(parley.work("py", answer, url=f"http://127.0.0.1:{closed.getsockname()[1]}", backoff=QUICK))
            await asyncio.wait_for(reported.wait(), 10)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


class NodesTest(Case):
    async def test_next_node_when_one_is_down(self) -> None:
        server = await self.serve()
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            down = f"http://127.0.0.1:{closed.getsockname()[1]}"

        async def answer(turn: parley.Turn) -> None:
            await turn.say("here")

        for url in ([down, server.url], f"{down}, {server.url}/"):
            task = asyncio.create_task(parley.work("py", answer, url=url, backoff=(60.0, 60.0)))  # a pause would fail the test
            await server.workers("py", 1)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


class MethodTest(Case):
    async def test_every_method_of_a_turn(self) -> None:
        server = await self.serve()

        async def look(at: str) -> dict[str, str]:
            return {at: "blue"}

        def broken() -> None:
            raise ValueError("it failed")

        async def answer(turn: parley.Turn) -> None:
            await turn.status("Beginning", "planning")
            await turn.think("Hm. " + turn.text)
            await turn.plan([{"id": "1", "title": "Look", "status": "in_progress"}])
            sky = await turn.tool("look", {"at": "sky"}, look)
            try:
                await turn.tool("broken", {}, broken)
            except ValueError:
                pass
            name = await turn.ask("Name?")
            how = await turn.ask("How?", options=["mail", "sms"], timeout=600)
            pay = await turn.approve("pay", {"eur": 5}, text="May I?", risk="high")
            may = await turn.permit(["files:read"], "to look")
            await turn.artifact("table", title="T", data={"rows": [[1]]})
            await turn.artifact("file", path="out/note.txt", content=b"hello", media_type="text/plain")
            await turn.usage(model="m", input_tokens=3, output_tokens=4)

            async def pieces() -> AsyncIterator[str]:
                for p in (f"{name} ", f"{how} ", f"{sky['sky']} ", f"{bool(pay)} {pay.reason} ", "日本 ", f"{may.granted}"):
                    yield p

            await turn.say(pieces())

        self.start_worker(server, answer)
        await server.start_session("v", "hello")
        answers: dict[str, dict[str, Any]] = {"Name?": {"text": "Ada"}, "How?": {"values": ["sms"]}, "May I?": {}, "": {"granted": ["files:read"]}}
        seen: set[str] = set()
        while len(seen) < 4:
            for e in await server.events("v"):
                if e["type"].endswith("_request") and e["payload"]["request_id"] not in seen:
                    request = e["payload"]["request_id"]
                    seen.add(request)
                    a = answers[e["payload"].get("text", "")]
                    if e["type"] == "agent.approval_request":
                        a = {"decisions": [{"call_id": e["payload"]["calls"][0]["call_id"], "approve": False, "reason": "too much"}]}
                    await server.request("POST", f"/sessions/v/prompts/{request}/answer", a)
            await asyncio.sleep(0.01)
        events = await server.until("v", "turn.completed")
        self.assertEqual(texts(events), ["Ada sms blue False too much 日本 ['files:read']"])
        self.assertEqual(end(events)["outcome"], "done")
        kinds = [e["type"].removeprefix("agent.") for e in events
                 if e["type"].startswith("agent.") and e["payload"].get("phase") != "waiting"]  # it may precede the worker
        self.assertEqual(kinds, ["status", "thinking", "plan", "tool_call", "tool_result", "tool_call", "tool_error", "input_request", "input_request",
                                 "approval_request", "permission_request", "artifact", "artifact", "usage", "text"])

    async def test_approved_call_has_the_id_of_its_approval(self) -> None:
        server = await self.serve()

        async def answer(turn: parley.Turn) -> None:
            allowed = await turn.approve("pay", {"eur": 5})
            paid = await turn.tool("pay", {"eur": 5}, lambda eur: f"paid {eur}", call_id=allowed.call_id)
            await turn.say(f"{bool(allowed)} {paid}")

        self.start_worker(server, answer)
        await server.start_session("a", "pay")
        asked = (await server.until("a", "agent.approval_request"))[-1]["payload"]
        call_id = asked["calls"][0]["call_id"]
        await server.request("POST", f"/sessions/a/prompts/{asked['request_id']}/answer", {"decisions": [{"call_id": call_id, "approve": True}]})
        events = await server.until("a", "turn.completed")
        self.assertEqual(texts(events), ["True paid 5"])
        self.assertEqual([e["payload"]["call_id"] for e in events if e["type"].startswith("agent.tool_")], [call_id, call_id])

    async def test_turn_waits_for_workstreams(self) -> None:
        server = await self.serve()

        async def answer(turn: parley.Turn) -> None:
            if turn.workstream:
                await turn.progress("executing_tool", "half")
                await turn.say("Result of " + turn.text)
                return
            await turn.launch("a", "task a", deadline_seconds=60)
            await turn.launch("b", "task b", name="B")
            done = await turn.wait("a", "b")
            await turn.say(" and ".join(f"{w['workstream_id']} {w['state']}: {w.get('summary')}" for w in done))

        self.start_worker(server, answer)
        await server.start_session("w", "split")
        events = await server.until("w", "workstream.completed", 2)
        while not any("a completed" in t for t in texts(events)):
            events = await server.until("w", "turn.completed", 3)
        self.assertIn("a completed: Result of task a and b completed: Result of task b", texts(events))

    async def test_stop_failure_and_refused_worker(self) -> None:
        server = await self.serve()
        begun = asyncio.Event()

        async def answer(turn: parley.Turn) -> None:
            if turn.text == "fail":
                raise RuntimeError("no result")
            async with turn.stream() as out:
                await out.write("so far")
                begun.set()
                await asyncio.sleep(3600)

        self.start_worker(server, answer)
        await server.start_session("s", "wait")
        await begun.wait()
        await server.shown("s", "so far")
        await server.request("POST", "/sessions/s/stop", {})
        events = await server.until("s", "turn.completed")
        self.assertEqual((end(events)["outcome"], texts(events)), ("stopped", ["so far"]))
        await server.send("s", "fail")
        events = await server.until("s", "turn.completed", 2)
        self.assertEqual((end(events)["outcome"], end(events)["error"]), ("failed", "no result"))
        with self.assertRaises(parley.ParleyError) as refused:
            await parley.work("demo", answer, url=server.url)
        self.assertEqual(refused.exception.code, "conflict")

    async def test_result_that_is_not_json_fails_the_turn(self) -> None:
        server = await self.serve()

        async def answer(turn: parley.Turn) -> None:
            await turn.tool("measure", {}, lambda: float("nan"))

        self.start_worker(server, answer)
        await server.start_session("n", "how much?")
        ended = end(await server.until("n", "turn.completed"))
        self.assertEqual(ended["outcome"], "failed")
        self.assertIn("JSON", ended["error"])

    async def test_worker_needs_the_token(self) -> None:
        server = await self.serve("--token", "s3cret-s3cret-s3cret")

        async def answer(turn: parley.Turn) -> None:
            await turn.say("yes")

        with self.assertRaises(parley.ParleyError) as refused:
            await parley.work("py", answer, url=server.url, token="wrong")
        self.assertEqual(refused.exception.code, "unauthenticated")
        server.token = "s3cret-s3cret-s3cret"
        task = asyncio.create_task(parley.work("py", answer, url=server.url, token=server.token, backoff=QUICK))
        await server.start_session("k", "hello")
        self.assertEqual(texts(await server.until("k", "turn.completed")), ["yes"])
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def test_long_text_is_split_into_blocks(self) -> None:
        server = await self.serve()
        mixed, foreign = "a\n\"日<" * 150_000, "ü" * 600_000

        async def answer(turn: parley.Turn) -> None:
            if turn.text == "mixed":
                await turn.say(mixed[i:i + 100_001] for i in range(0, len(mixed), 100_001))
            else:
                await turn.say(foreign)

        self.start_worker(server, answer)
        for name, text in ("mixed", mixed), ("foreign", foreign):
            await server.start_session(name, name)
            events = await server.until(name, "turn.completed")
            self.assertEqual(end(events)["outcome"], "done", end(events))
            self.assertEqual("".join(texts(events)), text)


class KillTest(Case):
    async def test_turn_continues_after_a_kill_of_the_server(self) -> None:
        server = await self.serve()
        pieces = [f"wörd{i} " for i in range(40)]
        half, go = asyncio.Event(), asyncio.Event()
        runs = 0

        def count() -> int:
            nonlocal runs
            runs += 1
            return runs

        async def answer(turn: parley.Turn) -> None:
            n = await turn.tool("count", {}, count)
            async with turn.stream() as out:
                for i, p in enumerate(pieces):
                    await out.write(p)
                    if i == 20:
                        half.set()
                        await go.wait()
                await out.write(str(n))
            await turn.ask("More?", timeout=600)
            await turn.say("Bye.")

        self.start_worker(server, answer)
        await server.start_session("k", "go")
        await half.wait()
        await server.shown("k", "wörd20")
        await server.kill()
        go.set()
        await server.start()
        events = await server.until("k", "agent.input_request")
        self.assertEqual(texts(events), ["".join(pieces) + "1"])
        request = [e for e in events if e["type"] == "agent.input_request"][0]["payload"]["request_id"]
        await server.kill()  # while the prompt is open
        await server.start()
        await server.request("POST", f"/sessions/k/prompts/{request}/answer", {"text": "no"})
        events = await server.until("k", "turn.completed")
        self.assertEqual((texts(events), end(events)["outcome"], runs), (["".join(pieces) + "1", "Bye."], "done", 1))

    async def test_killed_worker_is_replaced(self) -> None:
        server = await self.serve("--lease", "1s")
        slow = await asyncio.create_subprocess_exec(sys.executable, os.path.join(os.path.dirname(__file__), "slow.py"), server.url)

        async def kill() -> None:
            if slow.returncode is None:
                slow.kill()
            await slow.wait()

        self.addAsyncCleanup(kill)
        await server.workers("py", 1)
        await server.start_session("r", "go")
        await server.shown("r", "one ")
        ran = False

        async def answer(turn: parley.Turn) -> None:
            def count() -> int:
                nonlocal ran
                ran = True
                return 2

            n = await turn.tool("count", {}, count)
            await turn.say(["one ", f"two {n}"])

        self.start_worker(server, answer)
        await server.workers("py", 2)
        await kill()
        events = await server.until("r", "turn.completed")
        self.assertEqual((texts(events), end(events)["outcome"], ran), (["one two 1"], "done", False))

    async def test_two_workers_share_the_turns(self) -> None:
        server = await self.serve()
        busy: dict[str, int] = {"a": 0, "b": 0}
        both = asyncio.Event()

        def worker(name: str) -> parley.Handler:
            async def answer(turn: parley.Turn) -> None:
                busy[name] += 1
                if all(busy.values()):
                    both.set()
                await both.wait()
                await turn.say(name)

            return answer

        self.start_worker(server, worker("a"), slots=2)
        self.start_worker(server, worker("b"), slots=2)
        for i in range(8):
            await server.start_session(f"t{i}", "go")
        for i in range(8):
            events = await server.until(f"t{i}", "turn.completed")
            self.assertEqual((len(texts(events)), end(events)["outcome"]), (1, "done"))
        self.assertEqual(sum(busy.values()), 8)


class ExampleTest(Case):
    async def test_example_worker_answers(self) -> None:
        folder = os.path.join(os.path.dirname(__file__), "..", "..", "..", "examples", "worker-python")
        with open(os.path.join(folder, "worker.py"), encoding="utf-8") as f:
            code = f.read()
        with open(os.path.join(folder, "README.md"), encoding="utf-8") as f:
            self.assertIn(f"```python\n{code}```", f.read())
        self.assertLessEqual(len(code.splitlines()), 20)
        server = await self.serve()
        worker = await asyncio.create_subprocess_exec(sys.executable, os.path.join(folder, "worker.py"), env={**os.environ, "PARLEY_URL": server.url})
        try:
            await server.start_session("e", "hello", agent="echo")
            self.assertEqual(texts(await server.until("e", "turn.completed")), ["You said: hello "])
            await server.send("e", "pay Ada")
            asked = (await server.until("e", "agent.approval_request"))[-1]["payload"]
            decision = {"call_id": asked["calls"][0]["call_id"], "approve": True}
            await server.request("POST", f"/sessions/e/prompts/{asked['request_id']}/answer", {"decisions": [decision]})
            events = await server.until("e", "turn.completed", 2)
            self.assertEqual([e["payload"]["result"] for e in events if e["type"] == "agent.tool_result"], ["paid Ada"])
            self.assertEqual(texts(events)[1], "You said: pay Ada ")
        finally:
            worker.kill()
            await worker.wait()

    async def test_worker_of_the_readme_answers(self) -> None:
        server = await self.serve()
        program = os.path.join(os.path.dirname(__file__), "..", "..", "..", "examples", "weather-python", "weather.py")
        worker = await asyncio.create_subprocess_exec(sys.executable, program, env={**os.environ, "PARLEY_URL": server.url})
        try:
            await server.start_session("w", "What is the weather?", agent="weather")
            asked = [e["payload"] for e in await server.until("w", "agent.input_request") if e["type"] == "agent.input_request"][0]
            self.assertEqual(asked["text"], "Which city?")
            await server.request("POST", f"/sessions/w/prompts/{asked['request_id']}/answer", {"text": "Bern"})
            events = await server.until("w", "turn.completed")
            self.assertEqual(texts(events), ["It is sunny in Bern."])
            self.assertEqual(end(events)["outcome"], "done")
        finally:
            worker.kill()
            await worker.wait()


class EndpointTest(Case):
    async def test_example_agent_behind_http_answers(self) -> None:
        folder = os.path.join(os.path.dirname(__file__), "..", "..", "..", "examples", "agent-ndjson")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        with open(os.path.join(folder, "parley.yaml"), encoding="utf-8") as f:
            config = f.read().replace("9000", str(port))
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(config)
            file.flush()
            server = await self.serve("--config", file.name)
            agent = await asyncio.create_subprocess_exec(sys.executable, os.path.join(folder, "agent.py"), str(port), stderr=asyncio.subprocess.DEVNULL)
            try:
                while await asyncio.to_thread(closed, port):
                    await asyncio.sleep(0.02)
                await server.start_session("n", "hello", agent="mine")
                self.assertEqual(texts(await server.until("n", "turn.completed")), ["You said: hello "])
                await server.send("n", "weather")
                request = [e for e in await server.until("n", "agent.input_request") if e["type"] == "agent.input_request"][0]["payload"]["request_id"]
                await server.kill()
                await server.start()
                await server.request("POST", f"/sessions/n/prompts/{request}/answer", {"text": "Bern"})
                self.assertEqual(texts(await server.until("n", "turn.completed", 2))[1:], ["It is sunny in Bern."])
            finally:
                agent.kill()
                await agent.wait()


def closed(port: int) -> bool:
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) != 0


if __name__ == "__main__":
    unittest.main()
