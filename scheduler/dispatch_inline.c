/* SPDX-License-Identifier: Apache-2.0
 * Program order on the caller: the serial executor, and plans too small or too narrow to be worth a second
 * thread. No lock, no counter, no system call. */
#include "scheduler/dispatch_parts.h"

void pp_dispatch_inline(pp_dispatch *dispatch)
{
    for (uint32_t step = 0; step < dispatch->n; step++) {
        if (pp_dispatch_skips(dispatch, step)) return;
        uint32_t phase = pp_dispatch_phase(dispatch, step, 0);
        while (phase != PP_NO_PHASE) {
            uint32_t tasks = dispatch->steps[step].tasks[phase];
            for (uint32_t task = 0; task < tasks; task++) pp_dispatch_task(dispatch, step, phase, task, 0);
            phase = pp_dispatch_phase(dispatch, step, phase + 1);
        }
    }
}
