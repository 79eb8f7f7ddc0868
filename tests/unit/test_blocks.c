/* SPDX-License-Identifier: Apache-2.0
 * devices/cpu/blocks: every loop of every set this CPU has against pp_scalar_eval, over special and random
 * values, for n = 0..70 and one long run, in place too, from unaligned buffers, with the bytes behind the
 * output watched. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu/blocks.h"
#include "devices/cpu/cpu_probe.h"
#include "tests/support/block_sets.h"

enum { N = 1003, SHORT = 70, SLACK = 64 };

/* ---- elements ----------------------------------------------------------------------------------- */

typedef struct elements {
    char bytes[1 + N * 8 + SLACK]; /* data starts at 1 */
} elements;

static void *data(elements *e)
{
    return e->bytes + 1;
}

static uint64_t element(const void *base, ppto_dtype dtype, size_t i)
{
    uint64_t bits = 0;
    memcpy(&bits, (const char *)base + i * ppto_dtype_size(dtype), ppto_dtype_size(dtype));
    return bits;
}

static uint64_t bits_of(ppto_dtype dtype, double value)
{
    uint64_t bits = 0;
    float narrow = (float)value;
    if (dtype == PPTO_F32)
        memcpy(&bits, &narrow, sizeof narrow);
    else
        memcpy(&bits, &value, sizeof value);
    return bits;
}

static uint64_t sample_float(ppto_dtype dtype)
{
    static const double special[] = {
        0.0,     -0.0,    1.0,          -1.0,         0.5,           -0.5,
        1.5,     2.5,     -2.5,         3.0,          1e-45,         -1e-45,
        1e-310,  127.5,   128.0,        -129.0,       255.9,         256.0,
        32768.0, 65535.5, 2147483647.0, 2147483648.0, -2147483649.0, 4294967296.0,
        9.3e18,  -9.3e18, 1.9e19,       3.4e38,       8388607.5,     4503599627370495.5,
        0.1,     1e300,   -1e300};
    uint64_t r = random_bits();
    switch (r % 8) {
    case 0: return bits_of(dtype, __builtin_inf() * (r & 64 ? 1 : -1));
    case 1: return pp_dtype_canonical_nan(dtype) ^ (r & 64 ? 0 : 1);
    case 2:
    case 3: return random_bits() & (dtype == PPTO_F32 ? UINT32_MAX : UINT64_MAX);
    case 4: return bits_of(dtype, (double)(int64_t)random_bits() * 0x1p-60);
    default: return bits_of(dtype, special[(r >> 8) % (sizeof special / sizeof *special)]);
    }
}

static uint64_t sample_integer(ppto_dtype dtype)
{
    const unsigned width = pp_dtype_width(dtype);
    const uint64_t all = width == 64 ? UINT64_MAX : (UINT64_C(1) << width) - 1;
    uint64_t r = random_bits();
    switch (r % 6) {
    case 0: return (r >> 8) % 70 & all;
    case 1: return (0 - (r >> 8) % 70) & all;
    case 2: return (UINT64_C(1) << (width - 1)) - (r >> 8) % 2;
    case 3: return (UINT64_C(1) << (r >> 8) % width) & all;
    default: return random_bits() & all;
    }
}

static void fill_samples(elements *e, ppto_dtype dtype)
{
    for (size_t i = 0; i < N; i++) {
        uint64_t bits = dtype == PPTO_BOOL         ? random_bits() & 1
                        : pp_dtype_is_float(dtype) ? sample_float(dtype)
                                                   : sample_integer(dtype);
        memcpy((char *)data(e) + i * ppto_dtype_size(dtype), &bits, ppto_dtype_size(dtype));
    }
}

static bool is_nan(ppto_dtype dtype, uint64_t bits)
{
    if (dtype == PPTO_F32) return (bits & 0x7fffffffu) > 0x7f800000u;
    return dtype == PPTO_F64 && (bits & INT64_MAX) > 0x7ff0000000000000u;
}

/* ---- one loop against its expected bits --------------------------------------------------------- */

typedef struct loop_case {
    const char *set, *name;
    ppto_dtype from[3], to;
    bool scalar[3]; /* operand is one element */
    bool exact_nan; /* else any NaN will do */
    unsigned n_operands;
    pp_block_fn loop;
} loop_case;

static elements operand[3], copy[3], output;
static uint64_t expected[N];

static bool run_once(const loop_case *c, size_t n, int in_place)
{
    void *in[3];
    const size_t size = ppto_dtype_size(c->to);
    for (size_t k = 0; k < 3; k++) {
        memcpy(&copy[k], &operand[k], sizeof copy[k]);
        in[k] = data(&copy[k]);
    }
    char *out = in_place < 0 ? data(&output) : in[in_place];
    if (in_place < 0) memset(out + n * size, 0xa5, SLACK);
    c->loop(n, out, in[0], in[1], in[2]);
    for (size_t i = 0; i < n; i++) {
        uint64_t got = element(out, c->to, i);
        bool same = got == expected[i] || (!c->exact_nan && is_nan(c->to, got) && is_nan(c->to, expected[i]));
        if (!same) {
            cr_expect(false, "%s %s %s -> %s: n %zu, in place %d, element %zu: %016llx, not %016llx", c->set,
                      c->name, ppto_dtype_name(c->from[c->n_operands - 1]), ppto_dtype_name(c->to), n,
                      in_place, i, (unsigned long long)got, (unsigned long long)expected[i]);
            return false;
        }
    }
    if (in_place >= 0) return true;
    for (size_t i = 0; i < SLACK; i++)
        if (out[n * size + i] != (char)0xa5) {
            cr_expect(false, "%s %s: n %zu, wrote behind the output", c->set, c->name, n);
            return false;
        }
    return true;
}

static void check_loop(const loop_case *c)
{
    cr_assert(c->loop, "%s %s of %s is missing", c->set, c->name, ppto_dtype_name(c->from[0]));
    for (size_t n = 0; n <= SHORT; n++)
        if (!run_once(c, n, -1)) return;
    if (!run_once(c, N, -1)) return;
    for (int k = 0; k < (int)c->n_operands; k++)
        if (!c->scalar[k] && (!run_once(c, 37, k) || !run_once(c, N, k))) return;
}

/* ---- scalar rows -------------------------------------------------------------------------------- */

static void check_row(const pp_block_set *set, pp_op op, ppto_dtype dtype)
{
    const pp_scalar_row *row = pp_scalar_find(op);
    for (unsigned shape = 0; shape < PP_SHAPES; shape++) {
        loop_case c = {.set = set->name,
                       .name = row->name,
                       .from = {dtype, dtype, dtype},
                       .n_operands = row->arity,
                       .to = pp_scalar_result(op, dtype),
                       .loop = set->scalar[op][dtype][shape]};
        if (op == PP_SELECT) c.from[0] = PPTO_BOOL;
        if (row->arity == 3) c.scalar[2] = shape == PP_VS, c.scalar[1] = shape == PP_SV;
        if (row->arity == 2) c.scalar[1] = shape == PP_VS, c.scalar[0] = shape == PP_SV;
        uint64_t x[3] = {0};
        for (unsigned k = 0; k < row->arity; k++) fill_samples(&operand[k], c.from[k]);
        for (size_t i = 0; i < N; i++) {
            for (unsigned k = 0; k < row->arity; k++)
                x[k] = element(data(&operand[k]), c.from[k], c.scalar[k] ? 0 : i);
            expected[i] = pp_scalar_eval(op, dtype, c.to, x[0], x[1], x[2]);
        }
        check_loop(&c);
    }
}

Test(blocks_scalar, every_row_dtype_and_shape)
{
    FOR_EACH_SET(set)
    for (int op = 0; op < PP_CAST; op++)
        for (int dtype = 0; dtype < PP_DTYPE_COUNT; dtype++) {
            if (pp_scalar_accepts((pp_op)op, (ppto_dtype)dtype))
                check_row(set, (pp_op)op, (ppto_dtype)dtype);
            else
                cr_expect_null(set->scalar[op][dtype][PP_VV], "%s of %s", pp_scalar_find((pp_op)op)->name,
                               ppto_dtype_name((ppto_dtype)dtype));
        }
}

/* One divisor for a block has loops of its own: every small divisor, and those around powers of two. */
static void check_divisor(const pp_block_set *set, pp_op op, ppto_dtype dtype, uint64_t divisor)
{
    loop_case c = {.set = set->name,
                   .name = pp_scalar_find(op)->name,
                   .from = {dtype, dtype, dtype},
                   .scalar = {false, true},
                   .n_operands = 2,
                   .to = dtype,
                   .loop = set->scalar[op][dtype][PP_VS]};
    memcpy(data(&operand[1]), &divisor, sizeof divisor);
    for (size_t i = 0; i < N; i++)
        expected[i] = pp_scalar_eval(op, dtype, dtype, element(data(&operand[0]), dtype, i), divisor, 0);
    run_once(&c, 61, -1);
    run_once(&c, N, -1);
}

Test(blocks_scalar, quotients_by_one_divisor)
{
    FOR_EACH_SET(set)
    for (int dtype = PPTO_I8; dtype <= PPTO_U64; dtype++) {
        const unsigned width = pp_dtype_width((ppto_dtype)dtype);
        const uint64_t all = width == 64 ? UINT64_MAX : (UINT64_C(1) << width) - 1;
        fill_samples(&operand[0], (ppto_dtype)dtype);
        for (int by = -130; by <= 130; by++) {
            check_divisor(set, PP_IDIV, (ppto_dtype)dtype, (uint64_t)(int64_t)by & all);
            check_divisor(set, PP_IMOD, (ppto_dtype)dtype, (uint64_t)(int64_t)by & all);
        }
        for (unsigned bit = 7; bit < width; bit++)
            for (int near = -1; near <= 1; near++) {
                const uint64_t by = ((UINT64_C(1) << bit) + (uint64_t)(int64_t)near) & all;
                check_divisor(set, PP_IDIV, (ppto_dtype)dtype, by);
                check_divisor(set, PP_IMOD, (ppto_dtype)dtype, by);
            }
    }
}

static void check_pair(const pp_block_set *set, pp_op op, ppto_dtype from, ppto_dtype to, pp_block_fn loop)
{
    loop_case c = {.set = set->name,
                   .name = pp_scalar_find(op)->name,
                   .from = {from, from, from},
                   .to = to,
                   .n_operands = 1,
                   .loop = loop,
                   .exact_nan = op == PP_BITCAST};
    fill_samples(&operand[0], from);
    for (size_t i = 0; i < N; i++)
        expected[i] = pp_scalar_eval(op, from, to, element(data(&operand[0]), from, i), 0, 0);
    check_loop(&c);
}

Test(blocks_cast, every_pair)
{
    FOR_EACH_SET(set)
    for (int from = 0; from < PP_DTYPE_COUNT; from++)
        for (int to = 0; to < PP_DTYPE_COUNT; to++)
            check_pair(set, PP_CAST, (ppto_dtype)from, (ppto_dtype)to, set->cast[from][to]);
}

Test(blocks_cast, bits_of_every_pair_of_one_width)
{
    FOR_EACH_SET(set)
    for (int from = 1; from < PP_DTYPE_COUNT; from++)
        for (int to = 1; to < PP_DTYPE_COUNT; to++) {
            if (pp_dtype_width((ppto_dtype)from) == pp_dtype_width((ppto_dtype)to))
                check_pair(set, PP_BITCAST, (ppto_dtype)from, (ppto_dtype)to, set->bitcast[from][to]);
            else
                cr_expect_null(set->bitcast[from][to]);
        }
}

Test(blocks_cast, canonical_nan_else_the_same_bits)
{
    FOR_EACH_SET(set)
    for (int dtype = 0; dtype < PP_DTYPE_COUNT; dtype++) {
        const ppto_dtype d = (ppto_dtype)dtype;
        loop_case c = {.set = set->name,
                       .name = "canonical",
                       .from = {d, d, d},
                       .to = d,
                       .n_operands = 1,
                       .loop = set->canonical[d],
                       .exact_nan = true};
        fill_samples(&operand[0], d);
        for (size_t i = 0; i < N; i++) {
            uint64_t x = element(data(&operand[0]), d, i);
            expected[i] = is_nan(d, x) ? pp_dtype_canonical_nan(d) : x;
        }
        check_loop(&c);
    }
}

Test(blocks_cast, a_block_has_nan_or_not)
{
    FOR_EACH_SET(set)
    for (int dtype = 0; dtype < PP_DTYPE_COUNT; dtype++) {
        const ppto_dtype d = (ppto_dtype)dtype;
        if (!pp_dtype_is_float(d)) {
            cr_expect_null(set->has_nan[dtype]);
            continue;
        }
        const uint64_t nan = pp_dtype_canonical_nan(d) ^ 1;
        const size_t size = ppto_dtype_size(d);
        for (size_t n = 0; n <= SHORT; n++) {
            memset(data(&operand[0]), 0, (n + 1) * size);
            memcpy((char *)data(&operand[0]) + n * size, &nan, size);
            cr_expect_not(set->has_nan[dtype](n, data(&operand[0])), "%s: n %zu, a NaN behind", set->name, n);
            for (size_t i = 0; i < n; i++) {
                memset(data(&operand[0]), 0, n * size);
                memcpy((char *)data(&operand[0]) + i * size, &nan, size);
                cr_expect(set->has_nan[dtype](n, data(&operand[0])), "%s: n %zu, at %zu", set->name, n, i);
            }
        }
    }
}

/* ---- contraction tiles -------------------------------------------------------------------------- */

static void fill_random(void *out, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) ((char *)out)[i] = (char)random_bits();
}

/* An element of C, which held `before`, in the law's own words. */
static uint64_t chain_of(ppto_dtype dtype, const pp_tile_job *job, size_t i, size_t j, uint64_t before)
{
    const size_t size = ppto_dtype_size(dtype);
    uint64_t acc = job->first ? 0 : before;
    for (size_t k = 0; k < job->k; k++) {
        const char *x = (const char *)job->a + (int64_t)i * job->a_row + (int64_t)k * job->a_step;
        const char *y = (const char *)job->b + (int64_t)k * job->b_step + j * size;
        acc = pp_scalar_eval(PP_FMA, dtype, dtype, element(x, dtype, 0), element(y, dtype, 0), acc);
    }
    if (job->joins) acc = pp_scalar_eval(PP_ADD, dtype, dtype, before, acc, 0);
    return job->last && pp_dtype_is_float(dtype) ? pp_scalar_eval(PP_ADD, dtype, dtype, acc, 0, 0) : acc;
}

/* C has LDC_MORE columns more than are asked for, and they stay as they are. */
enum { LDC_MORE = 3, TILE_MOST = 16 * 140 };
static void check_tile(const pp_block_set *set, ppto_dtype dtype, pp_tile_job job)
{
    static char c[TILE_MOST * 8], want[TILE_MOST * 8];
    const size_t size = ppto_dtype_size(dtype);
    job.c = c;
    job.ldc = job.cols + LDC_MORE;
    cr_assert(job.rows * job.ldc <= TILE_MOST);
    fill_random(c, sizeof c);
    memcpy(want, c, sizeof c);
    for (size_t i = 0; i < job.rows; i++)
        for (size_t j = 0; j < job.cols; j++) {
            const size_t at = i * job.ldc + j;
            const uint64_t acc = chain_of(dtype, &job, i, j, element(c, dtype, at));
            memcpy(want + at * size, &acc, size);
        }
    set->contract[dtype].run(&job);
    for (size_t i = 0; i < job.rows * job.ldc; i++) {
        uint64_t got = element(c, dtype, i), right = element(want, dtype, i);
        cr_assert(got == right || (is_nan(dtype, got) && is_nan(dtype, right)),
                  "%s %s: k %zu, %zu x %zu, element %zu", set->name, ppto_dtype_name(dtype), job.k, job.rows,
                  job.cols, i);
    }
}

/* Every number of rows and columns up to those of the tile, by packed panels and (floats) by rows far apart.
 */
static void check_tiles(const pp_block_set *set, ppto_dtype dtype)
{
    static elements a, b;
    const pp_contract_tile *tile = &set->contract[dtype];
    const int64_t size = (int64_t)ppto_dtype_size(dtype), apart = 7;
    cr_assert_not_null(tile->run);
    fill_samples(&a, dtype);
    fill_samples(&b, dtype);
    for (size_t rows = 1; rows <= tile->mr; rows++)
        for (size_t cols = 1; cols <= tile->nr; cols += cols + 3 < tile->nr ? 3 : 1) {
            pp_tile_job job = {.k = (rows + cols) % 6, .rows = rows, .cols = cols};
            job.a = data(&a), job.b = data(&b);
            job.first = rows % 2 == 0, job.last = cols % 2 == 0;
            job.joins = rows % 4 == 0 && pp_dtype_is_float(dtype);
            job.a_row = size, job.a_step = tile->mr * size, job.b_step = tile->nr * size;
            cr_assert(job.k * tile->mr <= N && job.k * tile->nr <= N && rows * 7 <= N);
            check_tile(set, dtype, job);
            if (!pp_dtype_is_float(dtype)) continue;
            job.a_row = apart * size, job.a_step = size, job.b_step = (int64_t)cols * size;
            check_tile(set, dtype, job);
        }
}

Test(blocks_contract, tiles_continue_one_chain)
{
    FOR_EACH_SET(set)
    {
        cr_expect_null(set->contract[PPTO_BOOL].run);
        for (int dtype = 1; dtype < PP_DTYPE_COUNT; dtype++) check_tiles(set, (ppto_dtype)dtype);
    }
}

/* ---- the sets ----------------------------------------------------------------------------------- */

Test(blocks_sets, found_by_name_or_the_best)
{
    cr_expect_not_null(pp_blocks_find(NULL));
    cr_expect_not_null(pp_blocks_find("baseline"));
    cr_expect_null(pp_blocks_find("mmx"));
    FOR_EACH_SET(set)
    {
        cr_expect_str_eq(set->name, set_names[at_]);
        if (at_ + 1 == sizeof set_names / sizeof *set_names) cr_expect_eq(set, pp_blocks_find(NULL));
    }
}

Test(blocks_sets, generated_functions_are_sorted_and_found)
{
    FOR_EACH_SET(set)
    {
        for (size_t i = 0; i < set->n_functions; i++) {
            cr_expect_eq(pp_blocks_function(set, set->functions[i].hash), set->functions[i].loop);
            if (i > 0) cr_expect_lt(set->functions[i - 1].hash, set->functions[i].hash);
        }
        cr_expect_null(pp_blocks_function(set, 0));
        for (size_t i = 0; i < set->n_folds; i++) {
            const pp_fold_loops *loops = &set->folds[i];
            pp_function lift = {.hash = loops->lift}, step = {.hash = loops->step},
                        join = {.hash = loops->join};
            pp_fold fold = {.lift = loops->lift ? &lift : NULL,
                            .step = loops->step ? &step : NULL,
                            .join = loops->join ? &join : NULL};
            cr_expect_eq(pp_blocks_fold(set, &fold), loops);
        }
    }
}

Test(blocks, a_set_that_computes_something_else_is_refused)
{
    static const struct {
        unsigned op, instead, shape;
    } faults[] = {{PP_ADD, PP_SUB, PP_VV}, {PP_MUL, PP_ADD, PP_VS}, {PP_MAX, PP_MIN, PP_SV}};
    pp_block_set *set = pp_alloc(sizeof *set);
    pp_error err = {.code = PPTO_OK};
    cr_assert(set != NULL);
    *set = *pp_blocks_find(NULL);
    cr_expect_eq(pp_cpu_probe(set, &err), PPTO_OK, "%s", err.text);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        const pp_block_fn right = set->scalar[faults[i].op][PPTO_F32][faults[i].shape];
        set->scalar[faults[i].op][PPTO_F32][faults[i].shape] =
            set->scalar[faults[i].instead][PPTO_F32][faults[i].shape];
        cr_expect_eq(pp_cpu_probe(set, &err), PPTO_E_DEVICE);
        cr_expect(strstr(err.text, pp_scalar_find((pp_op)faults[i].op)->name) != NULL, "%s", err.text);
        set->scalar[faults[i].op][PPTO_F32][faults[i].shape] = right;
        pp_error_clear(&err);
    }
    set->cast[PPTO_F32][PPTO_I32] = set->cast[PPTO_F32][PPTO_U32];
    cr_expect_eq(pp_cpu_probe(set, &err), PPTO_E_DEVICE);
    pp_free(set);
}
