#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reports of memory: against their schema, read back, and one that was saved once, line by line.

usage: run_memcheck.py PPTO [WORD]      TAP on standard output; with WORD only the tests that contain it"""

import json
import os
import re
import sys

from run_cli import HERE, check, expect, named, need, read, run_tests, write


def matches(value, schema, root, path="$"):
    """The part of JSON Schema that docs/memcheck.schema.json uses."""
    if "$ref" in schema:
        schema = root["definitions"][schema["$ref"].split("/")[-1]]
    types = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}
    if "type" in schema:
        expect(isinstance(value, types[schema["type"]]) and (schema["type"] == "boolean" or not isinstance(value, bool)),
               f"{path} is no {schema['type']}: {value!r}")
    expect("const" not in schema or value == schema["const"], f"{path}: {value!r}")
    expect("enum" not in schema or value in schema["enum"], f"{path}: {value!r}")
    expect("minimum" not in schema or value >= schema["minimum"], f"{path}: {value!r}")
    expect("pattern" not in schema or re.search(schema["pattern"], value), f"{path}: {value!r}")
    if isinstance(value, dict):
        need(value, *schema.get("required", ()))
        for key, inner in value.items():
            known = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
            expect(known is not None, f"{path}.{key} is not in the schema")
            matches(inner, known, root, f"{path}.{key}")
    if isinstance(value, list):
        expect(schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)), path)
        for i, inner in enumerate(value):
            matches(inner, schema["items"], root, f"{path}[{i}]")


def memcheck_report(ppto):
    """Both levels of reports against the schema, and what the verb makes of one."""
    schema = json.loads(read(os.path.join(HERE, "../../docs/memcheck.schema.json")))
    check(ppto("run", "softmax(x @ w, axis=0)", "x=f32[64,32]", "w=f32[32,8]", "-o", "m.npy", "--memcheck-json", "m.json"), 0)
    report = json.loads(read("m.json"))
    matches(report, schema, schema)
    expect(report["level"] == 2 and report["complete"] and report["buffers"], report["level"])
    parts = report["totals"]["peak_parts_bytes"]
    expect(sum(parts.values()) == report["totals"]["peak_bytes"], parts)
    expect(sum(g["peak_share_bytes"] for g in report["groups"]) == report["totals"]["peak_bytes"], parts)
    expect({"x", "w"} <= {g.get("site", {}).get("file") for g in report["groups"]}, report["groups"])
    if reads_reports(ppto):
        check(ppto("memcheck", "m.json"), 0, out=["ppto memcheck 1", "matmul", "0 leaked"])
        check(ppto("memcheck", "m.json", "--svg", "m.svg", "--folded", "m.folded"), 0)
        expect(read("m.svg").startswith(b"<svg ") and b"hatched" in read("m.svg"), "the picture")
        expect(b"array_fill" in read("m.folded"), read("m.folded"))
        check(ppto("memcheck", "m.json", "--json"), 0, out=['"schema":"ppto-memcheck/1"'])
    check(ppto("run", "x + 1", "x=x.npy", "--memcheck"), 0, err=["ppto memcheck 1", "peak made of", "0 leaked"])
    check(ppto("run", "x + 1", "x=x.npy", env={"PPTO_MEMCHECK": "report", "PPTO_MEMCHECK_FILE": "end.json"}), 0)
    matches(json.loads(read("end.json")), schema, schema)


def reads_reports(ppto):
    modules = json.loads(check(ppto("info", "--json"), 0).stdout)["modules"]
    return all(m["available"] for m in modules if m["name"] == "memcheck")


def memcheck_of_no_report(ppto):
    if not reads_reports(ppto):
        check(ppto("memcheck", "x.npy"), 3, err=["needs jansson"])
        return
    check(ppto("memcheck", "x.npy"), 3, err=["x.npy", "at byte"])
    check(ppto("memcheck", "text.npy", "--svg", "m.svg"), 3, err=["text.npy"])


def memcheck_golden(ppto):
    """A report that was saved once gives the same text and picture, line by line."""
    if not reads_reports(ppto):
        return
    for form, args in (("txt", ()), ("svg", ("--svg", "-"))):
        result = ppto("memcheck", os.path.join(HERE, "memcheck_golden.json"), *args)
        check(result, 0)
        want = read(os.path.join(HERE, f"memcheck_golden.{form}")).decode().splitlines()
        for number, (have, line) in enumerate(zip(result.stdout.decode().splitlines(), want), 1):
            expect(have == line, f"line {number} of the {form}: {have}\nis not {line}")
        expect(result.stdout.count(b"\n") == len(want), f"the {form} has another number of lines")


def memcheck_of_a_part_is_not_complete(ppto):
    write("part.json", '{"schema": "ppto-memcheck/1"}')
    check(ppto("memcheck", "part.json"), 0, out=["complete=no", 'incomplete: the report has no "level"'])
    told = json.loads(check(ppto("memcheck", "part.json", "--json"), 0).stdout)
    expect(told["complete"] is False, told)


def memcheck_writes_one_thing_to_one_place(ppto):
    check(ppto("run", "exp(x)", "x=f32[9]:ones", "--memcheck-json", "places.json"), 0)
    for place in ("-", "same"):
        check(ppto("memcheck", "places.json", "--svg", place, "--folded", place), 2, err=["both want one place"])
    check(ppto("memcheck", "places.json", "--svg", "one.svg", "--folded", "-"), 0)


if __name__ == "__main__":
    sys.exit(run_tests(sys.argv, named([memcheck_report, memcheck_of_no_report, memcheck_golden,
                                     memcheck_of_a_part_is_not_complete, memcheck_writes_one_thing_to_one_place])))
