#!/usr/bin/env python3
"""Runs `cipherloom demo` and records its report with commit and machine in docs/results/.

    cargo build --release && python3 scripts/record_demo.py [LENGTH ...]

Needs only Python 3. Writes docs/results/demo-LENGTH.json (default lengths: 128 and 512).
"""
import json
import os
import pathlib
import platform
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def machine():
    info = {"system": platform.system(), "arch": platform.machine(), "cores": os.cpu_count()}
    try:
        cpu = pathlib.Path("/proc/cpuinfo").read_text()
        for line in cpu.splitlines():
            if line.startswith("model name"):
                info["cpu"] = line.split(":", 1)[1].strip()
                break
        flags = next(l for l in cpu.splitlines() if l.startswith("flags")).split()
        info["simd"] = [f for f in ("avx2", "avx512f", "avx512ifma", "vaes") if f in flags]
        info["load"] = os.getloadavg()[0]
    except (OSError, StopIteration):
        pass
    return info


def main():
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True)
    program = os.environ.get("CIPHERLOOM", str(ROOT / "target" / "release" / "cipherloom"))
    for length in sys.argv[1:] or ["128", "512"]:
        command = [program, "demo", "--length", length, "--json"]
        run = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        report = {
            "commit": commit.stdout.strip(),
            "command": f"cipherloom demo --length {length} --json",
            "machine": machine(),
            "report": json.loads(run.stdout),
        }
        out = ROOT / "docs" / "results" / f"demo-{length}.json"
        out.write_text(json.dumps(report, indent=1) + "\n")
        r = report["report"]
        print(out, r["label"], r["seconds"], r["peak_rss_bytes"], r["max_logit_diff_surrogate"])


if __name__ == "__main__":
    main()
