#!/usr/bin/env python3
"""Measures a release and records it in docs/results/MAJOR.MINOR.json.

    cargo build --release && python3 scripts/record_release.py [LENGTH ...]

For each length (default 128 and 512): `demo`; then `publish` and `serve` on this machine with one client that classifies three
documents (keys sent once), the label alone, and two clients at the same time. Needs only Python 3.
"""
import concurrent.futures
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from record_demo import ROOT, machine

PROGRAM = os.environ.get("CIPHERLOOM", str(ROOT / "target" / "release" / "cipherloom"))
MODEL = "models/mamba2-moviedoc"
TEXTS = ["documents/medium-positive.txt", "documents/medium-negative.txt", "documents/mixed-positive.txt"]


def run(*args):
    done = subprocess.run([PROGRAM, *args], cwd=ROOT, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def resident(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def summary(r):
    keep = ("label", "keys_reused", "setup_bytes", "seconds", "traffic", "peak_rss_bytes", "tokens")
    return {k: r[k] for k in keep} | {"logits": r.get("logits")}


def served(length, folder):
    published = run("publish", MODEL, "--length", length, "--out", str(folder / "deployment"), "--json")
    command = [PROGRAM, "serve", MODEL, "--deployment", published["server"], "--listen", "127.0.0.1:0", "--json", "--log", "error"]
    started = time.monotonic()
    server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        hello = json.loads(server.stdout.readline())
        ready = time.monotonic() - started
        idle = resident(server.pid)

        def classify(text, keys="keys", *more):
            return run("classify", published["client"], "--server", hello["listening"], text, "--truncate",
                       "--keys", str(folder / keys), "--json", *more)

        three = [classify(t) for t in TEXTS]
        label = classify(TEXTS[0], "keys", "--answer", "label")
        classify(TEXTS[0], "second")
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            begun = time.monotonic()
            both = list(pool.map(lambda k: classify(TEXTS[0], k), ["keys", "second"]))
            together = time.monotonic() - begun
        time.sleep(3)
        after = resident(server.pid)
        peak = max(json.loads(server.stdout.readline())["report"]["peak_rss_bytes"] for _ in range(7))
        return {
            "length": int(length),
            "ready_seconds": ready,
            "idle_bytes": idle,
            "three_documents": [summary(r) for r in three],
            "label_only": summary(label),
            "two_at_a_time": {"seconds": together, "labels": [r["label"] for r in both]},
            "idle_bytes_after": after,
            "server_peak_bytes": peak,
        }
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()


def main():
    version = subprocess.run([PROGRAM, "--version"], check=True, capture_output=True, text=True).stdout.split()[1]
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True)
    out = {"version": version, "commit": commit.stdout.strip(), "machine": machine(), "command": "python3 scripts/record_release.py",
           "demo": {}, "serve": []}
    for length in sys.argv[1:] or ["128", "512"]:
        demo = run("demo", "--length", length, "--json")
        out["demo"][length] = {k: v for k, v in demo.items() if k != "stages"}
        with tempfile.TemporaryDirectory(prefix="cipherloom-release-") as folder:
            out["serve"].append(served(length, pathlib.Path(folder)))
    path = ROOT / "docs" / "results" / f"{version.rsplit('.', 1)[0]}.json"
    path.write_text(json.dumps(out, indent=1) + "\n")
    for s in out["serve"]:
        print(s["length"], [(d["label"], d["keys_reused"], round(d["seconds"]["total"], 1)) for d in s["three_documents"]],
              s["two_at_a_time"], s["idle_bytes"] >> 20, s["idle_bytes_after"] >> 20, s["server_peak_bytes"] >> 20)
    print(path)


if __name__ == "__main__":
    main()
