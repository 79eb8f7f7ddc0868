/* SPDX-License-Identifier: Apache-2.0
 * The I/O engine of the tests: no thread, virtual time. A call begun at t is made at t plus a delay drawn
 * from the seed, by pp_io_sim_step; so calls end in a drawn order that a seed repeats. Each call may be given
 * a fault by a drawn rate or by its number. Calls without a fault are real ones, on real descriptors; a
 * stream whose peer is not ready answers EAGAIN. */
#include <errno.h>

#include "scheduler/io_engine.h"

typedef struct sim {
    uint64_t state, calls;
    int64_t now;
    int64_t due[]; /* by slot */
} sim;

static uint64_t draw(sim *mine, uint64_t n)
{
    mine->state = mine->state * 6364136223846793005u + 1442695040888963407u;
    return (mine->state >> 33) % n;
}

/* PP_IO_FAULTS: none. */
static pp_io_fault draw_fault(pp_io *io, sim *mine)
{
    const pp_io_sim *wanted = &io->options.sim;
    pp_io_fault found = mine->calls == wanted->fail_at ? wanted->fail_with : PP_IO_FAULTS;
    uint64_t at = draw(mine, 1000);
    for (int i = 0; found == PP_IO_FAULTS && i < PP_IO_FAULTS; i++) {
        if (at < wanted->rate[i]) found = (pp_io_fault)i;
        at -= wanted->rate[i]; /* may wrap, to more than any rate */
    }
    return found;
}

static int64_t call_with(sim *mine, const pp_io_slot *slot, pp_io_fault fault)
{
    pp_io_slot piece = *slot;
    bool reads = slot->request->op == PP_IO_READ;
    if (fault == PP_IO_EINTR) return -EINTR;
    if (fault == PP_IO_EAGAIN) return -EAGAIN;
    if (fault == PP_IO_EIO) return -EIO;
    if (fault == PP_IO_ENOSPC && !reads) return -ENOSPC;
    if (fault == PP_IO_END && reads) return 0;
    if (fault == PP_IO_SHORT) piece.bytes = 1 + draw(mine, piece.bytes);
    if (piece.request->file->stream && !pp_io_ready(piece.request)) return -EAGAIN;
    return pp_io_call(&piece);
}

static pp_io_slot *earliest(pp_io *io, const sim *mine)
{
    pp_io_slot *found = NULL;
    for (uint32_t i = 0; i < io->options.depth; i++)
        if (io->slots[i].request != NULL && (found == NULL || mine->due[i] < mine->due[found->index]))
            found = &io->slots[i];
    return found;
}

int64_t pp_io_sim_step(pp_io *io, int64_t now_ns)
{
    sim *mine = io->own;
    pp_io_slot *slot;
    pthread_mutex_lock(&io->lock);
    pp_io_pump(io);
    while ((slot = earliest(io, mine)) != NULL && mine->due[slot->index] <= now_ns) {
        if (mine->now < mine->due[slot->index]) mine->now = mine->due[slot->index];
        mine->calls++;
        pp_io_slot_ended(io, slot, call_with(mine, slot, draw_fault(io, mine)));
        pp_io_pump(io);
    }
    if (mine->now < now_ns && !io->closing) mine->now = now_ns;
    int64_t next = slot != NULL ? mine->due[slot->index] : INT64_MAX;
    pthread_mutex_unlock(&io->lock);
    return next;
}

uint64_t pp_io_sim_calls(pp_io *io)
{
    const sim *mine = io->own;
    return mine->calls;
}

/* ---- class ------------------------------------------------------------------------------------- */

static ppto_status sim_open(pp_io *io, pp_error *err)
{
    const pp_io_sim *o = &io->options.sim;
    unsigned sum = 0;
    for (int i = 0; i < PP_IO_FAULTS; i++) sum += o->rate[i];
    if (sum >= 1000 || o->least_ns < 0 || o->most_ns < o->least_ns)
        return pp_fail(err, PPTO_E_VALUE, "faults in %u of 1000 calls, or bad delays", sum);
    sim *mine = pp_calloc(1, sizeof *mine + io->options.depth * sizeof mine->due[0]);
    if (mine == NULL) return pp_fail(err, PPTO_E_NOMEM, "no memory for an I/O engine");
    mine->state = o->seed;
    io->own = mine;
    return PPTO_OK;
}

static void sim_let_go(pp_io *io)
{
    pp_free(io->own);
}

static void sim_close(pp_io *io)
{
    pp_io_sim_step(io, INT64_MAX);
    pp_free(io->own);
}

static void sim_wake(pp_io *io)
{
    (void)io;
}

/* At least 1 ns, so that a stream whose peer is not ready does not hold a step for ever. */
static void sim_begin(pp_io *io, pp_io_slot *slot)
{
    const pp_io_sim *o = &io->options.sim;
    sim *mine = io->own;
    int64_t delay = o->least_ns + (int64_t)draw(mine, (uint64_t)(o->most_ns - o->least_ns) + 1);
    mine->due[slot->index] = mine->now + (delay > 0 ? delay : 1);
}

static void sim_describe(const pp_io *io, pp_io_facts *facts)
{
    (void)io;
    facts->thread = false;
}

static int64_t sim_now(const pp_io *io)
{
    const sim *mine = io->own;
    return mine->now;
}

const pp_io_class pp_io_simulated = {.name = "sim",
                                     .open = sim_open,
                                     .close = sim_close,
                                     .let_go = sim_let_go,
                                     .wake = sim_wake,
                                     .begin = sim_begin,
                                     .describe = sim_describe,
                                     .now = sim_now};
