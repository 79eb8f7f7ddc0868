/* SPDX-License-Identifier: Apache-2.0
 * What a kernel is expected to take: bytes, arithmetic and the start of threads, by a few constants of the
 * machine.
 *
 * A launch moves its distinct bytes at the bandwidth of the level they fit into, or computes for as long as
 * the device thinks, whichever is longer; both are divided among the workers that its tasks occupy. Starting
 * it costs a little, waking other workers more. The constants are devices/cost_model.h. */
#ifndef PP_COSTS_H
#define PP_COSTS_H

#include "devices/cost_model.h"
#include "runtime/runtime.h"

const char *pp_cost_name(pp_cost cost); /* "launch_ns", … */

/* ---- costs_file.c: what `ppto tune` found, in the folder of the cache ---- */

/* Those measured on this machine with the context's instruction set and executor, else the usual ones.
 * threads: any */
void pp_costs_read(const ppto_context *ctx, pp_costs *costs);
/* Keeps them for the next process. path: where, or why not. threads: one */
bool pp_costs_write(const ppto_context *ctx, const pp_costs *costs, pp_text *path);

/* What the device thinks a launch computes, in ns of one worker. */
double pp_cost_of_work(const pp_geometry *geometry);
/* ns on the wall that the same launch takes one worker. */
double pp_cost_alone(const pp_costs *costs, const pp_instance *instance, size_t group, uint64_t bytes);
/* ns on the wall of one launch of a group of a planned instance; bytes: what it reads and writes. */
double pp_cost_of_group(const pp_costs *costs, const pp_instance *instance, size_t group, uint64_t bytes);

#endif
