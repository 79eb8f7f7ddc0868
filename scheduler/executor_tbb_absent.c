/* SPDX-License-Identifier: Apache-2.0
 * A build without oneTBB: the same symbol, no executor. */
#include "scheduler/executor.h"

const pp_executor_class *const pp_executor_tbb = NULL;
