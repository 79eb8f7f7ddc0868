/* SPDX-License-Identifier: Apache-2.0
 * ppto: a lazy tensor runtime. Operators record, ppto_eval runs.
 *
 * Ownership: create/destroy has one owner, retain/release is shared; every destroy accepts NULL, and so does
 * every operator: the first error wins and stays in its graph. Calls that record, and constructors, return
 * the handle or NULL; everything else returns a ppto_status (0 is success) and gives objects through its last
 * parameters. Nothing is printed. */
#ifndef PPTO_H
#define PPTO_H

#include "ppto/array.h"
#include "ppto/context.h"
#include "ppto/graph.h"
#include "ppto/memcheck.h"
#include "ppto/ops.h"
#include "ppto/run.h"
#include "ppto/stream.h"
#include "ppto/trace.h"
#include "ppto/types.h"

#endif
