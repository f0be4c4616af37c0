"""Tests of the driver: `python3 -m unittest test_run` in this directory. They need no peer and build nothing."""

import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

from driver import environments, limit, main, plan, report, stats
from driver.measure import Settings, measure
from driver.worker import Worker, WorkerError

# A worker without a library: each operation takes as long as the point says.
FAKE = textwrap.dedent(
    """
    import json, os, sys
    point = {}
    for line in sys.stdin:
        r = json.loads(line)
        if r["cmd"] == "quit":
            break
        if r["cmd"] == "prepare":
            point = r["params"]
            out = {"ok": True, "info": {"limbs": 2, "special": 1, "digits": [1, 1]}}
            if point.get("refuse"):
                out = {"ok": False, "error": "no such parameters"}
        elif r["op"] == point.get("dies"):
            sys.stderr.write("out of luck\\n")
            os._exit(3)
        elif r["op"] == point.get("wrong"):
            out = {"ok": False, "error": "wrong result"}
        else:
            ms = point["ms"].get(r["op"], 1.0)
            n = r.get("repeats", 1)
            out = {"ok": True, "ms": ms if r["cmd"] == "check" else [ms] * n, "wall_ms": ms * n, "max_error": 0.0}
        print(json.dumps(out), flush=True)
    """
)


def row(op="rotate", peer="other", bar=3.0, bar_is="at least", point="P"):
    return {"point": point, "op": op, "peer": peer, "bar": bar, "bar_is": bar_is}


def rounds(*triples):
    return [{"yardstick_us": y, "ours_ms": o, "peer_ms": p} for y, o, p in triples]


class Statistics(unittest.TestCase):
    def test_a_ratio_is_of_medians(self):
        done = stats.finish(row(), rounds((30, 1, 4), (30, 2, 9), (31, 3, 5)), 30)
        self.assertEqual((done["ours_ms"], done["peer_ms"], done["ratio"]), (2, 5, 2.5))
        self.assertFalse(done["passed"])
        self.assertEqual((done["rounds"], done["rounds_dropped"], done["yardstick_us"]), (3, 0, 30))
        self.assertAlmostEqual(done["yardstick_spread"], 1 / 30)

    def test_disturbed_rounds_are_dropped(self):
        data = rounds((30, 1, 4), (39, 1, 4), (40, 9, 90), (30, 1, 4), (60, 9, 90))
        done = stats.finish(row(), data, 30)
        self.assertEqual((done["rounds"], done["rounds_dropped"], done["ratio"]), (3, 2, 4))
        self.assertTrue(done["passed"])

    def test_too_few_undisturbed_rounds_keep_all(self):
        data = rounds((30, 1, 4), (50, 2, 4), (50, 2, 4), (31, 1, 4))
        done = stats.finish(row(), data, 30)
        self.assertEqual((done["rounds"], done["rounds_dropped"]), (4, 0))
        # With fewer rounds than the minimum, all are needed.
        self.assertEqual(len(stats.keep_rounds(rounds((30, 1, 1), (90, 1, 1)), 30)), 2)

    def test_a_bar_from_above(self):
        under = stats.finish(row(bar=1.5, bar_is="at most"), rounds((30, 14, 10)), 30)
        over = stats.finish(row(bar=1.5, bar_is="at most"), rounds((30, 16, 10)), 30)
        self.assertEqual((under["ratio"], under["passed"]), (1.4, True))
        self.assertEqual((over["ratio"], over["passed"]), (1.6, False))

    def test_without_a_bar_a_row_informs(self):
        self.assertTrue(stats.finish(row(bar=None), rounds((30, 10, 1)), 30)["passed"])

    def test_the_first_half_warms_up(self):
        self.assertEqual(stats.sample([9, 9, 9, 1, 2, 4]), 2)
        self.assertEqual(stats.sample([9, 1, 2]), 1.5)
        self.assertEqual(stats.sample([7]), 7)


class Limit(unittest.TestCase):
    def test_counts_are_those_of_the_literature(self):
        cases = [
            (dict(limbs=30, special=10, digits=[10, 10, 10]), 200, 1500, 80),
            (dict(limbs=15, special=10, digits=[10, 5]), 100, 10 * 15 + 5 * 20 + 300, 50),
            (dict(limbs=14, special=5, digits=[5, 5, 4]), 95, 2 * 5 * 14 + 4 * 15 + 140, 38),
            (dict(limbs=8, special=2, digits=[2, 2, 2, 2]), 60, 4 * 2 * 8 + 32, 20),
        ]
        for info, ntt, convert, inner in cases:
            self.assertEqual(limit.counts(info), {"ntt": ntt, "convert": convert, "inner": inner})

    def test_hoisted_rotations_share_the_raised_digits(self):
        info = dict(limbs=30, special=10, digits=[10, 10, 10])
        self.assertEqual(limit.counts(info, 8), {"ntt": 120 + 640, "convert": 900 + 4800, "inner": 640})
        micro = {"limit_ntt": 1, "limit_convert": 0, "limit_inner": 1, "limit_read": 100}
        self.assertEqual(limit.limit_ms(info, micro, "hoisted8"), 760 + 800)

    def test_the_inner_product_is_the_longer_of_two(self):
        info = dict(limbs=8, special=2, digits=[2, 2, 2, 2])
        micro = {"limit_ntt": 1, "limit_convert": 10, "limit_inner": 100, "limit_read": 1}
        self.assertEqual(limit.limit_ms(info, micro), 60 + 960 + 2000)
        self.assertEqual(limit.limit_ms(info, dict(micro, limit_read=5000)), 60 + 960 + 5000)


class Plan(unittest.TestCase):
    def test_every_row_has_parameters_for_both_sides(self):
        points = plan.points()
        rows = plan.all_rows()
        self.assertEqual(len(rows), len({(r["point"], r["op"], r["peer"]) for r in rows}))
        for r in rows:
            workers = points[r["point"]]["workers"]
            self.assertIn("ours", workers)
            self.assertTrue(r["peer"] == plan.LIMIT or r["peer"] in workers, r)
            self.assertIn(r["bar_is"], ("at least", "at most"))

    def test_points_of_a_group_share_keys(self):
        points = plan.points()
        for peer in ("ours", "openfhe", "poulpy"):
            c, mid = (dict(points[p]["workers"][peer]) for p in ("C", "Cmid"))
            for field in ("ct_limbs", "ct_bits"):
                c.pop(field, None), mid.pop(field, None)
            self.assertEqual(c, mid)

    def test_select(self):
        rows = plan.all_rows()
        some = plan.select(rows, points=["A", "B2"], ops=["rotate"], peers=["openfhe"])
        self.assertEqual([(r["point"], r["bar"]) for r in some], [("A", 6.0), ("B2", 6.0)])
        with self.assertRaisesRegex(ValueError, "no point D"):
            plan.select(rows, points=["A", "D"])

    def test_wrong_options_are_no_success(self):
        self.assertEqual(main.main(["--points", "D"]), 2)
        self.assertEqual(main.main(["--points", "A", "--repeats", "0"]), 2)


class Measuring(unittest.TestCase):
    """Through real child processes."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cwd = folder.name
        self.script = os.path.join(self.cwd, "fake.py")
        with open(self.script, "w", encoding="utf-8") as f:
            f.write(FAKE)
        self.cpu = min(os.sched_getaffinity(0))

    def measure(self, rows, peer=None, command_of=None, ours=None):
        ours = ours or {"ms": {"yardstick": 0.03, "rotate": 2.0, "mul": 4.0}}
        points = {"P": {"group": "P", "workers": {"ours": ours, "other": peer or {"ms": {"rotate": 10.0, "mul": 8.0}}}}}
        fake = [sys.executable, self.script]
        settings = Settings(cpu=self.cpu, rounds=3)
        return measure(rows, points, command_of or (lambda _: fake), self.cwd, settings, lambda _: None)[0]

    def test_rows_are_measured(self):
        fast, slow = self.measure([row(), row(op="mul")])
        self.assertEqual((fast["ratio"], fast["passed"], fast["error"]), (5.0, True, None))
        self.assertEqual((slow["ratio"], slow["passed"], slow["error"]), (2.0, False, None))
        self.assertEqual((fast["yardstick_us"], fast["rounds"]), (30.0, 3))

    def test_the_limit_needs_no_peer(self):
        (done,) = self.measure([row(peer=plan.LIMIT, bar=1.5, bar_is="at most")])
        # 2 + 4 + 2 + 4 transforms, 4 + 4 conversions, 6 limbs; one millisecond each.
        self.assertEqual((done["peer_ms"], done["error"]), (26.0, None))
        self.assertTrue(done["passed"])

    def assert_failed(self, done, words):
        self.assertIs(done["passed"], False)
        self.assertIsNone(done["ratio"])
        self.assertIsNone(done["peer_ms"])
        self.assertIn(words, done["error"])

    def test_a_missing_peer_is_a_failed_row(self):
        def command_of(name):
            if name == "other":
                raise environments.SetupError("no Python 3.10")
            return [sys.executable, self.script]

        for bar in (3.0, None):
            for done in self.measure([row(bar=bar), row(op="mul", bar=bar)], command_of=command_of):
                self.assert_failed(done, "no Python 3.10")
        missing = lambda name: [sys.executable, self.script] if name == "ours" else ["/nowhere/worker"]  # noqa: E731
        self.assert_failed(self.measure([row()], command_of=missing)[0], "did not start")

    def test_a_peer_that_refuses_is_a_failed_row(self):
        self.assert_failed(self.measure([row()], peer={"refuse": True, "ms": {}})[0], "no such parameters")

    def test_a_wrong_result_is_a_failed_row_and_the_next_goes_on(self):
        wrong, right = self.measure([row(), row(op="mul", bar=2.0)], peer={"wrong": "rotate", "ms": {"mul": 8.0}})
        self.assert_failed(wrong, "wrong result")
        self.assertTrue(right["passed"])

    def test_a_crash_is_a_failed_row_and_the_next_goes_on(self):
        died, next_one = self.measure([row(), row(op="mul", bar=2.0)], peer={"dies": "rotate", "ms": {"mul": 8.0}})
        self.assert_failed(died, "code 3: out of luck")
        self.assertTrue(next_one["passed"])

    def test_a_peer_that_always_dies_is_given_up(self):
        peer = {"dies": "rotate", "ms": {}}
        done = self.measure([row(), row(), row(), row()], peer=peer)
        self.assert_failed(done[0], "out of luck")
        self.assert_failed(done[3], "died 2 times")

    def test_our_own_failure_is_a_failed_row(self):
        (done,) = self.measure([row()], ours={"dies": "rotate", "ms": {}})
        self.assert_failed(done, "ours")

    def test_a_silent_worker_is_ended(self):
        path = os.path.join(self.cwd, "silent.py")
        with open(path, "w", encoding="utf-8") as f:
            f.write("import time\ntime.sleep(60)\n")
        worker = Worker([sys.executable, path], self.cwd, self.cpu)
        with self.assertRaisesRegex(WorkerError, "silent"):
            worker.ask(timeout=0.2, cmd="prepare")
        self.assertFalse(worker.alive())
        worker.close()


class Environments(unittest.TestCase):
    def test_a_named_python_must_be_of_the_version(self):
        version = "%d.%d" % sys.version_info[:2]
        self.assertTrue(environments.runs_as(sys.executable, version))
        self.assertFalse(environments.runs_as(sys.executable, "2.6"))
        self.assertFalse(environments.runs_as("/nowhere/python", version))

    def test_a_missing_python_says_what_to_do(self):
        with self.assertRaisesRegex(environments.SetupError, "CIPHERLOOM_PYTHON29"):
            environments.find_python("2.9")

    def test_a_failed_command_gives_its_error(self):
        code = "import sys; print('hello'); print('error: broken'); sys.exit(1)"
        with self.assertRaisesRegex(environments.SetupError, "error: broken"):
            environments.run([sys.executable, "-c", code])


class Report(unittest.TestCase):
    def test_the_table_names_failures(self):
        good = stats.finish(row(bar=None), rounds((30, 1, 4)), 30)
        text = report.table([good, stats.failed(row(op="mul"), "no such wheel")])
        self.assertIn("FAILED", text)
        self.assertIn("P mul other: no such wheel", text)
        self.assertIn("info", text.splitlines()[1])

    def test_list_prints_every_row(self):
        run = os.path.join(plan.HERE, "run")
        out = subprocess.run([sys.executable, run, "--list"], stdout=subprocess.PIPE, check=True).stdout
        self.assertEqual(len(out.decode().splitlines()), len(plan.all_rows()))

    def test_a_finished_row_is_json(self):
        done = stats.finish(row(), rounds((30, 1, 4)), 30)
        self.assertEqual(json.loads(json.dumps(done)), done)


if __name__ == "__main__":
    unittest.main()
