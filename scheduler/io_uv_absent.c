/* SPDX-License-Identifier: Apache-2.0
 * A build without libuv: the same symbol, no engine. */
#include "scheduler/io_engine.h"

const pp_io_class *const pp_io_uv = NULL;
