/* SPDX-License-Identifier: Apache-2.0
 * Pipes that arrays are to be read from: no two arrays from one (open_pipes.c). */
#ifndef PP_OPEN_PIPES_H
#define PP_OPEN_PIPES_H

#include "runtime/runtime.h"

/* Before the file is opened. E_VALUE: an array that is open waits for the bytes of this pipe. threads: any */
ppto_status pp_open_pipe_check(const char *text, pp_error *err);
/* The array is open; no pipe is fine. Until its data is read, or it is closed. E_NOMEM */
ppto_status pp_open_pipe_hold(const pp_array_file *file);
void pp_open_pipe_free(const pp_array_file *file); /* also of what was not held */

#endif
