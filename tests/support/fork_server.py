"""Programs without their start-up: forked from a process that is warm.

To import TensorFlow takes longer than most programs that a test runs. A server
does it once, computes nothing, and forks for every start. Its children are real
processes, with ids that can be killed, and end as a program of their own does.
"""

import functools
import gc
import json
import os
import pathlib
import runpy
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Process:
    """A running program, as `subprocess.Popen` has it."""

    def __init__(self, server, pid):
        self._server = server
        self.pid = pid
        self.returncode = None

    def poll(self):
        """The exit status, or None as long as it runs."""
        if self.returncode is None:
            self.returncode = self._server.ask(poll=self.pid)
        return self.returncode

    def wait(self, timeout=300):
        """Waits for the end; returns the exit status."""
        deadline = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > deadline:
                self.send_signal(signal.SIGKILL)
                raise TimeoutError(f"{self.pid} runs after {timeout} seconds")
            time.sleep(0.01)
        return self.returncode

    def send_signal(self, number):
        """Sends a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)


class Server:
    """The warm process; it ends, with all it started, when we do."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.fork_server"],
            # With a second thread there is no safe fork.
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, **request):
        """Sends one request; returns the answer."""
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self):
        """Ends the server."""
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@functools.cache
def _server():
    return Server()


def stop():
    """Ends the server, if there is one."""
    if _server.cache_info().currsize:
        _server().close()
        _server.cache_clear()


def start(
    arguments,
    *,
    cwd,
    stdin=os.devnull,
    stdout=os.devnull,
    stderr=os.devnull,
    env=(),
    devices=1,
):
    """Starts a program.

    Args:
      arguments: as on a command line: python, the program (or -c and its
        text), its flags.
      cwd: the folder to start it in.
      stdin: path of a file with its input.
      stdout: path of a file for its output.
      stderr: likewise; the same path = both.
      env: variables to add to the environment, as {name: value}.
      devices: how many the CPU is divided into.
    """
    python, *arguments = map(str, arguments)
    assert python == sys.executable, python
    pid = _server().ask(
        arguments=arguments,
        cwd=str(cwd),
        stdin=str(stdin),
        stdout=str(stdout),
        stderr=str(stderr),
        env=dict(env),
        devices=devices,
    )
    return Process(_server(), pid)


def run(arguments, *, timeout=300, **how):
    """Runs what `start` starts, as `subprocess.run` with captured output."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in ("stdout", "stderr")]
        process = start(arguments, stdout=paths[0], stderr=paths[1], **how)
        process.wait(timeout)
        texts = []
        for path in paths:
            with open(path, encoding="utf-8") as file:
                texts.append(file.read())
    return subprocess.CompletedProcess(arguments, process.returncode, *texts)


def python(*arguments, code=0, cwd=ROOT, **how):
    """Runs a program of this project, or -c and its text, as `run` does.

    `code` is the exit status that it must have.
    """
    done = run([sys.executable, *arguments], cwd=cwd, **how)
    assert done.returncode == code, (done.returncode, done.stderr[-3000:])
    return done


def run_golden(goldens, program, output_dir, *flags, code=0):
    """Starts a program with the golden vocabulary and model."""
    return python(
        program,
        f"--vocab_file={goldens}/vocab.txt",
        f"--bert_config_file={goldens}/bert_config.json",
        f"--output_dir={output_dir}",
        *flags,
        code=code,
    )


def cold_python(*arguments, code=0, cwd=ROOT, python=sys.executable, **how):
    """Runs a Python that has loaded nothing yet, as `subprocess.run` does.

    `code` is the exit status that it must have; `python` may be that of another
    environment.
    """
    done = subprocess.run(
        [python, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        **how,
    )
    assert done.returncode == code, (done.returncode, done.stderr[-3000:])
    return done


def _warm_up():
    """Imports what the programs import; computes nothing with TensorFlow."""
    import training.convert.conversion  # noqa: F401
    import training.export.pretraining_signatures  # noqa: F401
    import training.export.saved_model  # noqa: F401
    import training.many_runs.suite  # noqa: F401
    import training.runs.pretraining  # noqa: F401
    import training.runs.questions  # noqa: F401
    import training.runs.vectors  # noqa: F401
    from data.text.in_graph import characters

    characters._tables(True)  # a second of most exports

    threads = os.listdir("/proc/self/task")
    assert len(threads) == 1, threads
    # A child would look through all of these objects when it ends: a second.
    gc.collect()
    gc.freeze()


def _serve():
    """Answers requests; returns, in each child, the arguments to run."""
    # Not `sys.stdin`: a child would inherit what it has read ahead.
    answers = os.fdopen(os.dup(1), "w")
    children = set()
    buffer = b""
    while chunk := os.read(0, 1 << 16):
        buffer += chunk
        while b"\n" in buffer:
            line, buffer = buffer.split(b"\n", 1)
            request = json.loads(line)
            if "poll" in request:
                answer = _poll(request["poll"], children)
            else:
                answer = os.fork()
                if not answer:
                    answers.close()
                    return _become(request)
                children.add(answer)
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    return None


def _poll(pid, children):
    """The exit status of a child, as `subprocess` gives it, or None."""
    ended, status = os.waitpid(pid, os.WNOHANG)
    if not ended:
        return None
    children.remove(pid)
    return os.waitstatus_to_exitcode(status)


def _become(request):
    """Makes a child what the request describes."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    for number, place in enumerate(["stdin", "stdout", "stderr"]):
        path = request[place]
        file = os.open(path, flags if number else os.O_RDONLY, 0o666)
        os.dup2(file, number)
        os.close(file)
    os.chdir(request["cwd"])
    os.environ.pop("OPENBLAS_NUM_THREADS")
    os.environ.update(request["env"])
    if request["devices"] > 1:
        _divide_cpu(request["devices"])
    return request["arguments"]


def _divide_cpu(count):
    """Before anything is computed, as TensorFlow wants it."""
    import tensorflow as tf

    (cpu,) = tf.config.list_physical_devices("CPU")
    parts = [tf.config.LogicalDeviceConfiguration()] * count
    tf.config.set_logical_device_configuration(cpu, parts)


if __name__ == "__main__":
    _warm_up()
    match _serve():
        case ["-c", code, *rest]:
            sys.argv = ["-c", *rest]
            exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
        case [program, *rest]:
            sys.argv = [program, *rest]
            runpy.run_path(program, run_name="__main__")
