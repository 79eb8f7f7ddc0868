/* SPDX-License-Identifier: Apache-2.0
 * Running a contraction: the chains of products, the sums of blocks, and the stages on the finished tile.
 *
 * The law: inside a block of 1024 products one fma chain per element from +0 in order of k; blocks added in
 * order; at the end + 0, by the register tile itself where there is one block. In a deep unit the register
 * tile makes a whole block and joins it to C; else it continues from what C holds, so slices of 256 save and
 * resume the chain. The first block is built in `sum` itself.
 * Integers wrap, in one chain. Where one result follows, `sum` lies in its memory; else in scratch, where the
 * rows of a macro tile follow each other without gaps. */
#include <string.h>

#include "base/fault.h"
#include "devices/cpu/interp_work.h"

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void enter(pp_work *w, const pp_space *space, size_t rows, size_t cols)
{
    w->space = space;
    w->rows = rows;
    w->cols = cols;
}

void pp_work_contract_start(pp_work *w)
{
    const pp_contract_at *c = w->launch->contract;
    if (c->k == 0) return; /* the factors have no element, also where they move with no axis */
    enter(w, &c->a.space, c->a.rows, c->a.cols);
    pp_work_steps(w, &c->a.body, PP_GROUP_TASK);
    enter(w, &c->b.space, c->b.rows, c->b.cols);
    pp_work_steps(w, &c->b.body, PP_GROUP_TASK);
}

/* ---- products -------------------------------------------------------------------------------- */

typedef struct unit {
    int64_t batch, m0, n0, m, n; /* corner and extent of the macro tile */
    pp_view sum, chain;          /* the blocks before, the running one: the same where there is one block,
                                    or the register tile joins them */
    bool strips;                 /* `sum` is one strip, used again and again */
} unit;

static unit unit_at(const pp_contract_at *c, int64_t number)
{
    const int64_t mi = number % c->m_tiles, ni = number / c->m_tiles % c->n_tiles;
    unit u = {.batch = number / c->m_tiles / c->n_tiles, .m0 = mi * c->mt, .n0 = ni * c->nt};
    u.m = smaller(c->mt, c->m - u.m0);
    u.n = smaller(c->nt, c->n - u.n0);
    return u;
}

/* ---- where C is built ------------------------------------------------------------------------ */

/* Steps that compute an element from the same element of their operands, and look at no operand later. */
static bool is_plain(pp_step_kind kind)
{
    switch (kind) {
    case PP_STEP_ROW1:
    case PP_STEP_ROW2:
    case PP_STEP_ROW3:
    case PP_STEP_SPREAD:
    case PP_STEP_LOAD:
    case PP_STEP_PRODUCT:
    case PP_STEP_STORE: return true;
    default: return false;
    }
}

/* The one store behind the product, if what is made of an element of C may go where it was. *alone: it stores
 * C itself. */
static const pp_step *only_store(const pp_launch *launch, bool *alone)
{
    const pp_body *body = &launch->bodies[0];
    const pp_step *step = body->steps[PP_GROUP_MINOR], *store = NULL;
    const uint32_t n = body->n_steps[PP_GROUP_MINOR];
    if (launch->variant->program->n_stages != 1 || body->n_steps[PP_GROUP_MAJOR] > 0) return NULL;
    for (uint32_t i = 0; i < n; i++) {
        if (!is_plain(step[i].kind) || (store != NULL && step[i].kind == PP_STEP_STORE)) return NULL;
        if (step[i].kind == PP_STEP_STORE) store = &step[i];
    }
    *alone = n == 2 && step[0].kind == PP_STEP_PRODUCT;
    return store;
}

/* The part of a result that is the unit's tile; false where it has no room for C. What goes around the caches
 * is not built there, unless it is C as it is. */
static bool in_result(pp_work *w, pp_view *out)
{
    const pp_contract_at *c = w->launch->contract;
    bool alone;
    const pp_step *store = only_store(w->launch, &alone);
    if (store == NULL || store->level != PP_LEVEL_FULL) return false;
    const pp_access_at *access = store->data;
    return w->launch->tensors[access->tensor].dtype == c->dtype && pp_work_direct(w, store, alone, out) &&
           out->pitch >= (int64_t)(w->cols * c->size) && out->pitch % (int64_t)c->size == 0;
}

static void place_tile(pp_work *w, unit *u)
{
    const pp_contract_at *c = w->launch->contract;
    const int64_t row = u->n * (int64_t)c->size;
    w->space = &w->launch->space;
    pp_work_range(w, PP_DIM_ROWS, u->m0, (size_t)u->m);
    pp_work_range(w, PP_DIM_COLS, u->n0, (size_t)u->n);
    const bool inside = in_result(w, &u->sum);
    if (!inside) u->sum = (pp_view){w->scratch + c->sum, row};
    u->strips = c->strips && !inside;
    u->chain = c->chain == c->sum ? u->sum : (pp_view){w->scratch + c->chain, row};
}

/* Rows `first` to `first + rows` of a tile: to += from, or + 0 where from is NULL. */
static void add_tile(pp_work *w, const unit *u, const pp_view *from, int64_t first, int64_t rows)
{
    static const uint64_t zero; /* of any dtype */
    const pp_contract_at *c = w->launch->contract;
    const int64_t row = u->n * (int64_t)c->size;
    const pp_block_fn add = w->set->scalar[PP_ADD][c->dtype][from != NULL ? PP_VV : PP_VS];
    const bool joined = u->sum.pitch == row && (from == NULL || from->pitch == row);
    const int64_t pieces = joined ? 1 : rows;
    const size_t elements = (size_t)(joined ? rows * u->n : u->n);
    for (int64_t i = 0; i < pieces; i++) {
        char *to = u->sum.at + (first + i) * u->sum.pitch;
        add(elements, to, to, from != NULL ? from->at + (first + i) * from->pitch : (const char *)&zero,
            NULL);
    }
}

static void clear_tile(const pp_view *tile, int64_t rows, size_t row_bytes)
{
    for (int64_t i = 0; i < rows; i++) memset(tile->at + i * tile->pitch, 0, row_bytes);
}

/* ---- stages ---------------------------------------------------------------------------------- */

/* On the rows [first, first + rows) of the macro tile. */
static void run_stages(pp_work *w, const unit *u, int64_t first, int64_t rows)
{
    const pp_launch *launch = w->launch;
    const pp_contract_at *c = launch->contract;
    const int64_t above = u->strips ? first : 0;
    w->space = &launch->space;
    for (int64_t r = first; r < first + rows; r += (int64_t)launch->rows) {
        const size_t n_rows = (size_t)smaller((int64_t)launch->rows, first + rows - r);
        for (int64_t n = 0; n < u->n; n += (int64_t)launch->cols) {
            pp_work_range(w, PP_DIM_ROWS, u->m0 + r, n_rows);
            pp_work_range(w, PP_DIM_COLS, u->n0 + n, (size_t)smaller((int64_t)launch->cols, u->n - n));
            w->product.at = u->sum.at + (r - above) * u->sum.pitch + n * (int64_t)c->size;
            w->product.pitch = u->sum.pitch;
            for (uint32_t s = 0; s < launch->variant->program->n_stages; s++) {
                pp_work_steps(w, &launch->bodies[s], PP_GROUP_MAJOR);
                pp_work_steps(w, &launch->bodies[s], PP_GROUP_MINOR);
            }
        }
    }
}

/* The chains of these rows are complete: the last block is added, then + 0 where the register tile did not,
 * and the stages follow while the rows are in the caches. */
static void finish_rows(pp_work *w, const unit *u, int64_t first, int64_t rows)
{
    const pp_contract_at *c = w->launch->contract;
    if (c->chain != c->sum) add_tile(w, u, &u->chain, first, rows);
    if (c->chain != c->sum || (c->thin && pp_dtype_is_float((ppto_dtype)c->dtype)))
        add_tile(w, u, NULL, first, rows);
    run_stages(w, u, first, rows);
}

/* ---- slices and blocks --------------------------------------------------------------------------- */

/* n neighbouring chains of each row take their `depth` products; a: the factors of the rows, pitch: bytes
 * from one k of b to the next. */
static void add_rows(pp_work *w, const unit *u, pp_view chain, const pp_operand *a, size_t k, pp_view b,
                     size_t depth, size_t n)
{
    const pp_contract_at *c = w->launch->contract;
    for (int64_t i = 0; i < u->m; i++)
        c->tile->thin(depth, n, a->at + (int64_t)k * a->step + i * a->row, a->step, b.at, b.pitch,
                      chain.at + i * chain.pitch);
}

/* A product with few rows reads B once from memory: packing it would cost more than the products. */
static void add_slice_thin(pp_work *w, const unit *u, pp_view chain, int64_t k0, size_t depth)
{
    const pp_contract_at *c = w->launch->contract;
    const pp_factor_at *f = &c->b;
    char *turned = w->scratch + f->packed;
    const pp_operand a = pp_factor_slice(w, &c->a, u->m0, u->m, k0, depth);
    w->space = &f->space;
    for (size_t k = 0; f->by_k && k < depth; k += f->rows) {
        const size_t rows = depth - k < f->rows ? depth - k : f->rows;
        const pp_view v = pp_factor_tile(w, f, k0 + (int64_t)k, rows, u->n0, (size_t)u->n);
        add_rows(w, u, chain, &a, k, v, rows, (size_t)u->n);
    }
    for (int64_t n = 0; !f->by_k && n < u->n; n += (int64_t)f->rows) {
        const size_t cols = (size_t)smaller((int64_t)f->rows, u->n - n);
        for (size_t k = 0; k < depth; k += f->cols) {
            const size_t deep = depth - k < f->cols ? depth - k : f->cols;
            const pp_view v = pp_factor_tile(w, f, u->n0 + n, cols, k0 + (int64_t)k, deep);
            w->set->load_transposed(deep, cols, turned, cols * c->size, v.at, v.pitch, c->size);
            const pp_view to = {chain.at + n * (int64_t)c->size, chain.pitch};
            add_rows(w, u, to, &a, k, (pp_view){turned, (int64_t)(cols * c->size)}, deep, cols);
        }
    }
}

/* The register tiles of one slice: columns [0, n) of B under `rows` rows of A. */
static void run_tiles(const pp_contract_at *c, pp_tile_job *job, const pp_operand *a, const pp_operand *b,
                      int64_t rows, int64_t n)
{
    char *const chain = job->c;
    const char *columns = b->at;
    const int64_t nr = c->tile->nr;
    job->a_row = a->row, job->a_step = a->step, job->b_step = b->step;
    for (int64_t j = 0; j < n; j += nr, columns += b->panel) {
        const char *lines = a->at;
        job->b = columns;
        job->cols = (size_t)smaller(nr, n - j);
        for (int64_t i = 0; i < rows; i += a->width, lines += a->panel) {
            job->a = lines;
            job->rows = (size_t)smaller(a->width, rows - i);
            job->c = chain + ((size_t)i * job->ldc + (size_t)j) * c->size;
            c->tile->run(job);
        }
    }
}

/* The same, row by row of register tiles: all of B is in L2, and A passes by once. */
static void run_rows(const pp_contract_at *c, pp_tile_job *job, const pp_operand *a, const pp_operand *b,
                     int64_t rows, int64_t n)
{
    char *const chain = job->c;
    const char *lines = a->at;
    const int64_t nr = c->tile->nr;
    job->a_row = a->row, job->a_step = a->step, job->b_step = b->step;
    for (int64_t i = 0; i < rows; i += a->width, lines += a->panel) {
        const char *columns = b->at;
        job->a = lines;
        job->rows = (size_t)smaller(a->width, rows - i);
        for (int64_t j = 0; j < n; j += nr, columns += b->panel) {
            job->b = columns;
            job->cols = (size_t)smaller(nr, n - j);
            job->c = chain + ((size_t)i * job->ldc + (size_t)j) * c->size;
            c->tile->run(job);
        }
    }
}

/* Adds the job's products, from k0 on, to every chain of the macro tile. finish: they are the last ones. */
static void add_slice(pp_work *w, const unit *u, pp_tile_job *job, int64_t k0, bool finish)
{
    const pp_contract_at *c = w->launch->contract;
    char *const chain = job->c;
    const pp_operand b = c->keeps_b ? pp_factor_kept(w, &c->b, u->n, k0, job->k, w->kept_batch == u->batch)
                                    : pp_factor_slice(w, &c->b, u->n0, u->n, k0, job->k);
    for (int64_t i0 = 0; i0 < u->m; i0 += c->mc) {
        const int64_t rows = smaller(c->mc, u->m - i0);
        const pp_operand a = pp_factor_slice(w, &c->a, u->m0 + i0, rows, k0, job->k);
        job->c = chain + (u->strips ? 0 : (size_t)i0 * job->ldc * c->size);
        (c->deep ? run_rows : run_tiles)(c, job, &a, &b, rows, u->n);
        if (finish) finish_rows(w, u, i0, rows);
    }
    job->c = chain;
}

/* One block of the law: [k0, end) of k, to the chains at `to`. */
static void multiply_block(pp_work *w, const unit *u, pp_view to, int64_t k0, int64_t end, bool finish)
{
    const pp_contract_at *c = w->launch->contract;
    pp_tile_job job = {.c = to.at, .ldc = (size_t)to.pitch / c->size, .first = true};
    job.joins = c->deep && k0 > 0;
    if (c->thin) clear_tile(&to, u->m, (size_t)u->n * c->size);
    for (; k0 < end; k0 += c->kc, job.first = false) {
        job.k = (size_t)smaller(c->kc, end - k0);
        const bool last = finish && k0 + (int64_t)job.k == end;
        job.last = last && c->chain == c->sum;
        if (c->thin)
            add_slice_thin(w, u, to, k0, job.k);
        else
            add_slice(w, u, &job, k0, last);
    }
    if (c->thin && finish) finish_rows(w, u, 0, u->m);
}

static void multiply(pp_work *w, unit *u)
{
    const pp_contract_at *c = w->launch->contract;
    const bool is_float = pp_dtype_is_float((ppto_dtype)c->dtype);
    const int64_t block = is_float ? (int64_t)PP_K_BLOCK : INT64_MAX;
    const int64_t blocks = is_float ? (c->k + block - 1) / block : c->k > 0;
    place_tile(w, u);
    for (int64_t i = 0; i < blocks; i++) {
        const int64_t k = pp_fault(PP_FAULT_SWAPPED_BLOCKS) && i > 0 ? (blocks - i) * block : i * block;
        const bool finish = i + 1 == blocks;
        multiply_block(w, u, i == 0 ? u->sum : u->chain, k, k + smaller(block, c->k - k), finish);
        if (i > 0 && !finish && c->chain != c->sum) add_tile(w, u, &u->chain, 0, u->m);
    }
    if (blocks > 0) return;
    clear_tile(&u->sum, u->m, (size_t)u->n * c->size);
    run_stages(w, u, 0, u->m);
}

void pp_work_contract(pp_work *w, int64_t number)
{
    unit u = unit_at(w->launch->contract, number);
    w->space = &w->launch->space;
    pp_work_range(w, PP_DIM_FIXED, u.batch, 1);
    multiply(w, &u);
}

void pp_work_contract_rows(pp_work *w, int64_t from, int64_t n)
{
    const pp_contract_at *c = w->launch->contract;
    unit u = {.batch = from / c->m, .m0 = from % c->m, .m = n, .n = c->n};
    w->space = &w->launch->space;
    pp_work_range(w, PP_DIM_FIXED, u.batch, 1);
    multiply(w, &u);
    w->kept_batch = c->keeps_b ? u.batch : -1;
}
