/* SPDX-License-Identifier: Apache-2.0
 * The steps that load files, and what those that store them share (file_steps.h). Of the two phases of a load
 * the first moves the bytes, the second puts them right: order of bytes and bools, or all of the decoding. */
#include "runtime/file_steps.h"

#include "runtime/file_around.h"
#include "runtime/sync.h"
#include "runtime/tracing.h"

/* A read may change the rest of the blocks that its ends lie in: only memory that has room for that is read
 * into. */
static bool has_room(const ppto_context *ctx, const pp_file_step *f)
{
    return f->store || pp_pool_leads(ctx->pool, f->transfer.bytes);
}

void pp_file_step_start(pp_file_step *f)
{
    const ppto_context *ctx = f->instance->plan->ctx;
    if (has_room(ctx, f) && pp_file_goes_around(ctx, f->transfer.bytes, f->store, false))
        pp_io_file_go_around(&f->transfer.file, f->store);
    f->transfer.share = pp_sync_share(f->instance->sync, f->instance->schedule->steps.at[f->step].stream);
    f->transfer.moved = &f->instance->program->progress.moved;
    f->transfer.owner = f;
    pp_transfer_start(&f->transfer);
}

/* On the engine's thread, mostly. The run, and this step with it, may be gone behind the last line. */
void pp_file_step_ended(pp_file_step *f, const char *path)
{
    pp_error err = {.code = PPTO_OK};
    ppto_status status = f->transfer.status;
    pp_io_file_let_go(&f->transfer.file);
    f->ended_ns = pp_clock_ns();
    f->ended = status == PPTO_OK;
    if (status != PPTO_OK && status != PP_STEP_WITHDRAWN)
        (void)pp_fail_of_file(&err, status, path, &f->transfer.error);
    pp_dispatch_complete(f->instance->dispatch, f->step, 0, status, &err);
}

/* ---- loads -------------------------------------------------------------------------------------- */

static const pp_array_file *file_of(const pp_file_step *f)
{
    return f->instance->program->inputs[f->which]->file;
}

static ppto_status fail(const pp_file_step *f, ppto_status status, const pp_error *why, pp_error *err)
{
    return pp_fail_of_file(err, status, file_of(f)->path, why);
}

/* Can the engine move it to where it belongs, and is it worth it? A pipe has to: its peer may do nothing. */
static bool is_moved(const pp_file_step *f)
{
    const pp_reader *reader = &f->reader;
    if (reader->source.stream) return reader->npz == NULL && !reader->info.fortran;
    return reader->in_place && reader->info.bytes > f->instance->plan->ctx->few;
}

static void load_ended(pp_transfer *t)
{
    pp_file_step_ended(t->owner, file_of(t->owner)->path);
}

static ppto_status start_move(pp_file_step *f, pp_error *why)
{
    pp_transfer *t = &f->transfer;
    PP_TRY(pp_context_io(f->instance->plan->ctx, &t->engine, why));
    t->op = PP_IO_READ;
    t->file = (pp_io_file){.fd = f->reader.source.fd, .stream = f->reader.source.stream};
    t->offset = f->reader.data_at;
    t->data = f->instance->inputs[f->which]->data;
    t->bytes = f->reader.info.bytes;
    t->to_end = t->file.stream;
    t->ended = load_ended;
    pp_file_step_start(f);
    return PP_STEP_ASYNC;
}

static ppto_status begin_load(pp_file_step *f, pp_error *why)
{
    pp_array_file *file = f->instance->program->inputs[f->which]->file;
    f->begun_ns = pp_clock_ns();
    PP_TRY(pp_array_file_reader(file, &f->reader, &f->owned, why));
    f->open = true;
    f->moved = is_moved(f);
    return f->moved ? start_move(f, why) : PPTO_OK;
}

static ppto_status finish_load(pp_file_step *f, pp_error *why)
{
    ppto_array *to = f->instance->inputs[f->which];
    const pp_npy_info *info = &f->reader.info;
    if (f->moved) {
        pp_npy_put_right(info, to->data, (size_t)info->count);
        return PPTO_OK;
    }
    const pp_files_watch watch = pp_progress_watch(f->instance->program);
    PP_TRY(pp_reader_read(&f->reader, to->data, &watch, why));
    f->ended_ns = pp_clock_ns();
    f->ended = true;
    return PPTO_OK;
}

static ppto_status run_load(void *object, uint32_t phase, PP_UNUSED uint32_t task, PP_UNUSED void *scratch,
                            pp_error *err, PP_UNUSED int64_t *position)
{
    pp_file_step *f = object;
    pp_error why = {.code = PPTO_OK};
    ppto_status status = phase == 0 ? begin_load(f, &why) : finish_load(f, &why);
    return status == PPTO_OK || status == PP_STEP_ASYNC ? status : fail(f, status, &why, err);
}

/* The bytes of a file come, those of a pipe perhaps never. */
static uint32_t withdraw_load(void *object, bool counts)
{
    pp_file_step *f = object;
    if (!counts || file_of(f)->reader.source.stream) pp_transfer_stop(&f->transfer);
    return 0; /* it is completed when the engine has let go */
}

static void fill_load(pp_file_step *f, pp_step *out)
{
    *out = (pp_step){.object = f,
                     .run = run_load,
                     .phases = 2,
                     .tasks = {1, 1},
                     .task_ns = 1000,
                     .prompt = true,
                     .waits = true,
                     .withdraw = withdraw_load};
}

/* ---- of an instance ------------------------------------------------------------------------------ */

static bool is_file(const pp_plan_step *step)
{
    return step->kind == PP_STEP_LOAD || step->kind == PP_STEP_STORE;
}

ppto_status pp_file_steps_make(pp_instance *in, pp_error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < in->schedule->steps.n; i++) n += is_file(&in->schedule->steps.at[i]);
    if (n == 0) return PPTO_OK;
    in->file_steps = pp_calloc(n, sizeof *in->file_steps);
    if (!in->file_steps) return PPTO_E_NOMEM;
    for (uint32_t i = 0; i < in->schedule->steps.n; i++) {
        if (!is_file(&in->schedule->steps.at[i])) continue;
        pp_file_step *f = &in->file_steps[in->n_file_steps];
        if (pp_transfer_make(&f->transfer) != PPTO_OK)
            return pp_fail(err, PPTO_E_LIMIT, "no lock can be had");
        in->n_file_steps++;
        f->instance = in;
        f->step = i;
        f->which = in->schedule->steps.at[i].which;
        f->store = in->schedule->steps.at[i].kind == PP_STEP_STORE;
    }
    return PPTO_OK;
}

void pp_file_steps_destroy(pp_instance *in)
{
    for (size_t i = 0; i < in->n_file_steps; i++) pp_transfer_free(&in->file_steps[i].transfer);
    pp_free(in->file_steps);
}

void pp_file_step_fill(pp_instance *in, uint32_t step, pp_step *out)
{
    pp_file_step *f = in->file_steps;
    while (f->step != step) f++;
    if (f->store)
        pp_file_store_fill(f, out);
    else
        fill_load(f, out);
}
void pp_file_steps_begin(pp_instance *in)
{
    for (size_t i = 0; i < in->n_file_steps; i++) {
        pp_file_step *f = &in->file_steps[i];
        f->open = f->owned = f->moved = f->ended = false;
        f->begun_ns = f->ended_ns = 0;
        pp_transfer_ready(&f->transfer);
    }
}

static void note_load(const pp_file_step *f)
{
    const ppto_program *p = f->instance->program;
    const pp_array_file *file = file_of(f);
    if (!p->source || f->begun_ns == 0) return;
    pp_tracing_file(p->source, file->path,
                    (pp_trace_event){.kind = PP_TRACE_READ,
                                     .start_ns = f->begun_ns,
                                     .begun_ns = f->begun_ns,
                                     .end_ns = f->ended_ns != 0 ? f->ended_ns : pp_clock_ns(),
                                     .bytes = f->ended ? file->reader.info.bytes : 0,
                                     .more = file->reader.data_at > 0 ? (uint64_t)file->reader.data_at : 0,
                                     .failed = !f->ended});
}

void pp_file_steps_end(pp_instance *in)
{
    for (size_t i = 0; i < in->n_file_steps; i++) {
        pp_file_step *f = &in->file_steps[i];
        if (f->store) {
            pp_file_store_end(f);
            continue;
        }
        note_load(f);
        if (f->open && f->owned) pp_reader_close(&f->reader);
        f->open = false;
    }
}
