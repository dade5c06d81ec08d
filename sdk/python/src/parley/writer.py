"""Text that is shown while it is written."""

from __future__ import annotations

import json
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .turn import Turn

# The sizes at which a block is closed and continued in a new one, in bytes: as text, and as JSON.
_MAX_BLOCK = 512 << 10
_MAX_JSON = 700 << 10


class Writer:
    """Streams one block: what is written goes out at once, closing makes it a fact.

    A worker that takes up the turn of another writes the same text again: what was shown is skipped. Text that
    differs begins a new block; the old one stays as it was shown.
    """

    def __init__(self, turn: Turn, kind: str, final: bool, step: str) -> None:
        self._turn = turn
        self._kind = kind
        self._final = final
        self._step = step
        self._parts = 0  # blocks that were full and closed
        self._whole: list[str] = []
        self._closed = False
        self._begin()

    @property
    def text(self) -> str:
        """All that was written."""
        return "".join(self._whole)

    async def __aenter__(self) -> Writer:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None) -> None:
        # What was shown of a block that fails stays; the server closes it with the turn.
        if kind is None:
            await self.close()

    async def write(self, text: str) -> None:
        """Shows a piece."""
        if self._closed:
            raise ValueError("the block was closed")
        text = text.encode("utf-8", "replace").decode()
        self._whole.append(text)
        while text:
            n = self._room(text)
            await self._show(text[:n])
            text = text[n:]
            if text:
                await self._finish(False)
                self._parts += 1
                self._begin()

    async def close(self) -> None:
        """Makes the block a fact. An empty block is none."""
        if self._closed:
            return
        self._closed = True
        if self._bytes or self._parts or self._done or self._old:
            await self._finish(self._final)

    @property
    def _name(self) -> str:
        return self._step if self._parts == 0 else f"{self._step}.{self._parts}"

    def _base(self) -> str:
        return f"b{self._turn._bare}-{self._name.replace('.', '-')}"

    def _begin(self) -> None:
        t = self._turn
        self._block = self._base()
        self._data = bytearray()
        self._json = 0
        self._done = t._did(self._name)
        if t._did(f"close-{self._block}"):
            # An earlier attempt abandoned it and perhaps began another.
            left = [name for name in t._open if name.startswith(f"{self._block}-a")]
            self._block = left[-1] if left else f"{self._block}-a{t.attempt}"
        self._old = t._open[self._block]["text"].encode() if self._block in t._open else b""

    @property
    def _bytes(self) -> int:
        return len(self._data)

    def _room(self, text: str) -> int:
        """How many characters of a text fit the block."""
        if self._bytes + len(text) * 4 <= _MAX_BLOCK and self._json + len(text) * 12 <= _MAX_JSON:
            self._json += _packed(text)
            return len(text)
        size, packed, at = self._bytes, self._json, 0
        for width in (1024, 1):  # by the thousand, then one by one
            while at < len(text):
                piece = text[at:at + width]
                more, longer = len(piece.encode()), _packed(piece)
                if size + more > _MAX_BLOCK or packed + longer > _MAX_JSON:
                    break
                size, packed, at = size + more, packed + longer, at + len(piece)
        self._json = packed
        return at

    async def _show(self, text: str) -> None:
        if not text:
            return
        start = self._bytes
        self._data += text.encode()
        if self._done:
            return
        if start < len(self._old):
            n = min(len(self._old), self._bytes)
            if self._data[start:n] != self._old[start:n]:
                await self._abandon()
        turn = self._turn

        def piece() -> dict[str, Any] | None:
            shown = turn._shown.get(self._block, 0)
            if shown >= self._bytes:
                return None
            turn._shown[self._block] = self._bytes
            p: dict[str, Any] = {"block": self._block, "offset": shown, "text": self._data[shown:].decode(), "kind": self._kind}
            if turn.workstream:
                p["workstream_id"] = turn.workstream
            return {"op": "preview", "previews": [p]}

        await turn._desk.show(turn, piece)

    async def _abandon(self) -> None:
        """Leaves the old block exactly as it was shown and begins another."""
        await self._put(f"close-{self._block}", {"block": self._block, "text": self._old.decode(), "partial": True})
        self._block = f"{self._base()}-a{self._turn.attempt}"
        self._old = b""

    async def _finish(self, final: bool) -> None:
        if not self._done and self._bytes < len(self._old):
            await self._abandon()  # this attempt says less
        await self._put(self._name, {"block": self._block, "text": self._data.decode(), **({"final": True} if final else {})})

    async def _put(self, step: str, payload: dict[str, Any]) -> None:
        await self._turn._put(step, "agent.text" if self._kind == "text" else "agent.thinking", payload)


def _packed(text: str) -> int:
    """What a text takes as JSON, at most: some writers escape what is special in HTML."""
    return len(json.dumps(text, ensure_ascii=False).encode()) + 5 * sum(text.count(c) for c in "<>&\u2028\u2029")
