"""The log as JSON: one object on each line of standard error."""

import datetime
import json
import logging as standard
import os
import select
import sys

from absl import logging

from training import tensorflow_log

_PAUSE = 0.05  # seconds that end a text of several lines
_CHUNK = 1 << 16


class JsonFormatter(standard.Formatter):
    """Formats a record as an object: time, level, message, place, exception.

    The time has its zone. A record of several lines is one field.
    """

    def format(self, record: standard.LogRecord) -> str:
        """Returns the object as one line."""
        time = datetime.datetime.fromtimestamp(record.created).astimezone()
        place = f"{record.filename}:{record.lineno}"
        found = {
            "time": time.isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "message": record.getMessage().strip(),
            "place": place if record.lineno else record.filename,
        }
        if record.exc_info:
            found["exception"] = self.formatException(record.exc_info)
        return json.dumps(found, ensure_ascii=False)


def start() -> None:
    """Writes the log of this process as JSON from now on.

    Anything else that is written to standard error, such as a message of
    TensorFlow's C++, becomes the message of an object whose place is `stderr`.
    """
    sys.stderr.flush()
    log = open(os.dup(2), "w", buffering=1, encoding="utf-8", closefd=True)
    tensorflow_log.to_child(_wrap)
    handler = logging.get_absl_handler()
    handler.setFormatter(JsonFormatter())
    handler.python_handler.stream = log
    standard.captureWarnings(True)


def is_on() -> bool:
    """Whether `start` was called."""
    handler = logging.get_absl_handler().python_handler
    return isinstance(handler.formatter, JsonFormatter)


def _wrap(reader: int) -> None:
    """Writes what it reads as objects, until no process can write."""
    fields = {"levelname": "WARNING", "filename": "stderr", "lineno": 0}
    while text := os.read(reader, _CHUNK):
        while len(text) < _CHUNK and select.select([reader], [], [], _PAUSE)[0]:
            if not (more := os.read(reader, _CHUNK)):
                break
            text += more
        fields["msg"] = text.decode("utf-8", "replace")
        line = JsonFormatter().format(standard.makeLogRecord(fields))
        os.write(2, f"{line}\n".encode() * bool(text.strip()))
