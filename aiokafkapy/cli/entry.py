"""``main``: the entry point of the console script and of ``python -m aiokafkapy``.

Owns the choice between a broker without typer and the program with all its commands, and the advice if the extra
``cli`` is not installed.
"""

from __future__ import annotations

import sys

from .streams import prepare_streams

__all__ = ["main"]


def main() -> None:
    """The console script: run the command of ``sys.argv`` and exit with its code."""
    prepare_streams()
    if sys.argv[1:2] == ["broker"]:
        _run_broker(sys.argv[2:])
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ModuleNotFoundError as error:
        sys.exit(f"error: the command line needs {error.name}: pip install 'aiokafkapy[cli]'")
    from .app import app_for

    app_for(sys.argv[1:])(prog_name="aiokafkapy")


def _run_broker(words: list[str]) -> None:
    """Run the broker, and exit, if its options are plain: it is ready before typer is imported."""
    from .broker import broker
    from .declared_options import parsed

    arguments = parsed(broker, words)
    if arguments is not None:
        try:
            broker(**arguments)
        except Exception as error:
            typer = sys.modules.get("typer")
            if typer is None or not isinstance(error, typer.BadParameter):
                raise  # else typer reads it again, and shows the usage
