"""Starts a program: parses its flags and reports its errors."""

import itertools
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from absl import app, logging
from absl import flags as absl_flags

from data.storage import files
from training import json_log, tensorflow_log
from training.config import flags
from training.config.run_options import LogOptions
from training.devices import preemption
from training.devices.precision import FROZEN

VERSION = "1.0.0"  # also in CITATION.cff and CHANGELOG.md
_HELP = ("help", "helpshort", "h", "?", "helpfull")
_EXPECTED = (ValueError, OSError, FloatingPointError)
_AGAIN = f"Exit code {preemption.EXIT_CODE}: try again."
_PREEMPTED = (
    "preempted by SIGTERM: files appear whole or not at all, and a training "
    f"run has saved its step; the same command resumes. {_AGAIN}"
)
_LOST = (
    "a TPU or another machine went away; the same command starts again, a "
    f"training run from its last checkpoint. {_AGAIN}"
)
_INTERRUPTED = (
    "interrupted: files appear whole or not at all; the same command starts "
    "again, a training run from its last checkpoint."
)
_MORE = """--help, --helpshort, -h and -? print this, --version the version.
--helpfull has the whole texts, and the flags of absl, such as the log's.
--verbosity=1 shows TensorFlow's own messages and the tracebacks of errors."""


def run(main: Callable[[], None]) -> None:
    """Parses the flags and runs a program's main function.

    Loading TensorFlow takes seconds. A program does not import modules that
    load it, so that `--help` and a wrong flag are answered in 0.2 s. Its `main`
    reads and checks the options first and then imports the modules that
    compute.

    An error that the user can correct (a bad flag, file or value, a full disk,
    a loss that diverges) is one message on standard error and exit code 1;
    `--verbosity=1` adds the traceback. Any other error is a bug of the program
    and has a traceback. SIGTERM ends with `preemption.EXIT_CODE`.
    """
    logging.set_verbosity(logging.INFO)
    # Flags after an argument that is not a flag are read, too.
    flags.FLAGS.set_gnu_getopt(True)
    flags.define(LogOptions)
    app.run(lambda argv: _guarded(main, argv[1:]), flags_parser=_parse)


def load_tensorflow(infers_in: str = "") -> None:
    """Imports TensorFlow; a program's `main` calls it first.

    TensorFlow's own messages are hidden as `tensorflow_log.load` says, or shown
    by `--verbosity=1`. `infers_in`: the precision, if the process never trains.
    """
    # With amx_bf16 a batch of MiniLM or Base takes 0.7 of the time.
    os.environ[FROZEN] = str(int(infers_in not in ("", "float32")))
    tensorflow_log.load(logging.get_verbosity() >= logging.DEBUG)


def _parse(argv: Sequence[str]) -> list[str]:
    """Answers --help and --version with exit code 0, or parses the flags.

    It begins the log in the format that they ask for.
    """
    for argument in itertools.takewhile(lambda x: x != "--", argv[1:]):
        name = argument.removeprefix("-").removeprefix("-")
        if argument == "--version":
            _answer(f"{os.path.basename(argv[0])} {VERSION}")
        if argument.startswith("-") and name in _HELP:
            doc = sys.modules["__main__"].__doc__ or ""
            _answer(f"{doc}\n{flags.help_text(name == 'helpfull')}\n{_MORE}")
    try:
        rest = flags.FLAGS(argv)
    except absl_flags.Error as error:
        if not {"--log_format=json", "-log_format=json"} & set(argv):
            return app.parse_flags_with_usage(argv)  # reports it
        json_log.start()
        flags.FLAGS.mark_as_parsed()
        _end(str(error))
    if flags.value("log_format") == "json":
        json_log.start()
    return rest


def _end(message: str, code: int = 1, *, is_error: bool = True) -> NoReturn:
    """Ends the program with a last message on standard error."""
    logging.flush()
    if json_log.is_on():
        level = logging.ERROR if is_error else logging.WARNING
        logging.log(level, "%s", message)
    else:
        print(f"{'error: ' * is_error}{message}", file=sys.stderr)
    sys.exit(code)


def _answer(text: str) -> NoReturn:
    """Prints a text and ends the program with exit code 0."""
    try:
        print(text, flush=True)
    except BrokenPipeError:  # such as `--help | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(0)


def _guarded(main: Callable[[], None], arguments: Sequence[str]) -> None:
    """Runs `main`; turns expected errors into messages and exit codes."""
    if arguments:
        _end(_unexpected(arguments[0]))
    try:
        preemption.install()
        main()
    except preemption.Preempted:
        _end(_PREEMPTED, preemption.EXIT_CODE, is_error=False)
    except KeyboardInterrupt:
        _end(_INTERRUPTED, 130, is_error=False)  # as a shell reports ^C
    except BrokenPipeError:  # such as `ask.py ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)  # as a shell reports it
    except files.lost_machine_errors() as error:
        _end(f"{error}\n{_LOST}", preemption.EXIT_CODE)
    except Exception as error:
        is_expected = isinstance(error, (*_EXPECTED, *files.op_errors()))
        if is_expected and logging.get_verbosity() < logging.DEBUG:
            _end(str(error))
        if not json_log.is_on():
            raise
        logging.error("%s: %s", type(error).__name__, error, exc_info=error)
        sys.exit(1)
    finally:
        preemption.ignore()


def _unexpected(argument: str) -> str:
    """Explains an argument that is not a flag."""
    is_here = argument in sys.argv[1:]  # else in a --flagfile
    before = sys.argv[sys.argv.index(argument, 1) - 1] if is_here else ""
    name = before.lstrip("-")
    is_switch = name in flags.FLAGS and flags.FLAGS[name].boolean
    text = f"unexpected argument {argument!r}"
    if is_switch and argument.lower() in ("true", "false", "t", "f", "1", "0"):
        return f"{text} after {before}; give --{name}={argument} as one word."
    return f"{text}; flags look like --name=value (see --help)."
