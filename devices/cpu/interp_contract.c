/* SPDX-License-Identifier: Apache-2.0
 * Running a contraction: packing the factors, the chains of products, the sums of blocks, and the stages on
 * the finished tile.
 *
 * The law: inside a block of 1024 products one fma chain per element from +0 in order of k; blocks added in
 * order; at the end + 0 (done where the stages read the product). The register tile continues from what C
 * holds, so slices of 256 save and resume the chain. The first block is built in `sum` itself. Integers wrap,
 * in one chain. Macro tiles are padded to whole register tiles: what is computed beyond the edges is never
 * read. */
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
    enter(w, &c->a.space, c->a.rows, c->a.cols);
    pp_work_steps(w, &c->a.body, PP_GROUP_TASK);
    enter(w, &c->b.space, c->b.rows, c->b.cols);
    pp_work_steps(w, &c->b.body, PP_GROUP_TASK);
}

/* ---- packing --------------------------------------------------------------------------------- */

/* Evaluates the factor on a tile and gives its value. */
static pp_view evaluate(pp_work *w, const pp_factor_at *f, int64_t row, size_t rows, int64_t col, size_t cols)
{
    pp_work_range(w, PP_DIM_ROWS, row, rows);
    pp_work_range(w, PP_DIM_COLS, col, cols);
    pp_work_steps(w, &f->body, PP_GROUP_MAJOR);
    pp_work_steps(w, &f->body, PP_GROUP_MINOR);
    return w->views[f->body.value];
}

/* Panels from tiles [x][k]: each panel is a turned tile. */
static void pack_by_x(pp_work *w, const pp_factor_at *f, char *out, int64_t x0, int64_t nx, int64_t k0,
                      size_t depth)
{
    const size_t size = w->launch->contract->size, width = f->width;
    for (int64_t x = 0; x < nx; x += (int64_t)width, out += width * depth * size) {
        const size_t n = (size_t)smaller(nx - x, (int64_t)width);
        const pp_view v = evaluate(w, f, x0 + x, n, k0, depth);
        if (n == width) {
            w->set->load_transposed(depth, width, out, width * size, v.at, v.pitch, size);
            continue;
        }
        memset(out, 0, width * depth * size);
        for (size_t i = 0; i < n; i++)
            w->set->store_strided(depth, out + i * size, (int64_t)(width * size), v.at + (int64_t)i * v.pitch,
                                  size);
    }
}

static void pack_row(const pp_factor_at *f, char *out, size_t panel_bytes, const char *in, size_t nx,
                     size_t size)
{
    const size_t whole = nx / f->width, bytes = f->width * size, left = nx % f->width * size;
    for (size_t p = 0; p < whole; p++) memcpy(out + p * panel_bytes, in + p * bytes, bytes);
    if (left > 0) pp_copy_rows(out + whole * panel_bytes, 0, in + whole * bytes, 0, 1, left);
}

/* Panels from tiles [k][x]: pieces of each row. */
static void pack_by_k(pp_work *w, const pp_factor_at *f, char *out, int64_t x0, int64_t nx, int64_t k0,
                      size_t depth)
{
    const size_t size = w->launch->contract->size, panel_bytes = f->width * depth * size;
    if (nx % (int64_t)f->width > 0) memset(out + (size_t)nx / f->width * panel_bytes, 0, panel_bytes);
    for (size_t k = 0; k < depth; k += f->rows) {
        const size_t rows = depth - k < f->rows ? depth - k : f->rows;
        const pp_view v = evaluate(w, f, k0 + (int64_t)k, rows, x0, (size_t)nx);
        for (size_t r = 0; r < rows; r++)
            pack_row(f, out + (k + r) * f->width * size, panel_bytes, v.at + (int64_t)r * v.pitch, (size_t)nx,
                     size);
    }
}

static void pack(pp_work *w, const pp_factor_at *f, int64_t x0, int64_t nx, int64_t k0, size_t depth)
{
    char *out = w->scratch + f->packed;
    w->space = &f->space;
    (f->by_k ? pack_by_k : pack_by_x)(w, f, out, x0, nx, k0, depth);
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

/* n neighbouring chains of each row take their `depth` products; a: the factors of the rows, pitch: bytes
 * from one k of b to the next. */
static void add_rows(pp_work *w, const unit *u, char *chain, const char *a, pp_view b, size_t depth, size_t n)
{
    const pp_contract_at *c = w->launch->contract;
    const size_t a_step = c->a.width * c->size;
    for (int64_t i = 0; i < u->m; i++)
        c->tile->thin(depth, n, a + (size_t)i * c->size, a_step, b.at, b.pitch,
                      chain + (size_t)i * c->ldc * c->size);
}

/* A product with few rows reads B once from memory: packing it would cost more than the products. */
static void add_slice_thin(pp_work *w, const unit *u, char *chain, int64_t k0, size_t depth)
{
    const pp_contract_at *c = w->launch->contract;
    const pp_factor_at *f = &c->b;
    const size_t a_step = c->a.width * c->size;
    const char *a = w->scratch + c->a.packed;
    char *turned = w->scratch + f->packed;
    pack(w, &c->a, u->m0, u->m, k0, depth);
    w->space = &f->space;
    for (size_t k = 0; f->by_k && k < depth; k += f->rows) {
        const size_t rows = depth - k < f->rows ? depth - k : f->rows;
        const pp_view v = evaluate(w, f, k0 + (int64_t)k, rows, u->n0, (size_t)u->n);
        add_rows(w, u, chain, a + k * a_step, v, rows, (size_t)u->n);
    }
    for (int64_t n = 0; !f->by_k && n < u->n; n += (int64_t)f->rows) {
        const size_t cols = (size_t)smaller((int64_t)f->rows, u->n - n);
        for (size_t k = 0; k < depth; k += f->cols) {
            const size_t deep = depth - k < f->cols ? depth - k : f->cols;
            const pp_view v = evaluate(w, f, u->n0 + n, cols, k0 + (int64_t)k, deep);
            w->set->load_transposed(deep, cols, turned, cols * c->size, v.at, v.pitch, c->size);
            add_rows(w, u, chain + (size_t)n * c->size, a + k * a_step,
                     (pp_view){turned, (int64_t)(cols * c->size)}, deep, cols);
        }
    }
}

/* Adds `depth` products to every chain of the macro tile. */
static void add_slice(pp_work *w, const unit *u, char *chain, int64_t k0, size_t depth)
{
    const pp_contract_at *c = w->launch->contract;
    const int64_t mr = c->tile->mr, nr = c->tile->nr;
    const char *a = w->scratch + c->a.packed, *b = w->scratch + c->b.packed;
    pack(w, &c->b, u->n0, u->n, k0, depth);
    for (int64_t i0 = 0; i0 < u->m; i0 += c->mc) {
        const int64_t rows = smaller(c->mc, u->m - i0);
        pack(w, &c->a, u->m0 + i0, rows, k0, depth);
        for (int64_t j = 0; j < u->n; j += nr)
            for (int64_t i = 0; i < rows; i += mr)
                c->tile->run(depth, a + (size_t)i * depth * c->size, b + (size_t)j * depth * c->size,
                             chain + ((size_t)(i0 + i) * c->ldc + (size_t)j) * c->size, c->ldc);
    }
}

static void multiply(pp_work *w, const unit *u)
{
    const pp_contract_at *c = w->launch->contract;
    const size_t elements = (size_t)((u->m + c->tile->mr - 1) / c->tile->mr * c->tile->mr) * c->ldc;
    const bool is_float = pp_dtype_is_float((ppto_dtype)c->dtype);
    const int64_t block = is_float ? (int64_t)PP_K_BLOCK : INT64_MAX;
    char *sum = w->scratch + c->sum, *chain = w->scratch + c->chain;
    memset(sum, 0, elements * c->size);
    const int64_t blocks = is_float ? (c->k + block - 1) / block : c->k > 0;
    for (int64_t i = 0; i < blocks; i++) {
        const int64_t k = pp_fault(PP_FAULT_SWAPPED_BLOCKS) && i > 0 ? (blocks - i) * block : i * block;
        char *at = k == 0 ? sum : chain;
        const int64_t end = k + smaller(block, c->k - k);
        if (k > 0) memset(chain, 0, elements * c->size);
        for (int64_t k0 = k; k0 < end; k0 += c->kc)
            (c->thin ? add_slice_thin : add_slice)(w, u, at, k0, (size_t)smaller(c->kc, end - k0));
        if (k > 0) w->set->scalar[PP_ADD][c->dtype][PP_VV](elements, sum, sum, chain, NULL);
    }
}

/* ---- stages ---------------------------------------------------------------------------------- */

static void run_stages(pp_work *w, const unit *u)
{
    const pp_launch *launch = w->launch;
    const pp_contract_at *c = launch->contract;
    w->space = &launch->space;
    for (int64_t r = 0; r < u->m; r += (int64_t)launch->rows) {
        const size_t rows = (size_t)smaller((int64_t)launch->rows, u->m - r);
        for (int64_t n = 0; n < u->n; n += (int64_t)launch->cols) {
            pp_work_range(w, PP_DIM_ROWS, u->m0 + r, rows);
            pp_work_range(w, PP_DIM_COLS, u->n0 + n, (size_t)smaller((int64_t)launch->cols, u->n - n));
            w->product.at = w->scratch + c->sum + ((size_t)r * c->ldc + (size_t)n) * c->size;
            w->product.pitch = (int64_t)(c->ldc * c->size);
            for (uint32_t s = 0; s < launch->variant->program->n_stages; s++) {
                pp_work_steps(w, &launch->bodies[s], PP_GROUP_MAJOR);
                pp_work_steps(w, &launch->bodies[s], PP_GROUP_MINOR);
            }
        }
    }
}

void pp_work_contract(pp_work *w, int64_t number)
{
    const unit u = unit_at(w->launch->contract, number);
    w->space = &w->launch->space;
    pp_work_range(w, PP_DIM_FIXED, u.batch, 1);
    multiply(w, &u);
    run_stages(w, &u);
}
