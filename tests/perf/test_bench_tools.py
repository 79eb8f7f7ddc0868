#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tools of perf/ on figures made up here: nothing is timed.

usage: test_bench_tools.py ROOT
"""

import contextlib
import copy
import io
import json
import sys
import tempfile
import tomllib
import unittest
import xml.dom.minidom
from pathlib import Path

ROOT = Path(sys.argv.pop(1))
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "perf"))

import compare  # noqa: E402
import guard    # noqa: E402
import peers    # noqa: E402
import peers_report  # noqa: E402
from peer_process import output_names  # noqa: E402

MACHINE = {"line": "machine", "cpu": "none", "cpus": 2, "memory_gib": 1, "kernel": "0", "python": "3", "rounds": 3,
           "versions": {"numpy": "2"}, "started": "never",
           "limits": {"1": {"fma_f32_gflops": 100, "stream_gbps": {"536870912": 20}, "triad_gbps": {"536870912": 15}}}}


def result(name, ppto, peer, threads=1, ok=True):
    """A line as peers.judge makes it."""
    workload = {"name": name, "group": "elementwise", "inputs": {"x": "f32[1024]:ones"}, "flops": 1024}
    outcome = {"numpy": {"seconds": peer, "samples": [peer]*3, "ok": True},
               "ppto": {"seconds": ppto, "samples": [ppto*0.99, ppto, ppto*1.01], "ok": ok}}
    return peers.judge(workload, copy.deepcopy(outcome), {}, threads)


def file_of(folder, name, lines):
    path = Path(folder) / name
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


class Names(unittest.TestCase):
    def test_outputs_of_a_program_and_none_of_an_expression(self):
        self.assertEqual(output_names("output m = mean(x, axis=0), s = std(x, axis=0)"), ["m", "s"])
        self.assertEqual(output_names("c = u[1:-1]\noutput y = c + f(a=[1, g(b=2)])"), ["y"])
        self.assertEqual(output_names("softmax(x, axis=-1)"), [])


class Workloads(unittest.TestCase):
    def test_every_workload_has_a_text_for_ppto_and_a_limit(self):
        for workload in tomllib.loads((ROOT / "perf/workloads.toml").read_text())["workload"]:
            with self.subTest(workload["name"]):
                self.assertTrue("ppto" in workload or workload["kind"] in ("shapes", "record"))
                self.assertTrue("min_bytes" in workload or "kind" in workload)


class Judged(unittest.TestCase):
    def test_the_ratio_is_that_to_the_best_peer(self):
        self.assertAlmostEqual(result("a", 1.0, 2.0)["ratio"], 2.0)

    def test_a_wrong_result_has_no_ratio(self):
        self.assertNotIn("ratio", result("a", 1.0, 2.0, ok=False))

    def test_what_falls_short_is_listed_worst_first(self):
        lines = peers_report.falling_short([result("a", 1, 0.9), result("b", 1, 2), result("c", 1, 0.5), result("sgemm-1", 1, 0.96)])
        self.assertEqual([line.split()[2] for line in lines], ["c", "a"])


class Report(unittest.TestCase):
    def test_text_outside_the_markers_stays(self):
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "performance.md"
            page.write_text(f"before\n{peers_report.BEGIN}\nold\n{peers_report.END}\nafter\n")
            lines = [MACHINE, result("a", 1, 3), result("a", 1, 2), result("b", 1, 0.5)]
            peers_report.write(Path(folder), *peers_report.read_lines(file_of(folder, "f", lines)))
            text = page.read_text()
            self.assertTrue(text.startswith("before\n") and text.endswith("\nafter\n") and "old" not in text)
            self.assertIn("| 2.00 |", text)                     # of two lines the later
            self.assertIn("| 0.50 ↓ |", text)
            for picture in (Path(folder) / "performance").glob("*.svg"):
                xml.dom.minidom.parse(str(picture))


    def test_limits_that_somebody_beat_are_left_out(self):
        machine, line, other = copy.deepcopy(MACHINE), result("a", 1, 2), result("b", 1, 2, threads=2)
        for each, fraction in ((line, 1.3), (other, 0.9)):
            each["limit_seconds"] = each["peers"]["numpy"]["fraction"] = fraction
        self.assertEqual(peers_report.drop_wrong_limits(machine, [line, other]), [1])
        self.assertEqual((line["limit_seconds"], other["limit_seconds"], machine["limits"]), (None, 0.9, {}))


class Compared(unittest.TestCase):
    def run_compare(self, before, after):
        with tempfile.TemporaryDirectory() as folder:
            sys.argv[1:] = [file_of(folder, "a", before), file_of(folder, "b", after)]
            with contextlib.redirect_stdout(io.StringIO()) as out:
                return compare.main(), out.getvalue()

    def test_the_same_is_no_difference(self):
        self.assertEqual(self.run_compare([result("a", 1, 2)], [result("a", 1, 2)])[0], 0)

    def test_a_slower_machine_is_no_slower_workload(self):
        self.assertEqual(self.run_compare([result("a", 1, 2)], [result("a", 2, 4)])[0], 0)

    def test_a_lost_ratio_is_told_and_fails(self):
        code, text = self.run_compare([result("a", 1, 2)], [result("a", 1.5, 2)])
        self.assertEqual(code, 1)
        self.assertIn("slower", text)

    def test_lines_of_programs_are_compared_by_their_medians(self):
        line = {"group": "latency", "benchmark": "record", "unit": "ns", "min": 100, "median": 100}
        self.assertIn("faster", self.run_compare([line], [dict(line, min=50, median=50)])[1])


class Guarded(unittest.TestCase):
    WORK = {"name": "a", "first": 1000, "run": 100, "kernels": 1, "bytes": 64, "peak": 128}

    def judged(self, **changed):
        return tuple(len(found) for found in guard.judge(self.WORK, {**self.WORK, **changed}))

    def test_the_baseline_itself_is_good(self):
        self.assertEqual(self.judged(), (0, 0))

    def test_up_to_a_twentieth_more_instructions_pass(self):
        self.assertEqual(self.judged(run=105, first=1050), (0, 0))
        self.assertEqual(self.judged(run=106, first=1060), (2, 0))

    def test_no_kernel_and_no_byte_more_passes(self):
        self.assertEqual(self.judged(kernels=2, bytes=65, peak=129), (3, 0))

    def test_what_got_better_is_told(self):
        self.assertEqual(self.judged(run=90, bytes=32), (0, 2))

    def test_objects_after_each_other_are_told_apart(self):
        self.assertEqual(guard.explanations('{"a": 1}\n\n{"b": [2]}\n'), [{"a": 1}, {"b": [2]}])


if __name__ == "__main__":
    unittest.main()
