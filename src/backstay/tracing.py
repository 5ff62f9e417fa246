"""Spans: what became of a task, for who installed the extra ``otel`` and gave OpenTelemetry a provider.

    submit order          handing the task in, under the current span of who does
      run order           from a claim until the task ends, parks or is taken away; then ``undo order``, if so
        step charge       one attempt, from its record until it is known what became of it
          agent charge    the body, in whatever process; current for all that it calls

    process orders        a message in the hands of a consumer, under the current span of who sent it

The context travels as ``traceparent`` (W3C Trace Context): in an attribute of the task, in every request to
an agent, in a property of a message. Spans carry names, ids, numbers and kinds of error; never a value, nor
what an error says. Without a provider ``configured`` gives ``None``, and nothing else of this is called.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from backstay.domain.request import TRACEPARENT, is_traceparent

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span as OpenSpan

#: Under which name OpenTelemetry knows us.
NAME: Final = "backstay"

Value = str | int


class Span:
    """Something that takes a while. It is told of once it has ended."""

    __slots__ = ("_span", "_tracing")

    def __init__(self, tracing: Tracing, span: OpenSpan) -> None:
        self._tracing = tracing
        self._span = span

    @property
    def traceparent(self) -> str | None:
        """Its context, as it travels."""
        return self._tracing.travelling(self._span)

    def enter(self) -> object:
        """Be the current one from here on, in this ``contextvars`` context; what comes back ends that."""
        return self._tracing.attach(self._span)

    def note(self, event: str, **fields: Value) -> None:
        self._span.add_event(event, fields)

    def end(self, *, error: str | None = None, **fields: Value) -> None:
        """It is over; ``error`` is the kind of what went wrong, and says nothing more."""
        self._span.set_attributes(_ours(fields))
        if error is not None:
            self._tracing.mark_failed(self._span, error)
        self._span.end()


class Tracing:
    """Makes spans. Loads OpenTelemetry, which is an extra."""

    def __init__(self) -> None:
        from opentelemetry import context, trace  # noqa: PLC0415  Not there without the extra.
        from opentelemetry.trace.propagation import tracecontext  # noqa: PLC0415  As above.

        self._trace = trace
        self._contexts = context
        self._tracer = trace.get_tracer(NAME)
        self._propagator = tracecontext.TraceContextTextMapPropagator()

    def begin(self, name: str, kind: str, *, parent: object, **fields: Value) -> Span:
        """A span under the context that travelled as ``parent``; under none if that is no context."""
        kinds = self._trace.SpanKind
        return Span(
            self,
            self._tracer.start_span(name, self._above(parent), kind=kinds[kind], attributes=_ours(fields)),
        )

    @contextmanager
    def around(self, name: str, kind: str, *, parent: object, **fields: Value) -> Generator[Span]:
        """The same for as long as the body takes, for which it is the current one."""
        span = self.begin(name, kind, parent=parent, **fields)
        before = span.enter()
        error: str | None = None
        try:
            yield span
        except BaseException as raised:
            error = type(raised).__name__
            raise
        finally:
            self.detach(before)
            span.end(error=error)

    def carried(self, with_it: Mapping[str, Any], came: object = None) -> dict[str, Any]:
        """What travels, with a context: its own, the one that ``came``, or that of the current span."""
        travels = dict(with_it)
        if TRACEPARENT not in travels:
            known = came if is_traceparent(came) else self.travelling(self._trace.get_current_span())
            if known is not None:
                travels[TRACEPARENT] = known
        return travels

    def _above(self, parent: object) -> Context:
        nothing = self._contexts.Context()
        if not is_traceparent(parent):
            return nothing
        return self._propagator.extract({TRACEPARENT: parent}, nothing)

    # For spans

    def travelling(self, span: OpenSpan) -> str | None:
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier, self._trace.set_span_in_context(span))
        return carrier.get(TRACEPARENT)

    def attach(self, span: OpenSpan) -> Any:
        return self._contexts.attach(self._trace.set_span_in_context(span))

    def detach(self, before: Any) -> None:
        self._contexts.detach(before)

    def mark_failed(self, span: OpenSpan, error: str) -> None:
        span.set_attribute("error.type", error)
        span.set_status(self._trace.StatusCode.ERROR)


def configured() -> Tracing | None:
    """What makes spans; ``None`` unless the application, or who started it, gave OpenTelemetry a provider."""
    # Who gave it one has loaded it; nobody else has to.
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None or isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return None
    return Tracing()


def _ours(fields: Mapping[str, Value]) -> dict[str, Value]:
    return {f"backstay.{name}": value for name, value in fields.items()}
