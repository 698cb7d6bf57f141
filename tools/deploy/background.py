"""Background processes for the deployment tests, and waiting for them."""

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOGS = ROOT / "target/ci/logs"


def say(text):
    print(text, flush=True)


def program(path):
    """Returns the path of a program in an environment that tools/deploy/install creates."""
    return str(ROOT / "target/ci" / path)


def install():
    """Installs the tools with tools/deploy/install, and puts its Python environment first on the PATH."""
    if subprocess.run([ROOT / "tools/deploy/install"], check=False).returncode:
        sys.exit("tools/deploy/install failed: see its output above")
    os.environ["PATH"] = f"{ROOT}/target/ci/python/bin:{os.environ['PATH']}"


@contextlib.contextmanager
def running(name, command, **options):
    """Runs a command in the background. At the end of the context, it and its child processes are terminated."""
    LOGS.mkdir(parents=True, exist_ok=True)
    with open(LOGS / f"{name}.log", "w") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, **options
        )
        try:
            yield process
        finally:
            for signal_number in signal.SIGTERM, signal.SIGKILL:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal_number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=10)


def listens(port):
    with contextlib.closing(socket.socket()) as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def free_port():
    with contextlib.closing(socket.socket()) as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def wait(what, poll, *processes, seconds=60):
    """Calls `poll` until it returns a true value, and returns that value. Exits if one of the processes ends first."""
    deadline = time.monotonic() + seconds
    while not (result := poll()):
        if any(process.poll() is not None for process in processes):
            sys.exit(f"no {what}: a process exited; see the logs in {LOGS}")
        if time.monotonic() > deadline:
            sys.exit(f"no {what} after {seconds} s; see the logs in {LOGS}")
        time.sleep(0.1)
    return result
