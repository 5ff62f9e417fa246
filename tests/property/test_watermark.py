"""The low-water mark against the plainest way to say what it is, with any order of reading and finishing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from backstay.domain.watermark import Watermark

# Each number: how many offsets are left out before the next one that is read.
GAPS = st.lists(st.integers(0, 3), min_size=1, max_size=60)


def offsets_of(gaps: list[int], start: int) -> list[int]:
    offsets, last = [], start - 1
    for gap in gaps:
        last += gap + 1
        offsets.append(last)
    return offsets


@given(start=st.integers(0, 10**12), gaps=GAPS, data=st.data())
def test_the_mark_never_passes_what_is_unfinished_and_reaches_the_end_with_the_last(
    start: int, gaps: list[int], data: st.DataObject
):
    """EH-10: read and finished in any order, interleaved at random."""
    mark = Watermark(start)
    waiting = offsets_of(gaps, start)
    unfinished: list[int] = []
    finished: set[int] = set()
    lows = [mark.low]
    while waiting or unfinished:
        if waiting and (not unfinished or data.draw(st.booleans())):
            offset = waiting.pop(0)
            mark.read(offset)
            unfinished.append(offset)
        else:
            offset = unfinished.pop(data.draw(st.integers(0, len(unfinished) - 1)))
            mark.finish(offset)
            finished.add(offset)
        assert mark.low == (min(unfinished) if unfinished else mark.next)
        assert all(offset in finished for offset in offsets_of(gaps, start) if offset < mark.low)
        assert mark.in_hand == len([one for one in {*finished, *unfinished} if one >= mark.low])
        lows.append(mark.low)

    assert lows == sorted(lows)
    assert mark.low == offsets_of(gaps, start)[-1] + 1
    assert mark.in_hand == len(mark._finished) == 0
