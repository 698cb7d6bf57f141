"""Commands that go on in the background while something is tried, and waiting for them."""

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
    """A program of an environment that tools/deploy/install makes."""
    return str(ROOT / "target/ci" / path)


def install():
    """What tools/deploy/install installs; what stands in its first environment comes first on the PATH."""
    if subprocess.run([ROOT / "tools/deploy/install"], check=False).returncode:
        sys.exit("the tools could not be installed")
    os.environ["PATH"] = f"{ROOT}/target/ci/python/bin:{os.environ['PATH']}"


@contextlib.contextmanager
def running(name, command, **options):
    """A command that goes on in the background, and all it starts. It ends with this context."""
    LOGS.mkdir(parents=True, exist_ok=True)
    with open(LOGS / f"{name}.log", "w") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, **options
        )
        try:
            yield process
        finally:
            for how in signal.SIGTERM, signal.SIGKILL:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, how)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=10)


def listens(port):
    with contextlib.closing(socket.socket()) as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def free_port():
    with contextlib.closing(socket.socket()) as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def wait(what, ask, *processes, seconds=60):
    """Asks until there is an answer, and returns it."""
    deadline = time.monotonic() + seconds
    while not (answer := ask()):
        if any(process.poll() is not None for process in processes):
            sys.exit(f"no {what}: a process ended; its log is in {LOGS}")
        if time.monotonic() > deadline:
            sys.exit(f"no {what} within {seconds} s; logs are in {LOGS}")
        time.sleep(0.1)
    return answer
