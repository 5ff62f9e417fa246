"""Scheduler, agents, supervisor: durable work that finishes or is undone.

app          what you declare: workflows, agents, their steps and undos
client       submit, look, step in
producing    send events to the streams of a server
submit       the one door through which a task enters the store
scheduler    runs the workflows: decides the next step of every task, sends it out
agents       do the steps, each wrapping one service
supervisor   notices what got stuck and has it taken up again
ingest       hands the messages of queues to their consumers, takes the events of streams through pipelines
store        the durable record: every step, before and after it happens
domain       the rules, without I/O: states, retries, recovery, undo
"""

from backstay.agents.http import HttpAgent
from backstay.agents.http_answers import HttpAnswer
from backstay.app import App
from backstay.client import Client, Handle
from backstay.definitions.batches import Checkpoint
from backstay.definitions.calls import current_step, now, race, random, sleep, start, uuid4, wait_for
from backstay.definitions.dials import Dial, Knob
from backstay.definitions.failures import TaskFailure
from backstay.definitions.submissions import Submission
from backstay.domain.breaker import Breaker
from backstay.domain.outbound import Outbound
from backstay.domain.pace import Pace
from backstay.domain.recovery import Recovery
from backstay.domain.retry import Retry
from backstay.domain.stream import Appended, Event
from backstay.errors import (
    BackstayError,
    Conflict,
    EventConflict,
    HttpFailed,
    HttpUnavailable,
    IdConflict,
    InvalidRequest,
    LockLost,
    Permanent,
    QueueFull,
    StepFailed,
    StreamFull,
    TaskFailed,
    Transient,
    Unavailable,
    UnknownStream,
    UnknownTask,
)
from backstay.messaging.message import Message
from backstay.producing import Producer

__all__ = [
    "App",
    "Appended",
    "BackstayError",
    "Breaker",
    "Checkpoint",
    "Client",
    "Conflict",
    "Dial",
    "Event",
    "EventConflict",
    "Handle",
    "HttpAgent",
    "HttpAnswer",
    "HttpFailed",
    "HttpUnavailable",
    "IdConflict",
    "InvalidRequest",
    "Knob",
    "LockLost",
    "Message",
    "Outbound",
    "Pace",
    "Permanent",
    "Producer",
    "QueueFull",
    "Recovery",
    "Retry",
    "StepFailed",
    "StreamFull",
    "Submission",
    "TaskFailed",
    "TaskFailure",
    "Transient",
    "Unavailable",
    "UnknownStream",
    "UnknownTask",
    "current_step",
    "now",
    "race",
    "random",
    "sleep",
    "start",
    "uuid4",
    "wait_for",
]
