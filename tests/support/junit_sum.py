#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: junit_sum.py FILE      prints "PASSED FAILED", the single tests of meson's JUnit report; skipped ones are in neither.
       junit_sum.py -v FILE   prints the programs that failed: which single tests, and the end of what they said."""

import sys
import xml.etree.ElementTree as tree

LINES = 40


def is_bad(case):
    return case.find("failure") is not None or case.find("error") is not None


def bad_count(suite):
    # A program that died may have reported fewer single failures than the suite counts.
    return max(
        sum(map(is_bad, suite.findall("testcase"))), int(suite.get("failures", 0)) + int(suite.get("errors", 0))
    )


def tail(node):
    lines = (node.text or "").strip().splitlines() if node is not None else []
    return (["..."] if len(lines) > LINES else []) + lines[-LINES:]


def describe(suite):
    print("FAILED:", suite.get("name"))
    for case in filter(is_bad, suite.findall("testcase")):
        print("  test:", case.get("name"))
        for line in tail(case.find("system-out")) + tail(case.find("system-err")):
            print("  |", line)
    for line in tail(suite.find("system-out")) + tail(suite.find("system-err")):
        print("  |", line)


suites = list(tree.parse(sys.argv[-1]).getroot().iter("testsuite"))
if sys.argv[1] == "-v":
    for suite in filter(bad_count, suites):
        describe(suite)
    sys.exit(0)
passed = failed = 0
for suite in suites:
    cases = suite.findall("testcase")
    bad = bad_count(suite)
    skipped = sum(case.find("skipped") is not None for case in cases)
    passed += max(len(cases) - bad - skipped, 0)
    failed += bad
print(passed, failed)
