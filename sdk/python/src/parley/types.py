"""The JSON types that a worker uses. Unknown fields are kept."""

from __future__ import annotations

from typing import Any, Literal, TypedDict


class Actor(TypedDict, total=False):
    kind: str
    id: str
    name: str


class Event(TypedDict, total=False):
    """An event of a session."""

    session_id: str
    sequence: int
    timestamp: str
    type: str
    payload: dict[str, Any]
    id: str
    turn_id: str
    workstream_id: str
    actor: Actor
    client_id: str


class Block(TypedDict, total=False):
    """An open block of text."""

    block: str
    kind: str
    text: str


class Assignment(TypedDict, total=False):
    """A turn that the server assigns to a worker."""

    session_id: str
    turn_id: str
    attempt: int
    agent: str
    workstream_id: str
    trigger: Event
    events: list[Event]
    open: list[Block]
    launch: dict[str, Any]
    paused: bool


class Option(TypedDict, total=False):
    """One option of a prompt."""

    id: str
    label: str
    value: str
    description: str


class Call(TypedDict, total=False):
    """A tool call that waits for approval."""

    call_id: str
    tool: str
    params: Any
    risk: str


class Task(TypedDict, total=False):
    """One step of a plan."""

    id: str
    title: str
    status: Literal["pending", "in_progress", "done", "skipped", "failed"]
    detail: str


class Artifact(TypedDict, total=False):
    """An artifact of an agent."""

    artifact_id: str
    type: str
    title: str
    path: str
    media_type: str
    size: int
    data: Any
    language: str


class WorkstreamStatus(TypedDict, total=False):
    """The status of a workstream."""

    launch_id: str
    workstream_id: str
    name: str
    task: str
    agent: str
    parent: str
    state: Literal["running", "canceling", "completed", "failed", "timeout", "canceled"]
    phase: str
    message: str
    share: float
    interactive: bool
    waiting: bool
    paused: bool
    summary: str
    error: str
    files: list[str]
    children: list[str]
    ended_at: str
