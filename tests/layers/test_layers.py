#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The lint itself: small trees with one sin each must give that finding at that line, a good tree none."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import layers
import names

SPDX = "/* SPDX-License-Identifier: Apache-2.0 */\n"


def findings(files, module=layers):
    """What the lint says about a tree of {path: text}; each text gets an SPDX line before it."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            full = os.path.join(root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as file:
                file.write(text if path.endswith((".ppto", ".txt")) else SPDX + text)
        return module.check(root)


class Layers(unittest.TestCase):
    def expect(self, files, start, part):
        found = findings(files)
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith(start), found[0])
        self.assertIn(part, found[0])

    def test_good_tree(self):
        self.assertEqual([], findings({
            "include/ppto/types.h": "#include <stdint.h>\n",
            "src/base/base.h": '#include "ppto/types.h"\n',
            "src/base/heap.c": '#include "base/base.h"\nvoid *f(void) { return malloc(1); }\n',
            "src/ops/scalar.h": '#include "base/base.h"\n',
            "src/kernel/program.h": '#include "ops/scalar.h"\n',
            "devices/device.h": '#include "kernel/program.h"\n',
            "devices/cpu/topology.c": '#include <hwloc.h>\n#include "devices/device.h"\n',
            "devices/cpu/functions_gen.c": '#include "graph/prim.h"\nint main(void) { printf("x"); }\n',
            "graph/prim.h": "// malloc(1) \"../x.h\"\n",
            "scheduler/executor_tbb.cpp": '#include <tbb/tbb.h>\n#include "devices/device.h"\n',
            "src/runtime/run.c": '#include "graph/prim.h"\nvoid f(s *s) { s->free(s); log("exit(1)"); }\n',
            "src/cli/main.c": '#include <ppto/types.h>\nint main(void) { exit(puts("x")); }\n',
            "examples/a.c": '#include "ppto/ops.h"\n',
            "tests/unit/test_x.c": '#include <hwloc.h>\n#include "graph/prim.h"\n',
        }))

    def test_layers(self):
        for path, name in [("src/base/a.c", "ops/x.h"), ("src/ops/a.c", "graph/x.h"), ("memory/a.c", "ops/x.h"),
                           ("src/kernel/a.c", "memory/x.h"), ("graph/a.c", "devices/x.h"),
                           ("devices/cpu/a.c", "graph/x.h"), ("scheduler/a.c", "kernel/x.h"),
                           ("scheduler/a.c", "devices/x.h"), ("src/lang/a.c", "kernel/x.h"),
                           ("src/files/a.c", "memory/x.h"), ("src/cli/a.c", "base/x.h"), ("examples/a.c", "base/x.h"),
                           ("include/ppto/a.h", "base/x.h"), ("devices/device.h", "scheduler/x.h")]:
            with self.subTest(path=path, name=name):
                self.expect({path: f'\n#include "{name}"\n'}, f"{path}:3: ", "may not include")

    def test_devices_do_not_see_each_other(self):
        self.expect({"devices/cpu/a.c": '#include "devices/cuda/x.h"\n'}, "devices/cpu/a.c:2: ", "may not")
        self.expect({"devices/cpu/a.c": '#include "devices/registry.h"\n'}, "devices/cpu/a.c:2: ", "may not")
        self.assertEqual([], findings({"devices/cpu_llvm/a.c": '#include "devices/cpu/loop.h"\n'}))

    def test_foreign_headers(self):
        for header, what in [("tbb/task_group.h", "TBB"), ("oneapi/tbb.h", "TBB"), ("hwloc.h", "hwloc"),
                             ("llvm-c/Core.h", "LLVM"), ("cuda.h", "CUDA"), ("CL/cl.h", "OpenCL"), ("uv.h", "libuv"),
                             ("zip.h", "libzip"), ("jansson.h", "jansson")]:
            with self.subTest(header=header):
                self.expect({"src/runtime/a.c": f"#include <{header}>\n"}, "src/runtime/a.c:2: ", what)

    def test_public_headers_are_standard(self):
        self.expect({"include/ppto/a.h": "#include <unistd.h>\n"}, "include/ppto/a.h:2: ", "standard headers")

    def test_shape_of_includes(self):
        self.expect({"graph/a.c": '#include "b.c"\n', "graph/b.c": "\n"}, "graph/a.c:2: ", "no source file")
        self.expect({"graph/a.c": '#include "nowhere.h"\n'}, "graph/a.c:2: ", "no such file")
        found = findings({"graph/a.c": '#include "../graph/b.h"\n', "graph/b.h": "\n"})
        self.assertEqual(["graph/a.c:2: include of ../graph/b.h: no ../"], found)

    def test_calls(self):
        for call, part in [("malloc(1)", "heap.c"), ("free (p)", "heap.c"), ("strdup(s)", "heap.c"),
                           ("abort()", "never ends"), ("_exit(1)", "never ends"), ("printf(s)", "never prints"),
                           ("fputs(s, stderr)", "never prints")]:
            with self.subTest(call=call):
                self.expect({"memory/a.c": f"/* free() */\nvoid f(void) {{ {call}; }}\n"}, "memory/a.c:3: ", part)

    def test_benchmarks_measure_one_folder(self):
        one = '#include "ppto/ppto.h"\n#include "kernel/x.h"\n#include "kernel/y.h"\n'
        self.assertEqual([], findings({"perf/a.c": one}))
        self.expect({"perf/a.c": one + '#include "graph/x.h"\n'}, "perf/a.c:5: ", "one folder")

    def test_files(self):
        self.expect({"graph/a.c": "\n", "memory/a.c": "\n"}, "memory/a.c:1: ", "graph/a.c")
        self.expect({"graph/a.cpp": "\n"}, "graph/a.cpp:1: ", "C++")
        with tempfile.TemporaryDirectory() as root:
            os.mkdir(os.path.join(root, "graph"))
            with open(os.path.join(root, "graph", "a.c"), "w", encoding="utf-8") as file:
                file.write("int x;\n")
            self.assertEqual(["graph/a.c:1: no SPDX line"], layers.check(root))


class Names(unittest.TestCase):
    LIBRARY = "## Doc\nop softmax(x) = x\nop gelu(x) = x\n"

    def test_literals(self):
        tree = {"src/ops/library.ppto": self.LIBRARY,
                "graph/a.c": '/* "gelu" */\nconst char *a = "softmax", *b = "softmax of x";\n'}
        found = findings(tree, names)
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith("graph/a.c:3: "), found[0])
        tree["tests/layers/names_allowed.txt"] = "# comment\nsoftmax graph/a.c\n"
        self.assertEqual([], findings(tree, names))


if __name__ == "__main__":
    unittest.main()
