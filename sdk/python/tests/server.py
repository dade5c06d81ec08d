"""The real server on a loopback port of its own, and requests to it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import tempfile
import urllib.error
import urllib.request
from typing import Any

BINARY = os.environ.get("PARLEY_BIN") or os.path.join(os.path.dirname(__file__), "..", "..", "..", "bin", "parley")


class Server:
    """It can be killed and started again on the same data and port."""

    def __init__(self, *flags: str) -> None:
        self.url = ""
        self.token = ""
        self._flags = flags
        self._data = tempfile.mkdtemp(prefix="parley-python-")
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        addr = self.url.removeprefix("http://") or "127.0.0.1:0"
        self._process = await asyncio.create_subprocess_exec(
            BINARY, "serve", "--addr", addr, "--data", self._data, "--nats=off", "--min-free=-1", "--min-free-percent=-1", "--rate=-1", *self._flags,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, cwd=self._data)
        assert self._process.stdout
        while line := (await self._process.stdout.readline()).decode():
            if found := re.search(r"ready at (\S+)", line):
                self.url = found.group(1)
                return
        raise RuntimeError("the server did not start")

    async def kill(self) -> None:
        if self._process and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        self._process = None

    async def remove(self) -> None:
        await self.kill()
        shutil.rmtree(self._data, ignore_errors=True)

    async def request(self, method: str, path: str, body: Any = None) -> Any:
        return await asyncio.to_thread(self._request, method, path, body)

    def _request(self, method: str, path: str, body: Any) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/parley/v1{path}", data=data, method=method, headers={"Content-Type": "application/json"})
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.loads(response.read())

    async def start_session(self, id: str, text: str, agent: str = "py") -> None:
        await self.request("POST", "/sessions", {"id": id, "agent": agent})
        await self.send(id, text)

    async def send(self, id: str, text: str) -> None:
        await self.request("POST", f"/sessions/{id}/events", {"type": "user.message", "payload": {"text": text}})

    async def events(self, id: str) -> list[dict[str, Any]]:
        found = await self.request("GET", f"/sessions/{id}/events?limit=1000")
        return list(found["events"])

    async def until(self, id: str, type: str, count: int = 1, timeout: float = 60) -> list[dict[str, Any]]:
        """All events of a session when it has so many of a type."""
        async with asyncio.timeout(timeout) if hasattr(asyncio, "timeout") else _NoTimeout():
            while True:
                try:
                    all = await self.events(id)
                    if sum(e["type"] == type for e in all) >= count:
                        return all
                except (OSError, urllib.error.URLError):
                    pass  # it is being started again
                await asyncio.sleep(0.02)

    async def workers(self, name: str, count: int, timeout: float = 60) -> None:
        """Waits until so many workers of a name are connected."""
        async with asyncio.timeout(timeout) if hasattr(asyncio, "timeout") else _NoTimeout():
            while not any(a["name"] == name and a.get("workers", 0) >= count for a in (await self.request("GET", "/agents"))["agents"]):
                await asyncio.sleep(0.02)

    async def shown(self, id: str, text: str, timeout: float = 60) -> None:
        """Waits until a text is shown."""
        async with asyncio.timeout(timeout) if hasattr(asyncio, "timeout") else _NoTimeout():
            while text not in json.dumps(await self.request("GET", f"/sessions/{id}/snapshot?items=50"), ensure_ascii=False):
                await asyncio.sleep(0.02)


class _NoTimeout:
    async def __aenter__(self) -> None: ...
    async def __aexit__(self, *_: object) -> None: ...
