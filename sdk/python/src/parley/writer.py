"""Blocks of text that readers see while they are written."""

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
    """Streams one block: text is previewed as it is written, and closing stores the block.

    A worker that continues the turn of another worker writes the same text again; previewed text is skipped.
    Different text opens a new block; the old block is stored as it was previewed.
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
        """The whole text that was written."""
        return "".join(self._whole)

    async def __aenter__(self) -> Writer:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None) -> None:
        # After an error the server closes the block, with its previewed text, at the end of the turn.
        if kind is None:
            await self.close()

    async def write(self, text: str) -> None:
        """Writes text."""
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
        """Stores the block. An empty block is not stored."""
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
        self._done = t._is_stored(self._name)
        if t._is_stored(f"close-{self._block}"):
            # An earlier attempt abandoned the block and may have opened another.
            left = [name for name in t._open if name.startswith(f"{self._block}-a")]
            self._block = left[-1] if left else f"{self._block}-a{t.attempt}"
        self._old = t._open[self._block]["text"].encode() if self._block in t._open else b""

    @property
    def _bytes(self) -> int:
        return len(self._data)

    def _room(self, text: str) -> int:
        """How many characters of a text fit into the block."""
        if self._bytes + len(text) * 4 <= _MAX_BLOCK and self._json + len(text) * 12 <= _MAX_JSON:
            self._json += _packed(text)
            return len(text)
        size, packed, at = self._bytes, self._json, 0
        for width in (1024, 1):  # in steps of 1024, then of one
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

        await turn._transport.show(turn, piece)

    async def _abandon(self) -> None:
        """Stores the old block as it was previewed and opens another."""
        await self._put(f"close-{self._block}", {"block": self._block, "text": self._old.decode(), "partial": True})
        self._block = f"{self._base()}-a{self._turn.attempt}"
        self._old = b""

    async def _finish(self, final: bool) -> None:
        if not self._done and self._bytes < len(self._old):
            await self._abandon()  # the text of this attempt is shorter
        await self._put(self._name, {"block": self._block, "text": self._data.decode(), **({"final": True} if final else {})})

    async def _put(self, step: str, payload: dict[str, Any]) -> None:
        await self._turn._put(step, "agent.text" if self._kind == "text" else "agent.thinking", payload)


def _packed(text: str) -> int:
    """The maximum size of a text as JSON: some encoders escape HTML characters."""
    return len(json.dumps(text, ensure_ascii=False).encode()) + 5 * sum(text.count(c) for c in "<>&\u2028\u2029")
