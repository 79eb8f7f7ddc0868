/* SPDX-License-Identifier: Apache-2.0
 * Chains: products and row stages that follow one another row by row, run a block of rows at a time.
 *
 * A task takes some blocks of rows; for each of them it runs the parts one after the other, and what passes
 * between them lies in its scratch, a block high, and stays in the second cache. The parts are ordinary
 * launches of the whole size. What is a task's own is the place of their locals: it works on copies of the
 * launches, whose tensors begin so far before the scratch that row r of a local is where it should be. B of a
 * product is packed once for all blocks of a batch. A block's size does not show in the bits, since a part's
 * rows do not depend on each other.
 *
 * Blocks do not pay where a row of locals or a B is too large for the caches, or where there are too few of
 * them for the workers: then the parts run phase by phase (devices/part_launches.h), as they would apart. */
#include <string.h>

#include "base/checked.h"
#include "devices/cpu/interp_alias.h"
#include "devices/cpu/interp_work.h"

#define LOCAL_BYTES (384 * 1024) /* locals of a block: a share of L2 */
#define LOCAL_MOST (1536 * 1024) /* the same, where the block is one register tile high */
#define KEPT_BYTES                                                                                           \
    (4 * 1024 * 1024)             /* packed B of all products: read from the last cache, block by block      \
                                   */
#define FEW_ROWS 3                /* of a product, which has a form of its own for them */
#define PACKED_AGAIN (256 * 1024) /* so much of it costs as much as the products of some rows */
#define ROWS_PER_PACK 128
#define SPLIT_FLOPS 4e6 /* from here on a product is worth splitting by columns */

struct pp_chained {
    pp_chain_launch *plain;
    bool *near[PP_MOST_PARTS]; /* per tensor: it is a local */
    bool by_rows;
    int64_t rows, period, block, per_period; /* a block does not cross a multiple of the period */
    size_t scratch[PP_MOST_PARTS], tensors[PP_MOST_PARTS]; /* offsets in scratch: of a part, of its tensors */
    size_t *place;                                         /* the same: of each place */
    pp_arena arena;
};

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static bool is_local(const pp_program *chain, uint32_t part, uint32_t tensor, uint32_t *local)
{
    const uint32_t at = chain->parts[part].tensor[tensor];
    *local = at - chain->n_tensors;
    return at >= chain->n_tensors;
}

/* ---- made once ------------------------------------------------------------------------------- */

static ppto_status create(struct pp_chained *c, const pp_launch *launch, pp_error *err)
{
    const pp_program *p = launch->kernel->plain.program;
    uint32_t local;
    PP_TRY(pp_chain_create(&pp_cpu_device, p, launch->kernel->part, &c->plain, err));
    c->place = pp_arena_alloc(&c->arena, (p->n_locals + 1u) * sizeof *c->place);
    if (c->place == NULL) return pp_fail(err, PPTO_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < p->n_parts; i++) {
        const uint32_t n = p->parts[i].program->n_tensors;
        c->near[i] = pp_arena_alloc(&c->arena, n + 1u);
        if (c->near[i] == NULL) return pp_fail(err, PPTO_E_NOMEM, "out of memory");
        for (uint32_t t = 0; t < n; t++) c->near[i][t] = is_local(p, i, t, &local);
    }
    return PPTO_OK;
}

ppto_status pp_interp_chain_create(pp_launch *launch, pp_error *err)
{
    launch->chained = pp_calloc(1, sizeof *launch->chained);
    if (launch->chained == NULL) return pp_fail(err, PPTO_E_NOMEM, "out of memory");
    return create(launch->chained, launch, err);
}

void pp_interp_chain_destroy(struct pp_chained *c)
{
    if (c == NULL) return;
    pp_chain_destroy(c->plain);
    pp_arena_free(&c->arena);
    pp_free(c);
}

/* ---- whether and how many rows --------------------------------------------------------------- */

typedef struct needs { /* of all parts */
    int64_t mr;
    double row_bytes, b_bytes, flops;
} needs;

static bool extent(const pp_program *part, const int64_t *slots, uint32_t roles, int64_t *out)
{
    *out = 1;
    for (uint32_t a = 0; a < part->n_axes; a++)
        if ((roles >> part->axes[a].role & 1) && !pp_mul_i64(*out, slots[part->axes[a].size], out))
            return false;
    return true;
}

/* false: not by rows. */
static bool add_product(struct pp_chained *c, const pp_block_set *set, const pp_program *part,
                        const int64_t *slots, needs *sum)
{
    const pp_contract_tile *tile = &set->contract[part->contract.dtype];
    int64_t batches, m, n, k;
    if (tile->run == NULL || !extent(part, slots, 1u << PP_AXIS_BATCH, &batches) ||
        !extent(part, slots, 1u << PP_AXIS_M, &m) || !extent(part, slots, 1u << PP_AXIS_N, &n) ||
        !extent(part, slots, 1u << PP_AXIS_K, &k) || m <= FEW_ROWS || c->rows % m != 0)
        return false;
    c->period = smaller(c->period, m);
    sum->mr = larger(sum->mr, tile->mr);
    sum->b_bytes += (double)n * (double)k * (double)ppto_dtype_size((ppto_dtype)part->contract.dtype);
    sum->flops += 2.0 * (double)c->rows * (double)n * (double)k;
    return true;
}

static int64_t count_blocks(const struct pp_chained *c)
{
    return c->rows / c->period * c->per_period;
}

static void set_block(struct pp_chained *c, int64_t block)
{
    c->block = larger(1, smaller(block, c->period));
    c->per_period = (c->period + c->block - 1) / c->block;
}

/* Tasks that share a batch pack its B each. */
static bool packs_again(const struct pp_chained *c, const needs *sum, uint32_t workers)
{
    return workers > 1 && c->rows / c->period < (int64_t)workers && sum->b_bytes > PACKED_AGAIN &&
           c->period < ROWS_PER_PACK * (int64_t)workers;
}

static bool choose_block(pp_launch *launch, const int64_t *slots, uint32_t workers)
{
    struct pp_chained *c = launch->chained;
    const pp_program *p = launch->kernel->plain.program;
    const uint32_t grain = launch->kernel->device->grain;
    needs sum = {.mr = 1};
    c->rows = c->period = c->plain->locals[0].rows;
    for (uint32_t i = 0; i < p->n_locals; i++)
        if (p->locals[i].place == i) sum.row_bytes += (double)c->plain->locals[i].row_bytes;
    for (uint32_t i = 0; i < p->n_parts; i++)
        if (p->parts[i].program->frame == PP_FRAME_CONTRACT &&
            !add_product(c, launch->kernel->device->set, p->parts[i].program, slots, &sum))
            return false;
    if (c->rows == 0 || sum.row_bytes * (double)sum.mr > LOCAL_MOST || sum.b_bytes > KEPT_BYTES) return false;
    const int64_t fits = (int64_t)(LOCAL_BYTES / larger(1, (int64_t)sum.row_bytes)) / sum.mr * sum.mr;
    set_block(c, larger(sum.mr, fits));
    if (grain > 0) {
        set_block(c, (int64_t)((double)grain * 4 / larger(1, (int64_t)sum.row_bytes)));
        return true;
    }
    if (packs_again(c, &sum, workers)) return false;
    while (workers > 1 && count_blocks(c) < 2 * (int64_t)workers && c->block > sum.mr)
        set_block(c, larger(sum.mr, c->block / 2 / sum.mr * sum.mr));
    return workers <= 1 || sum.flops < SPLIT_FLOPS || count_blocks(c) >= (int64_t)workers;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static void ask_parts(struct pp_chained *c, bool by_rows, bool whole)
{
    for (uint32_t i = 0; i < c->plain->program->n_parts; i++) {
        pp_launch *part = c->plain->part[i];
        part->sized = false;
        part->whole = whole;
        part->block = by_rows ? c->block : 0;
        part->near = by_rows ? c->near[i] : NULL;
    }
}

static int64_t task_count(const pp_launch *launch, uint32_t workers)
{
    const struct pp_chained *c = launch->chained;
    const int64_t blocks = count_blocks(c);
    double alone = 0, shared = 0;
    for (uint32_t i = 0; i < c->plain->program->n_parts; i++) {
        alone += pp_interp_predict(c->plain->part[i], 1);
        shared += pp_interp_predict(c->plain->part[i], workers);
    }
    if (launch->kernel->device->grain > 0) return smaller(blocks, UINT16_MAX);
    return smaller(blocks, pp_interp_tasks(launch->kernel->device, alone, shared, workers));
}

/* false in *fits: some part has no rows, or will not do with one phase. */
static ppto_status resize_by_rows(pp_launch *launch, const pp_binding *binding, uint32_t workers, bool *fits,
                                  pp_error *err)
{
    struct pp_chained *c = launch->chained;
    const pp_program *p = c->plain->program;
    size_t total = 0;
    double ns = 0;
    *fits = true;
    for (uint32_t i = 0; i < p->n_parts; i++) {
        const pp_binding own = {binding->slots, c->plain->tensors[i], binding->args};
        pp_geometry part;
        PP_TRY(pp_interp_resize(c->plain->part[i], &own, 1, &part, err));
        *fits = *fits && !c->plain->part[i]->empty && part.phases == 1 && part.shared_bytes == 0;
        c->scratch[i] = pp_interp_reserve(&total, part.scratch_bytes);
        c->tensors[i] = pp_interp_reserve(&total, p->parts[i].program->n_tensors * sizeof(pp_tensor_at));
        ns += part.task_ns;
    }
    for (uint32_t i = 0; i < p->n_locals; i++)
        if (p->locals[i].place == i)
            c->place[i] = pp_interp_reserve(&total, (size_t)c->block * c->plain->locals[i].row_bytes);
    if (total == SIZE_MAX) *fits = false;
    if (!*fits) return PPTO_OK;
    launch->geometry = (pp_geometry){.phases = 1, .scratch_bytes = total};
    launch->geometry.tasks[0] = (uint32_t)task_count(launch, workers);
    launch->geometry.task_ns = ns / launch->geometry.tasks[0];
    return PPTO_OK;
}

static ppto_status resize_plain(pp_launch *launch, const pp_binding *binding, uint32_t workers, pp_error *err)
{
    struct pp_chained *c = launch->chained;
    bool fits;
    ask_parts(c, false, false);
    PP_TRY(pp_chain_resize(c->plain, binding, workers, &launch->geometry, &fits, err));
    if (fits) return PPTO_OK;
    ask_parts(c, false, true);
    return pp_chain_resize(c->plain, binding, workers, &launch->geometry, &fits, err);
}

/* Counting mode: parts that touch one tensor mark it together, locals are not counted. */
static void share_marks(struct pp_chained *c)
{
    const pp_program *p = c->plain->program;
    for (uint32_t i = 0; i < p->n_parts; i++)
        for (uint32_t t = 0; !c->plain->part[i]->empty && t < p->parts[i].program->n_tensors; t++) {
            pp_tensor_at *own = &c->plain->part[i]->tensors[t];
            if (c->near[i][t]) own->touched = NULL;
            for (uint32_t k = 0; k < i; k++)
                for (uint32_t s = 0; !c->plain->part[k]->empty && s < p->parts[k].program->n_tensors; s++)
                    if (p->parts[k].tensor[s] == p->parts[i].tensor[t])
                        own->touched = c->plain->part[k]->tensors[s].touched;
        }
}

ppto_status pp_interp_chain_resize(pp_launch *launch, const pp_binding *binding, uint32_t workers,
                                   pp_error *err)
{
    struct pp_chained *c = launch->chained;
    PP_TRY(pp_chain_shape(c->plain, binding, err));
    c->by_rows = choose_block(launch, binding->slots, workers);
    if (c->by_rows) {
        ask_parts(c, true, true);
        PP_TRY(resize_by_rows(launch, binding, workers, &c->by_rows, err));
    }
    if (!c->by_rows) PP_TRY(resize_plain(launch, binding, workers, err));
    share_marks(c);
    return PPTO_OK;
}

/* ---- pointers -------------------------------------------------------------------------------- */

/* Locals have no address yet; what shares a place is written after it has been read. */
static void find_aliases(const pp_program *chain, uint32_t part, const bool *near, const pp_launch *launch)
{
    const pp_program *p = chain->parts[part].program;
    pp_tensor_at *tensors = launch->tensors;
    uint32_t outputs = 0, a = 0, b = 0;
    for (uint32_t t = 0; t < p->n_tensors; t++) {
        outputs += p->tensors[t].output;
        if (near[t]) tensors[t].aliased = false;
    }
    for (uint32_t o = 0; o < p->n_tensors; o++)
        for (uint32_t t = 0; t < p->n_tensors; t++) {
            if (!p->tensors[o].output || p->tensors[t].output || !is_local(chain, part, o, &a) ||
                !is_local(chain, part, t, &b) || chain->locals[a].place != chain->locals[b].place ||
                pp_interp_takes_over(launch, o, t))
                continue;
            tensors[o].aliased = true;
            if (outputs > 1) tensors[t].aliased = true;
        }
}

ppto_status pp_interp_chain_bind(pp_launch *launch, const pp_binding *binding, void *shared)
{
    struct pp_chained *c = launch->chained;
    PP_TRY(pp_chain_bind(c->plain, binding, c->by_rows ? NULL : shared));
    for (uint32_t i = 0; c->by_rows && i < c->plain->program->n_parts; i++)
        find_aliases(c->plain->program, i, c->near[i], c->plain->part[i]);
    return PPTO_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

typedef struct part_task {
    pp_work work;
    pp_launch launch; /* a copy */
} part_task;

static void open_part(const struct pp_chained *c, uint32_t i, char *scratch, part_task *out)
{
    const uint32_t n = c->plain->program->parts[i].program->n_tensors;
    pp_tensor_at *tensors = (pp_tensor_at *)(void *)(scratch + c->tensors[i]);
    out->launch = *c->plain->part[i];
    if (n > 0) memcpy(tensors, out->launch.tensors, n * sizeof *tensors);
    out->launch.tensors = tensors;
    pp_work_open(&out->work, &out->launch, scratch + c->scratch[i]);
}

/* Row `from` of every local is the first one in scratch. */
static void place_locals(const struct pp_chained *c, uint32_t i, char *scratch, int64_t from, part_task *task)
{
    const pp_program *p = c->plain->program;
    uint32_t local;
    for (uint32_t t = 0; t < p->parts[i].program->n_tensors; t++) {
        if (!is_local(p, i, t, &local)) continue;
        char *first = scratch + c->place[p->locals[local].place];
        const uintptr_t before = (uintptr_t)from * c->plain->locals[local].row_bytes;
        task->launch.tensors[t].data = (char *)((uintptr_t)first - before);
    }
}

static void run_block(const struct pp_chained *c, part_task *parts, char *scratch, int64_t from, int64_t n)
{
    for (uint32_t i = 0; i < c->plain->program->n_parts; i++) {
        pp_work *w = &parts[i].work;
        place_locals(c, i, scratch, from, &parts[i]);
        pp_work_start(w, 0, parts[i].launch.variant->program->n_stages);
        if (parts[i].launch.contract == NULL) {
            pp_work_rows(w, from, from + n);
            continue;
        }
        pp_work_contract_start(w);
        pp_work_contract_rows(w, from, n);
    }
}

static void run_blocks(const struct pp_chained *c, char *scratch, int64_t first, int64_t end)
{
    part_task parts[PP_MOST_PARTS];
    const uint32_t n = c->plain->program->n_parts;
    bool streamed = false;
    for (uint32_t i = 0; i < n; i++) open_part(c, i, scratch, &parts[i]);
    for (int64_t b = first; b < end; b++) {
        const int64_t in = b % c->per_period * c->block;
        run_block(c, parts, scratch, b / c->per_period * c->period + in, smaller(c->block, c->period - in));
    }
    for (uint32_t i = 0; i < n; i++) streamed |= parts[i].work.streamed;
    if (streamed) parts[0].work.set->fence();
}

ppto_status pp_interp_chain_run(pp_launch *launch, uint32_t phase, uint32_t task, void *scratch,
                                pp_error *err, int64_t *position)
{
    const struct pp_chained *c = launch->chained;
    const uint32_t tasks = launch->geometry.tasks[0];
    pp_fenv saved;
    if (!c->by_rows) return pp_chain_run(c->plain, phase, task, scratch, err, position);
    const int64_t blocks = count_blocks(c), first = blocks * task / tasks,
                  end = blocks * ((int64_t)task + 1) / tasks;
    pp_fenv_enter(&saved);
    run_blocks(c, scratch, first, end);
    pp_fenv_leave(&saved);
    return PPTO_OK;
}

/* ---- counting -------------------------------------------------------------------------------- */

/* The first part that touches a tensor of the chain counts it for all. */
static bool counted_before(const pp_program *p, uint32_t part, uint32_t tensor)
{
    for (uint32_t k = 0; k < part; k++)
        for (uint32_t s = 0; s < p->parts[k].program->n_tensors; s++)
            if (p->parts[k].tensor[s] == p->parts[part].tensor[tensor]) return true;
    return false;
}

void pp_interp_chain_counted(const pp_launch *launch, uint64_t *reads, uint64_t *writes)
{
    const struct pp_chained *c = launch->chained;
    const pp_program *p = c->plain->program;
    for (uint32_t i = 0; i < p->n_parts; i++)
        for (uint32_t t = 0; t < p->parts[i].program->n_tensors; t++)
            if (!c->near[i][t] && !counted_before(p, i, t))
                pp_interp_counted_of(c->plain->part[i], t,
                                     p->tensors[p->parts[i].tensor[t]].output ? writes : reads);
}

void pp_interp_chain_count_code(const pp_launch *launch, pp_code_count *count, pp_text *text)
{
    const pp_chain_launch *plain = launch->chained->plain;
    for (uint32_t i = 0; i < plain->program->n_parts; i++) pp_interp_count_code(plain->part[i], count, text);
}
