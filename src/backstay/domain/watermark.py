"""How far everything is finished, whatever the order in which it was.

    read      3  4  5  8  9 12 13          offsets grow; some may be left out
    finished  ✓  ✓     ✓  ✓     ✓
                    ▲                 ▲
              low-water mark          where reading goes on

After a crash reading goes on at the low-water mark: nothing unfinished lies below it.
"""

from __future__ import annotations

from collections import deque


class Watermark:
    """The low-water mark of one partition. Holds no more than what was read beyond it."""

    def __init__(self, start: int) -> None:
        # What was read and is not passed yet, in order; and what of that is finished.
        self._in_hand: deque[int] = deque()
        self._finished: set[int] = set()
        self._low = start
        self._next = start

    @property
    def low(self) -> int:
        """Everything below this is finished."""
        return self._low

    @property
    def next(self) -> int:
        """Where reading goes on."""
        return self._next

    @property
    def in_hand(self) -> int:
        """How many events were read beyond the mark, finished or not."""
        return len(self._in_hand)

    @property
    def unfinished(self) -> int:
        return len(self._in_hand) - len(self._finished)

    def read(self, offset: int) -> None:
        """The event at ``offset`` is in hand now; offsets grow."""
        assert offset >= self._next, f"offset {offset} was read after {self._next - 1}"
        self._in_hand.append(offset)
        self._next = offset + 1
        if len(self._in_hand) == 1:
            self._low = offset

    def skip(self, to: int) -> None:
        """Between what was read and ``to`` there is nothing, or nothing left to do."""
        self._next = max(self._next, to)
        if not self._in_hand:
            self._low = self._next

    def finish(self, offset: int) -> None:
        """The event at ``offset`` is finished; each is once. The mark moves past all that are in a row."""
        self._finished.add(offset)
        in_hand = self._in_hand
        while in_hand and in_hand[0] in self._finished:
            self._finished.remove(in_hand.popleft())
        self._low = in_hand[0] if in_hand else self._next
