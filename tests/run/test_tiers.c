/* SPDX-License-Identifier: Apache-2.0
 * Tiers: runs of steps as one loop of code, from a generator of the tests that needs no compiler. The same
 * bits with and without it, and one piece of code for all sizes and numbers. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "devices/cpu/loop_store.h"
#include "ppto/ops.h"
#include "tests/support/context.h"

extern const pp_generator pp_generator_module;

static void start(void)
{
    live = pp_heap_count().live;
    pp_loop_store_use(&pp_generator_module);
}

static void end(void)
{
    cr_expect_eq(pp_heap_count().live, live, "blocks are left");
    cr_expect_eq(pp_loop_store_facts().loops, 0, "loops are left");
}

TestSuite(tiers, .init = start, .fini = end);

static void open_tier(const char *tier)
{
    ppto_options o = PPTO_OPTIONS_INIT;
    o.executor = "serial";
    o.tier = tier;
    cr_assert_eq(ppto_context_create(&ctx, &o), PPTO_OK, "%s", ppto_error_text(NULL));
}

enum { MOST = 1 << 16 };

/* The text over x: f32[rows, cols] and a: f32[cols], both made of one pattern; the bytes of its result. */
static size_t run_text(const char *text, int64_t rows, int64_t cols, double number, char *out)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_input(g, "x", PPTO_F32, "N, M");
    ppto_input(g, "a", PPTO_F32, "M");
    ppto_input_number(g, "t", true);
    ppto_tensor *r = ppto_expr(g, text);
    cr_assert_not_null(r, "%s: %s", text, ppto_error_text(NULL));
    float *x = pp_calloc((size_t)(rows * cols), sizeof *x), *a = pp_calloc((size_t)cols, sizeof *a);
    for (int64_t i = 0; i < rows * cols; i++) x[i] = (float)(i % 251) / 16.0f - 7.0f;
    for (int64_t i = 0; i < cols; i++) a[i] = 1.5f - (float)(i % 17);
    if (rows * cols > 5) x[5] = -0.0f / 0.0f;
    ppto_array *of_x = ppto_array_wrap(ctx, x, PPTO_F32, 2, (int64_t[]){rows, cols}, NULL, NULL, NULL);
    ppto_array *of_a = ppto_array_wrap(ctx, a, PPTO_F32, 1, &cols, NULL, NULL, NULL);
    ppto_array *of_t = ppto_number(ctx, number), *result = NULL;
    cr_assert_eq(ppto_eval(r, &result, "x", of_x, "a", of_a, "t", of_t, NULL), PPTO_OK, "%s: %s", text,
                 ppto_error_text(NULL));
    const size_t bytes = (size_t)ppto_array_elements(result) * ppto_dtype_size(ppto_array_dtype(result));
    cr_assert_leq(bytes, MOST);
    memcpy(out, ppto_array_data(result), bytes);
    ppto_array_release(result);
    ppto_array_release(of_x);
    ppto_array_release(of_a);
    ppto_array_release(of_t);
    ppto_graph_destroy(g);
    pp_free(x);
    pp_free(a);
    return bytes;
}

static const char *const texts[] = {
    "exp(x) * t + a",
    "where(x > a, sqrt(abs(x)), x * x * t)",
    "transpose(x) * 2 + 1",
    "softmax(x * t)",
    "x * a - mean(x * x, axis=-1, keepdims=true)",
    "sum(tanh(x) * x, axis=0)",
    "(cast(x, i32) * 3 + 1) & 255",
    "concat([x * t + 1, sin(x) - a], axis=0)",
    "layer_norm(gelu(x), a, a)",
};
enum { TEXTS = sizeof texts / sizeof *texts };

static const int64_t shapes[][2] = {{1, 1}, {1, 7}, {7, 1}, {3, 5}, {17, 64}, {40, 129}, {4, 1000}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static char expected[TEXTS][SHAPES][MOST], got[MOST];

static void compare_all(const char *tier)
{
    for (int k = 0; k < TEXTS; k++)
        for (int s = 0; s < SHAPES; s++) {
            const size_t n = run_text(texts[k], shapes[s][0], shapes[s][1], 1.25, got);
            cr_expect_arr_eq(got, expected[k][s], n, "%s: %s, %d x %d", tier, texts[k], (int)shapes[s][0],
                             (int)shapes[s][1]);
        }
}

Test(tiers, give_the_same_bits)
{
    open_tier("interp");
    for (int k = 0; k < TEXTS; k++)
        for (int s = 0; s < SHAPES; s++) run_text(texts[k], shapes[s][0], shapes[s][1], 1.25, expected[k][s]);
    ppto_context_destroy(ctx);
    open_tier("jit");
    compare_all("jit");
    cr_expect_gt(pp_loop_store_facts().loops, 5);
    ppto_context_destroy(ctx);
    open_tier("auto");
    compare_all("auto");
    pp_loop_store_settle();
    compare_all("auto, settled");
    ppto_context_destroy(ctx);
}

Test(tiers, compile_nothing_again_for_other_sizes_and_numbers)
{
    open_tier("jit");
    for (int k = 0; k < TEXTS; k++) run_text(texts[k], 6, 40, 1, got);
    const uint64_t before = pp_loop_store_facts().misses;
    cr_expect_gt(before, 0);
    for (int i = 0; i < 100; i++) {
        run_text("exp(x) * t + a", 2 + i, 3 + i * 5 % 37, 1, got);
        run_text("exp(x) * t + a", 6, 40, 0.5 + i, got);
        run_text("softmax(x * t)", 2 + i % 9, 3 + i * 7 % 101, i, got);
    }
    cr_expect_eq(pp_loop_store_facts().misses, before, "%d more",
                 (int)(pp_loop_store_facts().misses - before));
    ppto_context_destroy(ctx);
}

/* The statistics of a run of the text over f32[40, 129]. */
static ppto_stats stats_of(const char *text, char **explained)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "40, 129");
    ppto_tensor *r = ppto_expr(g, text);
    ppto_program *p = NULL;
    ppto_stats stats = {.size = sizeof stats};
    ppto_array *in = ppto_array_fill(ctx, PPTO_F32, 2, (int64_t[]){40, 129}, "ones", NULL), *out = NULL;
    cr_assert(x && r && in, "%s", ppto_error_text(NULL));
    cr_assert_eq(ppto_compile(1, &r, &p), PPTO_OK);
    cr_assert_eq(ppto_program_bind(p, 0, in), PPTO_OK);
    cr_assert_eq(ppto_program_run(p, &out), PPTO_OK, "%s", ppto_error_text(NULL));
    cr_assert_eq(ppto_program_stats(p, &stats), PPTO_OK);
    cr_assert_eq(ppto_program_explain(p, PPTO_EXPLAIN_SUMMARY, false, explained), PPTO_OK);
    ppto_array_release(in);
    ppto_array_release(out);
    ppto_program_destroy(p);
    ppto_graph_destroy(g);
    return stats;
}

Test(tiers, are_told_by_statistics_and_explanations)
{
    static const char *const tiers[] = {"interp", "jit"};
    for (int i = 0; i < 2; i++) {
        char *text = NULL;
        open_tier(tiers[i]);
        const ppto_stats s = stats_of("exp(x) * x + 1", &text);
        cr_expect_str_eq(s.tier, tiers[i]);
        cr_expect_eq(s.loops, (uint64_t)i);
        cr_expect_eq(s.compiled_loops, (uint64_t)i);
        cr_expect_eq(strstr(text, "machine code") != NULL, i == 1, "%s", text);
        ppto_text_free(text);
        ppto_context_destroy(ctx);
    }
}

Test(tiers, are_told_of_a_run_by_pieces)
{
    char *text = NULL;
    ppto_options o = PPTO_OPTIONS_INIT;
    o.executor = "serial";
    o.tier = "jit";
    o.chunk = 16; /* the last piece is shorter */
    cr_assert_eq(ppto_context_create(&ctx, &o), PPTO_OK, "%s", ppto_error_text(NULL));
    const ppto_stats s = stats_of("exp(x) * x + 1", &text);
    cr_expect_gt(s.pieces, 1);
    cr_expect_str_eq(s.tier, "jit");
    cr_expect(s.loops > 0 && s.compiled_loops == s.loops, "%d of %d", (int)s.compiled_loops, (int)s.loops);
    cr_expect_gt(s.compile_seconds, 0);
    ppto_text_free(text);
    ppto_context_destroy(ctx);
}

Test(tiers, can_be_waited_for)
{
    open_tier("auto");
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "40, 129"), *r = ppto_expr(g, "exp(x) * x + 1");
    ppto_program *p = NULL;
    ppto_stats stats = {.size = sizeof stats};
    ppto_array *in = ppto_array_fill(ctx, PPTO_F32, 2, (int64_t[]){40, 129}, "ones", NULL), *out = NULL;
    cr_assert(x && r && in, "%s", ppto_error_text(NULL));
    cr_assert_eq(ppto_compile(1, &r, &p), PPTO_OK);
    EXPECT_ERROR(ppto_program_prepare(p), PPTO_E_NAME, "x is not bound");
    cr_assert_eq(ppto_program_bind(p, 0, in), PPTO_OK);
    cr_expect_eq(ppto_program_prepare(p), PPTO_OK, "%s", ppto_error_text(NULL));
    cr_assert_eq(ppto_program_stats(p, &stats), PPTO_OK);
    cr_expect(stats.loops == 1 && stats.compiled_loops == 1, "%d of %d", (int)stats.compiled_loops,
              (int)stats.loops);
    cr_expect(strcmp(stats.tier, "jit") == 0 && stats.compile_seconds > 0, "%s", stats.tier);
    cr_assert_eq(ppto_program_run(p, &out), PPTO_OK, "%s", ppto_error_text(NULL));
    cr_assert_eq(ppto_program_stats(p, &stats), PPTO_OK);
    cr_expect_str_eq(stats.tier, "jit");
    ppto_array_release(in);
    ppto_array_release(out);
    ppto_program_destroy(p);
    ppto_graph_destroy(g);
    ppto_context_destroy(ctx);
}

Test(tiers, need_no_module)
{
    char *text = NULL;
    pp_loop_store_use(NULL);
    setenv("PPTO_MODULE_PATH", "/nowhere", 1);
    open_tier("jit");
    const ppto_stats s = stats_of("exp(x) * x + 1", &text);
    cr_expect_str_eq(s.tier, "interp");
    cr_expect(s.no_code && strstr(s.no_code, "libppto-llvm.so"), "it does not say why");
    ppto_text_free(text);
    cr_assert_eq(ppto_runtime_info(ctx, false, &text), PPTO_OK);
    cr_expect_not_null(strstr(text, "libppto-llvm.so"), "%s", text);
    ppto_text_free(text);
    ppto_context_destroy(ctx);
}

/* ---- a generator that takes its time ---- */

static ppto_status slow_compile(const pp_loop *loop, const char *simd, void *(*alloc)(size_t), void **object,
                                size_t *bytes, pp_error *err)
{
    usleep(20000);
    return pp_generator_module.compile(loop, simd, alloc, object, bytes, err);
}

static pp_generator slow;

static void open_slow(const char *tier)
{
    slow = pp_generator_module;
    slow.compile = slow_compile;
    pp_loop_store_use(&slow);
    open_tier(tier);
}

static int in_child(void)
{
    open_tier("jit");
    return run_text("exp(x) * t + a", 9, 30, 2, got) == 9 * 30 * 4 && pp_loop_store_facts().loops > 0 ? 0 : 1;
}

Test(tiers, let_a_process_fork_while_loops_are_compiled)
{
    open_slow("auto");
    for (int k = 0; k < TEXTS; k++) run_text(texts[k], 9, 30, 2, got);
    for (int i = 0; i < 8; i++) {
        int status = -1;
        const pid_t child = fork();
        if (child == 0) {
            const int failed = in_child();
            ppto_context_destroy(ctx);
            fflush(NULL);
            _exit(failed); /* a leak checker takes what the parent's threads held for lost */
        }
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_expect_eq(status, 0, "child %d: %x", i, (unsigned)status);
    }
    ppto_context_destroy(ctx);
}

Test(tiers, let_a_process_end_while_loops_are_compiled)
{
    int status = -1;
    const pid_t child = fork();
    if (child == 0) {
        open_slow("auto");
        for (int k = 0; k < TEXTS; k++) run_text(texts[k], 9, 30, 2, got);
        usleep(10000);
        exit(7);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 7, "%x", (unsigned)status);
}

/* ---- the store ---- */

/* x + n */
static pp_loop_code *get_sum(uint64_t n, bool *first)
{
    static const pp_stream stream = {.dtype = PPTO_U32};
    const pp_instr code[] = {{.op = PP_PARAM, .dtype = PPTO_U32},
                             {.op = PP_CONST, .dtype = PPTO_U32},
                             {.op = PP_ADD, .dtype = PPTO_U32, .a = 0, .b = 1},
                             {.op = PP_STORE, .dtype = PPTO_U32, .a = 2}};
    pp_loop loop = {.in = &stream, .out = &stream, .n_in = 1, .n_out = 1, .code = code, .n_code = 4};
    loop.consts = &n;
    loop.n_consts = 1;
    loop.hash = pp_loop_hash(&loop);
    return pp_loop_store_get(&loop, "avx2", true, first);
}

Test(tiers, keep_a_bounded_store_that_forgets_the_oldest)
{
    enum { MANY = 900 };
    bool first;
    cr_assert_eq(pp_loop_store_enter("avx2", true, NULL), PPTO_OK);
    pp_loop_code *held = get_sum(0, &first);
    for (uint64_t n = 1; n < MANY; n++) {
        uint32_t x = 5, y = 0;
        pp_loop_code *code = get_sum(n, &first);
        cr_assert(code && first, "%d", (int)n);
        pp_loop_code_fn(code)(1, 1, &(pp_stream_at){(char *)&x, 0}, &(pp_stream_at){(char *)&y, 0});
        cr_expect_eq(y, 5 + n);
        pp_loop_store_put(code);
    }
    cr_expect_leq(pp_loop_store_facts().loops, 600);
    pp_loop_store_put(get_sum(MANY - 1, &first));
    cr_expect_not(first, "the newest is gone");
    pp_loop_store_put(get_sum(1, &first));
    cr_expect(first, "the oldest is there");
    pp_loop_store_put(get_sum(0, &first));
    cr_expect_not(first, "what is held is gone");
    pp_loop_store_put(held);
    pp_loop_store_leave();
}

static ppto_status refuse(PP_UNUSED const pp_loop *loop, PP_UNUSED const char *simd,
                          PP_UNUSED void *(*alloc)(size_t), PP_UNUSED void **object, PP_UNUSED size_t *bytes,
                          pp_error *err)
{
    return pp_fail(err, PPTO_E_UNSUPPORTED, "no");
}

Test(tiers, leave_to_the_interpreter_what_is_refused)
{
    char *text = NULL;
    slow = pp_generator_module;
    slow.compile = refuse;
    pp_loop_store_use(&slow);
    open_tier("jit");
    const ppto_stats s = stats_of("exp(x) * x + 1", &text);
    cr_expect_str_eq(s.tier, "interp");
    cr_expect_eq(s.loops, 1);
    cr_expect_eq(pp_loop_store_facts().refused, 1);
    ppto_text_free(text);
    ppto_context_destroy(ctx);
}

static pthread_t compiled_by;

static ppto_status note_thread(PP_UNUSED const pp_loop *loop, PP_UNUSED const char *simd,
                               PP_UNUSED void *(*alloc)(size_t), PP_UNUSED void **object,
                               PP_UNUSED size_t *bytes, pp_error *err)
{
    compiled_by = pthread_self();
    return pp_fail(err, PPTO_E_UNSUPPORTED, "no");
}

/* Whoever is to stop does not compile; the thread of the store does it. */
static void ask_stopped(const volatile int *stop, int64_t deadline_ns, bool by_caller)
{
    bool first;
    static uint64_t n = 5000;
    pp_loop_store_until(stop, deadline_ns);
    pp_loop_code *code = get_sum(n++, &first);
    pp_loop_store_until(NULL, 0);
    cr_expect(first);
    pp_loop_store_put(code);
    while (pp_loop_store_facts().refused < n - 5000) usleep(1000);
    cr_expect_eq(pthread_equal(compiled_by, pthread_self()) != 0, by_caller);
}

Test(tiers, leave_to_the_thread_what_a_stopped_run_asks_for)
{
    const volatile int off = 0, on = 1;
    slow = pp_generator_module;
    slow.compile = note_thread;
    pp_loop_store_use(&slow);
    cr_assert_eq(pp_loop_store_enter("avx2", true, NULL), PPTO_OK);
    ask_stopped(&off, 0, true);
    ask_stopped(&on, 0, false);
    ask_stopped(NULL, 1, false);
    ask_stopped(NULL, INT64_MAX, true);
    pp_loop_store_leave();
}
