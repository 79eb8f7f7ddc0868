/* SPDX-License-Identifier: Apache-2.0
 * How far a run is. Work is counted in bytes that pass: of files as they are read and written, of pieces in
 * memory as they are computed; the tasks of a run in one piece count their estimated nanoseconds, which are
 * about as many. Counters are relaxed: numbers to show, which order nothing. They are kept for runs with an
 * object only, where somebody can ask. */
#include <string.h>

#include "runtime/async_run.h"

void pp_progress_begin(pp_progress *progress, uint64_t total)
{
    atomic_store_explicit(&progress->done, 0, memory_order_relaxed);
    atomic_store_explicit(&progress->moved, 0, memory_order_relaxed);
    atomic_store_explicit(&progress->total, total, memory_order_relaxed);
}

void pp_progress_add(pp_progress *progress, uint64_t work)
{
    atomic_fetch_add_explicit(&progress->done, work, memory_order_relaxed);
}

static ppto_status stopped(const void *program, pp_error *err)
{
    return pp_run_stopped(((const ppto_program *)program)->control, err);
}

pp_files_watch pp_progress_watch(ppto_program *program)
{
    return (pp_files_watch){stopped, program, &program->progress.moved, pp_file_move, pp_file_close};
}

uint64_t pp_progress_group_task(const pp_instance_group *group)
{
    return (uint64_t)group->geometry.task_ns + 1;
}

uint64_t pp_progress_groups(const pp_instance *in)
{
    uint64_t ns = 0;
    for (size_t g = 0; g < in->plan->fused.groups.n; g++)
        for (uint32_t phase = 0; phase < in->groups[g].geometry.phases; phase++)
            ns += in->groups[g].geometry.tasks[phase] * pp_progress_group_task(&in->groups[g]);
    return ns;
}

void pp_progress_look(ppto_run *run)
{
    pp_progress *p = &run->program->progress;
    double total = (double)atomic_load_explicit(&p->total, memory_order_relaxed);
    uint64_t moved = atomic_load_explicit(&p->moved, memory_order_relaxed);
    double part = (double)atomic_load_explicit(&p->done, memory_order_relaxed) + (double)moved;
    part = total > 0 ? part / total : 0;
    if (part > 1) part = 1;
    if (part > run->fraction) run->fraction = part;
    if (moved > run->moved) run->moved = moved;
}

ppto_status ppto_run_progress(ppto_run *run, ppto_progress *progress)
{
    PP_TRY(pp_run_usable(run, "run progress"));
    if (!progress || progress->size == 0)
        return pp_report_new(PPTO_E_VALUE, "run progress: set progress->size to sizeof(ppto_progress)");
    ppto_progress now = {.size = progress->size < sizeof now ? progress->size : sizeof now};
    pthread_mutex_lock(&run->drivers->lock);
    if (run->program) pp_progress_look(run);
    now.fraction = run->over && run->status == PPTO_OK ? 1 : run->fraction;
    now.file_bytes = run->moved;
    pthread_mutex_unlock(&run->drivers->lock);
    memcpy(progress, &now, now.size);
    return PPTO_OK;
}
