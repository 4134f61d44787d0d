"""A worker that measures when it is told to: requests in, answers out.

Both are one line of JSON. What libraries print on standard output goes to
standard error, since an answer is all that may stand there. Needs nothing but
Python: workers run in environments of different libraries.
"""

import json
import os
import sys
import time
import traceback


def elapsed(function, *args):
    """Seconds that a call takes."""
    start = time.perf_counter()
    function(*args)
    return time.perf_counter() - start


def serve(make):
    """Answers the requests of `compare.py` until its end of the pipe closes.

    Args:
      make: from the first request, a case, to (ways, facts): name of a way to
        do the work -> function that does it once and returns the seconds it
        took, a list; and what to say of the libraries. A way whose name begins
        with `=` returns any JSON value, and is not timed.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
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
        # Broad, because the other process waits for an answer: it gets the
        # whole traceback, and ends the case with it.
        except Exception:  # noqa: BLE001
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)
