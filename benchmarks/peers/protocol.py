"""Runs one side of a comparison in a process of its own.

Requests and answers are lines of JSON on standard input and output. This file
imports only the standard library, because the sides run in environments with
different libraries.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
import traceback
from pathlib import Path


def elapsed(function, *args):
    """Calls a function and returns the seconds that it took."""
    start = time.perf_counter()
    function(*args)
    return time.perf_counter() - start


def texts_of(case):
    """The texts that a case reads."""
    return json.loads(Path(case["input"]).read_text())


def serve(make):
    """Answers requests until standard input is closed.

    `make` takes the first request, a case, and returns (ways, facts). `ways`
    are the name of each way to do the work -> a function that does it once and
    returns a list of seconds. A way whose name begins with `=` is not timed and
    returns any JSON value. `facts` names the libraries.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries print to standard output
    ways = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if ways is None:
                ways, facts = make(request)
                names = [name for name in ways if not name.startswith("=")]
                answer = {"ways": names, "facts": facts}
            else:
                answer = {"result": ways[request["way"]]()}
        # Broad, because the other process waits for an answer; it raises an
        # error with this traceback.
        except Exception:  # noqa: BLE001
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)


class Worker:
    """The other end of `serve`, which has the timed `ways` and the `facts`.

    `script` calls `serve`, `python` is the interpreter of its environment. Of
    the request, a case, `folder` receives the log, and `threads` limits the
    threads (0 = no limit). RuntimeError, with the traceback or the end of the
    log: the process failed.
    """

    def __init__(self, script, python, request):
        self._name = f"{python} {script}"
        self._log = Path(request["folder"]) / "log"
        threads = str(request["threads"] or os.cpu_count())
        environment = os.environ | {
            "OMP_NUM_THREADS": threads,
            "RAYON_NUM_THREADS": threads,
            "TOKENIZERS_PARALLELISM": "true",
            "HF_HUB_OFFLINE": "1",
            "TF_CPP_MIN_LOG_LEVEL": "2",
        }
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [python, script],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
            )
        answer = self._ask(request)
        self.ways, self.facts = answer["ways"], answer["facts"]

    def ask(self, way):
        """Runs a way once and returns its result."""
        return self._ask({"way": way})["result"]

    def close(self):
        """Closes the streams of the process, which ends it, and waits."""
        with contextlib.suppress(BrokenPipeError), self._process:
            pass

    def _ask(self, request):
        line = ""
        with contextlib.suppress(BrokenPipeError):  # the log has the reason
            print(json.dumps(request), file=self._process.stdin, flush=True)
            line = self._process.stdout.readline()
        answer = json.loads(line or "{}")
        if not line or "error" in answer:
            reason = answer.get("error") or self._log.read_text()[-3000:]
            self.close()
            raise RuntimeError(f"{self._name} failed:\n{reason}")
        return answer


def take_turns(workers, turns):
    """Times the ways of all workers in turns, after one warm-up each.

    `workers` are side -> `Worker`. Returns side -> way -> seconds of each of
    the calls.
    """
    seconds = {
        side: {way: [] for way in worker.ways}
        for side, worker in workers.items()
    }
    for turn in range(turns + 1):
        for side, ways in seconds.items():
            for way, times in ways.items():
                more = workers[side].ask(way)
                times += more if turn else []
    return seconds
