#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What --trace, --timeline and --stats write: Chrome JSON, Perfetto's protobuf (decoded here by the numbers of its
.proto files), SVG, the table of steps; and what explain --svg and --dot draw.

usage: run_traces.py PPTO [WORD]      TAP on standard output; with WORD only the tests that contain it"""

import json
import os
import shutil
import struct
import sys
import tempfile
import xml.etree.ElementTree as xml

from run_cli import Runner, check, expect, npy, read, write

SVG = "{http://www.w3.org/2000/svg}"
CHAIN = ["run", "softmax(x @ w, axis=0) + sum(exp(x))", "x=f32[256,64]:random(1)", "w=f32[64,64]:random(2)", "-o", "out.npy"]
PIECES = ["run", "exp(x) / sum(exp(x))", "x=big.npy", "-o", "out.npy", "--memory-limit", "8M"]


def chrome(ppto, args, *more):
    check(ppto(*args, "--trace", "t.json", *more), 0)
    trace = json.loads(read("t.json"))
    expect(trace["otherData"]["schema"] == "ppto-trace/1", trace["otherData"])
    return trace["traceEvents"]


def of_phase(events, phase):
    return [e for e in events if e["ph"] == phase]


# ---- Chrome ----

def tasks_follow_each_other_on_a_worker(ppto):
    rows = {}
    tasks = [e for e in of_phase(chrome(ppto, CHAIN, "--threads", "2"), "X") if e["cat"] != "stage"]
    for event in tasks:
        rows.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    expect(rows, "no tasks")
    for row in rows.values():
        row.sort()
        for before, after in zip(row, row[1:]):
            expect(before[1] <= after[0] + 0.002, f"{before} overlaps {after}")


def operators_are_named(ppto):
    names = {e["name"] for e in of_phase(chrome(ppto, CHAIN), "X")}
    expect({"run", "matmul", "softmax, exp, sum, add"} <= names or any("softmax" in n for n in names), names)
    expect("matmul" in names, names)


def edges_are_arrows_between_tasks(ppto):
    events = chrome(ppto, CHAIN)
    begins = {e["id"]: e for e in of_phase(events, "s")}
    ends = {e["id"]: e for e in of_phase(events, "f")}
    expect(begins and begins.keys() == ends.keys(), "flows in pairs")
    for number, end in ends.items():
        expect(begins[number]["ts"] <= end["ts"] and end["bp"] == "e", end)
        for point in (begins[number], end):
            expect(any(e["tid"] == point["tid"] and e["ts"] <= point["ts"] <= e["ts"] + e["dur"] + 0.001
                       for e in of_phase(events, "X")), f"{point} lies in no task")


def memory_is_a_counter(ppto):
    counts = [e for e in of_phase(chrome(ppto, CHAIN), "C") if e["name"] == "memory used"]
    expect(counts == sorted(counts, key=lambda e: e["ts"]), "order")
    expect(max(e["args"]["bytes"] for e in counts) >= 256 * 64 * 4, counts)


def files_by_pieces(ppto):
    events = chrome(ppto, PIECES)
    read_bytes = sum(e["args"]["bytes"] for e in of_phase(events, "b") if e["cat"] == "read")
    written = sum(e["args"]["bytes"] for e in of_phase(events, "b") if e["cat"] == "write")
    expect(read_bytes == 2 * 4 * BIG and written == 4 * BIG, (read_bytes, written))
    begins, ends = of_phase(events, "b"), {e["id"]: e["ts"] for e in of_phase(events, "e")}
    expect(all(e["ts"] <= ends[e["id"]] and not e["args"]["failed"] for e in begins), begins[:3])
    expect(sum(e["cat"] == "piece" for e in of_phase(events, "X")) > 3, "pieces")


def names_with_odd_characters(ppto):
    write('od"d<&.npy', npy("<f4", (2,), [1, 2]))
    events = chrome(ppto, ["run", "x", 'x=od"d<&.npy', "-o", 'out"<&.npy'])
    expect('write out"<&.npy' in {e["name"] for e in events}, "the name")
    check(ppto("run", "x", 'x=od"d<&.npy', "-o", 'out"<&.npy', "--timeline", "odd.svg"), 0)
    expect('write out"<&.npy' in svg_words("odd.svg"), "the name")


# ---- Perfetto ----

def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    """A message as {number: [values]}; values are ints or bytes."""
    at, message = 0, {}
    while at < len(data):
        tag, at = varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 1:
            value, at = struct.unpack_from("<Q", data, at)[0], at + 8
        else:
            expect(kind == 2, f"wire type {kind}")
            length, at = varint(data, at)
            expect(at + length <= len(data), "a length beyond the end")
            value, at = data[at:at + length], at + length
        message.setdefault(tag >> 3, []).append(value)
    return message


def perfetto(ppto, args, name="t.pftrace", code=0):
    """(names by iid, tracks by uuid, events) of a trace: events as (timestamp, fields of TrackEvent)."""
    check(ppto(*args, "--trace", name), code)
    names, tracks, events = {}, {}, []
    trace = fields(read(name))
    expect(list(trace) == [1], trace.keys())
    for number, packet in enumerate(map(fields, trace[1])):
        expect(packet[10] == [1], "one sequence")
        expect(packet.get(13, [0])[0] == (1 if number == 0 else packet.get(13, [0])[0]), "state is cleared first")
        for interned in packet.get(12, []):
            for entry in fields(interned).get(2, []):
                names[fields(entry)[1][0]] = fields(entry)[2][0].decode()
        for track in packet.get(60, []):
            tracks[fields(track)[1][0]] = fields(track)
        for event in packet.get(11, []):
            events.append((packet[8][0], fields(event)))
    return names, tracks, events


def perfetto_says_what_chrome_says(ppto):
    for args in (CHAIN, PIECES):
        names, tracks, events = perfetto(ppto, [*args, "--threads", "1"])
        expect(events == sorted(events, key=lambda e: e[0]), "in the order of time")
        expect(all(e[11][0] in tracks for _, e in events), "every event has a track")
        open_slices = {}
        for _, event in events:
            stack = open_slices.setdefault(event[11][0], [])
            if event[9] == [1]:
                expect(event[10][0] in names, event)
                stack.append(names[event[10][0]])
            elif event[9] == [2]:
                stack.pop()
        expect(not any(open_slices.values()), "every slice ends")
        slices = sorted(names[e[10][0]] for _, e in events if e[9] == [1])
        other = chrome(ppto, [*args, "--threads", "1"])
        expect(set(slices) == {e["name"] for e in of_phase(other, "X") + of_phase(other, "b")}, set(slices))
        expect(sum(e[9] == [1] and names[e[10][0]] == "run" for _, e in events) == 1, "one run")


def perfetto_has_flows_counters_and_names(ppto):
    _, tracks, events = perfetto(ppto, CHAIN, "t.perfetto-trace")
    begun = [f for _, e in events for f in e.get(47, [])]
    ended = [f for _, e in events for f in e.get(48, [])]
    expect(begun and sorted(begun) == sorted(ended), "flows in pairs")
    counters = {uuid for uuid, track in tracks.items() if 8 in track}
    expect(len(counters) == 2 and all(fields(tracks[u][8][0])[3] == [3] for u in counters), "counted in bytes")
    expect(any(e[9] == [4] and e[11][0] in counters and e[30][0] > 0 for _, e in events), "memory")
    processes = [fields(t[3][0]) for t in tracks.values() if 3 in t]
    expect([p[6][0] for p in processes] == [b"ppto run"], processes)
    expect(b"worker 0 (caller)" in {t[2][0] for t in tracks.values() if 2 in t}, tracks)


def names_that_are_no_utf8_are_made_so(ppto):
    name = "caf\udce9.npy"  # of one byte that is no UTF-8
    os.symlink("big.npy", name)
    names = perfetto(ppto, ["run", "x * 2", f"x={name}", "-o", "out.npy"])[0]
    expect("read caf\ufffd.npy" in names.values(), [ascii(n) for n in names.values()])
    events = chrome(ppto, ["run", "x * 2", f"x={name}", "-o", "out.npy"])
    expect(any(e.get("name") == "read caf\ufffd.npy" for e in events), "Chrome JSON")
    os.remove(name)


def protobuf_is_smaller(ppto):
    chrome(ppto, PIECES)
    perfetto(ppto, PIECES)
    expect(os.path.getsize("t.pftrace") < os.path.getsize("t.json") / 2, os.path.getsize("t.pftrace"))


# ---- timeline, table ----

def svg_words(name):
    return {e.text for e in xml.parse(name).getroot().iter(SVG + "text")}


def timeline_is_a_picture(ppto):
    check(ppto(*CHAIN, "--timeline", "t.svg", "--threads", "2"), 0)
    root = xml.parse("t.svg").getroot()
    expect(root.tag == SVG + "svg" and root.get("viewBox"), root.attrib)
    tips = [t.text for t in root.iter(SVG + "title")]
    expect(any("recorded at" in t for t in tips) or any("step" in t for t in tips), tips[:5])
    expect({"worker 0 (caller)", "runs", "files", "memory", "matmul"} <= svg_words("t.svg"), svg_words("t.svg"))
    width, height = float(root.get("width")), float(root.get("height"))
    for box in root.iter(SVG + "rect"):
        x, y = float(box.get("x")), float(box.get("y"))
        expect(0 <= x and x + float(box.get("width")) <= width + 1, box.attrib)
        expect(0 <= y and y + float(box.get("height")) <= height, box.attrib)


def timeline_stays_small(ppto):
    check(ppto("run", "sum(exp(x))", "x=f32[2000,2000]:zeros", "--memory-limit", "18M", "--timeline", "long.svg"), 0)
    expect(os.path.getsize("long.svg") < 2000000, os.path.getsize("long.svg"))


def stats_say_what_took_how_long(ppto):
    text = check(ppto(*CHAIN, "--stats", "--stats-json", "s.json"), 0).stderr.decode()
    expect("GB/s" in text and "matmul" in text and "write out.npy" in text, text)
    stats = json.loads(read("s.json"))
    steps = stats["operators"]
    expect(steps["schema"] == "ppto-steps/1" and steps["runs"] == 1 and steps["dropped_events"] == 0, steps)
    for step in steps["steps"]:
        for key in ("ops", "kind", "stream", "site", "launches", "tasks", "bytes", "wall_ns", "busy_ns", "wait_ns", "gb_per_s", "predicted_ns"):
            expect(key in step, f"no {key} in {step}")
        expect(step["wall_ns"] >= 0 and step["wait_ns"] >= 0 and step["tasks"] >= step["launches"] > 0, step)
    walls = [step["wall_ns"] for step in steps["steps"]]
    expect(walls == sorted(walls, reverse=True), walls)
    matmul = [step for step in steps["steps"] if step["ops"] == "matmul"]
    expect(len(matmul) == 1 and matmul[0]["bytes"] == 4 * (256 * 64 + 64 * 64 + 256 * 64), matmul)
    check(ppto(*PIECES, "--stats-json", "s.json"), 0)
    files = {s["ops"]: s for s in json.loads(read("s.json"))["operators"]["steps"] if s["kind"] in ("read", "write")}
    expect(files["read big.npy"]["bytes"] == 8 * BIG and files["write out.npy"]["bytes"] == 4 * BIG, files)
    stats = json.loads(read("s.json"))
    for step in stats["operators"]["steps"]:  # on the wall: no line is longer than the run
        expect(0 < step["wall_ns"] <= stats["run_seconds"] * 1e9 + 1000, step)
        expect(step["kind"] not in ("read", "write") or step["wall_ns"] <= step["busy_ns"], step)
        expect(abs(step["gb_per_s"] - step["bytes"] / step["wall_ns"]) <= 1e-5 * step["gb_per_s"], step)


# ---- pictures of plans ----

def pictures_of_plans(ppto):
    text = check(ppto("explain", "softmax(x @ w, axis=0) + sum(exp(x))", "x=f32[256,64]", "w=f32[64,64]", "--svg", "g.svg",
                      "--dot", "g.dot"), 0).stdout
    expect(b"kernels" in text, "the text is there too")
    words = svg_words("g.svg")
    expect({"x", "w", "result", "matmul", "not fused: contract", "f32[256, 64], 64.0 KiB",
            "contract: a product is computed by a kernel of its own frame"} <= words, words)
    tips = {t.text for t in xml.parse("g.svg").getroot().iter(SVG + "title")}
    expect("a product is computed by a kernel of its own frame" in tips, tips)
    dot = read("g.dot").decode()
    expect(dot.startswith("digraph ppto {") and dot.rstrip().endswith("}") and dot.count("{") == dot.count("}"), dot)
    expect(dot.count(" -> ") == 6 and "not fused: contract" in dot, dot)


def results_have_their_names(ppto):
    text = "input x: f32[8]\noutput total = sum(x)\noutput twice = x * 2"
    check(ppto("explain", text, "x=f32[8]", "--svg", "names.svg", "--dot", "names.dot"), 0)
    words = svg_words("names.svg")
    expect({"total", "twice"} <= words and not any("result" in (w or "") for w in words), words)
    expect(b"total" in read("names.dot") and b"twice" in read("names.dot"), read("names.dot"))
    check(ppto("explain", "x, x + 1", "x=f32[8]", "--svg", "names.svg"), 0)
    expect({"result 0", "result 1"} <= svg_words("names.svg"), svg_words("names.svg"))


def pictures_with_open_sizes(ppto):
    check(ppto("explain", "softmax(x @ w)", "x=f32[N,512]", "w=f32[512,10]", "--svg", "n.svg"), 0)
    expect({"f32[N, 512]", "f32[N, 10]"} <= svg_words("n.svg"), svg_words("n.svg"))


def picture_to_standard_output(ppto):
    result = check(ppto("explain", "x + 1", "x=f32[4]", "--svg", "-"), 0)
    expect(xml.fromstring(result.stdout).tag == SVG + "svg", result.stdout)
    expect(check(ppto("explain", "x + 1", "x=f32[4]", "--dot", "-"), 0).stdout.startswith(b"digraph"), "dot")
    check(ppto("explain", "x + 1", "x=f32[4]", "--dot", "-", "--svg", "-"), 2, err=["both want standard output"])
    check(ppto("explain", "x + 1", "x=f32[4]", "--svg", "nowhere/g.svg"), 3)


def large_graphs_stay_legible(ppto):
    """A hundred kernels: boxes do not overlap."""
    lines = ["input x: f32[64, 64]", "h0 = x"] + [f"h{i} = x @ h{i - 1} + h{i - 1}" for i in range(1, 100)]
    write("deep.ppto", "\n".join(lines) + "\noutput y = h99\n")
    check(ppto("explain", "deep.ppto", "--svg", "deep.svg"), 0)
    boxes = [tuple(float(b.get(k)) for k in ("x", "y", "width", "height"))
             for b in xml.parse("deep.svg").getroot().iter(SVG + "rect") if b.get("fill")]
    expect(len(boxes) > 100, len(boxes))
    for i, (x, y, w, h) in enumerate(boxes):
        for X, Y, W, H in boxes[:i]:
            expect(x >= X + W or X >= x + w or y >= Y + H or Y >= y + h, "boxes overlap")


# ---- what goes wrong ----

WRONG = ["run", "take(x, i)", "x=f32[2]", "i=i32[1]:integers(5,6)"]


def a_failed_run_is_told_with_its_failure(ppto):
    """As an instant in the trace, a line in the timeline; statistics and memory are there too."""
    result = check(ppto(*WRONG, "--trace", "f.json", "--timeline", "f.svg", "--stats", "--stats-json", "s.json",
                        "--memcheck"), 2, err=["take"])
    events = json.loads(read("f.json"))["traceEvents"]
    moments = of_phase(events, "i")
    expect(len(moments) == 1 and "take" in moments[0]["name"] and moments[0]["cat"] == "failure", moments)
    runs = [e for e in of_phase(events, "X") if e["name"] == "run"]
    expect(len(runs) == 1 and runs[0]["args"]["failed"], runs)
    expect(runs[0]["ts"] <= moments[0]["ts"] <= runs[0]["ts"] + runs[0]["dur"] + 0.002, (runs, moments))
    expect(any("take" in (w or "") and "run 0" in w for w in svg_words("f.svg")), svg_words("f.svg"))
    expect(json.loads(read("s.json"))["operators"]["runs"] == 1, "statistics")
    err = result.stderr.decode()
    expect("GB/s" in err and "ppto memcheck 1" in err and err.count("take: ") == 1, err)
    names, tracks, events = perfetto(ppto, WRONG, code=2)
    expect(sum(e[9] == [3] and "take" in names[e[10][0]] for _, e in events) == 1, names)


def reports_that_cannot_be_written(ppto):
    check(ppto("run", "1 + 1", "--trace", "nowhere/t.json"), 3)
    check(ppto("run", "1 + 1", "--timeline", "nowhere/t.svg"), 3)


def two_files_for_one_report_are_refused(ppto):
    check(ppto("run", "1 + 1", "--trace", "a.json", "--trace", "b.json"), 2, err=["--trace is given twice", "b.json"])
    check(ppto("run", "1 + 1", "--timeline=a.svg", "--timeline=b.svg"), 2, err=["--timeline is given twice"])
    check(ppto("explain", "1 + 1", "--svg", "a.svg", "--svg", "b.svg"), 2, err=["--svg is given twice"])
    check(ppto("run", "1 + 1", "--threads", "2", "--threads", "1"), 0)
    expect(not os.path.exists("a.json") and not os.path.exists("a.svg"), "nothing is written")


# ---- how plans are made ----

def compiling_is_in_the_trace(ppto):
    events = of_phase(chrome(ppto, CHAIN), "X")
    stages = [e for e in events if e["cat"] == "stage"]
    names = {e["name"] for e in stages}
    expect({"compile", "plan: miss", "expand", "simplify", "fuse", "schedule", "lower", "kernel: miss",
            "layout: miss"} <= names, names)
    whole = next(e for e in stages if e["name"] == "compile")
    for e in stages:
        inside = whole["ts"] <= e["ts"] and e["ts"] + e["dur"] <= whole["ts"] + whole["dur"] + 0.002
        expect(inside or e["name"].startswith("layout"), (whole, e))
    expect({e["args"].get("cache") for e in stages if e["name"] == "kernel: miss"} == {"miss"}, stages)
    check(ppto(*CHAIN, "--timeline", "t.svg"), 0)
    expect({"planning", "lower"} <= svg_words("t.svg"), svg_words("t.svg"))


def kernels_found_again_are_hits(ppto):
    names = {e["name"] for e in of_phase(chrome(ppto, PIECES), "X")}
    expect("kernel: hit" in names and "kernel: miss" in names, names)


BIG = 1 << 21
TESTS = [tasks_follow_each_other_on_a_worker, operators_are_named, edges_are_arrows_between_tasks, memory_is_a_counter,
         files_by_pieces, names_with_odd_characters, perfetto_says_what_chrome_says,
         perfetto_has_flows_counters_and_names, names_that_are_no_utf8_are_made_so, protobuf_is_smaller,
         timeline_is_a_picture, timeline_stays_small,
         stats_say_what_took_how_long, pictures_of_plans, pictures_with_open_sizes, picture_to_standard_output,
         large_graphs_stay_legible, results_have_their_names,
         a_failed_run_is_told_with_its_failure, reports_that_cannot_be_written,
         two_files_for_one_report_are_refused, compiling_is_in_the_trace, kernels_found_again_are_hits]


def main(arguments):
    if len(arguments) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    word = arguments[2] if len(arguments) > 2 else ""
    tests = [test for test in TESTS if word in test.__name__]
    ppto, before = Runner(arguments[1]), os.getcwd()
    folder = tempfile.mkdtemp(prefix="ppto-traces-")
    print(f"1..{len(tests)}", flush=True)
    try:
        os.chdir(folder)
        write("big.npy", npy("<f4", (BIG,), [0.5] * BIG))
        for test in tests:
            ppto.judge(test.__name__.replace("_", " "), test)
    finally:
        os.chdir(before)
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if ppto.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
