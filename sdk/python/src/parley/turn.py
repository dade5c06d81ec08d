"""A turn that a worker answers."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass, field
from typing import Any, AsyncIterable, Awaitable, Callable, Iterable, Literal, Mapping, Protocol, Sequence, TypeVar, cast
from urllib.parse import quote

from .errors import Expired, ParleyError, ToolFailed, UnknownOutcome, Withdrawn
from .types import Assignment, Block, Call, Event, Option, Task, WorkstreamStatus
from .writer import Writer

T = TypeVar("T")

_ANSWERS = ("user.input_response", "user.approval_response", "user.permission_response", "prompt.closed")

# The text of a workstream event, and the payload field that is appended to it.
_WORKSTREAM_EVENTS = {
    "workstream.progress": ("answered", "summary"),
    "workstream.warning": ("has used {share} % of its time", "message"),
    "workstream.completed": ("completed", "summary"),
    "workstream.failed": ("failed", "error"),
    "workstream.timeout": ("ran out of time", "summary"),
    "workstream.canceled": ("was canceled", "reason"),
}

InputType = Literal["text", "binary_choice", "radio", "checkbox", "dropdown", "notification", "oauth_consent"]


@dataclass(frozen=True)
class Answer:
    """A person's answer: text, or the values of the chosen options."""

    text: str = ""
    values: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return self.text or ", ".join(self.values)


@dataclass(frozen=True)
class Decision:
    """The decision about one call. ``params`` are set when the person changed them."""

    call_id: str
    approved: bool
    reason: str = ""
    params: Any = None

    def __bool__(self) -> bool:
        return self.approved


@dataclass(frozen=True)
class Permission:
    """The scopes that a person granted and denied."""

    granted: list[str]
    denied: list[str]
    duration: str = "once"


class TurnTransport(Protocol):
    """The connection of a turn to the server."""

    async def call(self, turn: Turn, make: Callable[[], dict[str, Any]]) -> dict[str, Any]: ...
    async def show(self, turn: Turn, make: Callable[[], dict[str, Any] | None]) -> None: ...
    async def put(self, path: str, body: bytes, media_type: str) -> dict[str, Any]: ...


class Turn:
    """A turn that a worker answers.

    Its methods are steps, numbered in the order of their calls. A worker that continues a turn of another worker
    calls the same methods from the start: a step that is in the log returns its stored result and is not repeated.
    So the order of the calls must be the same in every attempt, and only one task may call them.
    """

    def __init__(self, transport: TurnTransport, given: Assignment) -> None:
        self._transport = transport
        self.session: str = given["session_id"]
        self.id: str = given["turn_id"]
        self.agent: str = given.get("agent", "")
        self.workstream: str | None = given.get("workstream_id")
        self.trigger: Event = given["trigger"]
        #: The launch of the turn's workstream: task, tools, model, context; None outside of workstreams.
        self.launched: dict[str, Any] | None = given.get("launch")
        self.attempt: int = 1
        #: The turn was stopped; the task that answers it is cancelled.
        self.stopped: bool = False
        self._steps = 0
        self._stored: dict[str, Event] = {}
        self._answers: dict[str, Event] = {}
        self._new_events: list[Event] = []
        self._seen: set[int] = set()
        self._arrived = asyncio.Event()
        self._open: dict[str, Block] = {}
        self._shown: dict[str, int] = {}
        self._paused = False
        self._load(given)

    # The trigger.

    @property
    def text(self) -> str:
        """The text of the trigger."""
        p = self.trigger.get("payload") or {}
        kind = self.trigger.get("type", "")
        if kind == "workstream.launched":
            return str(p.get("task", ""))
        if kind in _WORKSTREAM_EVENTS:
            words, more = _WORKSTREAM_EVENTS[kind]
            what = words.format(share=round(float(p.get("share") or 0) * 100))
            return f"Workstream {p.get('id', '')} {what}" + (f": {p[more]}" if p.get(more) else ".")
        if p.get("text"):
            return str(p["text"])
        parts = p.get("content") or []
        return "\n".join(str(c["text"]) for c in parts if isinstance(c, dict) and c.get("type") == "text" and c.get("text"))

    @property
    def context(self) -> dict[str, Any]:
        """The context that the page sent with the message."""
        context = (self.trigger.get("payload") or {}).get("context")
        return context if isinstance(context, dict) else {}

    def new_events(self) -> list[Event]:
        """Returns the events since the last call: user messages and workstream events."""
        events, self._new_events = self._new_events, []
        return events

    # Output.

    async def say(self, text: str | Iterable[str] | AsyncIterable[str], *, final: bool = True) -> str:
        """Sends a text as the turn's answer. Pieces are previewed as they arrive. Returns the whole text."""
        return await self._write(self.stream(final=final), text)

    async def think(self, text: str | Iterable[str] | AsyncIterable[str]) -> str:
        """Sends reasoning."""
        return await self._write(self.thinking(), text)

    async def _write(self, writer: Writer, text: str | Iterable[str] | AsyncIterable[str]) -> str:
        async with writer:
            if isinstance(text, str):
                await writer.write(text)
            elif isinstance(text, AsyncIterable):
                async for piece in text:
                    await writer.write(piece)
            else:
                for piece in text:
                    await writer.write(piece)
        return writer.text

    def stream(self, *, final: bool = True) -> Writer:
        """Opens a text block that readers see while it is written; use it with ``async with``."""
        return Writer(self, "text", final, self._step())

    def thinking(self) -> Writer:
        """Opens a block of reasoning; use it with ``async with``."""
        return Writer(self, "thinking", False, self._step())

    async def status(self, message: str, phase: str | None = None) -> None:
        """Sends a status: what the agent is doing."""
        await self.append("agent.status", {"message": message, **({"phase": phase} if phase else {})})

    async def plan(self, tasks: Sequence[Task]) -> None:
        """Replaces the plan."""
        await self.append("agent.plan", {"tasks": list(tasks)})

    async def usage(self, *, model: str | None = None, input_tokens: int = 0, output_tokens: int = 0, **more: int) -> None:
        """Reports tokens used since the last report."""
        counts = {"input_tokens": input_tokens, "output_tokens": output_tokens, **more}
        await self.append("agent.usage", {**({"model": model} if model else {}), **counts})

    async def artifact(self, type: str, *, title: str | None = None, data: Any = None, path: str | None = None, media_type: str | None = None,
                       content: bytes | None = None) -> None:
        """Publishes an artifact: small values as ``data``, files as ``path`` and ``content``."""
        step = self._step()
        if self._is_stored(step):
            return
        body: dict[str, Any] = {"type": type}
        if content is not None:
            if not path:
                raise ValueError("a file needs its path")
            folder = f"?workstream={quote(self.workstream, safe='')}" if self.workstream else ""
            stored = await self._transport.put(f"/sessions/{quote(self.session, safe='')}/artifacts/{quote(path)}{folder}", content,
                                        media_type or "application/octet-stream")
            path = str(stored.get("path", path))
            body["size"] = len(content)
        for name, value in (("title", title), ("data", data), ("path", path), ("media_type", media_type)):
            if value is not None:
                body[name] = value
        await self._put(step, "agent.artifact", body)

    async def append(self, type: str, payload: Mapping[str, Any]) -> Event:
        """Appends any event as the next step."""
        return await self._put(self._step(), type, dict(payload))

    # Tools.

    async def tool(self, name: str, params: Mapping[str, Any], run: Callable[..., T | Awaitable[T]], *, call_id: str | None = None,
                   repeatable: bool = False) -> T:
        """Runs a tool: the call is stored before ``run(**params)`` starts, its result or error after.

        A call that has a result is not run again. An interrupted call is run again only if it is repeatable;
        otherwise it becomes a tool error and raises UnknownOutcome. Functions that are not async run in a thread.
        A call that a person has approved has the ``call_id`` of the decision, so that pages show both as one entry.
        """
        step = self._step()
        again = self._is_stored(step)
        call_id = call_id or f"c{self._bare}-{step}"
        call = {"call_id": call_id, "tool": name, "params": dict(params), **({"repeatable": True} if repeatable else {})}
        began = await self._put(step, "agent.tool_call", call)
        end = f"{step}-end"
        before = self._stored.get(self._key(end))
        if before is not None:
            if before.get("type") == "agent.tool_result":
                return cast(T, before["payload"].get("result"))
            if before["payload"].get("code") == "unknown_outcome":
                raise UnknownOutcome()
            raise ToolFailed(str(before["payload"].get("error", "")))
        if again and not began["payload"].get("repeatable"):
            unknown = UnknownOutcome()
            await self._put(end, "agent.tool_error", {"call_id": call_id, "tool": name, "error": str(unknown), "code": "unknown_outcome"})
            raise unknown
        try:
            if inspect.iscoroutinefunction(run):
                result = await run(**params)
            else:
                given = await asyncio.to_thread(run, **params)
                result = await given if inspect.isawaitable(given) else given
        except asyncio.CancelledError:
            raise
        except Exception as err:
            await self._put(end, "agent.tool_error", {"call_id": call_id, "tool": name, "error": str(err) or repr(err)})
            raise
        await self._put(end, "agent.tool_result", {"call_id": call_id, "tool": name, "result": result})
        return cast(T, result)

    # Asking people.

    async def ask(self, text: str, *, input_type: InputType | None = None, options: Sequence[str | Option] = (), timeout: float | None = None,
                  **more: Any) -> Answer:
        """Asks a person and waits for the answer, also across reconnects and restarts.

        With options one of them is chosen (``input_type="checkbox"`` for several). Raises Expired or Withdrawn.
        """
        offered: list[Option] = [{"id": o, "label": o, "value": o} if isinstance(o, str) else o for o in options]
        kind = input_type or ("radio" if offered else "text")
        body: dict[str, Any] = {"input_type": kind, "text": text, **more}
        if offered:
            body["options"] = offered
        if timeout is not None:
            body["timeout"] = timeout
        asked = await self.append("agent.input_request", body)
        if kind == "notification":
            return Answer()
        p = await self._answer(asked)
        return Answer(str(p.get("text") or ""), [str(v) for v in p.get("values") or []])

    async def approve(self, tool: str, params: Mapping[str, Any], *, text: str | None = None, risk: str | None = None,
                      timeout: float | None = None) -> Decision:
        """Asks a person to approve a call; the decision is true when they did."""
        call: Call = {"call_id": f"c{self._bare}-{self._steps + 1}-ask", "tool": tool, "params": dict(params)}
        if risk:
            call["risk"] = risk
        return (await self.approve_all([call], text=text, timeout=timeout))[0]

    async def approve_all(self, calls: Sequence[Call], *, text: str | None = None, timeout: float | None = None) -> list[Decision]:
        """Asks a person to approve several calls; the decisions come in the order of the calls."""
        body: dict[str, Any] = {"calls": list(calls)}
        if text:
            body["text"] = text
        if timeout is not None:
            body["timeout"] = timeout
        p = await self._answer(await self.append("agent.approval_request", body))
        return [Decision(str(d.get("call_id", "")), bool(d.get("approve")), str(d.get("reason") or ""), d.get("params")) for d in p.get("decisions") or []]

    async def permit(self, scopes: Sequence[str], justification: str = "", *, timeout: float | None = None) -> Permission:
        """Asks a person to grant scopes."""
        body: dict[str, Any] = {"scopes": list(scopes), "justification": justification}
        if timeout is not None:
            body["timeout"] = timeout
        p = await self._answer(await self.append("agent.permission_request", body))
        return Permission(list(p.get("granted") or []), list(p.get("denied") or []), str(p.get("duration") or "once"))

    async def _answer(self, asked: Event) -> dict[str, Any]:
        request = str(asked["payload"].get("request_id", ""))
        while True:
            found = self._answers.get(request)
            if found is not None:
                if found.get("type") == "prompt.closed":
                    raise Expired() if found["payload"].get("reason") == "expired" else Withdrawn()
                return found["payload"]
            self._arrived.clear()
            await self._arrived.wait()

    # Workstreams.

    async def launch(self, id: str, instruction: str, **more: Any) -> WorkstreamStatus:
        """Launches a workstream and returns at once. ``more``: name, agent, deadline_seconds, interactive, context, …"""
        launch = {"id": id, "instruction": instruction, **more}
        return (await self._work("launch_workstream", {"launch": launch}))[0]

    async def message(self, workstream: str, text: str) -> WorkstreamStatus:
        """Sends a message to a workstream."""
        return (await self._work("message_workstream", {"workstream_id": workstream, "text": text}))[0]

    async def steer(self, workstream: str, command: str, text: str = "") -> WorkstreamStatus:
        """Sends a directive to a workstream: add_instruction, set_priority, add_constraint, pause_requested, resume_requested."""
        return (await self._work("steer_workstream", {"workstream_id": workstream, "command": command, "text": text}))[0]

    async def terminate(self, workstream: str, reason: str = "") -> WorkstreamStatus:
        """Cancels a workstream."""
        return (await self._work("terminate_workstream", {"workstream_id": workstream, "reason": reason}))[0]

    async def progress(self, phase: str, message: str = "", **more: Any) -> None:
        """Reports progress to the parent of the turn's workstream. Does nothing outside of workstreams."""
        step = self._step()
        if self.workstream:
            p = {"phase": phase, "message": message, **more}
            await self._work("workstream_progress", {"progress": p}, step)

    async def workstreams(self, *names: str) -> list[WorkstreamStatus]:
        """Returns the status of the named workstreams; without names, of all that were launched from here."""
        reply = await self._transport.call(self, lambda: {"op": "workstream_status"})
        found = cast("list[WorkstreamStatus]", reply.get("workstreams") or [])
        if not names:
            return [w for w in found if w.get("parent", "") == (self.workstream or "")]
        named: list[WorkstreamStatus] = []
        for name in names:
            match = next((w for w in found if name in (w.get("workstream_id"), w.get("launch_id"))), None)
            if match is None:
                raise ParleyError("not_found", f"this session has no workstream {name}")
            named.append(match)
        return named

    async def wait(self, *names: str) -> list[WorkstreamStatus]:
        """Waits until each named workstream has ended, or is interactive and waits for a message."""
        while True:
            self._arrived.clear()
            found = await self.workstreams(*names)
            if all(_over(w) for w in found):
                return found
            try:
                await within(5, self._arrived.wait())
            except asyncio.TimeoutError:
                pass

    async def _work(self, op: str, frame: dict[str, Any], step: str | None = None) -> list[WorkstreamStatus]:
        key = self._key(step or self._step())
        await self._unpaused()
        reply = await self._transport.call(self, lambda: {"op": op, "client_id": key, **frame})
        return cast("list[WorkstreamStatus]", reply.get("workstreams") or [])

    # For the worker and its writers.

    @property
    def _bare(self) -> str:
        return self.id.removeprefix("t-")

    async def _unpaused(self) -> None:
        """Waits while the workstream of the turn is paused."""
        while self._paused:
            self._arrived.clear()
            await self._arrived.wait()

    def _step(self) -> str:
        self._steps += 1
        return str(self._steps)

    def _key(self, step: str) -> str:
        return f"{self.id}/{step}"

    def _is_stored(self, step: str) -> bool:
        return self._key(step) in self._stored

    async def _put(self, step: str, type: str, payload: dict[str, Any]) -> Event:
        """Appends a payload as a step, once over all attempts."""
        key = self._key(step)
        known = self._stored.get(key)
        if known is not None:
            if known.get("type") != type:
                raise ParleyError("conflict", f"the agent's steps differ from those of an earlier attempt: this step is {type} now and was {known.get('type')} before")
            return known
        await self._unpaused()
        draft: dict[str, Any] = {"type": type, "payload": payload, "client_id": key}
        if self.workstream:
            draft["workstream_id"] = self.workstream
        reply = await self._transport.call(self, lambda: {"op": "append", "events": [draft]})
        events = reply.get("events") or []
        if len(events) != 1:
            raise ParleyError("internal", "the server did not return the event of a step")
        event = cast(Event, events[0])
        self._stored[key] = event
        return event

    def _load(self, given: Assignment) -> None:
        """Loads the server's state of the turn, at its start and after each reconnect."""
        self.attempt = given.get("attempt", 1)
        self._paused = bool(given.get("paused"))
        self._open = {b["block"]: b for b in given.get("open") or []}
        self._shown = {name: len(b.get("text", "").encode()) for name, b in self._open.items()}
        for e in given.get("events") or []:
            if e.get("client_id") and e.get("actor", {}).get("kind") == "agent":
                self._stored[e["client_id"]] = e
            self._arrive(e)

    def _receive(self, e: Event) -> None:
        """Handles an event for the turn."""
        self._arrive(e)
        if e.get("type") == "workstream.steered":
            command = e["payload"].get("command")
            self._paused = command == "pause_requested" or self._paused and command != "resume_requested"
        sequence = e.get("sequence", 0)
        if e.get("type") not in _ANSWERS and sequence not in self._seen:
            self._seen.add(sequence)
            self._new_events.append(e)
        self._arrived.set()

    def _arrive(self, e: Event) -> None:
        if e.get("type") in _ANSWERS:
            self._answers.setdefault(str(e["payload"].get("request_id", "")), e)
            self._arrived.set()


def _over(w: WorkstreamStatus) -> bool:
    return bool(w.get("ended_at")) or bool(w.get("waiting"))


async def within(seconds: float | None, what: Awaitable[T]) -> T:
    """Like asyncio.wait_for, which before Python 3.12 drops a cancellation that arrives together with the result."""
    task = asyncio.ensure_future(what)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
        if not done:
            raise asyncio.TimeoutError
        return task.result()
    finally:
        task.cancel()
