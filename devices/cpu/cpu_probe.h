/* SPDX-License-Identifier: Apache-2.0
 * A set of block loops proves itself before it is used. */
#ifndef PP_CPU_PROBE_H
#define PP_CPU_PROBE_H

#include "devices/cpu/blocks.h"

/* Compares every loop of the scalar rows, on samples of every dtype, with pp_scalar_eval.
 * returns  PPTO_E_DEVICE naming the first row that gives a wrong answer */
ppto_status pp_cpu_probe(const pp_block_set *set, pp_error *err);

#endif
