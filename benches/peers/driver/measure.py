"""Measures rows: starts workers, interleaves the rounds, finishes the rows."""

from statistics import median

from . import stats
from .environments import SetupError
from .limit import MICRO_OPS, limit_ms
from .plan import LIMIT
from .worker import PREPARE_TIMEOUT_S, Worker, WorkerError

YARDSTICK_REPEATS = 8
MAX_REPEATS = 31
# A peer that dies is started again so often for one group of points.
MAX_STARTS = 2


class Settings:
    """How long to measure."""

    def __init__(self, cpu=0, rounds=None, quick=False):
        self.cpu = cpu
        self.rounds = rounds
        self.quick = quick

    def rounds_at(self, point):
        """Rounds of a row at a point."""
        if self.rounds:
            return self.rounds
        return 3 if self.quick else point.get("rounds", 9)

    @property
    def budget_ms(self):
        """Time of one side in one round; an operation that is longer runs once."""
        return 60.0 if self.quick else 300.0


class Side:
    """One library's worker through all points of a group: started on first use, prepared for one point."""

    def __init__(self, name, command_of, cwd, cpu, log):
        self.name, self.command_of, self.cwd, self.cpu, self.log = name, command_of, cwd, cpu, log
        self.worker = None
        self.starts = 0
        self.error = None
        self._reset()

    def _reset(self):
        self.point = None
        self.info = {}
        self.checks = {}

    def prepare(self, point_name, params):
        """Starts the worker if need be and prepares the point. Raises WorkerError."""
        if self.error:
            raise WorkerError(self.error)
        if self.worker is None or not self.worker.alive():
            if self.worker is not None:
                self.worker.close()
                self.worker = None
            if self.starts == MAX_STARTS:
                self.error = f"{self.name} died {self.starts} times"
                raise WorkerError(self.error)
            self._reset()
            self.starts += 1
            try:
                self.worker = Worker(self.command_of(self.name), self.cwd, self.cpu)
            except (SetupError, WorkerError) as e:
                self.error = f"{self.name}: {e}"
                raise WorkerError(self.error) from None
        if self.point != point_name:
            self._reset()
            self.log(f"{point_name}: preparing {self.name}")
            reply = self._ask(timeout=PREPARE_TIMEOUT_S, cmd="prepare", point=point_name, params=params)
            self.point, self.info = point_name, reply["info"]

    def check(self, op):
        """Checks an operation once for each point: the reply, with the time of the first run."""
        if op not in self.checks:
            self.checks[op] = self._ask(cmd="check", op=op)
        return self.checks[op]

    def time(self, op, repeats):
        """Milliseconds in one round, and wall over processor time."""
        reply = self._ask(cmd="time", op=op, repeats=repeats)
        return stats.sample(reply["ms"]), reply["wall_ms"] / max(sum(reply["ms"]), 1e-9)

    def _ask(self, **request):
        try:
            return self.worker.ask(**request)
        except WorkerError as e:
            raise WorkerError(f"{self.name}: {e}") from None

    def close(self):
        """Ends the worker."""
        if self.worker is not None:
            self.worker.close()
            self.worker = None


def repeats_for(check, budget_ms):
    """Samples of one round from the time of the first run."""
    return max(1, min(MAX_REPEATS, int(budget_ms / max(check["ms"], 1e-3))))


def measure_row(row, point, ours, peer, settings):
    """The rounds of a row against a peer, or against the hardware limit where `peer` is None."""
    op = row["op"]
    ours.check("yardstick")
    ours_repeats = repeats_for(ours.check(op), settings.budget_ms)
    if peer is None:
        micro = {m: repeats_for(ours.check(m), settings.budget_ms / 4) for m in MICRO_OPS}
        # Pushing the key out of the caches takes longer than reading it.
        micro["limit_read"] = 1
    else:
        peer_repeats = repeats_for(peer.check(op), settings.budget_ms)
    rounds = []
    for _ in range(settings.rounds_at(point)):
        yardstick, _ = ours.time("yardstick", YARDSTICK_REPEATS)
        ours_ms, ours_busy = ours.time(op, ours_repeats)
        entry = {"yardstick_us": yardstick * 1e3, "ours_ms": ours_ms, "wall_over_cpu": ours_busy}
        if peer is None:
            entry["micro"] = {m: ours.time(m, n)[0] for m, n in micro.items()}
            entry["peer_ms"] = limit_ms(ours.info, entry["micro"], op)
        else:
            entry["peer_ms"], busy = peer.time(op, peer_repeats)
            entry["wall_over_cpu"] = max(ours_busy, busy)
        rounds.append(entry)
    return rounds


def note_of(row, ours, peer):
    """What the workers say about how they do the operation."""
    notes = []
    for side in (ours, peer):
        note = side.checks.get(row["op"], {}).get("note") if side is not None else None
        if note:
            notes.append(note if side is peer else f"ours: {note}")
    return "; ".join(notes) or None


def measure(rows, points, command_of, cwd, settings, log):
    """Measures all rows; returns them finished, with the facts of each worker."""
    groups = []
    for row in rows:
        group = points[row["point"]]["group"]
        if group not in groups:
            groups.append(group)
    results = {}
    facts = {}
    for group in groups:
        ours = Side("ours", command_of, cwd, settings.cpu, log)
        peers = []
        for row in rows:
            if points[row["point"]]["group"] == group and row["peer"] not in peers:
                peers.append(row["peer"])
        try:
            for name in peers:
                # Only one peer is alive at a time: at 2^16 each holds gigabytes of keys.
                peer = None if name == LIMIT else Side(name, command_of, cwd, settings.cpu, log)
                try:
                    for i, row in enumerate(rows):
                        if row["peer"] == name and points[row["point"]]["group"] == group:
                            results[i] = one_row(row, points[row["point"]], ours, peer, settings, facts, log)
                finally:
                    if peer is not None:
                        peer.close()
        finally:
            ours.close()
    measured = [r["rounds_list"] for r in results.values() if r["rounds_list"]]
    fastest = min((r["yardstick_us"] for rounds in measured for r in rounds), default=0.0)
    finished = []
    for i, row in enumerate(rows):
        result = results[i]
        if result["error"]:
            finished.append(stats.failed(row, result["error"]))
            continue
        done = stats.finish(row, result["rounds_list"], fastest)
        done["wall_over_cpu"] = median(r["wall_over_cpu"] for r in result["rounds_list"])
        done["note"] = result["note"]
        if row["peer"] == LIMIT:
            done["micro_ms"] = {m: median(r["micro"][m] for r in result["rounds_list"]) for m in MICRO_OPS}
        finished.append(done)
    return finished, facts


def one_row(row, point, ours, peer, settings, facts, log):
    """One row's rounds, or the reason why there are none."""
    result = {"rounds_list": None, "error": None, "note": None}
    try:
        for side in filter(None, (ours, peer)):
            side.prepare(row["point"], point["workers"][side.name])
            facts.setdefault(row["point"], {})[side.name] = side.info
        log(f"{row['point']}: {row['op']} against {row['peer']}")
        result["rounds_list"] = measure_row(row, point, ours, peer, settings)
        result["note"] = note_of(row, ours, peer)
    except WorkerError as e:
        result["error"] = str(e)
        log(f"{row['point']}: {row['op']} against {row['peer']}: {e}")
    return result
