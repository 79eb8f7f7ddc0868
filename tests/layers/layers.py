#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The law of includes and of calls (docs/architecture.md): which folder may see which, and who may call what.

usage: layers.py [ROOT]      prints one finding a line as file:line: text; exit 1 when there is one

The tables below are the law; the code only reads #include lines and words outside comments and strings."""

import os
import re
import sys

from ctext import LIBRARY, OTHERS, blank, read, sources

API = "include/ppto"
MAY_INCLUDE = {  # besides itself
    API: set(),
    "src/base": {API},
    "src/ops": {API, "src/base"},
    "memory": {API, "src/base"},
    "src/kernel": {API, "src/base", "src/ops"},
    "graph": {API, "src/base", "src/ops", "src/kernel"},
    "src/lang": {API, "src/base", "src/ops", "graph"},
    "src/files": {API, "src/base", "src/ops"},
    "devices": {API, "src/base", "src/ops", "src/kernel", "memory"},
    "scheduler": {API, "src/base", "memory", "devices/device.h"},
    "src/runtime": {API, "src/base", "src/ops", "src/kernel", "src/lang", "src/files", "graph", "memory", "scheduler",
                    "devices"},
    "src/cli": {API},
    "examples": {API},
}
# Programs that run during the build may look further than the folder they stand in.
BUILD_PROGRAMS = {"devices/cpu/functions_gen.c": {"src/lang", "graph"}, "src/ops/embed.c": set(),
                  "src/runtime/ops_gen.c": set(), "src/runtime/index_gen.c": set()}
DEVICE_COMMON = {"devices/device.h", "devices/part_launches.h"}  # what the folder of each device may see of devices
CPU_INTERFACE = {"devices/cpu/loop.h"}  # what devices/cpu_llvm may see of its neighbour

FOREIGN = [  # header, the only place for it, its name
    (r"(oneapi/)?tbb(/|\.h)", r"scheduler/executor_tbb\.cpp", "TBB"),
    (r"hwloc(/|\.h)", r"devices/cpu/topology\.c", "hwloc"),
    (r"llvm(-c)?/|clang(-c)?/", r"devices/cpu_llvm/", "LLVM"),
    (r"cuda|nvrtc|cublas|cudnn|nvml|nvToolsExt", r"devices/cuda/", "CUDA"),
    (r"CL/|OpenCL/", r"devices/opencl/", "OpenCL"),
    (r"uv\.h|uv/", r"scheduler/io_uv\.c", "libuv"),
    (r"zip\.h", r"src/files/npz.*\.[ch]", "libzip"),
    (r"jansson\.h", r"src/files/safetensors\.c|memory/memcheck_read\.c", "jansson"),
    (r"valgrind/|sanitizer/", r"memory/poison\.h", "Valgrind and the sanitizers"),
]
STANDARD = set("assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg "
               "stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar "
               "wctype".split())

CALL = r"(?<![\w.>])(%s)\s*\("
ALLOCATE = re.compile(CALL % "malloc|calloc|realloc|reallocarray|free|strdup|strndup|aligned_alloc|posix_memalign|"
                             "memalign|valloc|getline|getdelim|asprintf|vasprintf|open_memstream")
END = re.compile(CALL % "abort|exit|_exit|_Exit|quick_exit")
PRINT = re.compile(CALL % "printf|vprintf|puts|putchar|perror" + r"|\b(stdout|stderr)\b")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.M)


def folder_of(path):
    """The folder of the law a file belongs to."""
    parts = path.split("/")
    if parts[0] in ("src", "include"):
        return "/".join(parts[:2])
    return parts[0]


def device_of(path):
    """X of devices/X/file, None in devices itself and elsewhere."""
    parts = path.split("/")
    return parts[1] if parts[0] == "devices" and len(parts) > 2 else None


def resolve(root, path, name):
    """The file an #include means, also when it is generated; None when it is no file of ours."""
    for base in (os.path.dirname(path), "", "include", "src"):
        candidate = os.path.normpath(os.path.join(base, name)).replace(os.sep, "/")
        if os.path.isfile(os.path.join(root, candidate)):
            return candidate
    for base in ("include/", "src/", ""):
        if folder_of(base + name) in MAY_INCLUDE:
            return base + name
    return None


def law_of_devices(path, target):
    mine, theirs = device_of(path), device_of(target)
    if theirs is None:
        return mine is None or target in DEVICE_COMMON
    return mine == theirs or (mine == "cpu_llvm" and target in CPU_INTERFACE)


def allowed(path, target):
    mine, theirs = folder_of(path), folder_of(target)
    if mine == "devices" == theirs:
        return law_of_devices(path, target)
    return mine == theirs or bool({theirs, target} & (MAY_INCLUDE[mine] | BUILD_PROGRAMS.get(path, set())))


def check_include(root, path, quote, name, measured):
    """Findings about one #include; measured collects the folders a benchmark names."""
    mine = folder_of(path)
    if "../" in name:
        yield f"include of {name}: no ../"
    if name.endswith((".c", ".cpp")):
        yield f"include of {name}: no source file is included"
    for header, place, what in FOREIGN:
        if quote == "<" and mine != "tests" and re.match(header, name) and not re.match(place, path):
            yield f"{what} is only for {place}".replace("\\", "")
    target = resolve(root, path, name) if quote == '"' or name.startswith("ppto/") else None
    if mine == API and quote == "<" and target is None and name.removesuffix(".h") not in STANDARD:
        yield f"include of <{name}>: public headers use standard headers only"
    if quote == '"' and target is None:
        yield f"include of {name}: no such file"
    elif target is not None and mine == "perf" and folder_of(target) not in (API, "perf"):
        measured.add(folder_of(target))
        if len(measured) > 1:
            yield f"include of {name}: a benchmark names one folder only"
    elif target is not None and mine in MAY_INCLUDE and not allowed(path, target):
        yield f"{mine} may not include {target}"


def check_calls(path, text):
    """(position, finding) for calls that the library does not make."""
    if path in BUILD_PROGRAMS:
        return
    if path != "src/base/heap.c":
        for match in ALLOCATE.finditer(text):
            yield match.start(), f"{match.group(1)}: memory comes from src/base/heap.c"
    for match in END.finditer(text):
        yield match.start(), f"{match.group(1)}: the library never ends the process"
    for match in PRINT.finditer(text):
        yield match.start(), f"{match.group(1) or match.group(2)}: the library never prints"


def check_file(root, path):
    text = read(root, path)
    code, measured = blank(text, strings=False), set()
    if "SPDX-License-Identifier: Apache-2.0" not in "\n".join(text.split("\n")[:2]):
        yield f"{path}:1: no SPDX line"
    if path.endswith(".cpp") and path.startswith(LIBRARY) and path != "scheduler/executor_tbb.cpp":
        yield f"{path}:1: the only C++ of the library is scheduler/executor_tbb.cpp"
    for match in INCLUDE.finditer(code):
        line = code.count("\n", 0, match.start()) + 1
        for finding in check_include(root, path, match.group(1), match.group(2), measured):
            yield f"{path}:{line}: {finding}"
    if path.startswith(LIBRARY):
        code = blank(text)
        for position, finding in check_calls(path, code):
            line = code.count("\n", 0, position) + 1
            yield f"{path}:{line}: {finding}"


def check_names(paths):
    seen = {}
    for path in paths:
        if path.startswith("include/"):
            continue
        name = os.path.basename(path)
        if name in seen:
            yield f"{path}:1: the file name is taken by {seen[name]}"
        seen.setdefault(name, path)


def check(root):
    paths = sources(root, LIBRARY + OTHERS)
    findings = list(check_names(paths))
    for path in paths:
        findings += check_file(root, path)
    return findings


def main(arguments):
    root = arguments[1] if len(arguments) > 1 else os.path.join(os.path.dirname(__file__), "..", "..")
    findings = check(os.path.abspath(root))
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
