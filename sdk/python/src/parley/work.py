"""The connection of a worker: it claims the turns of an agent name and answers them."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any, Awaitable, Callable, Mapping, Sequence, cast
from urllib.parse import quote, urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, WebSocketException

from .errors import Offline, ParleyError, TurnLost, error_of
from .turn import Turn, within
from .types import Assignment, Event

Handler = Callable[[Turn], Awaitable[None]]

_log = logging.getLogger("parley")

# Codes for which a retry cannot succeed.
_FINAL = ("invalid", "unauthenticated", "denied", "conflict", "not_found", "gone")

# The close code of a connection whose credential has expired or was revoked.
_SIGN_IN_AGAIN = 4401


async def work(name: str, answer: Handler, *, url: str | Sequence[str] | None = None, token: str | None = None, slots: int = 4, grace: float = 60.0,
               commands: Sequence[Mapping[str, str]] = (), idle_timeout: float = 45.0, backoff: tuple[float, float] = (0.25, 15.0)) -> None:
    """Answers turns of an agent name until it is cancelled, or the server refuses the worker (ParleyError).

    ``answer`` is called for each turn in a task of its own, up to ``slots`` at once. When it raises, the turn fails.
    The task is cancelled when the turn is stopped or lost. When the connection breaks, the methods of the turns wait
    until the worker has reconnected, for at most ``grace`` seconds. Turns that are not finished when the worker is
    cancelled go to another worker. A connection that receives nothing for ``idle_timeout`` seconds is opened again.

    ``commands`` are those that the agent understands, each with ``name`` (with its slash) and, if wanted, ``description`` and
    ``input``; clients offer them to people.

    ``url`` and ``token`` come from PARLEY_URL and PARLEY_TOKEN when they are not given. ``url`` may name several nodes of a
    cluster, as a list or with commas between: the worker connects to the next one when a connection breaks or fails.
    """
    url = url or os.environ.get("PARLEY_URL") or "http://127.0.0.1:8000"
    urls = [u.strip().rstrip("/") for u in (url.split(",") if isinstance(url, str) else url)]
    for u in urls:
        if urlsplit(u).scheme not in ("http", "https") or not urlsplit(u).netloc:
            raise ParleyError("invalid", f'"{u}" is not the address of a server: use something like http://127.0.0.1:8000')
    await _Worker(name, answer, urls, token or os.environ.get("PARLEY_TOKEN"), slots, grace, idle_timeout, backoff, commands).run()


@dataclass
class _Held:
    turn: Turn
    task: asyncio.Task[None] | None = None
    assigned: bool = True  # the server has assigned the turn on the current connection
    given: int = 0  # how often the server gave the turn again
    timer: asyncio.TimerHandle | None = None  # the grace period; runs while the turn is not assigned
    lost: bool = False
    ended: bool = False  # the server has reported its end
    reporting: bool = False  # the answer has returned; its end is being reported


class _Worker:
    def __init__(self, name: str, answer: Handler, urls: list[str], token: str | None, slots: int, grace: float, idle_timeout: float,
                 backoff: tuple[float, float], commands: Sequence[Mapping[str, str]] = ()) -> None:
        self._name, self._answer, self._urls, self._token = name, answer, urls, token
        self._node = 0  # the number of the address in use; it grows, and wraps around
        self._slots, self._grace, self._idle_timeout, self._backoff = slots, grace, idle_timeout, backoff
        self._commands = [dict(c) for c in commands]
        self._turns: dict[str, _Held] = {}
        self._calls: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._ids = 0
        self._conn: ClientConnection | None = None
        self._changed = asyncio.Event()  # set and replaced when the connection or the assignment of a turn changes
        self._leaving = False

    async def run(self) -> None:
        attempt = 0
        try:
            while True:
                try:
                    progress = await self._connect()
                except ParleyError as err:
                    if err.code in _FINAL:
                        raise
                    progress = False
                    _log.warning("worker %s: %s", self._name, err)
                finally:
                    self._offline()
                attempt = 0 if progress else attempt + 1
                self._node += 1
                if 0 < attempt < len(self._urls):
                    continue  # all nodes are tried before the first pause
                low, high = self._backoff
                await asyncio.sleep(min(high, low * 2 ** min(attempt, 10)) * random.uniform(0.5, 1.0))
        finally:
            self._leaving = True
            tasks = [h.task for h in self._turns.values() if h.task]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def _url(self) -> str:
        return self._urls[self._node % len(self._urls)]

    def _address(self) -> str:
        u = urlsplit(self._url)
        scheme = "wss" if u.scheme == "https" else "ws"
        return urlunsplit((scheme, u.netloc, f"{u.path}/parley/v1/agents/{quote(self._name, safe='')}/work", "", ""))

    def _headers(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}

    async def _connect(self) -> bool:
        """Runs one connection. Returns True when the server sent a frame."""
        progress = False
        try:
            async with connect(self._address(), additional_headers=self._headers(), max_size=64 << 20, open_timeout=self._idle_timeout,
                               close_timeout=2, user_agent_header="parley-python", proxy=None) as conn:
                await conn.send(_packed({"op": "ready", "slots": self._slots, "commands": self._commands, "turns": list(self._turns)}))
                self._conn = conn
                self._notify()
                while True:
                    frame = json.loads(await within(self._idle_timeout, conn.recv()))
                    if frame.get("op") == "error" and not frame.get("id"):
                        err = error_of(frame)
                        _log.warning("worker %s: the server reports an error: %s", self._name, err)
                        continue
                    progress = True
                    if frame.get("op") == "bye":
                        if frame.get("retry") is False and frame.get("error"):
                            raise error_of(frame)
                        return progress
                    self._receive(frame)
        except InvalidStatus as err:
            raise _refused(err) from err
        except ConnectionClosed as err:
            if err.rcvd and err.rcvd.code == _SIGN_IN_AGAIN:
                raise ParleyError("unauthenticated", "the worker's token has expired or was revoked: start it with another one") from err
            if not self._leaving:
                _log.info("worker %s: connection lost (%s), reconnecting", self._name, err)
            return progress
        except (OSError, WebSocketException, InvalidHandshake, asyncio.TimeoutError, ValueError) as err:
            if progress and not self._leaving:
                _log.info("worker %s: connection lost (%s), reconnecting", self._name, err or type(err).__name__)
            elif not self._leaving:
                _log.warning("worker %s: the server at %s cannot be reached (%s), trying again", self._name, self._url, err or type(err).__name__)
            return progress

    def _receive(self, f: dict[str, Any]) -> None:
        """Handles one frame of the server."""
        op = f.get("op")
        held = self._turns.get(str(f.get("turn_id", "")))
        if op == "turn":
            self._assign(cast(Assignment, f["turn"]))
        elif op == "event" and held:
            held.turn._receive(cast(Event, f["event"]))
        elif op == "stop" and held:
            held.turn.stopped = True
            if held.task:
                held.task.cancel()
        elif op == "ended" and held:
            held.ended = True
            self._lose(held)
        elif op in ("ok", "error"):
            call = self._calls.pop(f.get("id") or 0, None)
            if call and not call.done():
                if op == "ok":
                    call.set_result(f)
                else:
                    call.set_exception(error_of(f))

    def _assign(self, a: Assignment) -> None:
        """Starts a turn, or continues one that the worker holds."""
        held = self._turns.get(a["turn_id"])
        if held and not held.lost:
            held.turn._load(a)
            held.assigned = True
            held.given += 1
            if held.timer:
                held.timer.cancel()
                held.timer = None
            self._notify()
        elif not self._leaving:
            fresh = _Held(Turn(self, a))
            self._turns[a["turn_id"]] = fresh
            fresh.task = asyncio.create_task(self._run(fresh), name=f"parley {a['turn_id']}")

    async def _run(self, held: _Held) -> None:
        """Answers a turn and reports its end."""
        turn = held.turn
        end: dict[str, Any] = {"op": "done"}
        try:
            await self._answer(turn)
        except asyncio.CancelledError:
            if not turn.stopped or self._leaving:
                self._remove(held)  # lost, or the worker ends: another worker continues the turn
                return
        except Exception as err:
            _log.warning("worker %s: a turn failed", self._name, exc_info=err)
            if held.lost:
                self._remove(held)
                return
            if not turn.stopped:
                end = {"op": "fail", "error": str(err) or type(err).__name__}
        # Shielded: a stop that arrives now must not prevent the report of the end.
        held.reporting = True
        last = asyncio.ensure_future(self._report(held, end))
        try:
            await within(2 if turn.stopped else None, asyncio.shield(last))
        except (ParleyError, asyncio.TimeoutError) as err:
            if not turn.stopped and not held.ended:
                _log.warning("worker %s: the end of a turn could not be reported: %s", self._name, err)
        except asyncio.CancelledError:
            if not self._leaving:
                await asyncio.wait([last], timeout=2)
        finally:
            last.cancel()
            self._remove(held)

    async def _report(self, held: _Held, end: dict[str, Any]) -> None:
        """Reports the end of a turn. The server keeps the turn for this worker until it knows the end; it may also give the turn
        to the worker again while it refuses the report."""
        while True:
            given = held.given
            try:
                await self.call(held.turn, lambda: end)
                return
            except ParleyError as err:
                if held.lost or not err.retryable and held.given == given:
                    raise
                _log.warning("worker %s: the end of a turn cannot be reported, trying again: %s", self._name, err)

    def _remove(self, held: _Held) -> None:
        if held.timer:
            held.timer.cancel()
        if self._turns.get(held.turn.id) is held:
            del self._turns[held.turn.id]

    def _offline(self) -> None:
        """Fails calls that wait for a reply, and starts the grace period of every turn."""
        self._conn = None
        calls, self._calls = self._calls, {}
        for call in calls.values():
            if not call.done():
                call.set_exception(Offline())
        loop = asyncio.get_running_loop()
        for held in self._turns.values():
            if held.assigned:
                held.assigned = False
                held.timer = loop.call_later(self._grace, self._lose, held)
        self._notify()

    def _lose(self, held: _Held) -> None:
        held.lost = True
        if held.task and not held.reporting:
            held.task.cancel()
        self._notify()  # ends waiting calls and the report of the turn's end

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    # The transport of turns.

    async def _connection_for(self, turn: Turn) -> ClientConnection:
        """Waits for a connection on which the turn is assigned to this worker."""
        while True:
            held = self._turns.get(turn.id)
            if held is None or held.lost or held.turn is not turn:
                raise TurnLost()
            if self._conn is not None and held.assigned:
                return self._conn
            await self._changed.wait()

    async def call(self, turn: Turn, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Sends a frame for a turn until it gets a reply, and some times again if the server cannot store anything at the moment."""
        return await self._repeat(lambda: self._exchange(turn, make))

    async def _repeat(self, attempt: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
        """Calls attempt until it succeeds, fails for good, or has failed six times."""
        delay = self._backoff[0]
        for left in range(5, -1, -1):
            try:
                return await attempt()
            except ParleyError as err:
                if not err.retryable or left == 0:
                    raise
            await asyncio.sleep(delay)
            delay = min(delay * 2, self._backoff[1])
        raise AssertionError("unreachable")

    async def _exchange(self, turn: Turn, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Sends a frame for a turn until it gets a reply, also after a reconnect."""
        while True:
            conn = await self._connection_for(turn)
            self._ids += 1
            id = self._ids
            reply: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
            self._calls[id] = reply
            try:
                await conn.send(_packed({**make(), "id": id, "turn_id": turn.id}))
                return await reply
            except (Offline, OSError, WebSocketException):
                if self._conn is conn:
                    self._conn = None  # the reader notices too
                    await conn.close()
            finally:
                self._calls.pop(id, None)

    async def show(self, turn: Turn, make: Callable[[], dict[str, Any] | None]) -> None:
        """Sends a preview. A lost preview is repeated with the next one, and closing the block sends the whole text."""
        conn = await self._connection_for(turn)
        frame = make()
        if frame is None:
            return
        try:
            await conn.send(_packed({**frame, "turn_id": turn.id}))
        except (OSError, WebSocketException):
            if self._conn is conn:
                self._conn = None

    async def put(self, path: str, body: bytes, media_type: str) -> dict[str, Any]:
        """Stores a file of a session; it is retried while the server is unreachable."""
        return await self._repeat(lambda: asyncio.to_thread(self._put, path, body, media_type))

    def _put(self, path: str, body: bytes, media_type: str) -> dict[str, Any]:
        request = urllib.request.Request(f"{self._url}/parley/v1{path}", data=body, method="PUT",
                                         headers={"Content-Type": media_type, **self._headers()})
        try:
            with urllib.request.urlopen(request, timeout=self._idle_timeout) as response:
                given = json.loads(response.read() or b"{}")
                return given if isinstance(given, dict) else {}
        except urllib.error.HTTPError as err:
            raise _error_in(err.read()) from err
        except (OSError, ValueError) as err:
            raise ParleyError("unavailable", f"{self._url} cannot be reached: {err}") from err


def _error_in(body: bytes | bytearray | None) -> ParleyError:
    try:
        return error_of(json.loads(body or b""))
    except ValueError:
        return ParleyError("unavailable", "the server refused the request without a readable error")


def _refused(err: InvalidStatus) -> ParleyError:
    return _error_in(err.response.body)


def _packed(frame: dict[str, Any]) -> str:
    """A frame as JSON. NaN and Infinity are refused: they are not JSON, and the server could not read the id of the frame."""
    text = json.dumps(frame, ensure_ascii=False, allow_nan=False)  # escaped, a text could be larger than an event
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair; the server says so
        return json.dumps(frame, allow_nan=False)
    return text
