"""Everything that can go wrong, sorted by what the caller can do about it.

BackstayError
├── InvalidRequest           fix it: the same call will fail again
│   ├── InvalidDefinition        a workflow, step or agent is declared wrongly
│   ├── InvalidSetting           a setting is unknown or out of range
│   ├── InvalidId                an id does not fit the pattern
│   ├── InvalidInput             a value does not fit the declared type, or has no JSON form
│   │   └── NotJson                  a text is not JSON
│   ├── SecretUnopened           a secret of a job cannot be opened; it has to be written again
│   ├── InvalidJob               a member of a job's, or a collection's, definition is wrong
│   ├── PayloadTooLarge          a value is larger than the payload limit
│   ├── Unknown                  what it names is not there
│   │   ├── UnknownWorkflow          no workflow of that name and version
│   │   ├── UnknownTask              no task of that id
│   │   ├── UnknownStep              no step of that key
│   │   ├── UnknownAlert             no alert of that id
│   │   ├── UnknownToken             no token of that name
│   │   ├── UnknownAgent             no agent of that name
│   │   ├── UnknownQueue             no queue, or topic, of that name
│   │   ├── UnknownMessage           no message of that id
│   │   ├── UnknownStream            no stream of that name, or no such partition of it
│   │   ├── UnknownGroup             no group of that name reads the stream
│   │   ├── UnknownEvent             no event of that id in quarantine
│   │   ├── UnknownCollection        no job collection of that name in the resource group
│   │   └── UnknownJob               no job of that name in the collection
│   ├── NotInWorkflow            a workflow call outside a workflow, or the reverse
│   ├── NotAwaited               a workflow called something and did not wait for it
│   └── InvalidHttpRequest       an HttpAgent cannot send this; Permanent as well
├── Conflict                 look again: the state is not what the caller thought
│   ├── IdConflict               the id is taken by a task with other content
│   ├── IllegalMove              the state forbids this move
│   ├── LeaseLost                another owner holds it now
│   ├── LockLost                 a message is no longer whose it was
│   ├── EventConflict            the id is taken by an event with other content
│   ├── ReadersDiffer            a group is read with another number of readers per partition
│   ├── OffsetAhead              a checkpoint lies beyond the end of the log
│   ├── OtherLog                 a checkpoint is of another log
│   ├── QueueNotEmpty            there are messages in a queue that is to be deleted
│   ├── QuotaExceeded            a job collection does not allow as much
│   ├── JobForbids               a job, or its collection, is not in a state that allows this
│   └── JournalMismatch          the workflow no longer fits what it did before
├── Unavailable              wait: the same call may succeed later
│   ├── StoreUnavailable         the state store cannot be reached or written
│   ├── SecretKeyMissing         there is no key to seal a secret with, or it cannot be used
│   ├── StoreFull                the disk, or the configured size, is full
│   ├── StreamFull               a stream has no room, and nothing may be forgotten yet
│   ├── QuarantineFull           a group has set aside as many events as it may
│   ├── Overloaded               too many tasks wait already
│   ├── QueueFull                a queue holds as many messages as it may
│   └── Closed                   the store or app is not running
├── StoreTooNew              the database was written by a newer release
├── StepFailed               a step failed for good (seen by the workflow)
└── TaskFailed               a task ended otherwise than processed (seen by the caller)

Permanent                    raised by a step: trying again would not help
└── HttpFailed                   an HTTP service refused, or its answer is of no use
Transient                    raised by a step, as any other error: it may pass; this one can say when
└── HttpUnavailable              an HTTP service did not answer, or not now
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any


class BackstayError(Exception):
    """The root of every error that Backstay raises."""


class InvalidRequest(BackstayError):
    """The request itself is wrong; nothing was written."""


class InvalidDefinition(InvalidRequest):
    """A workflow, step or agent is declared in a way that cannot work."""


class InvalidSetting(InvalidRequest):
    """A setting is unknown, out of range, or does not fit another one."""


class InvalidId(InvalidRequest):
    """An id does not fit ``[A-Za-z0-9._:@~-]{1,200}``."""


class InvalidInput(InvalidRequest):
    """A value does not fit the declared type, or has no JSON form."""


class NotJson(InvalidInput):
    """What was to be JSON is not."""


class SecretUnopened(InvalidRequest):
    """A secret of a job cannot be opened; ``reason`` says why, and never what it is."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"a secret of the job cannot be opened: {reason}; give back the key, or write the secret again"
        )
        self.reason = reason


class InvalidJob(InvalidRequest):
    """A member of a job's definition is wrong; ``field`` is the way to it from the top of the document.

    The same goes for a collection's. ``recorded`` is what Azure Scheduler is known to have said of it.
    """

    def __init__(self, field: str, problem: str, *, recorded: str | None = None) -> None:
        super().__init__(f"{field} {problem}")
        self.field = field
        self.recorded = recorded


class PayloadTooLarge(InvalidRequest):
    """A value is larger than the payload limit."""

    def __init__(self, what: str, *, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"{what} is {size_bytes:,} bytes of JSON; the limit is {limit_bytes:,} bytes"
            " (setting payload_bytes_max): store the content elsewhere and pass a reference"
        )
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class Unknown(InvalidRequest):
    """The request is written well; what it names is not there."""


class UnknownWorkflow(Unknown):
    """No workflow of that name is registered."""


class UnknownTask(Unknown):
    """There is no task with this id."""

    def __init__(self, task_id: str) -> None:
        super().__init__(
            f"there is no task {task_id!r} in this store; `backstay tasks ls` lists what is there"
        )
        self.task_id = task_id


class UnknownStep(Unknown):
    """The task has no step with this key."""

    def __init__(self, task_id: str, key: str) -> None:
        super().__init__(
            f"task {task_id!r} has no step {key!r}; `backstay tasks show {task_id}` lists its steps"
        )
        self.task_id = task_id
        self.key = key


class UnknownAlert(Unknown):
    """There is no alert with this id."""

    def __init__(self, alert_id: int) -> None:
        super().__init__(f"there is no alert {alert_id}; `backstay alerts ls` lists what is there")


class UnknownToken(Unknown):
    """There is no token with this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no token {name!r}; `backstay tokens ls` lists what is there")


class UnknownAgent(Unknown):
    """No instance has an agent of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no agent {name!r} in any live process; `backstay agents ls` lists them")


class UnknownQueue(Unknown):
    """There is no queue, or no topic, of this name."""

    def __init__(self, name: str, *, what: str = "queue") -> None:
        super().__init__(
            f"there is no {what} {name!r} in this store; declare it with app.{what}({name!r}),"
            f" or PUT /v1/{what}s/{name}"
        )
        self.name = name


class UnknownMessage(Unknown):
    """There is no such message in the queue."""

    def __init__(self, queue: str, id: str, *, what: str = "dead letter") -> None:
        super().__init__(
            f"queue {queue!r} has no {what} {id!r}; `backstay queues dead {queue}` lists those that it has"
        )
        self.id = id


class UnknownStream(Unknown):
    """There is no stream of this name, or it has no such partition."""

    def __init__(self, name: str, *, partition: int | None = None) -> None:
        where = "" if partition is None else f" with a partition {partition}"
        super().__init__(
            f"there is no stream {name!r}{where} in this log; declare it with app.stream({name!r}),"
            f" or PUT /v1/streams/{name}"
        )
        self.name = name


class UnknownGroup(Unknown):
    """No group of this name reads the stream."""

    def __init__(self, stream: str, group: str) -> None:
        super().__init__(
            f"stream {stream!r} has no group {group!r}; `backstay streams lag {stream}` lists its groups"
        )


class UnknownEvent(Unknown):
    """There is no such event in quarantine."""

    def __init__(self, stream: str, id: int) -> None:
        super().__init__(
            f"stream {stream!r} has no event {id} in quarantine;"
            f" `backstay streams quarantine {stream}` lists those that it has"
        )


class UnknownCollection(Unknown):
    """There is no job collection of this name in its resource group."""

    def __init__(self, resource_group: str, name: str) -> None:
        super().__init__(
            f"no job collection named {name!r} in resource group {resource_group!r};"
            " create it first: collections are never created by what is put into them"
        )
        self.resource_group = resource_group
        self.name = name


class UnknownJob(Unknown):
    """There is no job of this name in the collection."""

    def __init__(self, collection: str, name: str) -> None:
        super().__init__(f"no job named {name!r} in job collection {collection!r}")
        self.collection = collection
        self.name = name


class NotInWorkflow(InvalidRequest):
    """A call that only makes sense inside a running workflow or step was made elsewhere."""


class NotAwaited(InvalidRequest):
    """A workflow called something and nobody waits for it: it was never done."""

    def __init__(self, keys: Sequence[str]) -> None:
        super().__init__(
            f"the workflow called {', '.join(keys)} and does not wait for it, so it was never done;"
            " write `await` before the call, or close() what is not needed"
        )


class Conflict(BackstayError):
    """The state of things is not what the caller thought; look again."""


class IdConflict(Conflict):
    """The id is taken by a task with another workflow or input.

    The function of a submission raises it, with the id alone, when it finds a row of its own that differs.
    """

    def __init__(self, task_id: str, *, workflow: str | None = None, state: str | None = None) -> None:
        known = "" if workflow is None else f" (workflow {workflow!r}, state {state})"
        super().__init__(
            f"task {task_id!r} exists already with other content{known};"
            " choose another id, or submit exactly the same workflow and input"
        )
        self.task_id = task_id


class IllegalMove(Conflict):
    """The machine has no arrow from the current state to the wanted one."""

    def __init__(self, what: str, *, source: str, target: str, why: str = "") -> None:
        super().__init__(f"{what} is {source} and cannot become {target}" + (f": {why}" if why else ""))
        self.source = source
        self.target = target


class LeaseLost(Conflict):
    """Another owner holds it now; whatever was computed must be dropped."""

    def __init__(self, what: str, owner: str) -> None:
        super().__init__(f"{what} is no longer held by {owner}")
        self.owner = owner


class LockLost(Conflict):
    """The message is no longer locked by who received it; somebody else may have it by now."""

    def __init__(self, queue: str, id: str) -> None:
        super().__init__(
            f"message {id!r} of queue {queue!r} is not locked under this token: its lock ran out, or it was"
            " settled already; whatever was done for it may be done again by whoever receives it next"
        )
        self.queue = queue
        self.id = id


class EventConflict(Conflict):
    """The id is taken by an event with another key or body."""

    def __init__(self, stream: str, id: str) -> None:
        super().__init__(
            f"stream {stream!r} has an event {id!r} already, with another key or body;"
            " give a new event a new id, or send exactly the same again"
        )
        self.id = id


class ReadersDiffer(Conflict):
    """Others read for the group with another number of readers per partition."""

    def __init__(self, stream: str, group: str, *, wanted: int, there: int, read_by: Sequence[str]) -> None:
        super().__init__(
            f"group {group!r} of stream {stream!r} is read with readers={there} by {', '.join(read_by)};"
            f" with readers={wanted} it is read once they have stopped: each key has one reader at a time"
        )


class OffsetAhead(Conflict):
    """A checkpoint lies beyond the end of the log: it was made with another one."""

    def __init__(self, stream: str, partition: int, *, offset: int, end: int) -> None:
        super().__init__(
            f"offset {offset} of stream {stream!r}, partition {partition}, lies beyond its end, {end}:"
            " the log is not the one that was read before; bring that one back, or stop reading and let the"
            f" group begin anew with `backstay streams forget {stream} GROUP`"
        )


class OtherLog(Conflict):
    """A group has got somewhere in another log than this: offsets there are other events here."""

    def __init__(self, stream: str, group: str) -> None:
        super().__init__(
            f"group {group!r} has read stream {stream!r} in another log than the one that is here now;"
            " bring that one back (setting streams), or forget the group to begin anew"
        )


class QueueNotEmpty(Conflict):
    """There are messages in the queue; nothing was deleted."""

    def __init__(self, queue: str) -> None:
        super().__init__(
            f"there are messages in queue {queue!r}, dead letters and deferred ones included:"
            " wait until it is empty, or have them deleted with it (force)"
        )
        self.queue = queue


class QuotaExceeded(Conflict):
    """A job collection, by its own quota or its SKU's, does not allow as much; nothing was changed."""


class JobForbids(Conflict):
    """The state of a job, or of its collection, does not allow this; nothing was changed."""


class JournalMismatch(Conflict):
    """The workflow's code no longer matches what this task already did."""

    def __init__(self, step: str, detail: str) -> None:
        super().__init__(
            f"step {step!r}: {detail}. The task keeps everything it recorded:"
            " run it with the code it was started with, or register the change under a new version"
        )
        self.step = step


class Unavailable(BackstayError):
    """Not now; the same call may succeed later."""


class StoreUnavailable(Unavailable):
    """The state store cannot be reached or written."""


class SecretKeyMissing(Unavailable):
    """A secret is to be sealed, and there is no key that can be used: whoever runs the process gives one."""


class StoreFull(StoreUnavailable):
    """There is no room left for the state store."""


class StreamFull(Unavailable):
    """A stream holds as much as it may, and some group has yet to pass even the oldest event."""

    def __init__(self, stream: str, *, bytes_max: int) -> None:
        super().__init__(
            f"stream {stream!r} holds {bytes_max:,} bytes, which is its limit, and nothing can be forgotten"
            f" before its slowest group has passed it: see `backstay streams lag {stream}`,"
            " or raise the limit (setting stream_bytes_max)"
        )


class QuarantineFull(Unavailable):
    """A group has set aside as many events as it may; it goes no further until somebody looks at them."""

    def __init__(self, stream: str, group: str, *, limit: int) -> None:
        super().__init__(
            f"group {group!r} of stream {stream!r} has {limit:,} events in quarantine, which is the limit"
            f" (setting quarantine_max): see `backstay streams quarantine {stream} --group {group}`"
        )


class Overloaded(Unavailable):
    """More tasks wait already than may; submit again when some of them are done."""

    def __init__(self, *, waiting: int, limit: int, retry_after: timedelta) -> None:
        super().__init__(
            f"{waiting:,} tasks wait already, the limit is {limit:,} (setting backlog_limit);"
            f" try again in {retry_after.total_seconds():.0f} s"
        )
        self.retry_after = retry_after


class QueueFull(Unavailable):
    """The queue holds as many messages as it may; nothing was sent. There is room when some are done."""

    def __init__(self, queue: str, *, limit: int, retry_after: timedelta) -> None:
        super().__init__(
            f"queue {queue!r} is full: {limit:,} messages may be in it (max_messages), those that were set"
            f" aside included; try again in {retry_after.total_seconds():.0f} s, or look after its receivers"
        )
        self.queue = queue
        self.limit = limit
        self.retry_after = retry_after


class Closed(Unavailable):
    """The store or the app is not running."""


class StoreTooNew(BackstayError):
    """The database was written by a newer release of Backstay; nothing was touched."""

    def __init__(self, *, found: int, known: int) -> None:
        super().__init__(
            f"the store has schema {found}, this release knows {known}:"
            " upgrade backstay, or open the store with the release that wrote it"
        )
        self.found = found
        self.known = known


class StepFailed(BackstayError):
    """A step failed for good: ``Permanent``, or its recovery is used up."""

    def __init__(self, step: str, error: dict[str, Any]) -> None:
        super().__init__(f"step {step} failed: {error.get('type', 'Error')}: {error.get('message', '')}")
        self.step = step
        self.error = error


class TaskFailed(BackstayError):
    """A task ended, or stopped, in another state than ``processed``."""

    def __init__(self, state: str, step: str | None, error: dict[str, Any] | None) -> None:
        detail = f": {error.get('type', 'Error')}: {error.get('message', '')}" if error else ""
        at = f" at step {step}" if step else ""
        stands = "stopped in error" if state == "error" else f"is {state}"
        super().__init__(f"the task {stands}{at}{detail}")
        self.state = state
        self.step = step
        self.error = error


class Permanent(Exception):
    """Raise this in a step when trying again would not help.

    The step then has no effect that would have to be undone, unless it is ``unsure`` of that.
    """

    unsure: bool = False

    def __init__(self, *args: object, unsure: bool = False) -> None:
        super().__init__(*args)
        self.unsure = unsure


class Transient(Exception):
    """Raise this in a step to say more about a failure that may pass than any other error can.

    ``retry_after`` is how long to leave the service alone at least: a try that would come after the
    complete-by is not made. ``unsure=False`` says that the try certainly had no effect.
    """

    retry_after: timedelta | None = None
    unsure: bool = True

    def __init__(self, *args: object, retry_after: timedelta | None = None, unsure: bool = True) -> None:
        if not isinstance(retry_after, timedelta | None):
            raise TypeError(f"retry_after is {retry_after!r}; it must be a timedelta")
        super().__init__(*args)
        self.retry_after = retry_after
        self.unsure = unsure


class InvalidHttpRequest(InvalidRequest, Permanent):
    """An HttpAgent cannot send this request; nothing was sent."""


class HttpFailed(Permanent):
    """An HTTP service refused the request, or gave an answer that is of no use."""

    def __init__(self, message: str, *, status: int, unsure: bool) -> None:
        super().__init__(message, unsure=unsure)
        self.status = status


class HttpUnavailable(Transient):
    """An HTTP service cannot be reached, did not answer in time (``status`` is None), or said: not now."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retry_after: timedelta | None = None,
        unsure: bool = True,
    ) -> None:
        super().__init__(message, retry_after=retry_after, unsure=unsure)
        self.status = status
