/* SPDX-License-Identifier: Apache-2.0
 * The monotonic clock, in nanoseconds since an arbitrary start. Never goes back; not wall time. */
#define _POSIX_C_SOURCE 200809L
#include <time.h>

#include "base/base.h"

int64_t pp_clock_ns(void)
{
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) return 0;
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
