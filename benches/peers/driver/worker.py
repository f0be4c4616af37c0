"""A worker: a long-lived child process that answers one JSON line with one JSON line."""

import json
import os
import selectors
import subprocess
import tempfile
import time

PREPARE_TIMEOUT_S = 600
TIMEOUT_S = 300


class WorkerError(Exception):
    """The worker could not be started, died, fell silent, or refused."""


class Worker:
    """Starts `command` in `cwd`, pinned to `cpu`, with one thread."""

    def __init__(self, command, cwd, cpu):
        self.name = os.path.basename(command[-1])
        self.stderr = tempfile.TemporaryFile()
        env = dict(os.environ, OMP_NUM_THREADS="1", RAYON_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
        try:
            self.process = subprocess.Popen(
                command,
                cwd=cwd,
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.stderr,
                preexec_fn=lambda: os.sched_setaffinity(0, {cpu}),
            )
        except (OSError, subprocess.SubprocessError) as e:
            self.stderr.close()
            raise WorkerError(f"{self.name} did not start: {e}") from None
        os.set_blocking(self.process.stdout.fileno(), False)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.process.stdout, selectors.EVENT_READ)
        self.buffer = b""

    def alive(self):
        """Whether the process runs."""
        return self.process.poll() is None

    def ask(self, timeout=TIMEOUT_S, **request):
        """The reply to one request. Raises WorkerError with the worker's own words where there are any."""
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            raise WorkerError(self._death()) from None
        reply = json.loads(self._line(timeout))
        if not reply.get("ok"):
            raise WorkerError(reply.get("error", "no reason given"))
        return reply

    def _line(self, timeout):
        end = time.monotonic() + timeout
        while b"\n" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0:
                self.kill()
                raise WorkerError(f"{self.name} was silent for {timeout} s")
            if not self.selector.select(left):
                continue
            chunk = self.process.stdout.read(1 << 16)
            if chunk == b"":
                raise WorkerError(self._death())
            self.buffer += chunk or b""
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line

    def _death(self):
        try:
            code = self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.kill()
            code = "none: it closed its output"
        self.stderr.seek(0)
        lines = self.stderr.read().decode(errors="replace").strip().splitlines()
        return f"{self.name} ended with code {code}" + (f": {lines[-1][:300]}" if lines else "")

    def kill(self):
        """Ends the process at once."""
        self.process.kill()
        self.process.wait()

    def close(self):
        """Asks the process to end, and sees to it."""
        if self.alive():
            try:
                self.process.stdin.write(b'{"cmd": "quit"}\n')
                self.process.stdin.close()
                self.process.wait(timeout=30)
            except (OSError, subprocess.TimeoutExpired):
                self.kill()
        try:
            self.process.stdin.close()
        except OSError:
            pass  # It died with a request in the pipe.
        self.selector.close()
        self.process.stdout.close()
        self.stderr.close()
