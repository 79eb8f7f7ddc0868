/* SPDX-License-Identifier: Apache-2.0
 * Program order on the caller: the serial executor, and plans too small or too narrow to be worth a second
 * thread. No lock, no counter, no system call. Plans with steps that wait need readiness: they run by
 * dispatch_threads.c, with one place. */
#include "scheduler/dispatch_parts.h"

void pp_dispatch_inline(pp_dispatch *dispatch)
{
    for (uint32_t step = 0; step < dispatch->n; step++) {
        bool skips = pp_dispatch_skips(dispatch, step);
        uint32_t phase = skips ? PP_NO_PHASE : pp_dispatch_phase(dispatch, step, 0);
        if (skips) pp_dispatch_spoil(dispatch, step, step);
        while (phase != PP_NO_PHASE) {
            uint32_t tasks = dispatch->steps[step].tasks[phase];
            for (uint32_t task = 0; task < tasks; task++)
                (void)pp_dispatch_task(dispatch, step, phase, task, 0);
            phase = pp_dispatch_next_phase(dispatch, step, phase);
        }
        if (!pp_dispatch_succeeded(dispatch, step))
            for (uint32_t i = dispatch->first_next[step]; i < dispatch->first_next[step + 1]; i++)
                pp_dispatch_hand_on(dispatch, step, dispatch->nexts[i]);
    }
}
