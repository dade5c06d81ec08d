"""The program that the console offers to copy: it needs no package of Parley."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
import unittest
from typing import Any

sys.path.insert(0, os.path.dirname(__file__))

from server import Server  # noqa: E402

SOURCE = os.path.join(os.path.dirname(__file__), "..", "..", "..", "web", "console", "src", "connect.tsx")


def snippet(name: str, url: str) -> str:
    """A text of the console with the address of a server."""
    with open(SOURCE, encoding="utf-8") as f:
        found = re.search(rf"const {name} = .*?`([^`]*)`", f.read())
    assert found, name
    return found.group(1).replace('${url.replace(/^http/, "ws")}', url.replace("http", "ws", 1)).replace("${url}", url)


class Connect(unittest.IsolatedAsyncioTestCase):
    async def talk(self, server: Server) -> list[dict[str, Any]]:
        """Sends the message when the agent is there, and waits for the end of its turn."""
        while all(a["name"] != "mine" for a in (await server.request("GET", "/agents"))["agents"]):
            await asyncio.sleep(0.05)
        shell = await asyncio.create_subprocess_shell(snippet("httpTest", server.url), stdout=asyncio.subprocess.DEVNULL)
        self.assertEqual(await shell.wait(), 0)
        while True:
            events: list[dict[str, Any]] = (await server.request("GET", "/sessions/first/events"))["events"]
            if any(e["type"] == "turn.completed" for e in events):
                return events
            await asyncio.sleep(0.05)

    async def test_the_copied_program_answers_the_copied_message(self) -> None:
        server = Server()
        self.addAsyncCleanup(server.remove)
        await server.start()
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "agent.py")
            with open(program, "w", encoding="utf-8") as f:
                f.write(snippet("pythonWorker", server.url))
            worker = await asyncio.create_subprocess_exec(sys.executable, program)
            try:
                events = await asyncio.wait_for(self.talk(server), 60)
            finally:
                worker.kill()
                await worker.wait()
        self.assertEqual([e["payload"]["text"] for e in events if e["type"] == "agent.text"], ["You said: hello"])
        self.assertEqual([e["payload"]["outcome"] for e in events if e["type"] == "turn.completed"], ["done"])
