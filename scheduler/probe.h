/* SPDX-License-Identifier: Apache-2.0
 * Static probes (USDT) for perf, bpftrace and SystemTap, where <sys/sdt.h> is there when ppto is built. A
 * probe that nobody watches is one nop. Provider ppto:
 *
 *   task_begin, task_end   step, phase, task: beside a task, on the worker that runs it
 *
 * e.g.  bpftrace -e 'usdt:./libppto.so:ppto:task_end { @[arg0] = count(); }' */
#ifndef PP_PROBE_H
#define PP_PROBE_H

#ifdef PP_PROBES
#include <sys/sdt.h>
#define PP_PROBE(name, a, b, c) DTRACE_PROBE3(ppto, name, a, b, c)
#else
#define PP_PROBE(name, a, b, c) ((void)0)
#endif

#endif
