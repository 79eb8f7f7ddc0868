/* SPDX-License-Identifier: Apache-2.0
 * The table of I/O engines, their life, and the calls of the user: each checks for a forked child first,
 * where the lock may be held by a thread that is not there, so nothing but the mark of the process is looked
 * at. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fork.h"
#include "scheduler/io_engine.h"

enum { DEFAULT_DEPTH = 4, DEFAULT_PIECE = 4 << 20 };

static const pp_io_class *class_at(size_t i)
{
    const pp_io_class *const all[] = {&pp_io_blocking, &pp_io_simulated, pp_io_uv};
    return i < sizeof all / sizeof *all ? all[i] : NULL;
}

const char *pp_io_at(size_t i)
{
    const pp_io_class *found = class_at(i);
    return found != NULL ? found->name : NULL;
}

static bool forked(const pp_io *io)
{
    return !pp_process_is(io->process);
}

/* ---- life -------------------------------------------------------------------------------------- */

static ppto_status find_class(const char *name, const pp_io_class **out, pp_error *err)
{
    for (size_t i = 0; (*out = class_at(i)) != NULL; i++)
        if (strcmp((*out)->name, name) == 0) return PPTO_OK;
    if (strcmp(name, "uv") == 0) return pp_fail(err, PPTO_E_UNSUPPORTED, "I/O engine uv is not built in");
    return pp_fail(err, PPTO_E_VALUE, "there is no I/O engine %s", name);
}

/* Fills in the defaults. */
static ppto_status settle(const pp_io_class *class_of, pp_io_options *o, pp_error *err)
{
    pp_io_facts facts = {0};
    class_of->describe(NULL, &facts);
    if (o->depth == 0) o->depth = facts.pool != 0 ? facts.pool : DEFAULT_DEPTH;
    if (o->depth > PP_IO_MOST_DEPTH)
        return pp_fail(err, PPTO_E_VALUE, "I/O depth %u, at most %d", o->depth, PP_IO_MOST_DEPTH);
    if (class_of->single) o->depth = 1;
    if (o->per_file == 0) o->per_file = o->depth > 1 ? o->depth - 1 : 1;
    if (o->piece == 0) o->piece = DEFAULT_PIECE;
    if (o->piece < PP_IO_LEAST_PIECE || o->piece > PP_IO_MOST_PIECE)
        return pp_fail(err, PPTO_E_VALUE, "I/O pieces of %zu bytes, %d to %d are possible", o->piece,
                       PP_IO_LEAST_PIECE, PP_IO_MOST_PIECE);
    if (o->max_bytes == 0 && !pp_mul_size(o->piece, o->depth, &o->max_bytes)) o->max_bytes = SIZE_MAX;
    return PPTO_OK;
}

static void release(pp_io *io)
{
    if (io->epoll >= 0) close(io->epoll);
    pthread_mutex_destroy(&io->lock);
    pp_free(io);
}

static ppto_status create(const pp_io_class *class_of, pp_io_options settled, pp_io **out, pp_error *err)
{
    PP_TRY(settle(class_of, &settled, err));
    pp_io *io = pp_calloc(1, sizeof *io + settled.depth * sizeof io->slots[0]);
    if (io == NULL) return pp_fail(err, PPTO_E_NOMEM, "no memory for an I/O engine");
    io->class_of = class_of;
    io->options = settled;
    io->process = pp_process_mark();
    io->epoll = -1;
    for (uint32_t i = settled.depth; i-- > 0;) {
        io->slots[i] = (pp_io_slot){.index = i};
        pp_io_slot_free(io, &io->slots[i]);
    }
    if (pthread_mutex_init(&io->lock, NULL) != 0) {
        pp_free(io);
        return pp_fail(err, PPTO_E_NOMEM, "no lock for an I/O engine");
    }
    ppto_status status = PPTO_OK;
    if (class_of->watches && (io->epoll = epoll_create1(EPOLL_CLOEXEC)) < 0)
        status = pp_fail_errno(err, "no descriptor for an I/O engine", errno);
    if (status == PPTO_OK) status = class_of->open(io, err);
    if (status != PPTO_OK) {
        release(io);
        return status;
    }
    *out = io;
    return PPTO_OK;
}

ppto_status pp_io_create(const char *name, const pp_io_options *options, pp_io **out, pp_error *err)
{
    const pp_io_class *class_of = &pp_io_blocking;
    *out = NULL;
    if (name != NULL) PP_TRY(find_class(name, &class_of, err));
    if (name == NULL && pp_io_uv != NULL && create(pp_io_uv, *options, out, NULL) == PPTO_OK) return PPTO_OK;
    return create(class_of, *options, out, err);
}

void pp_io_destroy(pp_io *io)
{
    if (io == NULL) return;
    if (forked(io)) {
        io->class_of->let_go(io);
        if (io->epoll >= 0) close(io->epoll);
        pp_free(io);
        return;
    }
    pthread_mutex_lock(&io->lock);
    io->closing = true;
    pp_io_withdraw_all(io);
    pthread_mutex_unlock(&io->lock);
    io->class_of->close(io);
    release(io);
}

/* ---- requests ---------------------------------------------------------------------------------- */

void pp_io_submit(pp_io *io, pp_io_request *request)
{
    if (forked(io)) {
        request->status = PPTO_E_FORKED;
        request->os_error = 0;
        request->moved = 0;
        request->done(request);
        return;
    }
    pthread_mutex_lock(&io->lock);
    pp_io_enqueue(io, request);
    pp_io_news(io);
    pthread_mutex_unlock(&io->lock);
}

void pp_io_cancel(pp_io *io, pp_io_request *request)
{
    if (forked(io)) return;
    pthread_mutex_lock(&io->lock);
    pp_io_withdraw(io, request);
    pp_io_news(io);
    pthread_mutex_unlock(&io->lock);
}

/* ---- what it is and did ------------------------------------------------------------------------ */

void pp_io_count(pp_io *io, pp_io_counters *out)
{
    *out = (pp_io_counters){0};
    if (forked(io)) return;
    pthread_mutex_lock(&io->lock);
    *out = io->counters;
    pthread_mutex_unlock(&io->lock);
}

void pp_io_describe(const pp_io *io, pp_io_facts *out)
{
    const pp_io_class *class_of = io != NULL ? io->class_of : pp_io_uv != NULL ? pp_io_uv : &pp_io_blocking;
    pp_io_options options = {.depth = 0};
    if (io != NULL)
        options = io->options;
    else
        (void)settle(class_of, &options, NULL);
    *out = (pp_io_facts){.name = class_of->name,
                         .depth = options.depth,
                         .per_file = options.per_file,
                         .piece = options.piece,
                         .max_bytes = options.max_bytes};
    class_of->describe(io, out);
}

void pp_io_facts_text(const pp_io_facts *facts, pp_text *out)
{
    pp_text_add(out, "%s", facts->name);
    if (facts->library != NULL)
        pp_text_add(out, " (%s %s, %u threads)", facts->library, facts->version, facts->pool);
    if (!facts->thread) pp_text_add(out, " (no thread)");
    pp_text_add(out, ": %u %s of %zu bytes in flight", facts->depth, facts->depth == 1 ? "piece" : "pieces",
                facts->piece);
    if (facts->depth > 1) pp_text_add(out, ", %u of one file", facts->per_file);
}
