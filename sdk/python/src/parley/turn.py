"""A worker's part in a conversation."""

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

# What became of a workstream, in words, and the field that says more.
_NEWS = {
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
    """What a person answered: text, or the values of the chosen options."""

    text: str = ""
    values: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return self.text or ", ".join(self.values)


@dataclass(frozen=True)
class Decision:
    """The word on one call. ``params`` are the person's own when they changed them."""

    call_id: str
    approved: bool
    reason: str = ""
    params: Any = None

    def __bool__(self) -> bool:
        return self.approved


@dataclass(frozen=True)
class Permission:
    """Which scopes a person granted."""

    granted: list[str]
    denied: list[str]
    duration: str = "once"


class Desk(Protocol):
    """What a turn needs of its worker."""

    async def call(self, turn: Turn, make: Callable[[], dict[str, Any]]) -> dict[str, Any]: ...
    async def show(self, turn: Turn, make: Callable[[], dict[str, Any] | None]) -> None: ...
    async def put(self, path: str, body: bytes, media_type: str) -> dict[str, Any]: ...


class Turn:
    """The answer to one trigger.

    Its verbs are steps, numbered in the order of their use. A worker that takes up a turn which another one began
    uses the same verbs again from the start: steps that are in the log give what they gave then and are not done
    again. So their order must be the same in every attempt, and one task uses them.
    """

    def __init__(self, desk: Desk, given: Assignment) -> None:
        self._desk = desk
        self.session: str = given["session_id"]
        self.id: str = given["turn_id"]
        self.agent: str = given.get("agent", "")
        self.workstream: str | None = given.get("workstream_id")
        self.trigger: Event = given["trigger"]
        #: What the line of the turn was launched for: task, tools, model, context; None on the main line.
        self.launched: dict[str, Any] | None = given.get("launch")
        self.attempt: int = 1
        #: Somebody stopped the turn; the task that answers it is cancelled.
        self.stopped: bool = False
        self._steps = 0
        self._said: dict[str, Event] = {}
        self._answers: dict[str, Event] = {}
        self._heard: list[Event] = []
        self._seen: set[int] = set()
        self._news = asyncio.Event()
        self._open: dict[str, Block] = {}
        self._shown: dict[str, int] = {}
        self._paused = False
        self._again(given)

    # What is answered.

    @property
    def text(self) -> str:
        """What the trigger says."""
        p = self.trigger.get("payload") or {}
        kind = self.trigger.get("type", "")
        if kind == "workstream.launched":
            return str(p.get("task", ""))
        if kind in _NEWS:
            words, more = _NEWS[kind]
            what = words.format(share=round(float(p.get("share") or 0) * 100))
            return f"Workstream {p.get('id', '')} {what}" + (f": {p[more]}" if p.get(more) else ".")
        if p.get("text"):
            return str(p["text"])
        parts = p.get("content") or []
        return "\n".join(str(c["text"]) for c in parts if isinstance(c, dict) and c.get("type") == "text" and c.get("text"))

    @property
    def context(self) -> dict[str, Any]:
        """What the page around the conversation told along with the message."""
        context = (self.trigger.get("payload") or {}).get("context")
        return context if isinstance(context, dict) else {}

    def heard(self) -> list[Event]:
        """Takes what came in since it was last called: messages of people, and news of workstreams."""
        heard, self._heard = self._heard, []
        return heard

    # Saying things.

    async def say(self, text: str | Iterable[str] | AsyncIterable[str], *, final: bool = True) -> str:
        """Says a text as the turn's answer. Pieces are shown as they come. Returns the whole text."""
        return await self._speak(self.stream(final=final), text)

    async def think(self, text: str | Iterable[str] | AsyncIterable[str]) -> str:
        """Shows reasoning."""
        return await self._speak(self.thinking(), text)

    async def _speak(self, writer: Writer, text: str | Iterable[str] | AsyncIterable[str]) -> str:
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
        """Begins a block of text that is shown as it is written; use it with ``async with``."""
        return Writer(self, "text", final, self._step())

    def thinking(self) -> Writer:
        """Begins a block of reasoning; use it with ``async with``."""
        return Writer(self, "thinking", False, self._step())

    async def status(self, message: str, phase: str | None = None) -> None:
        """Tells what the agent is doing."""
        await self.append("agent.status", {"message": message, **({"phase": phase} if phase else {})})

    async def plan(self, tasks: Sequence[Task]) -> None:
        """Shows the whole plan anew."""
        await self.append("agent.plan", {"tasks": list(tasks)})

    async def usage(self, *, model: str | None = None, input_tokens: int = 0, output_tokens: int = 0, **more: int) -> None:
        """Reports tokens used since the last report."""
        counts = {"input_tokens": input_tokens, "output_tokens": output_tokens, **more}
        await self.append("agent.usage", {**({"model": model} if model else {}), **counts})

    async def artifact(self, type: str, *, title: str | None = None, data: Any = None, path: str | None = None, media_type: str | None = None,
                       content: bytes | None = None) -> None:
        """Publishes something the agent made: small things as ``data``, files as ``path`` and ``content``."""
        step = self._step()
        if self._did(step):
            return
        body: dict[str, Any] = {"type": type}
        if content is not None:
            if not path:
                raise ValueError("a file needs its path")
            folder = f"?workstream={quote(self.workstream, safe='')}" if self.workstream else ""
            kept = await self._desk.put(f"/sessions/{quote(self.session, safe='')}/artifacts/{quote(path)}{folder}", content,
                                        media_type or "application/octet-stream")
            path = str(kept.get("path", path))
            body["size"] = len(content)
        for name, value in (("title", title), ("data", data), ("path", path), ("media_type", media_type)):
            if value is not None:
                body[name] = value
        await self._put(step, "agent.artifact", body)

    async def append(self, type: str, payload: Mapping[str, Any]) -> Event:
        """Puts any event into the log as the next step."""
        return await self._put(self._step(), type, dict(payload))

    # Tools.

    async def tool(self, name: str, params: Mapping[str, Any], run: Callable[..., T | Awaitable[T]], *, repeatable: bool = False) -> T:
        """Uses a tool: the call is in the log before ``run(**params)`` starts, its result or error after.

        A call that has a result is not run again. One that was cut off is run again only if it is repeatable;
        otherwise it becomes a tool error and raises UnknownOutcome. Functions that are not async run in a thread.
        """
        step = self._step()
        again = self._did(step)
        call_id = f"c{self._bare}-{step}"
        call = {"call_id": call_id, "tool": name, "params": dict(params), **({"repeatable": True} if repeatable else {})}
        began = await self._put(step, "agent.tool_call", call)
        end = f"{step}-end"
        before = self._said.get(self._key(end))
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
        """Asks a person and waits for the answer, over broken connections and restarts if need be.

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
            self._news.clear()
            await self._news.wait()

    # Workstreams: lines of work in the background.

    async def launch(self, id: str, instruction: str, **more: Any) -> WorkstreamStatus:
        """Begins a workstream and returns at once. ``more``: name, agent, deadline_seconds, interactive, context, …"""
        launch = {"id": id, "instruction": instruction, **more}
        return (await self._work("launch_workstream", {"launch": launch}))[0]

    async def message(self, workstream: str, text: str) -> WorkstreamStatus:
        """Hands a follow-up to a workstream."""
        return (await self._work("message_workstream", {"workstream_id": workstream, "text": text}))[0]

    async def steer(self, workstream: str, command: str, text: str = "") -> WorkstreamStatus:
        """Hands a directive to a workstream: add_instruction, set_priority, add_constraint, pause_requested, resume_requested."""
        return (await self._work("steer_workstream", {"workstream_id": workstream, "command": command, "text": text}))[0]

    async def terminate(self, workstream: str, reason: str = "") -> WorkstreamStatus:
        """Tells a workstream to end."""
        return (await self._work("terminate_workstream", {"workstream_id": workstream, "reason": reason}))[0]

    async def progress(self, phase: str, message: str = "", **more: Any) -> None:
        """Tells the line that launched this one how far it has come. Does nothing on the main line."""
        step = self._step()
        if self.workstream:
            p = {"phase": phase, "message": message, **more}
            await self._work("workstream_progress", {"progress": p}, step)

    async def workstreams(self, *names: str) -> list[WorkstreamStatus]:
        """Tells how workstreams are; with none named, all that the line of the turn launched."""
        reply = await self._desk.call(self, lambda: {"op": "workstream_status"})
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
        """Waits until all named workstreams have ended, or rest when they are interactive."""
        while True:
            self._news.clear()
            found = await self.workstreams(*names)
            if all(_over(w) for w in found):
                return found
            try:
                await asyncio.wait_for(self._news.wait(), 5)
            except asyncio.TimeoutError:
                pass

    async def _work(self, op: str, frame: dict[str, Any], step: str | None = None) -> list[WorkstreamStatus]:
        key = self._key(step or self._step())
        await self._gate()
        reply = await self._desk.call(self, lambda: {"op": op, "client_id": key, **frame})
        return cast("list[WorkstreamStatus]", reply.get("workstreams") or [])

    # For the worker and its writers.

    @property
    def _bare(self) -> str:
        return self.id.removeprefix("t-")

    async def _gate(self) -> None:
        """Waits while the workstream of the turn is paused."""
        while self._paused:
            self._news.clear()
            await self._news.wait()

    def _step(self) -> str:
        self._steps += 1
        return str(self._steps)

    def _key(self, step: str) -> str:
        return f"{self.id}/{step}"

    def _did(self, step: str) -> bool:
        return self._key(step) in self._said

    async def _put(self, step: str, type: str, payload: dict[str, Any]) -> Event:
        """Puts one payload into the log as a step, once over all attempts."""
        key = self._key(step)
        known = self._said.get(key)
        if known is not None:
            if known.get("type") != type:
                raise ParleyError("conflict", f"the agent does not repeat itself: where it says {type} now, it said {known.get('type')} before it was cut off")
            return known
        await self._gate()
        draft: dict[str, Any] = {"type": type, "payload": payload, "client_id": key}
        if self.workstream:
            draft["workstream_id"] = self.workstream
        reply = await self._desk.call(self, lambda: {"op": "append", "events": [draft]})
        events = reply.get("events") or []
        if len(events) != 1:
            raise ParleyError("internal", "the server did not return the event of a step")
        event = cast(Event, events[0])
        self._said[key] = event
        return event

    def _again(self, given: Assignment) -> None:
        """Takes in what the server knows of the turn, at its start and whenever the connection is back."""
        self.attempt = given.get("attempt", 1)
        self._paused = bool(given.get("paused"))
        self._open = {b["block"]: b for b in given.get("open") or []}
        self._shown = {name: len(b.get("text", "").encode()) for name, b in self._open.items()}
        for e in given.get("events") or []:
            if e.get("client_id") and e.get("actor", {}).get("kind") == "agent":
                self._said[e["client_id"]] = e
            self._arrive(e)

    def _tell(self, e: Event) -> None:
        """Hears what came in for the turn."""
        self._arrive(e)
        if e.get("type") == "workstream.steered":
            command = e["payload"].get("command")
            self._paused = command == "pause_requested" or self._paused and command != "resume_requested"
        sequence = e.get("sequence", 0)
        if e.get("type") not in _ANSWERS and sequence not in self._seen:
            self._seen.add(sequence)
            self._heard.append(e)
        self._news.set()

    def _arrive(self, e: Event) -> None:
        if e.get("type") in _ANSWERS:
            self._answers.setdefault(str(e["payload"].get("request_id", "")), e)
            self._news.set()


def _over(w: WorkstreamStatus) -> bool:
    return bool(w.get("ended_at")) or bool(w.get("waiting"))
