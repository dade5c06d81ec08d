"""The errors of the package."""

from __future__ import annotations

from typing import Any, Mapping


class ParleyError(Exception):
    """An error of the server. ``code`` is one of invalid, unauthenticated, denied, not_found,
    conflict, gone, too_large, slow_down, unavailable, internal."""

    def __init__(self, code: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.details: Mapping[str, Any] = details or {}

    @property
    def retryable(self) -> bool:
        return self.code in ("unavailable", "slow_down", "internal")


class TurnLost(ParleyError):
    """The turn was given to another worker or has ended."""

    def __init__(self) -> None:
        super().__init__("conflict", "the turn was given to another worker or has ended")


class Expired(ParleyError):
    """The prompt expired without an answer."""

    def __init__(self) -> None:
        super().__init__("gone", "the prompt expired without an answer")


class Withdrawn(ParleyError):
    """The prompt was withdrawn."""

    def __init__(self) -> None:
        super().__init__("gone", "the question was withdrawn")


class ToolFailed(ParleyError):
    """A tool failed in an earlier attempt at the turn."""

    def __init__(self, message: str) -> None:
        super().__init__("internal", message)


class UnknownOutcome(ParleyError):
    """A tool was running when an earlier attempt was interrupted, and it may not be run again."""

    def __init__(self) -> None:
        super().__init__("conflict", "the tool was running when the agent was cut off; whether it took effect is not known")


class Offline(Exception):
    """The connection broke before the reply arrived. Internal to the worker."""


def error_of(raw: object) -> ParleyError:
    """Decodes the error of a frame or a response."""
    if isinstance(raw, dict):
        inner = raw.get("error", raw)
        if isinstance(inner, dict) and isinstance(inner.get("code"), str):
            details = inner.get("details")
            return ParleyError(inner["code"], str(inner.get("message", "")), details if isinstance(details, dict) else None)
    return ParleyError("internal", "the server refused the request without a readable error")
