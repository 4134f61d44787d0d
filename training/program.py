"""How every program starts: flags, log lines, and errors a person can read."""

import sys
from collections.abc import Callable

from absl import app, flags, logging

from data.storage import files
from training.devices import preemption


def run(main: Callable[[], None], required: tuple[str, ...] = ()) -> None:
    """Parses the flags and runs a program's main function.

    TensorFlow takes seconds to load. So a program imports no module that loads
    it: `--help` and a wrong flag are answered in 0.2 s. Its `main` reads and
    checks the options first, and then imports the modules that compute.

    What the user can mend (a bad flag, file or value, a full disk, a loss
    that diverges) ends in one message on standard error and exit code 1;
    `--verbosity=1` adds the traceback. Anything else is our bug and always
    shows it. SIGTERM ends in order too, with `preemption.EXIT_CODE`.

    Args:
      main: called without arguments once the flags are parsed.
      required: names of flags that must be given, besides those that
        `training.config.flags` makes required.
    """

    def guarded(argv: list[str]) -> None:
        if len(argv) > 1:
            sys.exit(
                f"error: unexpected argument {argv[1]!r}; flags look like "
                "--name=value (see --help)."
            )
        try:
            preemption.install()
            main()
        except preemption.Preempted:
            logging.flush()
            print(
                "preempted by SIGTERM: files appear whole or not at all, and a "
                "training run has saved its step; the same command goes on. "
                f"Exit code {preemption.EXIT_CODE}: try again.",
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

    logging.set_verbosity(logging.INFO)
    flags.mark_flags_as_required(required)
    app.run(guarded)
