/* SPDX-License-Identifier: Apache-2.0
 * Sizes of a contraction: macro tiles, what is packed at once, and the bodies of the two factors.
 *
 * A unit computes a macro tile of C. Where A is a plain load with its products side by side, the unit is
 * deep: a slice is a whole block of the law, a chain never leaves its registers, B is packed into half of L2
 * and every row of register tiles runs over all of it, reading A where it lies; a tall macro tile packs B
 * once. Else a macro tile has at most 1024 x 1024 elements, a slice kc = 256 products, and for each mc rows a
 * slice of A is packed too: one panel of B and one of A fit L1, the slice of A fits L2. A factor's code is
 * evaluated in tiles that follow its memory: [k][x] where x has neighbours, else [x][k]. Where few register
 * tiles share an A that must be computed, it is packed by rows as it is. In a chain B is packed for all
 * blocks of rows. */
#include <stdlib.h>
#include <string.h>

#include "devices/cpu/interp_work.h"

#define DEPTH 256        /* products of a slice */
#define DEPTH_FAR 64     /* where rows of B lie far apart: so many do not drive each other out of L2 */
#define MACRO_BYTES 4096 /* a row of a macro tile */
#define MACRO_ROWS 1024  /* of a macro tile */
#define DEEP_ROWS 4096   /* of a deep one, whose B is packed once for all of them */
#define NARROW_TILES 4   /* register tiles: a deep one becomes no narrower while it is high */
#define STRIP_BYTES (128 * 1024)  /* of a strip of A or C */
#define DIRECT_TILES 4            /* so few register tiles do not pay for packing what they share */
#define DIRECT_BYTES (512 * 1024) /* a slice of B within them is read in place */
#define THIN_ROWS 3               /* of C, of which the register tile would waste most */
#define THIN_COLS 128             /* of a turned tile of B for a thin product */
#define THIN_DEPTH 64
#define BALANCE 32 /* a better division of the columns is worth it from this part of the work on */

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
static int64_t up_to(int64_t n, int64_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

/* Tiles of the factor are [k][x] when its first load has neighbours along x. */
static bool follows_x(const pp_launch *launch, uint32_t first, uint32_t count, const pp_dim *x,
                      const pp_dim *k)
{
    const pp_program *p = launch->variant->program;
    for (uint32_t i = first; i < first + count; i++) {
        if (p->code[i].op != PP_LOAD || !launch->variant->live[i]) continue;
        const pp_access_at *at = &launch->access[p->code[i].imm];
        const int64_t by_x = pp_dim_step(at->lin, x), by_k = pp_dim_step(at->lin, k);
        if (by_k == at->size && by_x != at->size) return false;
        if (by_x == at->size) return true;
    }
    return true;
}

/* Whether a slice of B spans so little memory that it stays in the caches where it lies. */
static bool fits_direct(const pp_factor_at *b, const pp_contract_at *c)
{
    const pp_access_at *access = b->body.steps[PP_GROUP_MINOR][0].data;
    const int64_t pitch = pp_dim_step(access->lin, &b->space.dim[b->by_k ? PP_DIM_ROWS : PP_DIM_COLS]);
    return llabs(pitch) * smaller(c->k, c->kc) <= DIRECT_BYTES;
}

/* Whether the factor is read where it lies: a plain load that too few register tiles use to pay for packing,
 * or, for B, one small enough to stay in the caches. Integers are always packed. */
static bool reads_direct(const pp_launch *launch, const pp_factor_at *f, bool is_a)
{
    const pp_contract_at *c = launch->contract;
    const pp_step *step = f->body.steps[PP_GROUP_MINOR];
    const uint32_t others = f->body.n_steps[PP_GROUP_TASK] + f->body.n_steps[PP_GROUP_MAJOR];
    if (!pp_dtype_is_float((ppto_dtype)c->dtype) || others > 0 || f->body.n_steps[PP_GROUP_MINOR] != 1 ||
        step->kind != PP_STEP_LOAD || step->level != PP_LEVEL_FULL || step->out != f->body.value)
        return false;
    const pp_access_at *access = step->data;
    if (access->n_gathers > 0 || access->data_guard) return false;
    if (is_a) return c->by_k || c->n <= DIRECT_TILES * (int64_t)c->tile->nr;
    return c->m <= DIRECT_TILES * (int64_t)c->tile->mr || (launch->block == 0 && fits_direct(f, c));
}

/* Whether A is a plain load whose factors of a row of C are neighbours: it is read where it lies, and needs
 * no row of register tiles but the running one in the caches. */
static bool lies_by_k(const pp_launch *launch, const pp_dim *k)
{
    const pp_program *p = launch->variant->program;
    const pp_access_at *access = NULL;
    for (uint32_t i = p->contract.a_first; i < p->contract.a_first + p->contract.a_count; i++) {
        if (!launch->variant->live[i]) continue;
        if (access != NULL || p->code[i].op != PP_LOAD) return false;
        access = &launch->access[p->code[i].imm];
    }
    return access != NULL && access->n_gathers == 0 && !access->data_guard &&
           pp_dim_step(access->lin, k) == access->size;
}

static ppto_status plan_factor(pp_launch *launch, pp_factor_at *factor, bool is_a, size_t *temp_elements,
                               size_t *minor_bytes)
{
    const pp_contract *contract = &launch->variant->program->contract;
    pp_contract_at *c = launch->contract;
    const uint32_t first = is_a ? contract->a_first : contract->b_first;
    const uint32_t count = is_a ? contract->a_count : contract->b_count;
    const pp_dim *x = &launch->space.dim[is_a ? PP_DIM_ROWS : PP_DIM_COLS];
    pp_dim k;
    size_t minor, hot;
    pp_interp_dim(launch, 1u << PP_AXIS_K, &k);
    factor->by_k = follows_x(launch, first, count, x, &k);
    factor->space.dim[PP_DIM_FIXED] = launch->space.dim[PP_DIM_FIXED];
    factor->space.dim[PP_DIM_ROWS] = factor->by_k ? k : *x;
    factor->space.dim[PP_DIM_COLS] = factor->by_k ? *x : k;
    const int64_t extent = is_a ? smaller(c->mc, c->mt) : c->nt, depth = larger(1, smaller(c->k, c->kc));
    if (factor->by_k) {
        factor->cols = (size_t)smaller(extent, x->total);
        factor->rows = (size_t)smaller(depth, larger(1, PP_TILE_MAX / (int64_t)factor->cols));
    } else {
        const bool thin = c->thin && !is_a;
        factor->cols = (size_t)(thin ? smaller(depth, THIN_DEPTH) : depth);
        factor->rows = (size_t)smaller(thin ? THIN_COLS : (int64_t)factor->width, x->total);
    }
    const pp_plan_request r = {.variant = launch->variant,
                               .space = &factor->space,
                               .first = first,
                               .count = count,
                               .value = is_a ? contract->a_value : contract->b_value,
                               .major = PP_DIM_ROWS,
                               .rows = factor->rows,
                               .cols = factor->cols};
    PP_TRY(pp_interp_plan(launch, &r, &factor->body, &minor, &hot));
    if (minor > *minor_bytes) *minor_bytes = minor;
    if (factor->rows * factor->cols > *temp_elements) *temp_elements = factor->rows * factor->cols;
    factor->neighbours = !is_a;
    factor->direct = reads_direct(launch, factor, is_a);
    factor->by_rows = is_a && !factor->by_k && !c->thin && pp_dtype_is_float((ppto_dtype)c->dtype) &&
                      c->n <= DIRECT_TILES * (int64_t)c->tile->nr;
    return PPTO_OK;
}

/* Columns of a macro tile: where it is deep, so many that a slice of B takes half of L2. */
static int64_t widest_macro(const pp_launch *launch, const pp_contract_at *c)
{
    const int64_t widest = MACRO_BYTES / (int64_t)c->size;
    const int64_t near = (int64_t)launch->kernel->device->near_bytes / 2;
    return c->deep ? smaller(widest, near / (larger(1, smaller(c->k, c->kc)) * (int64_t)c->size)) : widest;
}

/* Halves one side of the macro tile; false: it is a single register tile. A deep one loses columns first,
 * since its rows would pack B once more. */
static bool halve_macro(pp_contract_at *c)
{
    const int64_t mr = c->tile->mr, nr = c->tile->nr;
    const bool tall = c->deep ? c->nt <= NARROW_TILES * nr : c->mt >= c->nt;
    int64_t *const side = (tall || c->nt <= nr) && c->mt > mr ? &c->mt : &c->nt;
    const int64_t unit = side == &c->mt ? mr : nr;
    if (*side <= unit) return false;
    *side = up_to(*side / 2, unit) < *side ? up_to(*side / 2, unit) : unit;
    return true;
}

/* Register tiles that the busiest worker runs when the columns are cut into n pieces. */
static int64_t busiest(const pp_contract_at *c, int64_t n, int64_t workers)
{
    const int64_t rows = (c->mt + c->tile->mr - 1) / c->tile->mr;
    const int64_t panels = (c->n + c->tile->nr - 1) / c->tile->nr;
    const int64_t units = c->batches * c->m_tiles * n;
    return (units + workers - 1) / workers * rows * ((panels + n - 1) / n);
}

/* Cuts the columns into more pieces where that shares them out better, by a part in BALANCE at least. */
static void balance(pp_contract_at *c, int64_t workers)
{
    const int64_t panels = (c->n + c->tile->nr - 1) / c->tile->nr;
    int64_t best = c->n_tiles, least = busiest(c, best, workers);
    for (int64_t n = best + 1; n <= panels && n <= 2 * c->n_tiles; n++) {
        const int64_t work = busiest(c, n, workers);
        if (work + work / BALANCE < least) best = n, least = work;
    }
    c->n_tiles = best;
}

/* Halves the macro tile until there are units for the workers, as long as they are worth it. */
static void choose_macro(const pp_launch *launch, pp_contract_at *c, uint32_t workers)
{
    const int64_t mr = c->tile->mr, nr = c->tile->nr, tallest = c->deep ? DEEP_ROWS : MACRO_ROWS;
    const int64_t widest = widest_macro(launch, c);
    const double ns = pp_interp_predict_products(launch);
    const uint32_t grain = launch->kernel->device->grain;
    int64_t want =
        smaller((int64_t)workers * 2, pp_interp_tasks(launch->kernel->device, ns, ns / workers, workers));
    c->mt = larger(mr, smaller(up_to(c->m, mr), tallest / mr * mr));
    c->nt = larger(nr, smaller(up_to(c->n, nr), widest / nr * nr));
    if (grain > 0) want = INT64_MAX;
    for (;;) {
        const int64_t n = c->batches * ((c->m + c->mt - 1) / c->mt) * ((c->n + c->nt - 1) / c->nt);
        if (n >= want || (grain > 0 && c->mt * c->nt <= (int64_t)grain) || !halve_macro(c)) break;
    }
    c->m_tiles = (c->m + c->mt - 1) / c->mt;
    c->n_tiles = (c->n + c->nt - 1) / c->nt;
    if (grain == 0 && want > 1) balance(c, (int64_t)workers);
    c->mt = up_to((c->m + c->m_tiles - 1) / c->m_tiles, mr); /* equal pieces */
    c->nt = up_to((c->n + c->n_tiles - 1) / c->n_tiles, nr);
    c->n_tiles = (c->n + c->nt - 1) / c->nt;
}

/* In a chain: some rows at a time, at full width. */
static void choose_block(const pp_launch *launch, pp_contract_at *c)
{
    c->mt = up_to(smaller(launch->block, c->m), c->tile->mr);
    c->nt = up_to(larger(c->n, 1), c->tile->nr);
    c->m_tiles = (c->m + c->mt - 1) / c->mt;
    c->n_tiles = 1;
    c->thin = false;
}

/* Rows of a strip: so many that neither A, were it packed, nor C takes more than STRIP_BYTES. */
static void choose_strip(pp_contract_at *c)
{
    const int64_t depth = c->deep ? larger(DEPTH, smaller(c->k, c->kc)) : c->kc;
    const int64_t row = larger(depth, c->deep ? c->nt : 0) * (int64_t)c->size;
    c->mc = larger(c->tile->mr, STRIP_BYTES / row / c->tile->mr * c->tile->mr);
    c->strips = c->deep && c->k > 0 && c->k <= PP_K_BLOCK;
}

/* B is read in place though its rows lie far apart. */
static void set_far(pp_contract_at *c)
{
    c->deep = c->strips = false;
    c->kc = DEPTH_FAR;
}

ppto_status pp_interp_contract_tiles(pp_launch *launch, uint32_t workers, size_t *temp_elements,
                                     size_t *minor_bytes)
{
    const pp_program *p = launch->variant->program;
    pp_contract_at *c = pp_arena_alloc(&launch->arena, sizeof *c);
    pp_dim k;
    if (c == NULL) return PPTO_E_NOMEM;
    launch->contract = c;
    c->dtype = p->contract.dtype;
    c->size = ppto_dtype_size((ppto_dtype)c->dtype);
    c->tile = &launch->kernel->device->set->contract[c->dtype];
    if (c->tile->run == NULL) return PPTO_E_UNSUPPORTED;
    pp_interp_dim(launch, 1u << PP_AXIS_K, &k);
    c->batches = launch->space.dim[PP_DIM_FIXED].total;
    c->m = launch->space.dim[PP_DIM_ROWS].total;
    c->n = launch->space.dim[PP_DIM_COLS].total;
    c->k = k.total;
    c->thin = c->m <= THIN_ROWS && c->tile->thin != NULL;
    c->by_k = lies_by_k(launch, &k);
    c->deep = pp_dtype_is_float((ppto_dtype)c->dtype) && c->by_k && launch->block == 0 &&
              c->m > DIRECT_TILES * (int64_t)c->tile->mr;
    c->kc = c->deep ? PP_K_BLOCK : DEPTH;
    if (launch->block > 0)
        choose_block(launch, c);
    else
        choose_macro(launch, c, workers);
    choose_strip(c);
    c->a.width = c->tile->mr;
    c->b.width = c->tile->nr;
    PP_TRY(plan_factor(launch, &c->a, true, temp_elements, minor_bytes));
    PP_TRY(plan_factor(launch, &c->b, false, temp_elements, minor_bytes));
    if (c->b.direct && !fits_direct(&c->b, c)) set_far(c);
    c->keeps_b = launch->block > 0 && !c->b.direct;
    launch->cols = (size_t)smaller(c->n, c->nt);
    launch->rows = (size_t)smaller(smaller(c->m, c->mt), larger(1, 2048 / (int64_t)launch->cols));
    launch->major = pp_interp_tiling(launch, &launch->space.dim[PP_DIM_ROWS], (int64_t)launch->rows);
    launch->minor = pp_interp_tiling(launch, &launch->space.dim[PP_DIM_COLS], (int64_t)launch->cols);
    return PPTO_OK;
}

void pp_interp_contract_scratch(pp_launch *launch, size_t *total)
{
    pp_contract_at *c = launch->contract;
    const size_t depth = (size_t)smaller(c->k, c->kc);
    const size_t tile = (size_t)(smaller(c->strips ? c->mc : c->mt, c->m) * smaller(c->nt, c->n)) * c->size;
    const bool blocks = pp_dtype_is_float((ppto_dtype)c->dtype) && c->k > PP_K_BLOCK && !c->deep;
    const size_t a_row = c->a.by_rows ? (size_t)pp_factor_pitch(c, depth) : depth * c->size;
    c->a.packed = pp_interp_reserve(total, (size_t)smaller(c->mc, c->mt) * a_row);
    c->b.packed = pp_interp_reserve(total, (c->thin ? (size_t)(THIN_COLS * THIN_DEPTH)
                                                    : (size_t)c->nt * (c->keeps_b ? (size_t)c->k : depth)) *
                                               c->size);
    c->sum = pp_interp_reserve(total, tile);
    c->chain = blocks ? pp_interp_reserve(total, tile) : c->sum;
}
