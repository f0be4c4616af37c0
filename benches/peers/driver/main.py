"""Command line of the benchmark."""

import argparse
import json
import os
import sys
import time

from . import plan, report
from .environments import SetupError, command_of
from .measure import Settings, measure


def names(text):
    """A comma-separated list."""
    return [part.strip() for part in text.split(",") if part.strip()]


def parser():
    """The options."""
    p = argparse.ArgumentParser(prog="run", description="Measures Cipherloom's CKKS side by side with its peers.")
    p.add_argument("--points", type=names, help="operating points, as A,B2,C,Cmid,N13,N14,N15,N16 (default: all)")
    p.add_argument("--ops", type=names, help="operations (default: all)")
    p.add_argument("--peers", type=names, help="peers (default: all)")
    p.add_argument("--repeats", type=int, metavar="ROUNDS", help="interleaved rounds of a row (default: 9; 7 at C)")
    p.add_argument("--quick", action="store_true", help="3 rounds and fewer samples")
    p.add_argument("--cpu", type=int, default=0, help="core of all workers (default: 0)")
    p.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    p.add_argument("--out", metavar="FILE", help="write the JSON object to a file too")
    p.add_argument("--list", action="store_true", help="print the rows without measuring")
    return p


def cached_commands():
    """Each worker is installed or built once a run; so is its failure."""
    known = {}

    def command(worker):
        if worker not in known:
            print(f"building {worker}", file=sys.stderr, flush=True)
            try:
                known[worker] = command_of(worker)
            except SetupError as e:
                known[worker] = e
        if isinstance(known[worker], SetupError):
            raise known[worker]
        return known[worker]

    return command


def main(argv=None):
    """Runs; returns the exit code: 0 if all rows pass, 1 if one fails, 2 for wrong options."""
    options = parser().parse_args(argv)
    try:
        rows = plan.select(plan.all_rows(), options.points, options.ops, options.peers)
    except ValueError as e:
        print(f"run: {e}", file=sys.stderr)
        return 2
    if options.list:
        for row in rows:
            bar = "information" if row["bar"] is None else f"{row['bar_is']} {row['bar']:g}"
            print(f"{row['point']:6}{row['op']:28}{row['peer']:16}{bar}")
        return 0
    if not rows or (options.repeats is not None and options.repeats < 1):
        print("run: no rows, or fewer than one round", file=sys.stderr)
        return 2

    start = time.time()
    commit = report.commit(plan.HERE)  # Before a build that may touch the lock file.

    def log(text):
        print(f"[{time.time() - start:5.0f} s] {text}", file=sys.stderr, flush=True)

    settings = Settings(options.cpu, options.repeats, options.quick)
    finished, facts = measure(rows, plan.points(), cached_commands(), plan.HERE, settings, log)
    result = {
        "rows": finished,
        "machine": report.machine(),
        "commit": commit,
        "clock": "processor time of the worker",
        "seconds": round(time.time() - start, 1),
        "workers": facts,
    }
    if options.out:
        with open(options.out, "w", encoding="utf-8") as f:
            json.dump(result, f, indent=1)
            f.write("\n")
    print(json.dumps(result) if options.json else report.table(finished))
    return 0 if all(row["passed"] for row in finished) else 1


if __name__ == "__main__":
    os.chdir(plan.HERE)
    sys.exit(main())
