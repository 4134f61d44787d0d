"""Starts a program: parses its flags and reports its errors."""

import sys
from collections.abc import Callable, Sequence

from absl import app, logging

from data.storage import files
from training.devices import preemption


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
    app.run(lambda argv: _guarded(main, argv[1:]))


def _guarded(main: Callable[[], None], arguments: Sequence[str]) -> None:
    """Runs `main`; turns expected errors into messages and exit codes."""
    if arguments:
        sys.exit(
            f"error: unexpected argument {arguments[0]!r}; flags look like "
            "--name=value (see --help)."
        )
    try:
        preemption.install()
        main()
    except preemption.Preempted:
        logging.flush()
        print(
            "preempted by SIGTERM: files appear whole or not at all, and a "
            "training run has saved its step; the same command resumes. Exit "
            f"code {preemption.EXIT_CODE}: try again.",
            file=sys.stderr,
        )
        raise
    except KeyboardInterrupt:
        print(
            "interrupted: files appear whole or not at all; the same "
            "command starts again, a training run from its last "
            "checkpoint.",
            file=sys.stderr,
        )
        sys.exit(130)  # as a shell reports ^C
    except (
        ValueError,
        OSError,
        FloatingPointError,
        *files.op_errors(),
    ) as error:
        if logging.get_verbosity() >= logging.DEBUG:
            raise
        logging.flush()
        sys.exit(f"error: {error}")
    finally:
        preemption.ignore()
