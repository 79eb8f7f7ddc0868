/* SPDX-License-Identifier: Apache-2.0
 * Running a contraction: the chains of products, the sums of blocks, and the stages on the finished tile.
 *
 * The law: inside a block of 1024 products one fma chain per element from +0 in order of k; blocks added in
 * order; at the end + 0, by the register tile itself where there is one block. The register tile continues
 * from what C holds, so slices of 256 save and resume the chain. The first block is built in `sum` itself.
 * Integers wrap, in one chain. The rows of a macro tile follow each other without gaps. */
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
} unit;

static unit unit_at(const pp_contract_at *c, int64_t number)
{
    const int64_t mi = number % c->m_tiles, ni = number / c->m_tiles % c->n_tiles;
    unit u = {.batch = number / c->m_tiles / c->n_tiles, .m0 = mi * c->mt, .n0 = ni * c->nt};
    u.m = smaller(c->mt, c->m - u.m0);
    u.n = smaller(c->nt, c->n - u.n0);
    return u;
}

/* ---- stages ---------------------------------------------------------------------------------- */

/* On the rows [first, first + rows) of the macro tile. */
static void run_stages(pp_work *w, const unit *u, int64_t first, int64_t rows)
{
    const pp_launch *launch = w->launch;
    const pp_contract_at *c = launch->contract;
    w->space = &launch->space;
    for (int64_t r = first; r < first + rows; r += (int64_t)launch->rows) {
        const size_t n_rows = (size_t)smaller((int64_t)launch->rows, first + rows - r);
        for (int64_t n = 0; n < u->n; n += (int64_t)launch->cols) {
            pp_work_range(w, PP_DIM_ROWS, u->m0 + r, n_rows);
            pp_work_range(w, PP_DIM_COLS, u->n0 + n, (size_t)smaller((int64_t)launch->cols, u->n - n));
            w->product.at = w->scratch + c->sum + (size_t)(r * u->n + n) * c->size;
            w->product.pitch = u->n * (int64_t)c->size;
            for (uint32_t s = 0; s < launch->variant->program->n_stages; s++) {
                pp_work_steps(w, &launch->bodies[s], PP_GROUP_MAJOR);
                pp_work_steps(w, &launch->bodies[s], PP_GROUP_MINOR);
            }
        }
    }
}

static void add_zero(pp_work *w, char *sum, size_t elements)
{
    static const uint64_t zero; /* of any dtype */
    w->set->scalar[PP_ADD][w->launch->contract->dtype][PP_VS](elements, sum, sum, &zero, NULL);
}

/* The chains of these rows are complete: the last block is added, then + 0 where the register tile did not,
 * and the stages follow while the rows are in the caches. */
static void finish_rows(pp_work *w, const unit *u, int64_t first, int64_t rows)
{
    const pp_contract_at *c = w->launch->contract;
    const size_t elements = (size_t)(rows * u->n), from = (size_t)(first * u->n) * c->size;
    char *sum = w->scratch + c->sum + from, *chain = w->scratch + c->chain + from;
    if (chain != sum) w->set->scalar[PP_ADD][c->dtype][PP_VV](elements, sum, sum, chain, NULL);
    if (chain != sum || (c->thin && pp_dtype_is_float((ppto_dtype)c->dtype))) add_zero(w, sum, elements);
    run_stages(w, u, first, rows);
}

/* ---- slices and blocks --------------------------------------------------------------------------- */

/* n neighbouring chains of each row take their `depth` products; a: the factors of the rows, pitch: bytes
 * from one k of b to the next. */
static void add_rows(pp_work *w, const unit *u, char *chain, const pp_operand *a, size_t k, pp_view b,
                     size_t depth, size_t n)
{
    const pp_contract_at *c = w->launch->contract;
    for (int64_t i = 0; i < u->m; i++)
        c->tile->thin(depth, n, a->at + (int64_t)k * a->step + i * a->row, a->step, b.at, b.pitch,
                      chain + i * u->n * (int64_t)c->size);
}

/* A product with few rows reads B once from memory: packing it would cost more than the products. */
static void add_slice_thin(pp_work *w, const unit *u, char *chain, int64_t k0, size_t depth)
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
            add_rows(w, u, chain + (size_t)n * c->size, &a, k, (pp_view){turned, (int64_t)(cols * c->size)},
                     deep, cols);
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
        job->c = chain + (size_t)i0 * job->ldc * c->size;
        run_tiles(c, job, &a, &b, rows, u->n);
        if (finish) finish_rows(w, u, i0, rows);
    }
    job->c = chain;
}

/* One block of the law: [k0, end) of k, to the chains at `to`. */
static void multiply_block(pp_work *w, const unit *u, char *to, int64_t k0, int64_t end, bool finish)
{
    const pp_contract_at *c = w->launch->contract;
    pp_tile_job job = {.c = to, .ldc = (size_t)u->n, .first = true};
    if (c->thin) memset(to, 0, (size_t)(u->m * u->n) * c->size);
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

static void multiply(pp_work *w, const unit *u)
{
    const pp_contract_at *c = w->launch->contract;
    const size_t elements = (size_t)(u->m * u->n);
    const bool is_float = pp_dtype_is_float((ppto_dtype)c->dtype);
    const int64_t block = is_float ? (int64_t)PP_K_BLOCK : INT64_MAX;
    char *sum = w->scratch + c->sum, *chain = w->scratch + c->chain;
    const int64_t blocks = is_float ? (c->k + block - 1) / block : c->k > 0;
    for (int64_t i = 0; i < blocks; i++) {
        const int64_t k = pp_fault(PP_FAULT_SWAPPED_BLOCKS) && i > 0 ? (blocks - i) * block : i * block;
        const bool finish = i + 1 == blocks;
        multiply_block(w, u, i == 0 ? sum : chain, k, k + smaller(block, c->k - k), finish);
        if (i > 0 && !finish) w->set->scalar[PP_ADD][c->dtype][PP_VV](elements, sum, sum, chain, NULL);
    }
    if (blocks > 0) return;
    memset(sum, 0, elements * c->size);
    run_stages(w, u, 0, u->m);
}

void pp_work_contract(pp_work *w, int64_t number)
{
    const unit u = unit_at(w->launch->contract, number);
    w->space = &w->launch->space;
    pp_work_range(w, PP_DIM_FIXED, u.batch, 1);
    multiply(w, &u);
}

void pp_work_contract_rows(pp_work *w, int64_t from, int64_t n)
{
    const pp_contract_at *c = w->launch->contract;
    const unit u = {.batch = from / c->m, .m0 = from % c->m, .m = n, .n = c->n};
    w->space = &w->launch->space;
    pp_work_range(w, PP_DIM_FIXED, u.batch, 1);
    multiply(w, &u);
    w->kept_batch = c->keeps_b ? u.batch : -1;
}
