/* SPDX-License-Identifier: Apache-2.0
 * The steps that store files (file_steps.h). A step opens the file, which has no name yet, writes what stands
 * before the data, and begins the transfer; it is complete when the bytes are written. The file gets its name
 * behind the last step of the run (pp_file_steps_store), when it is known whether the run succeeded: until
 * then the old one stays, and a run that fails leaves it alone. */
#include "runtime/file_steps.h"

#include "runtime/run_parts.h"

static const char *path_of(const pp_file_step *f)
{
    return f->instance->program->sinks[f->which];
}

/* Of a value that is several outputs the first has it. */
static const ppto_array *result_of(const pp_file_step *f)
{
    const pp_flat *flat = &f->instance->plan->flat;
    size_t first = 0;
    while (flat->outputs.at[first] != flat->outputs.at[f->which]) first++;
    return f->instance->results[first];
}

static size_t bytes_of(const ppto_array *a)
{
    return (size_t)ppto_array_elements(a) * ppto_dtype_size(a->dtype);
}

static void store_ended(pp_transfer *t)
{
    pp_file_step_ended(t->owner, path_of(t->owner));
}

static ppto_status begin_store(pp_file_step *f, pp_error *why)
{
    const pp_files_watch watch = pp_progress_watch(f->instance->program);
    const ppto_array *a = result_of(f);
    const pp_files_entry entry = {NULL, a->dtype, a->rank, a->shape, NULL};
    pp_transfer *t = &f->transfer;
    size_t head;
    f->begun_ns = pp_clock_ns();
    f->bytes = bytes_of(a);
    PP_TRY(pp_files_begin(path_of(f), &entry, f->bytes, &watch, &f->sink, &head, why));
    f->open = true;
    if (!f->sink.stream && f->bytes <= a->ctx->few) {
        PP_TRY(pp_files_write_watched(f->sink.fd, a->data, f->bytes, &watch, why));
        f->ended_ns = pp_clock_ns();
        f->ended = true;
        return PPTO_OK;
    }
    PP_TRY(pp_context_io(a->ctx, &t->engine, why));
    t->op = PP_IO_WRITE;
    t->file = (pp_io_file){.fd = f->sink.fd, .stream = f->sink.stream};
    t->offset = (int64_t)head;
    t->data = a->data;
    t->bytes = f->bytes;
    t->to_end = false;
    t->ended = store_ended;
    pp_file_step_start(f);
    return PP_STEP_ASYNC;
}

static ppto_status run_store(void *object, PP_UNUSED uint32_t phase, PP_UNUSED uint32_t task,
                             PP_UNUSED void *scratch, pp_error *err, PP_UNUSED int64_t *position)
{
    pp_file_step *f = object;
    pp_error why = {.code = PPTO_OK};
    ppto_status status = begin_store(f, &why);
    if (status == PPTO_OK || status == PP_STEP_ASYNC) return status;
    return pp_fail_of_file(err, status, path_of(f), &why);
}

static uint32_t withdraw_store(void *object, bool counts)
{
    pp_file_step *f = object;
    if (!counts) pp_transfer_stop(&f->transfer);
    return 0; /* it is completed when the engine has let go */
}

void pp_file_store_fill(pp_file_step *f, pp_step *out)
{
    *out = (pp_step){.object = f,
                     .run = run_store,
                     .phases = 1,
                     .tasks = {1},
                     .task_ns = 1000,
                     .prompt = true,
                     .waits = true,
                     .withdraw = withdraw_store};
}

/* ---- behind the run ------------------------------------------------------------------------------ */

static ppto_status finish(pp_file_step *f, pp_error *err)
{
    pp_error why = {.code = PPTO_OK};
    f->open = false;
    ppto_status status = pp_sink_finish(&f->sink, false, &why);
    if (status == PPTO_OK) return status;
    f->ended = false;
    return pp_fail_of_file(err, status, path_of(f), &why);
}

ppto_status pp_file_steps_store(pp_instance *in, bool all, pp_error *err)
{
    ppto_status first = PPTO_OK;
    for (size_t i = 0; i < in->n_file_steps && (all || first == PPTO_OK); i++) {
        pp_file_step *f = &in->file_steps[i];
        if (!f->store || !f->open || !pp_dispatch_succeeded(in->dispatch, f->step)) continue;
        ppto_status status = finish(f, err);
        if (first == PPTO_OK) first = status;
    }
    return first;
}

void pp_file_store_end(pp_file_step *f)
{
    const ppto_program *p = f->instance->program;
    const pp_files_watch watch = pp_progress_watch(f->instance->program);
    if (f->open) pp_sink_abandon(&f->sink, &watch);
    f->open = false;
    if (!p->source || f->begun_ns == 0) return;
    pp_tracing_file(p->source, path_of(f),
                    (pp_trace_event){.kind = PP_TRACE_WRITE,
                                     .start_ns = f->begun_ns,
                                     .begun_ns = f->begun_ns,
                                     .end_ns = f->ended_ns != 0 ? f->ended_ns : pp_clock_ns(),
                                     .bytes = f->ended ? f->bytes : 0,
                                     .failed = !f->ended});
}
