"""The workers' side of the line protocol: one JSON request a line in, one JSON reply a line out.

Requests: {"cmd": "prepare", "point", "params"}, {"cmd": "check", "op"}, {"cmd": "time", "op", "repeats"},
{"cmd": "quit"}. A reply has "ok"; a failed one has "error". Times are processor time of this process.
"""

import json
import sys
import time


class Failure(Exception):
    """An expected failure; its text is the reply's error."""


def max_error(got, want):
    """Largest absolute difference of two sequences of numbers, over the shorter one."""
    return max(abs(g - w) for g, w in zip(got, want))


def test_values(count, seed):
    """Deterministic reals in [-1, 1) from a linear congruential generator; the same in every worker."""
    mask = (1 << 64) - 1
    state = ((seed * 0x9E3779B97F4A7C15) & mask) ^ 0xD1B54A32D192ED03
    out = []
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) & mask
        out.append((state >> 11) / float(1 << 52) - 1.0)
    return out


class Operation:
    """One timed operation: `run` does it once, `error` says how wrong the last result is."""

    def __init__(self, run, error, tolerance, note=None):
        self.run, self.error, self.tolerance, self.note = run, error, tolerance, note
        self.checked = False

    def check(self):
        """Runs once; fails if the result is off by more than the tolerance."""
        start = time.process_time()
        result = self.run()
        ms = (time.process_time() - start) * 1e3
        error = self.error(result)
        if not error <= self.tolerance:
            raise Failure(f"wrong result: error {error:.3g} is above {self.tolerance:.3g}")
        self.checked = True
        reply = {"ms": ms, "max_error": error}
        if self.note:
            reply["note"] = self.note
        return reply

    def time(self, repeats):
        """Processor milliseconds of each of `repeats` runs, and the wall time of all."""
        if not self.checked:
            raise Failure("not checked: send check first")
        out = []
        wall = time.perf_counter()
        for _ in range(repeats):
            start = time.process_time()
            result = self.run()
            out.append((time.process_time() - start) * 1e3)
            del result
        return {"ms": out, "wall_ms": (time.perf_counter() - wall) * 1e3}


def serve(prepare):
    """Serves requests until `quit` or end of input. `prepare(params)` returns (info, {op: Operation})."""
    operations = {}
    for line in sys.stdin:
        if not line.strip():
            continue
        try:
            request = json.loads(line)
            cmd = request["cmd"]
            if cmd == "quit":
                break
            if cmd == "prepare":
                operations = {}
                info, operations = prepare(request["params"])
                reply = {"info": info, "ops": sorted(operations)}
            elif cmd in ("check", "time"):
                operation = operations.get(request["op"])
                if operation is None:
                    raise Failure(f"no operation {request['op']!r} at this point")
                reply = operation.check() if cmd == "check" else operation.time(int(request["repeats"]))
            else:
                raise Failure(f"no command {cmd!r}")
            reply["ok"] = True
        except Exception as e:  # The library's own errors too: all go to the driver.
            reply = {"ok": False, "error": f"{type(e).__name__}: {e}"}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()
