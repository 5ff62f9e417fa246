"""The command line: one file per noun, each command a function.

submit      hand in a task, and wait for its result
tasks       list tasks, look at one, ask why it does not move
watch       a live picture of tasks
acting      what an operator does to one task: resubmit, undo, cancel, complete a step, signal
agents, workflows, holding   how they stand; hold one back
alerts, audit       what a person is called for; who did what
queues      what waits in queues, what was set aside; send, and put back
streams     what is in streams, how far groups have got; append (appending), tail, put back, forget
jobs        what runs at its times, and what became of it; files of them (job_files, job_import), job_preview
tokens      who may ask a server for what
supervise   one round of the supervisor
store, store_care   create, upgrade, check, prune and copy the store itself
serve       run an application
demo        run the flagship example

access      on which store a command works, or at which server
remote, remote_queues, remote_streams, remote_jobs, remote_answers   a server, asked over HTTP
target      ``module:app``: the application that a command submits to
arguments, job_where   what arguments mean that several commands take
job_documents, json_files   documents, from options and from files
tables, stream_tables, job_tables, cells   lists and records as people see them
render      text, ages and JSON

Exit codes: 0 it worked, 1 the operation failed, 2 the command was written wrongly.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated, Any, Final

import typer

from backstay.cli import agents, alerts, jobs, queues, store, streams, tasks, tokens, workflows
from backstay.cli.audit import audit
from backstay.cli.demo import demo
from backstay.cli.render import complain
from backstay.cli.serve import serve
from backstay.cli.submit import submit
from backstay.cli.supervise import supervise
from backstay.errors import BackstayError, InvalidRequest, Unknown

__all__ = ["main"]

FAILED: Final = 1
USAGE: Final = 2

# The base of all that typer says about a command line; it has no public name of its own.
_UsageError: Final[Any] = typer.BadParameter.__base__

commands: Final = typer.Typer(
    name="backstay",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog="The store is --store, else BACKSTAY_STORE, else `store` in backstay.toml, else sqlite:///backstay.db."
    " With --url or BACKSTAY_URL a command asks that server instead, with the token in BACKSTAY_TOKEN.",
)
commands.command("demo")(demo)
commands.command("serve")(serve)
commands.command("submit")(submit)
commands.add_typer(tasks.commands, name="tasks")
commands.add_typer(agents.commands, name="agents")
commands.add_typer(workflows.commands, name="workflows")
commands.add_typer(queues.commands, name="queues")
commands.add_typer(streams.commands, name="streams")
commands.add_typer(alerts.commands, name="alerts")
commands.command("audit")(audit)
commands.add_typer(jobs.commands, name="jobs")
commands.add_typer(tokens.commands, name="tokens")
commands.command("supervise")(supervise)
commands.add_typer(store.commands, name="store")


def main() -> None:
    """The ``backstay`` command."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command; the exit code. Nothing that goes wrong shows a traceback."""
    _write_anything()
    try:
        code: int | None = commands(list(arguments), prog_name="backstay", standalone_mode=False)
    except _UsageError as error:
        error.show()
        return USAGE
    except typer.Abort:  # Asked for a decision, and got none.
        return FAILED
    except BackstayError as error:
        complain(str(error))
        return exit_code(error)
    except Exception as error:
        if sys.flags.dev_mode:
            raise
        complain(f"unexpected {type(error).__name__}: {error}; `python -X dev -m backstay …` shows where")
        return FAILED
    return code or 0


def exit_code(error: BackstayError) -> int:
    """2 when the same command would fail on every store, 1 when it met a fact."""
    return USAGE if isinstance(error, InvalidRequest) and not isinstance(error, Unknown) else FAILED


def _write_anything() -> None:
    """A character that the terminal's encoding lacks must not end a command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"backstay {version('backstay')}")
        raise typer.Exit


@commands.callback()
def _about(
    _: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version),
    ] = False,
) -> None:
    """Durable work that finishes or is undone: submit tasks, see where they are, and step in."""
