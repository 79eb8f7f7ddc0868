/* SPDX-License-Identifier: Apache-2.0
 * The generated loops of functions and folds: compiled with the system's compiler for every instruction set
 * this machine has, they must give the bits of the functions evaluated one instruction at a time, whatever
 * the length of the block and whether the output is the input. */
#define _GNU_SOURCE
#include <criterion/criterion.h>

#include "devices/cpu/blocks.h"
#include "devices/cpu/functions_emit.h"
#include "kernel_build.h"

/* ---- functions ----------------------------------------------------------------------------------------- */

static builder square, poly, masked, cold_part, hot_cold, looked_up, both, two_results, sum_join, lift_k,
    step_k, join_k, ident, chained;

static void build_poly(void)
{
    build_start(&square, "square");
    uint32_t x = build_param(&square, PPTO_F32);
    build_result(&square, build_op(&square, PP_MUL, PPTO_F32, x, x, 0));
    build_start(&poly, "poly f32");
    x = build_param(&poly, PPTO_F32);
    uint32_t y = build_call(&poly, &square.f, &x), c = build_f32(&poly, 0.1f);
    y = build_op(&poly, PP_FMA, PPTO_F32, y, c, x);
    uint32_t low = build_op(&poly, PP_LT, PPTO_BOOL, y, c, 0);
    build_result(&poly, build_op(&poly, PP_SELECT, PPTO_F32, low, y, x));
}

/* hot_cold(x) = x < 1 ? cold(x, x + 1) : sqrt(x); the second operand of the callee is no parameter. */
static void build_hot_cold(void)
{
    build_binary(&cold_part, "cold_part", PP_DIV, PPTO_F32);
    build_start(&hot_cold, "hot_cold");
    uint32_t x = build_param(&hot_cold, PPTO_F32), one = build_f32(&hot_cold, 1.0f);
    uint32_t operand[2] = {x, build_op(&hot_cold, PP_ADD, PPTO_F32, x, one, 0)};
    uint32_t mask = build_op(&hot_cold, PP_LT, PPTO_BOOL, x, one, 0);
    uint32_t hot = build_op(&hot_cold, PP_SQRT, PPTO_F32, x, 0, 0);
    build_result(&hot_cold, build_cold(&hot_cold, &cold_part.f, mask, hot, operand));
    /* a caller: the region is no longer last */
    build_start(&masked, "masked");
    x = build_param(&masked, PPTO_F32);
    uint32_t y = build_call(&masked, &hot_cold.f, &x);
    y = build_op(&masked, PP_ADD, PPTO_F32, y, x, 0);
    y = build_call(&masked, &hot_cold.f, &y);
    build_result(&masked, build_op(&masked, PP_SUB, PPTO_F32, y, x, 0));
}

static uint64_t small_table[8], wide_table[64], long_table[4];

static void build_tables(void)
{
    for (unsigned i = 0; i < 8; i++) small_table[i] = bits_of_f32(0.5f * (float)i + 0.25f);
    for (unsigned i = 0; i < 64; i++) wide_table[i] = i * 2654435761u & 0xffffffffu;
    for (unsigned i = 0; i < 4; i++) long_table[i] = UINT64_C(0x123456789abcdef) * (i + 1);
    build_start(&looked_up, "looked_up");
    uint32_t x = build_param(&looked_up, PPTO_F32), n = build_op(&looked_up, PP_BITCAST, PPTO_U32, x, 0, 0);
    uint32_t shift = build_bits(&looked_up, PPTO_U32, 20),
             i = build_op(&looked_up, PP_SHR, PPTO_U32, n, shift, 0);
    uint32_t t = build_table(&looked_up, PPTO_F32, small_table, 8, i);
    uint32_t u = build_table(&looked_up, PPTO_U32, wide_table, 64, i);
    uint32_t v = build_table(&looked_up, PPTO_U64, long_table, 4, u); /* a look-up of a look-up */
    uint32_t p = build_op(&looked_up, PP_FMA, PPTO_F32, t, x, t);
    p = build_op(&looked_up, PP_MUL, PPTO_F32, p, p, 0);
    p = build_op(&looked_up, PP_ADD, PPTO_F32, p, x, 0);
    uint32_t w = build_op(&looked_up, PP_CAST, PPTO_F32, v, 0, 0);
    build_result(&looked_up, build_op(&looked_up, PP_FMA, PPTO_F32, w, p, x));
    build_start(&both, "both");
    x = build_param(&both, PPTO_F32);
    uint32_t y = build_param(&both, PPTO_F32), one = build_f32(&both, 1.0f);
    uint32_t a = build_call(&both, &looked_up.f, &x), mask = build_op(&both, PP_LT, PPTO_BOOL, a, one, 0);
    uint32_t operand[2] = {y, a}, hot = build_op(&both, PP_MUL, PPTO_F32, a, y, 0);
    uint32_t z = build_cold(&both, &cold_part.f, mask, hot, operand);
    z = build_call(&both, &looked_up.f, &z);
    build_result(&both, build_op(&both, PP_ADD, PPTO_F32, z, a, 0));
}

/* A fold of two states with a position: (running product of 1 + x / 64, sum of k * x as i64). */
static void build_folds(void)
{
    build_start(&two_results, "two_results");
    uint32_t x = build_param(&two_results, PPTO_I32), y = build_param(&two_results, PPTO_I32);
    build_result(&two_results, build_op(&two_results, PP_IDIV, PPTO_I32, x, y, 0));
    build_result(&two_results, build_op(&two_results, PP_IMOD, PPTO_I32, x, y, 0));
    build_binary(&sum_join, "sum_join", PP_ADD, PPTO_F32);
    build_identity(&ident, "ident", PPTO_F32);
    build_start(&lift_k, "lift_k");
    x = build_param(&lift_k, PPTO_F32);
    uint32_t k = build_param(&lift_k, PPTO_I64), c = build_op(&lift_k, PP_CAST, PPTO_I64, x, 0, 0);
    build_result(&lift_k, x);
    build_result(&lift_k, build_op(&lift_k, PP_MUL, PPTO_I64, c, k, 0));
    build_start(&join_k, "join_k");
    uint32_t s[4];
    for (unsigned i = 0; i < 4; i++) s[i] = build_param(&join_k, i % 2 == 0 ? PPTO_F32 : PPTO_I64);
    uint32_t third = build_f32(&join_k, 1.0f / 3);
    build_result(&join_k, build_op(&join_k, PP_FMA, PPTO_F32, s[0], third, s[2]));
    build_result(&join_k, build_op(&join_k, PP_ADD, PPTO_I64, s[1], s[3], 0));
    build_start(&step_k, "step_k");
    x = build_param(&step_k, PPTO_F32);
    y = build_param(&step_k, PPTO_I64);
    uint32_t e = build_param(&step_k, PPTO_F32);
    k = build_param(&step_k, PPTO_I64);
    third = build_f32(&step_k, 1.0f / 7);
    build_result(&step_k, build_op(&step_k, PP_FMA, PPTO_F32, x, third, e));
    build_result(&step_k, build_op(&step_k, PP_XOR, PPTO_I64, y, k, 0));
    build_start(&chained, "chained");
    x = build_param(&chained, PPTO_F32);
    y = build_call(&chained, &poly.f, &x);
    build_result(&chained, build_call(&chained, &looked_up.f, &y));
}

static const pp_function *functions[] = {&poly.f, &hot_cold.f, &masked.f,      &looked_up.f,
                                         &both.f, &chained.f,  &two_results.f, &poly.f};
static pp_fold folds[2];
static const struct {
    const char *name, *flags, *cpu;
} sets[] = {
    {"baseline", "", ""},
    {"avx2", "-mavx2 -mfma -mbmi2", "avx2"},
    {"avx512", "-mavx512f -mavx512dq -mavx512bw -mavx512vl -mfma -mprefer-vector-width=512", "avx512"}};
enum { SETS = sizeof sets / sizeof *sets };
static void *loaded[SETS];

static bool cpu_has(const char *name)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (strcmp(name, "avx2") == 0) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (strcmp(name, "avx512") == 0)
        return __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
    return name[0] == '\0';
}

static void setup(void)
{
    build_poly(), build_hot_cold(), build_tables(), build_folds();
    folds[0] =
        (pp_fold){.n_states = 1, .n_inputs = 1, .state = {PPTO_F32}, .lift = &ident.f, .join = &sum_join.f};
    folds[1] = (pp_fold){.n_states = 2,
                         .n_inputs = 1,
                         .state = {PPTO_F32, PPTO_I64},
                         .position = true,
                         .lift = &lift_k.f,
                         .step = &step_k.f,
                         .join = &join_k.f};
}

/* Compiling takes seconds, so the tests of all loops are one test. */
static void load(void)
{
    pp_text text = {0};
    setup();
    cr_assert_eq(pp_functions_emit(functions, sizeof functions / sizeof *functions, folds, 2, &text, 1),
                 PPTO_OK);
    const bool usable = has_compiler();
    const char *file = __FILE__, *end = strstr(file, "tests/unit/");
    for (int s = 0; s < SETS && usable; s++) {
        char flags[1024];
        if (!cpu_has(sets[s].cpu)) continue;
        snprintf(flags, sizeof flags,
                 "-std=c11 -O2 -ftree-vectorize -Wall -Wextra -Werror -ffp-contract=off -fno-math-errno "
                 "-fno-trapping-math "
                 "-fno-strict-aliasing -fwrapv -DPP_SIMD=%s %s -I%.*s. -I%.*sinclude -I%.*ssrc",
                 sets[s].name, sets[s].flags, (int)(end - file), file, (int)(end - file), file,
                 (int)(end - file), file);
        loaded[s] = compile_text(text.at, flags);
        cr_assert_not_null(loaded[s], "%s does not compile", sets[s].name);
    }
    pp_text_free(&text);
}

/* ---- access -------------------------------------------------------------------------------------------- */

static const void *symbol(int set, const char *prefix)
{
    char name[64];
    snprintf(name, sizeof name, "%s_%s", prefix, sets[set].name);
    return dlsym(loaded[set], name);
}

static pp_function_loop find_loop(int set, uint64_t hash)
{
    const pp_function_entry *entry = symbol(set, "pp_functions");
    const size_t *n = symbol(set, "pp_n_functions");
    for (size_t i = 0; i < *n; i++)
        if (entry[i].hash == hash) return entry[i].loop;
    return NULL;
}

static const pp_fold_loops *find_fold(int set, uint64_t lift, uint64_t step, uint64_t join)
{
    const pp_fold_loops *entry = symbol(set, "pp_folds");
    const size_t *n = symbol(set, "pp_n_folds");
    for (size_t i = 0; i < *n; i++)
        if (entry[i].lift == lift && entry[i].step == step && entry[i].join == join) return &entry[i];
    return NULL;
}

static float sample(size_t i)
{
    static const float special[] = {0.0f, -0.0f, 1.0f, -1.0f, 0.5f, 3.0f, 1e30f, 1e-40f, -2.75f, 0x1p24f};
    return i % 7 == 3 ? special[i / 7 % 10] : (float)((i * 7919 % 1009)) * 0.37f - 50.0f;
}

static bool same(ppto_dtype dtype, uint64_t a, uint64_t b)
{
    if (a == b) return true;
    return dtype == PPTO_F32 && (a & 0x7fffffff) > 0x7f800000 && (b & 0x7fffffff) > 0x7f800000;
}

enum { MOST = 1200 };

/* ---- tests --------------------------------------------------------------------------------------------- */

static void check_function(int set, const pp_function *f, size_t n, bool in_place, float low)
{
    static float in[2][MOST], out[2][MOST];
    static float before[2][MOST];
    void *outs[2] = {in_place ? in[0] : out[0], out[1]};
    const void *ins[2] = {in[0], in[1]};
    for (size_t i = 0; i < n; i++)
        for (unsigned p = 0; p < 2; p++) {
            in[p][i] = sample(i * 2 + p);
            if (in[p][i] < low) in[p][i] = low;
            if (f->param[0] == PPTO_I32) {
                int32_t whole = (int32_t)(i * 37 + p) % 19 - 9;
                memcpy(&in[p][i], &whole, sizeof whole);
            }
            before[p][i] = in[p][i];
        }
    pp_function_loop loop = find_loop(set, f->hash);
    cr_assert(loop != NULL, "%s", f->name);
    loop(n, outs, ins);
    for (size_t i = 0; i < n; i++) {
        uint64_t param[2] = {bits_of_f32(before[0][i]), bits_of_f32(before[1][i])}, result[4];
        evaluate(f, param, result);
        for (unsigned r = 0; r < f->n_results; r++) {
            uint32_t bits;
            memcpy(&bits, (char *)outs[r] + 4 * i, 4);
            cr_assert(same((ppto_dtype)f->code[f->result[r]].dtype, bits, result[r]),
                      "%s %s n %zu in place %d: element %zu (%a, %a) result %u: %08x, not %08x",
                      sets[set].name, f->name, n, in_place, i, (double)before[0][i], (double)before[1][i], r,
                      bits, (unsigned)result[r]);
        }
    }
}

static void check_functions(void)
{
    static const size_t lengths[] = {0, 1, 5, 31, 32, 33, 64, 500, 512, 513, 1024, 1199};
    for (int set = 0; set < SETS; set++)
        for (size_t f = 0; f < sizeof functions / sizeof *functions && loaded[set] != NULL; f++)
            for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
                for (int in_place = 0; in_place < 2; in_place++) {
                    check_function(set, functions[f], lengths[l], in_place, -1e30f);
                    check_function(set, functions[f], lengths[l], in_place, 2.0f); /* no element is cold */
                }
}

/* ---- folds by the text of the laws --------------------------------------------------------------------- */

typedef struct states {
    uint64_t at[4];
} states;

static states lift(const pp_fold *fold, uint64_t x, int64_t k)
{
    const uint64_t param[2] = {x, (uint64_t)k};
    states r = {{x}};
    if (fold->lift != NULL) evaluate(fold->lift, param, r.at);
    return r;
}

static states join(const pp_fold *fold, states a, states b)
{
    uint64_t param[8];
    states r;
    for (unsigned s = 0; s < fold->n_states; s++) param[s] = a.at[s], param[fold->n_states + s] = b.at[s];
    evaluate(fold->join, param, r.at);
    return r;
}

static states step(const pp_fold *fold, states s, uint64_t x, int64_t k)
{
    uint64_t param[6];
    states r;
    if (fold->step == NULL) return join(fold, s, lift(fold, x, k));
    memcpy(param, s.at, sizeof s.at);
    param[fold->n_states] = x, param[fold->n_states + 1] = (uint64_t)k;
    evaluate(fold->step, param, r.at);
    return r;
}

static states lanes(const pp_fold *fold, const float *x, size_t n, int64_t k0)
{
    states lane[64];
    for (size_t i = 0; i < n; i++) {
        const int64_t k = k0 + (int64_t)i;
        lane[i % 64] =
            i < 64 ? lift(fold, bits_of_f32(x[i]), k) : step(fold, lane[i % 64], bits_of_f32(x[i]), k);
    }
    for (size_t h = 32; h > 0; h /= 2)
        for (size_t i = 0; i < h && i + h < n; i++) lane[i] = join(fold, lane[i], lane[i + h]);
    return lane[0];
}

static void scan(const pp_fold *fold, const float *x, size_t n, int64_t k0, states *p)
{
    states before = {{0}};
    for (size_t g = 0; g < n; g += 16) {
        const size_t m = n - g < 16 ? n - g : 16;
        for (size_t i = 0; i < m; i++) p[g + i] = lift(fold, bits_of_f32(x[g + i]), k0 + (int64_t)(g + i));
        for (size_t d = 1; d < 16; d *= 2)
            for (size_t i = m; i-- > d;) p[g + i] = join(fold, p[g + i - d], p[g + i]);
        for (size_t i = 0; i < m && g > 0; i++) p[g + i] = join(fold, before, p[g + i]);
        before = p[g + m - 1];
    }
}

static uint64_t stored_bits(ppto_dtype dtype, const void *array, size_t i)
{
    uint64_t bits = 0;
    memcpy(&bits, (const char *)array + i * ppto_dtype_size(dtype), ppto_dtype_size(dtype));
    return bits;
}

static void expect_states(const pp_fold *fold, states want, void *const *array, size_t i, const char *what,
                          size_t n)
{
    for (unsigned s = 0; s < fold->n_states; s++) {
        const ppto_dtype dtype = (ppto_dtype)fold->state[s];
        cr_assert(same(dtype, stored_bits(dtype, array[s], i), want.at[s]), "%s n %zu at %zu state %u", what,
                  n, i, s);
    }
}

static const pp_fold_loops *loops_of(int set, const pp_fold *fold)
{
    const pp_fold_loops *loops =
        find_fold(set, pp_fold_lift_key(fold), fold->step != NULL ? fold->step->hash : 0, fold->join->hash);
    cr_assert_not_null(loops);
    return loops;
}

static float values[4096];
static int64_t wide[2][4096];

static void check_fold(int set, const pp_fold *fold, size_t n)
{
    static states want[4096];
    void *out[2] = {wide[0], wide[1]};
    const void *in[1] = {values};
    const pp_fold_loops *loops = loops_of(set, fold);
    loops->lanes(n, out, in, 1000);
    expect_states(fold, lanes(fold, values, n, 1000), out, 0, "lanes", n);
    loops->scan(n, out, in, 5);
    scan(fold, values, n, 5, want);
    for (size_t i = 0; i < n; i++) expect_states(fold, want[i], out, i, "scan", n);
}

static void check_rows(int set, const pp_fold *fold, size_t rows, size_t columns)
{
    static states want[64];
    void *out[2] = {wide[0], wide[1]};
    const void *in[1] = {values};
    const size_t stride[1] = {(columns + 3) * sizeof(float)}, width = columns + 3;
    loops_of(set, fold)->rows(rows, columns, out, in, stride, true, 7);
    for (size_t c = 0; c < columns; c++) {
        for (size_t r = 0; r < rows; r++) {
            const uint64_t x = bits_of_f32(values[r * width + c]);
            want[c] = r == 0 ? lift(fold, x, 7) : step(fold, want[c], x, 7 + (int64_t)r);
        }
        expect_states(fold, want[c], out, c, "rows", rows);
    }
    in[0] = values + 11;
    loops_of(set, fold)->rows(rows, columns, out, in, stride, false, 20);
    for (size_t c = 0; c < columns; c++) {
        for (size_t r = 0; r < rows; r++)
            want[c] = step(fold, want[c], bits_of_f32(values[11 + r * width + c]), 20 + (int64_t)r);
        expect_states(fold, want[c], out, c, "more rows", rows);
    }
}

static void check_folds(void)
{
    static const size_t lengths[] = {1, 5, 16, 17, 63, 64, 65, 127, 300, 511, 512, 700, 4095, 4096};
    pp_fold states_of_sum = folds[0];
    states_of_sum.lift = NULL, states_of_sum.joined = true;
    const pp_fold *all[] = {&folds[0], &folds[1], &states_of_sum};
    for (size_t i = 0; i < 4096; i++) values[i] = sample(i);
    for (int set = 0; set < SETS; set++)
        for (size_t f = 0; f < 3 && loaded[set] != NULL; f++) {
            for (size_t l = 0; l < sizeof lengths / sizeof *lengths && !all[f]->joined; l++)
                check_fold(set, all[f], lengths[l]);
            for (size_t r = 1; r < 12; r++) check_rows(set, all[f], r, 37);
        }
}

static void check_joins(void)
{
    for (int set = 0; set < SETS; set++) {
        float a[70], b[70];
        void *left[1] = {a};
        const void *right[1] = {b};
        if (loaded[set] == NULL) continue;
        for (size_t i = 0; i < 70; i++) a[i] = sample(i), b[i] = sample(i + 70);
        loops_of(set, &folds[0])->join_loop(70, left, right);
        for (size_t i = 0; i < 70; i++) cr_expect_eq(a[i], sample(i) + sample(i + 70));
    }
}

static void check_arrays(void)
{
    for (int set = 0; set < SETS; set++) {
        if (loaded[set] == NULL) continue;
        const pp_function_entry *entry = symbol(set, "pp_functions");
        const size_t n = *(const size_t *)symbol(set, "pp_n_functions");
        cr_expect_eq(n, sizeof functions / sizeof *functions - 1);
        for (size_t i = 1; i < n; i++) cr_expect(entry[i - 1].hash < entry[i].hash);
        cr_expect_eq(*(const size_t *)symbol(set, "pp_n_folds"), 4);
    }
}

Test(emit, loops_give_the_bits_of_the_functions_and_follow_the_laws, .timeout = 300)
{
    load();
    check_arrays();
    check_functions();
    check_folds();
    check_joins();
}

Test(emit, runs_out_of_memory_softly)
{
    bool done = false;
    setup();
    for (uint64_t at = 1; at < 100000 && !done; at += 1 + at / 10) {
        pp_text text = {0};
        pp_heap_fail_at(at, true);
        ppto_status status =
            pp_functions_emit(functions, sizeof functions / sizeof *functions, folds, 2, &text, 1);
        pp_heap_fail_at(0, false);
        done = status == PPTO_OK;
        cr_assert(done || status == PPTO_E_NOMEM, "allocation %d", (int)at);
        pp_text_free(&text);
    }
    cr_expect(done);
}
