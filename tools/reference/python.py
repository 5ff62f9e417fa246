"""The public names of the package, and of what they hand out: signatures and docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from typing import Any, Final

import msgspec

import backstay
from backstay import testing, views
from backstay.definitions.agents import Agent, Step
from backstay.definitions.ambient import StepContext
from backstay.definitions.pipelines import Pipeline
from backstay.definitions.workflows import Workflow
from backstay.messaging.handles import QueueHandle, TopicHandle
from backstay.messaging.stream_handle import StreamHandle
from tools.reference import markdown

ABOUT: Final = """\
What `backstay` exports, and, marked with *given*, what its functions give. Durations are `"100ms"`, `"5s"`,
`"2m"`, `"3h"`, `"3d"` or a `timedelta`. A store is a URL: `sqlite:///shop.db`, `postgresql://…`."""

#: Each name once, in the order in which somebody meets them. What nobody makes by hand is *given*.
SECTIONS: Final[Mapping[str, tuple[Any, ...]]] = {
    "Declare and run": (
        backstay.App,
        Agent,
        Step,
        Workflow,
        backstay.Client,
        backstay.Handle,
        views.Task,
        views.Step,
    ),
    "In a workflow": (
        backstay.sleep,
        backstay.wait_for,
        backstay.race,
        backstay.start,
        backstay.now,
        backstay.random,
        backstay.uuid4,
    ),
    "In a step": (backstay.current_step, StepContext, backstay.Permanent, backstay.Transient),
    "Policies": (backstay.Retry, backstay.Breaker, backstay.Recovery, backstay.Pace),
    "HTTP services": (
        backstay.HttpAgent,
        backstay.HttpAnswer,
        backstay.Outbound,
        backstay.HttpFailed,
        backstay.HttpUnavailable,
    ),
    "Streams": (
        StreamHandle,
        Pipeline,
        backstay.Event,
        backstay.Appended,
        backstay.Checkpoint,
        backstay.Producer,
    ),
    "Queues": (
        QueueHandle,
        TopicHandle,
        backstay.Message,
        backstay.Submission,
        backstay.TaskFailure,
    ),
    "Dials": (backstay.Dial, backstay.Knob),
    "Errors": (
        backstay.BackstayError,
        backstay.InvalidRequest,
        backstay.Conflict,
        backstay.Unavailable,
        backstay.TaskFailed,
        backstay.StepFailed,
        backstay.IdConflict,
        backstay.UnknownTask,
        backstay.UnknownStream,
        backstay.EventConflict,
        backstay.StreamFull,
        backstay.QueueFull,
        backstay.LockLost,
    ),
    "backstay.testing": (testing.stepped, testing.Platform, testing.ManualClock),
}

#: Made by those who know how; readers of this page are given them.
GIVEN: Final = frozenset(
    {
        Agent,
        Step,
        Workflow,
        StepContext,
        StreamHandle,
        Pipeline,
        QueueHandle,
        TopicHandle,
        backstay.Client,
        backstay.Handle,
        backstay.HttpAgent,
        backstay.HttpAnswer,
        backstay.Checkpoint,
        testing.Platform,
        views.Task,
        views.Step,
    }
)

#: Under another name than their own, as signatures have it.
TITLES: Final[Mapping[Any, str]] = {views.Step: "StepView"}

_WIDTH: Final = 100
#: What ``async with`` and ``with`` take: functions that yield once, and those that say what they give.
_CONTEXT: Final = re.compile(r"(?:AbstractAsyncContextManager|AsyncIterator|Iterator)\[(.*)\]")


def page() -> str:
    return markdown.page("Python", ABOUT, _body())


def _body() -> Iterator[str]:
    for section, things in SECTIONS.items():
        yield f"## {section}"
        for thing in things:
            yield f"### {TITLES.get(thing, thing.__name__)}" + (" (given)" if thing in GIVEN else "")
            yield from _class(thing) if isinstance(thing, type) else _callable(thing.__name__, thing)


def _class(kind: type) -> Iterator[str]:
    bases = [base.__name__ for base in kind.__bases__ if base.__module__.startswith("backstay.errors")]
    is_made = kind not in GIVEN and not getattr(kind, "_is_protocol", False)
    if is_made and (signature := _signature(kind)) is not None:
        yield _block(kind.__name__, signature.replace(return_annotation=signature.empty))
    yield from filter(None, (f"Is a `{bases[0]}`." if bases else "", _told(kind)))
    if kind in GIVEN:
        yield from markdown.table(("member", ""), _fields(kind))
    for name, member in _members(kind):
        if isinstance(member, property):
            yield f"`{name}`: {_type(member.fget)}" + (f". {told}" if (told := _told(member)) else "")
        else:
            yield from _callable(f"{kind.__name__[0].lower() + kind.__name__[1:]}.{name}", member)


def _fields(kind: type) -> Iterator[tuple[str, str]]:
    """What a record consists of, beside its methods."""
    for base in reversed(kind.__mro__):
        if not (issubclass(base, msgspec.Struct) or is_dataclass(base)) or "__annotations__" not in vars(
            base
        ):
            continue
        for name, annotation in inspect.get_annotations(base).items():
            if not name.startswith("_"):
                yield markdown.code(name), markdown.code(repr(_as_written(annotation)))


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties in the order in which they are written; inherited ones come last."""
    seen: set[str] = set()
    for base in kind.__mro__:
        if not base.__module__.startswith("backstay") or issubclass(base, BaseException):
            continue
        for name, member in vars(base).items():
            if name.startswith("_") or name in seen or not _is_method(member):
                continue
            seen.add(name)
            yield name, member


def _is_method(member: object) -> bool:
    return inspect.isfunction(member) or (isinstance(member, property) and bool(member.__doc__))


def _callable(name: str, function: Any) -> Iterator[str]:
    signature = _signature(function)
    assert signature is not None, name
    prefix = "await " if inspect.iscoroutinefunction(function) else ""
    if (context := _CONTEXT.fullmatch(repr(signature.return_annotation))) is not None:
        prefix = "async with " if "Async" in context[0] else "with "
        signature = signature.replace(return_annotation=_Written(context[1]))
    yield _block(prefix + name, signature)
    yield from filter(None, (_told(function),))


def _signature(thing: Any) -> inspect.Signature | None:
    """As it is written in the source."""
    try:
        signature = inspect.signature(thing)
    except ValueError:  # An exception that adds nothing to its base has none.
        return None
    parameters = [
        one.replace(annotation=_as_written(one.annotation)) for one in signature.parameters.values()
    ]
    own = [one for one in parameters if one.name != "self"]
    return inspect.Signature(own, return_annotation=_as_written(signature.return_annotation))


class _Written:
    """An annotation that is shown as it is written."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _as_written(annotation: Any) -> Any:
    if annotation is inspect.Parameter.empty:
        return annotation
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return _Written(re.sub(r"\b(?:backstay|collections|datetime)\.(?:\w+\.)*(?=\w)", "", text))


def _block(name: str, signature: inspect.Signature) -> str:
    line = f"{name}{signature}"
    return f"```text\n{line if len(line) <= _WIDTH else name + broken(signature)}\n```"


def broken(signature: inspect.Signature) -> str:
    """A signature with a line for each parameter."""
    lines = "".join(f"    {one},\n" for one in _parameters(signature))
    returns = signature.return_annotation
    return f"(\n{lines})" + ("" if returns is signature.empty else f" -> {returns!r}")


def _parameters(signature: inspect.Signature) -> Iterator[str]:
    """Each as it is written, and the marks between those of different kinds."""
    before = None
    starred = False
    for one in signature.parameters.values():
        if before is one.POSITIONAL_ONLY and one.kind is not one.POSITIONAL_ONLY:
            yield "/"
        if one.kind is one.KEYWORD_ONLY and not starred:
            yield "*"
        starred = starred or one.kind in (one.VAR_POSITIONAL, one.KEYWORD_ONLY)
        before = one.kind
        yield str(one)


def _type(getter: Any) -> str:
    return markdown.code(repr(_as_written(inspect.signature(getter).return_annotation)))


def _told(thing: Any) -> str:
    """The docstring as Markdown."""
    own = thing.__doc__ if isinstance(thing, type) else inspect.getdoc(thing)
    return inspect.cleandoc(own or "").replace("``", "`")
