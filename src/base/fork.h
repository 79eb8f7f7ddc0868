/* SPDX-License-Identifier: Apache-2.0
 * Whose child are we? What was made before a fork may hold locks and count on threads that are not in the
 * child; it keeps a mark of the process that made it, and asks at every entry. */
#ifndef PP_FORK_H
#define PP_FORK_H

#include <stdbool.h>
#include <stdint.h>

uint64_t pp_process_mark(void); /* of this process; never 0. Any thread */
/* Was the mark taken in this process, and not in one it descends from? Costs a load, no system call. */
bool pp_process_is(uint64_t mark);

#endif
