"""``module:app``: find the application that a command names."""

from __future__ import annotations

import contextlib
import importlib
import re
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Final

import typer

from backstay.app import App

_SHAPE: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_HINT: Final = "module:app"


def load_app(target: str) -> App:
    """Import the application, with the current directory on the path as ``python -m`` has it."""
    if not _SHAPE.fullmatch(target):
        raise _refused(
            f"{target!r} does not name an application; write the module and the variable, as in shop:app"
        )
    module_name, name = target.split(":")
    module = _imported(module_name)
    if not hasattr(module, name):
        raise _refused(f"module {module_name!r} has no {name!r}; {_apps_in(module)}")
    found = getattr(module, name)
    if not isinstance(found, App):
        raise _refused(f"{target} is of type {type(found).__name__}, not backstay.App; {_apps_in(module)}")
    return found


def _imported(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        # What a module prints while it is imported must not end up in a command's JSON.
        with contextlib.redirect_stdout(sys.stderr):
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            hint = "; a module is named without .py" if name.endswith(".py") else ""
            raise _refused(
                f"there is no module {error.name!r} in the current directory, and none is installed{hint}"
            ) from error
        raise _broken(name, error) from error
    except (Exception, SystemExit) as error:  # Other people's code may raise anything at all.
        raise _broken(name, error) from error


def _broken(name: str, error: BaseException) -> typer.BadParameter:
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return _refused(f"module {name!r} cannot be imported: {type(error).__name__}: {error}{where}")


def _refused(reason: str) -> typer.BadParameter:
    return typer.BadParameter(reason, param_hint=_HINT)


def _apps_in(module: ModuleType) -> str:
    names = sorted(name for name, value in vars(module).items() if isinstance(value, App))
    return f"it has {', '.join(f'{module.__name__}:{name}' for name in names)}" if names else "it has no App"
