"""When a job runs: from its document to instants, and to a sentence about them. All in UTC.

definition  what a document says: start, frequency, interval, count, end, schedule
reading     a document becomes a definition, or an error that names the member
members     the members of one JSON object
moments     instants as documents write them, to a tenth of a microsecond
spans       durations as documents write them, in two notations
timetable   the first occurrence, and the next one after any instant
grid        start + n intervals
matching    the instants that a schedule matches
months      days of months, for it
cycle       numbers that repeat: how both skip a decade at once
wording     the same as an English sentence

    document ── reading ──▶ Timing ── Timetable(created) ──▶ first, next_after, occurrences, describe
                                          ├── grid       no schedule
                                          └── matching   a schedule
"""

from backstay.domain.recurrence.definition import Frequency, Recurrence, Schedule, Timing
from backstay.domain.recurrence.moments import Moment, read_moment
from backstay.domain.recurrence.reading import read_job, read_timing
from backstay.domain.recurrence.spans import Notation, Span, read_span
from backstay.domain.recurrence.timetable import IMMEDIATELY, Timetable, occurrence_text

__all__ = [
    "IMMEDIATELY",
    "Frequency",
    "Moment",
    "Notation",
    "Recurrence",
    "Schedule",
    "Span",
    "Timetable",
    "Timing",
    "occurrence_text",
    "read_job",
    "read_moment",
    "read_span",
    "read_timing",
]
