"""Statistics of rows: which rounds count, medians, ratio and verdict."""

from statistics import median

# A round counts if its yardstick is at most this much slower than the fastest of the whole run.
YARDSTICK_LIMIT = 1.3
# So many rounds must be left, or all are kept.
MIN_ROUNDS = 3


def sample(times):
    """One number of the times of one round: the median of the second half. The first half warms the caches up."""
    return median(times[len(times) // 2 :])


def keep_rounds(rounds, fastest_us):
    """The rounds in which the machine was undisturbed; all of them if too few were."""
    good = [r for r in rounds if r["yardstick_us"] <= YARDSTICK_LIMIT * fastest_us]
    return good if len(good) >= min(MIN_ROUNDS, len(rounds)) else list(rounds)


def spread(values):
    """(largest - smallest) / median."""
    return (max(values) - min(values)) / median(values)


def passed(ratio, bar, bar_is):
    """Whether a measured ratio meets the bar; a row without a bar is informational and passes."""
    if bar is None:
        return True
    return ratio <= bar if bar_is == "at most" else ratio >= bar


def failed(row, error):
    """A row that could not be measured: it fails, whatever its bar."""
    return dict(row, ours_ms=None, peer_ms=None, ratio=None, passed=False, error=error,
                yardstick_us=None, yardstick_spread=None, rounds=0, rounds_dropped=0, note=None)


def finish(row, rounds, fastest_us):
    """The finished row of rounds `{"yardstick_us", "ours_ms", "peer_ms"}`."""
    kept = keep_rounds(rounds, fastest_us)
    ours = median(r["ours_ms"] for r in kept)
    peer = median(r["peer_ms"] for r in kept)
    ratio = ours / peer if row["bar_is"] == "at most" else peer / ours
    yardsticks = [r["yardstick_us"] for r in kept]
    return dict(
        row,
        ours_ms=ours,
        peer_ms=peer,
        ratio=ratio,
        passed=passed(ratio, row["bar"], row["bar_is"]),
        error=None,
        yardstick_us=median(yardsticks),
        yardstick_spread=spread(yardsticks),
        ours_spread=spread([r["ours_ms"] for r in kept]),
        peer_spread=spread([r["peer_ms"] for r in kept]),
        rounds=len(kept),
        rounds_dropped=len(rounds) - len(kept),
    )
