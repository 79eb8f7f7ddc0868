#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: junit_sum.py FILE      prints "PASSED FAILED", the single tests of meson's JUnit report; skipped ones are in neither."""

import sys
import xml.etree.ElementTree as tree

passed = failed = 0
for suite in tree.parse(sys.argv[1]).getroot().iter("testsuite"):
    cases = suite.findall("testcase")
    bad = sum(case.find("failure") is not None or case.find("error") is not None for case in cases)
    skipped = sum(case.find("skipped") is not None for case in cases)
    # A program that died may have reported fewer single failures than the suite counts.
    bad = max(bad, int(suite.get("failures", 0)) + int(suite.get("errors", 0)))
    passed += max(len(cases) - bad - skipped, 0)
    failed += bad
print(passed, failed)
