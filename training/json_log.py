"""The log as JSON: one object on each line of standard error."""

import datetime
import json
import logging as standard
import os
import select
import signal
import sys
import warnings

from absl import logging

_PAUSE = 0.05  # seconds that end a text of several lines
_CHUNK = 1 << 16


class JsonFormatter(standard.Formatter):
    """Formats a record as an object: time, level, message, place, exception.

    The time has its zone. A record of several lines is one field.
    """

    def format(self, record: standard.LogRecord) -> str:
        """Returns the object as one line."""
        found = _entry(
            record.created,
            record.levelname,
            record.getMessage(),
            f"{record.filename}:{record.lineno}",
        )
        if record.exc_info:
            found["exception"] = self.formatException(record.exc_info)
        return json.dumps(found, ensure_ascii=False)


def start() -> None:
    """Writes the log of this process as JSON from now on.

    Anything else that is written to standard error, such as a message of
    TensorFlow's C++, becomes the message of an object whose place is `stderr`.
    A child process does this, because such a text may end the process.
    """
    sys.stderr.flush()
    log = open(os.dup(2), "w", buffering=1, encoding="utf-8", closefd=True)
    reader, writer = os.pipe()
    if not os.fork():
        _wrap(reader, writer)
    os.close(reader)
    os.dup2(writer, 2)
    os.close(writer)
    handler = logging.get_absl_handler()
    handler.setFormatter(JsonFormatter())
    handler.python_handler.stream = log
    standard.captureWarnings(True)
    warnings.showwarning = _show_warning


def is_on() -> bool:
    """Whether `start` was called."""
    handler = logging.get_absl_handler().python_handler
    return isinstance(handler.formatter, JsonFormatter)


def _show_warning(message, category, filename, lineno, file=None, line=None):
    """Logs a warning of Python without its source line."""
    del file, line
    place = f"{os.path.basename(filename)}:{lineno}"
    logging.warning("%s: %s (%s)", category.__name__, message, place)


def _entry(seconds: float, level: str, message: str, place: str) -> dict:
    time = datetime.datetime.fromtimestamp(seconds).astimezone()
    return {
        "time": time.isoformat(timespec="milliseconds"),
        "level": level,
        "message": message,
        "place": place,
    }


def _wrap(reader: int, writer: int) -> None:
    """Writes what it reads as objects, until no process can write; exits."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    os.close(writer)
    text = chunk = b""
    while True:
        if not text or select.select([reader], [], [], _PAUSE)[0]:
            chunk = os.read(reader, _CHUNK)
            text += chunk
            if chunk and len(text) < _CHUNK:
                continue
        if message := text.decode("utf-8", "replace").strip():
            now = datetime.datetime.now().timestamp()
            line = json.dumps(_entry(now, "WARNING", message, "stderr"))
            os.write(2, f"{line}\n".encode())
        if not chunk:
            os._exit(0)
        text = b""
