"""The table for readers and the facts about the machine."""

import os
import platform
import subprocess


def number(value, digits=3):
    """A time or ratio, short."""
    if value is None:
        return "-"
    if value == 0 or value >= 100:
        return f"{value:.0f}"
    return f"{value:.{digits}g}"


def table(rows):
    """The rows as aligned text."""
    head = ("point", "operation", "peer", "ours ms", "peer ms", "ratio", "bar", "", "yardstick us")
    lines = [head]
    for r in rows:
        bar = "-" if r["bar"] is None else ("<= " if r["bar_is"] == "at most" else ">= ") + number(r["bar"])
        verdict = "ok" if r["passed"] else "FAILED"
        yardstick = "-" if r["error"] else f"{r['yardstick_us']:.1f} +-{50 * r['yardstick_spread']:.0f}%"
        lines.append((r["point"], r["op"], r["peer"], number(r["ours_ms"]), number(r["peer_ms"]),
                      number(r["ratio"]), bar, verdict if r["bar"] is not None or r["error"] else "info", yardstick))
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    out = []
    for line in lines:
        cells = (c.ljust(w) if i < 3 or i > 5 else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths)))
        out.append("  ".join(cells).rstrip())
    reasons = {}
    for r in rows:
        if r["error"]:
            reasons.setdefault(r["error"], []).append(f"{r['point']} {r['op']} {r['peer']}")
    for error, names in reasons.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        out.append(f"{names[0]}{more}: {error}")
    return "\n".join(out)


def machine():
    """Processor, its extensions that matter here, memory and system."""
    facts = {"system": platform.platform(), "cpus": os.cpu_count()}
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            for line in f:
                key, _, value = line.partition(":")
                if key.strip() == "model name":
                    facts["processor"] = value.strip()
                elif key.strip() == "flags":
                    have = set(value.split())
                    facts["extensions"] = [x for x in ("avx2", "avx512f", "avx512ifma", "vaes") if x in have]
                    break
        with open("/proc/meminfo", encoding="utf-8") as f:
            facts["memory_gib"] = round(int(f.readline().split()[1]) / 2**20, 1)
    except (OSError, ValueError, IndexError):
        pass
    return facts


def commit(directory):
    """The commit of the source, with "-changed" if files differ from it; None outside a repository."""

    def git(*args):
        done = subprocess.run(["git", "-C", directory, *args], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, check=True)
        return done.stdout.decode().strip()

    try:
        return git("rev-parse", "HEAD") + ("-changed" if git("status", "--porcelain", "-uno") else "")
    except (OSError, subprocess.CalledProcessError):
        return None
