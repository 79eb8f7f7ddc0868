/* SPDX-License-Identifier: Apache-2.0
 * Memcheck on programs with a known answer: in each, one thing is planted, and the report must name its
 * verdict, operator and line, and who holds it. After each the ledger's totals are the pool's counters. */
#include <stdlib.h>
#include <unistd.h>

#include "memory/memcheck.h"
#include "ppto/memcheck.h"
#include "runtime/runtime.h"
#include "tests/support/context.h"

enum { N = 64, BYTES = N * N * 4 };
static const int64_t square[] = {N, N};

static void open_watched(void)
{
    ppto_options o = PPTO_OPTIONS_INIT;
    o.executor = "serial";
    o.memcheck_level = 2;
    live = pp_heap_count().live;
    cr_assert_eq(ppto_context_create(&ctx, &o), PPTO_OK, "%s", ppto_error_text(NULL));
}

TestSuite(memcheck, .init = open_watched, .fini = close_context);

/* The report, through its JSON, and the ledger held to the pool. */
static pp_memcheck report_now(void)
{
    char *json;
    pp_memcheck r;
    pp_error err = {0};
    pp_pool_counters counters;
    pp_ledger_totals totals;
    uint64_t shares = 0;
    pp_pool_count(ctx->pool, &counters);
    pp_ledger_count(ctx->ledger, &totals);
    cr_expect_eq(totals.current_bytes, counters.current_bytes);
    cr_expect_eq(totals.sum_of_blocks, counters.current_bytes);
    cr_expect_eq(totals.sum_of_groups, counters.current_bytes);
    cr_expect_eq(totals.sum_of_parts, counters.current_bytes);
    cr_expect_eq(totals.dropped, 0);
    cr_assert_eq(ppto_memcheck_text(ctx, PPTO_REPORT_JSON, &json), PPTO_OK, "%s", ppto_error_text(ctx));
    cr_assert_eq(pp_memcheck_read(json, strlen(json), &r, &err), PPTO_OK, "%s", err.text);
    ppto_text_free(json);
    for (size_t i = 0; i < r.groups.n; i++) shares += r.groups.at[i].peak_share_bytes;
    cr_expect_eq(shares, r.peak_bytes, "the shares of the groups");
    for (int i = 0; i < PP_SHARES; i++) shares -= r.share[i];
    cr_expect_eq(shares, 0, "what the peak is made of");
    cr_expect_leq(r.avoidable_bytes, r.share[PP_SHARE_RETAINED]);
    cr_expect_leq(r.ideal_peak_bytes, r.peak_bytes);
    return r;
}

/* The group of an operator that was recorded at the line. */
static const pp_report_group *find(const pp_memcheck *r, const char *name, int line)
{
    for (size_t i = 0; i < r->groups.n; i++)
        if (strcmp(r->groups.at[i].operator_name, name) == 0 && r->groups.at[i].site.line == line &&
            strcmp(r->groups.at[i].kind, "planned") != 0)
            return &r->groups.at[i];
    cr_assert(false, "nothing of %s at line %d", name, line);
    return NULL;
}

typedef struct answer {
    pp_verdict verdict;
    const char *operator_name;
    int line;
    const char *holder, *function;
    int holder_line;
} answer;

static void expect(answer want)
{
    pp_memcheck r = report_now();
    const pp_report_group *g = find(&r, want.operator_name, want.line);
    cr_expect_eq(g->verdict, want.verdict, "%s is %s", want.operator_name, pp_verdict_name(g->verdict));
    cr_expect(strstr(g->site.file, "test_memcheck.c") != NULL);
    bool found = want.holder == NULL;
    for (size_t i = 0; i < g->n_holders; i++) {
        const pp_report_holder *h = &r.holders.at[g->first_holder + i];
        found |= want.holder != NULL && strcmp(h->kind, want.holder) == 0 &&
                 h->site.line == want.holder_line && h->site.function != NULL &&
                 strcmp(h->site.function, want.function) == 0;
    }
    cr_expect(found, "%s is not held by %s at line %d", want.operator_name, want.holder, want.holder_line);
    for (size_t i = 0; i < r.groups.n; i++) /* and nothing else is blamed */
        cr_expect(&r.groups.at[i] == g || r.groups.at[i].verdict > PP_RETAINED, "%s is blamed too",
                  r.groups.at[i].operator_name);
    pp_memcheck_free(&r);
}

static void expect_nothing_retained(void)
{
    pp_memcheck r = report_now();
    cr_expect_eq(r.count[PP_GROWING] + r.count[PP_LEAKED] + r.count[PP_RETAINED], 0);
    pp_memcheck_free(&r);
}

static ppto_array *data(void)
{
    return ppto_array_fill(ctx, PPTO_F32, 2, square, "uniform(0,1)", "x");
}

static ppto_array *eval(ppto_tensor *y, ppto_array *x)
{
    ppto_array *out = NULL;
    cr_assert_eq(ppto_eval(y, &out, "x", x, NULL), PPTO_OK, "%s", ppto_error_text(ctx));
    return out;
}

static ppto_program *compile(ppto_tensor *y)
{
    ppto_program *p;
    cr_assert_eq(ppto_compile(1, &y, &p), PPTO_OK, "%s", ppto_error_text(ctx));
    return p;
}

/* ---- handles of the user ----------------------------------------------------------------------- */

static ppto_array *kept[64];
static int taken_at;

static void log_step(int i, ppto_array *a)
{
    kept[i] = ppto_array_retain(a), taken_at = __LINE__;
}

static void release_kept(void)
{
    for (int i = 0; i < 64; i++) {
        ppto_array_release(kept[i]);
        kept[i] = NULL;
    }
}

Test(memcheck, a_handle_kept_in_every_step_grows)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "64, 64");
    ppto_tensor *y = ppto_exp(x);
    int line = __LINE__ - 1;
    ppto_array *a = data();
    for (int i = 0; i < 6; i++) {
        ppto_array *out = eval(y, a);
        log_step(i, out);
        ppto_array_release(out);
    }
    expect((answer){PP_GROWING, "exp", line, "user_handle", "log_step", taken_at});
    release_kept();
    ppto_array_release(a);
    expect_nothing_retained();
    ppto_graph_destroy(g);
}

/* The handle that main releases was taken by its helper: which of the two is left cannot be known, and both
 * are told. */
Test(memcheck, handles_that_cannot_be_told_apart_are_all_named)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *y = ppto_exp(ppto_input(g, "x", PPTO_F32, "64, 64"));
    ppto_array *a = data(), *out = eval(y, a);
    log_step(0, out);
    ppto_array_release(out);
    ppto_array_release(eval(y, a));
    pp_memcheck r = report_now();
    cr_expect_eq(r.groups.at[0].verdict, PP_RETAINED);
    cr_expect_eq(r.groups.at[0].retention_count, 1);
    cr_expect_eq(r.groups.at[0].loose_count, 1);
    cr_expect_eq(r.groups.at[0].n_holders, 2);
    pp_memcheck_free(&r);
    release_kept();
    ppto_array_release(a);
    expect_nothing_retained();
    ppto_graph_destroy(g);
}

Test(memcheck, a_result_of_an_earlier_run_is_retained)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "64, 64");
    ppto_tensor *y = ppto_sqrt(x);
    int line = __LINE__ - 1;
    ppto_array *a = data(), *first = NULL;
    cr_assert_eq(ppto_eval(y, &first, "x", a, NULL), PPTO_OK);
    int run_line = __LINE__ - 1;
    ppto_array_release(eval(ppto_neg(x), a));
    expect((answer){PP_RETAINED, "sqrt", line, "user_handle",
                    "memcheck_a_result_of_an_earlier_run_is_retained_impl", run_line});
    ppto_array_release(first);
    ppto_array_release(a);
    ppto_graph_destroy(g);
}

Test(memcheck, the_result_of_the_last_run_is_kept)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_array *a = data(), *out = eval(ppto_sqrt(ppto_input(g, "x", PPTO_F32, "64, 64")), a);
    int line = __LINE__ - 1;
    pp_memcheck r = report_now();
    cr_expect_eq(find(&r, "sqrt", line)->verdict, PP_KEPT);
    pp_memcheck_free(&r);
    ppto_array_release(out);
    ppto_array_release(a);
    ppto_graph_destroy(g);
}

Test(memcheck, data_made_in_every_step_grows_where_it_is_made)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *y = ppto_exp(ppto_input(g, "x", PPTO_F32, "64, 64"));
    static float zeros[N * N];
    int line = 0;
    for (int i = 0; i < 5; i++) {
        kept[i] = ppto_array_copy_of(ctx, PPTO_F32, 2, square, zeros), line = __LINE__;
        ppto_array_release(eval(y, kept[i]));
    }
    expect((answer){PP_GROWING, "array_copy_of", line, "user_handle",
                    "memcheck_data_made_in_every_step_grows_where_it_is_made_impl", line});
    release_kept();
    ppto_graph_destroy(g);
}

Test(memcheck, weights_and_a_state_that_is_replaced_are_fine)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "64, 64"), *w = ppto_input(g, "w", PPTO_F32, "64, 64");
    ppto_program *p = compile(ppto_matmul(x, w));
    ppto_array *weights = data(), *state = data();
    cr_assert_eq(ppto_program_bind_name(p, "w", weights), PPTO_OK);
    for (int i = 0; i < 8; i++) {
        ppto_array *next;
        cr_assert_eq(ppto_program_bind_name(p, "x", state), PPTO_OK);
        cr_assert_eq(ppto_program_run(p, &next), PPTO_OK);
        ppto_array_release(state);
        state = next;
    }
    expect_nothing_retained();
    ppto_array_release(state);
    ppto_array_release(weights);
    ppto_program_destroy(p);
    ppto_graph_destroy(g);
}

Test(memcheck, what_is_marked_as_kept_is_not_retained)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "64, 64"), *y = ppto_sqrt(x);
    int line = __LINE__ - 1;
    ppto_array *a = data(), *first = eval(y, a);
    cr_expect_eq(ppto_memcheck_keep(first, true), PPTO_OK);
    ppto_array_release(eval(ppto_neg(x), a));
    pp_memcheck r = report_now();
    cr_expect_eq(find(&r, "sqrt", line)->verdict, PP_KEPT);
    pp_memcheck_free(&r);
    ppto_array_release(first);
    ppto_array_release(a);
    ppto_graph_destroy(g);
}

Test(memcheck, one_output_of_two_is_blamed)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "64, 64"), *y[2];
    y[0] = ppto_sin(x);
    y[1] = ppto_cos(x);
    int line = __LINE__ - 1;
    ppto_array *a = data(), *out[2];
    const char *name = "x";
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(ppto_evaln(2, y, out, 1, &name, &a), PPTO_OK);
        log_step(i, out[1]);
        ppto_array_release(out[0]);
        ppto_array_release(out[1]);
    }
    expect((answer){PP_GROWING, "cos", line, "user_handle", "log_step", taken_at});
    release_kept();
    ppto_array_release(a);
    ppto_graph_destroy(g);
}

/* Both graphs have one plan, but each result was recorded where it was. */
Test(memcheck, equal_graphs_keep_their_own_places)
{
    ppto_graph *g = ppto_graph_create(ctx), *h = ppto_graph_create(ctx);
    ppto_tensor *innocent = ppto_exp(ppto_input(g, "x", PPTO_F32, "64, 64"));
    ppto_tensor *guilty = ppto_exp(ppto_input(h, "x", PPTO_F32, "64, 64"));
    int line = __LINE__ - 1;
    ppto_array *a = data();
    for (int i = 0; i < 4; i++) {
        ppto_array_release(eval(innocent, a));
        ppto_array *out = eval(guilty, a);
        log_step(i, out);
        ppto_array_release(out);
    }
    expect((answer){PP_GROWING, "exp", line, "user_handle", "log_step", taken_at});
    release_kept();
    ppto_array_release(a);
    ppto_graph_destroy(g);
    ppto_graph_destroy(h);
}

Test(memcheck, the_operator_inside_a_text_is_named)
{
    ppto_graph *g = ppto_graph_create(ctx);
    (void)ppto_input(g, "x", PPTO_F32, "64, 64");
    ppto_tensor *y = ppto_expr(g, "tanh(x * 2 + 1)");
    int line = __LINE__ - 1;
    ppto_array *a = data();
    for (int i = 0; i < 4; i++) {
        ppto_array *out = eval(y, a);
        log_step(i, out);
        ppto_array_release(out);
    }
    expect((answer){PP_GROWING, "tanh", line, "user_handle", "log_step", taken_at});
    release_kept();
    ppto_array_release(a);
    ppto_graph_destroy(g);
}

Test(memcheck, a_late_release_is_told)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *y = ppto_exp(ppto_input(g, "x", PPTO_F32, "64, 64"));
    int line = __LINE__ - 1;
    ppto_array *a = data(), *held[3] = {NULL, NULL, NULL};
    for (int i = 0; i < 9; i++) {
        ppto_array_release(held[i % 3]);
        held[i % 3] = eval(y, a);
    }
    for (int i = 0; i < 3; i++) ppto_array_release(held[i]);
    expect((answer){PP_LATE_FREE, "exp", line, NULL, NULL, 0});
    ppto_array_release(a);
    ppto_graph_destroy(g);
}

/* ---- programs, runs, streams ------------------------------------------------------------------- */

Test(memcheck, programs_that_are_never_destroyed_hold_what_is_bound)
{
    enum { PROGRAMS = 24 };
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *y = ppto_exp(ppto_input(g, "x", PPTO_F32, "64, 64"));
    ppto_program *p[PROGRAMS];
    int line = 0, bound = 0;
    for (int i = 0; i < PROGRAMS; i++) {
        ppto_array *out, *a = ppto_array_create(ctx, PPTO_F32, 2, square);
        line = __LINE__ - 1;
        p[i] = compile(y);
        cr_assert_eq(ppto_program_bind_name(p[i], "x", a), PPTO_OK);
        bound = __LINE__ - 1;
        cr_assert_eq(ppto_program_run(p[i], &out), PPTO_OK);
        ppto_array_release(out);
        ppto_array_release(a);
    }
    expect((answer){PP_GROWING, "array_create", line, "binding",
                    "memcheck_programs_that_are_never_destroyed_hold_what_is_bound_impl", bound});
    for (int i = 0; i < PROGRAMS; i++) ppto_program_destroy(p[i]);
    expect_nothing_retained();
    ppto_graph_destroy(g);
}

Test(memcheck, a_run_object_holds_its_results)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "64, 64"), *y = ppto_exp(x);
    int line = __LINE__ - 1, started = 0;
    ppto_array *a = data();
    ppto_program *p = compile(y);
    ppto_run *runs[4];
    cr_assert_eq(ppto_program_bind_name(p, "x", a), PPTO_OK);
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(ppto_program_start(p, NULL, &runs[i]), PPTO_OK);
        started = __LINE__ - 1;
        cr_assert_eq(ppto_run_wait(runs[i], -1), PPTO_OK);
    }
    ppto_array_release(eval(ppto_neg(x), a));
    expect((answer){PP_GROWING, "exp", line, "run_object", "memcheck_a_run_object_holds_its_results_impl",
                    started});
    for (int i = 0; i < 4; i++) ppto_run_release(runs[i]);
    ppto_program_destroy(p);
    ppto_array_release(a);
    expect_nothing_retained();
    ppto_graph_destroy(g);
}

Test(memcheck, a_run_that_waits_for_an_event_pins_its_input)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_stream *s = ppto_stream_create(ctx, "compute", PPTO_STREAM_CPU);
    ppto_event go;
    cr_assert_eq(ppto_event_create_user(ctx, &go), PPTO_OK);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "64, 64");
    cr_assert_eq(ppto_stream_push(g, s), PPTO_OK);
    cr_assert_eq(ppto_stream_wait(g, s, go), PPTO_OK);
    ppto_program *p = compile(ppto_exp(x));
    ppto_array *a = ppto_array_create(ctx, PPTO_F32, 2, square);
    int line = __LINE__ - 1, started = 0;
    ppto_run *run;
    cr_assert_eq(ppto_program_bind_name(p, "x", a), PPTO_OK);
    ppto_array_release(a);
    cr_assert_eq(ppto_program_start(p, NULL, &run), PPTO_OK);
    started = __LINE__ - 1;
    expect((answer){PP_PINNED_BY_SYNC, "array_create", line, "sync_point",
                    "memcheck_a_run_that_waits_for_an_event_pins_its_input_impl", started});
    cr_expect_eq(ppto_event_signal(go, PPTO_OK), PPTO_OK);
    cr_expect_eq(ppto_run_wait(run, -1), PPTO_OK, "%s", ppto_run_error(run));
    ppto_run_release(run);
    ppto_program_destroy(p);
    ppto_event_release(go);
    ppto_stream_destroy(s);
    ppto_graph_destroy(g);
    expect_nothing_retained();
}

Test(memcheck, a_failed_run_leaves_nothing)
{
    ppto_graph *g = ppto_graph_create(ctx);
    (void)ppto_input(g, "x", PPTO_F32, "64, 64");
    (void)ppto_input(g, "i", PPTO_I64, "4");
    ppto_tensor *y = ppto_expr(g, "sum(take(exp(x), i, axis=0))");
    static const int64_t wrong[] = {0, 1, 2, 1000};
    const int64_t four = 4;
    ppto_array *a = data(), *i = ppto_array_copy_of(ctx, PPTO_I64, 1, &four, wrong), *out = NULL;
    for (int k = 0; k < 4; k++) cr_expect_neq(ppto_eval(y, &out, "x", a, "i", i, NULL), PPTO_OK);
    ppto_array_release(a);
    ppto_array_release(i);
    expect_nothing_retained();
    ppto_graph_destroy(g);
}

/* ---- what the planner could not do without ----------------------------------------------------- */

Test(memcheck, an_implicit_copy_is_unplanned_with_its_reason)
{
    ppto_graph *g = ppto_graph_create(ctx);
    (void)ppto_input(g, "x", PPTO_F32, "6, 35");
    ppto_tensor *y = ppto_expr(g, "cumulative_sum(reshape(x, [10, 21]), axis=1)");
    static float memory[6 * 35];
    const int64_t shape[] = {6, 35}, turned[] = {4, 6 * 4};
    ppto_array *a = ppto_array_wrap(ctx, memory, PPTO_F32, 2, shape, turned, NULL, NULL);
    ppto_array_release(eval(y, a));
    pp_memcheck r = report_now();
    const pp_report_group *copy = NULL;
    for (size_t i = 0; i < r.groups.n; i++)
        if (strcmp(r.groups.at[i].kind, "copy") == 0) copy = &r.groups.at[i];
    cr_assert_not_null(copy);
    cr_expect_eq(copy->verdict, PP_UNPLANNED);
    cr_expect_str_eq(copy->operator_name, "x");
    cr_expect(strstr(copy->reason, "row-major") != NULL);
    cr_expect_eq(copy->allocation_size_bytes, sizeof memory);
    pp_memcheck_free(&r);
    ppto_array_release(a);
    ppto_graph_destroy(g);
}

Test(memcheck, an_output_over_an_input_costs_a_copy)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "64, 64"), *y = ppto_matmul(x, x);
    int line = __LINE__ - 1;
    ppto_array *a = data();
    ppto_program *p = compile(y);
    cr_assert_eq(ppto_program_bind_name(p, "x", a), PPTO_OK);
    cr_assert_eq(ppto_program_bind_output(p, 0, a), PPTO_OK);
    cr_assert_eq(ppto_program_run(p, NULL), PPTO_OK);
    expect((answer){PP_UNPLANNED, "matmul", line, NULL, NULL, 0});
    ppto_program_destroy(p);
    ppto_array_release(a);
    ppto_graph_destroy(g);
}

Test(memcheck, a_donated_input_becomes_the_result_it_holds)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *y = ppto_exp(ppto_input(g, "x", PPTO_F32, "64, 64"));
    int line = __LINE__ - 1;
    ppto_program *p = compile(y);
    for (int i = 0; i < 4; i++) {
        ppto_array *a = data(), *out;
        cr_assert_eq(ppto_program_bind_name(p, "x", a), PPTO_OK);
        cr_assert_eq(ppto_program_donate(p, 0, true), PPTO_OK);
        ppto_array_release(a);
        cr_assert_eq(ppto_program_run(p, &out), PPTO_OK);
        log_step(i, out);
        ppto_array_release(out);
    }
    expect((answer){PP_GROWING, "exp", line, "user_handle", "log_step", taken_at});
    release_kept();
    ppto_program_destroy(p);
    expect_nothing_retained();
    ppto_graph_destroy(g);
}

/* ---- the peak ---------------------------------------------------------------------------------- */

Test(memcheck, what_is_retained_at_the_peak_could_be_avoided)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "64, 64"), *y = ppto_sqrt(x);
    int line = __LINE__ - 1;
    ppto_array *a = data(), *idle = eval(y, a);
    ppto_array_release(eval(ppto_neg(x), a));
    pp_memcheck r = report_now();
    cr_expect(r.has_ideal);
    cr_expect_eq(r.avoidable_bytes, BYTES);
    cr_expect_eq(r.share[PP_SHARE_RETAINED], BYTES);
    cr_expect_eq(find(&r, "sqrt", line)->avoidable_bytes, BYTES);
    pp_memcheck_free(&r);
    ppto_array_release(idle);
    ppto_array_release(a);
    ppto_graph_destroy(g);
}

Test(memcheck, every_buffer_of_a_slab_is_an_operator_s)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "64, 64");
    ppto_tensor *inner = ppto_matmul(x, x);
    int line = __LINE__ - 1;
    ppto_array *a = data();
    ppto_array_release(eval(ppto_matmul(inner, inner), a));
    pp_memcheck r = report_now();
    const pp_report_group *planned = NULL;
    for (size_t i = 0; i < r.groups.n; i++)
        if (strcmp(r.groups.at[i].kind, "planned") == 0 && r.groups.at[i].site.line == line)
            planned = &r.groups.at[i];
    cr_assert_not_null(planned);
    cr_expect_str_eq(planned->operator_name, "matmul");
    cr_expect_eq(planned->allocation_size_bytes, BYTES);
    cr_expect_eq(planned->peak_share_bytes, BYTES);
    pp_memcheck_free(&r);
    ppto_array_release(a);
    ppto_graph_destroy(g);
}

/* ---- stacks ------------------------------------------------------------------------------------ */

static __attribute__((noinline)) ppto_tensor *block(ppto_tensor *x)
{
    ppto_tensor *y = ppto_exp(x);
    return y;
}

Test(memcheck, level_two_knows_the_stack_of_the_recording)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "64, 64");
    ppto_tensor *y = block(x);
    ppto_array *a = data(), *out = eval(y, a);
    pp_memcheck r = report_now();
    const pp_report_group *exp_group = NULL;
    for (size_t i = 0; i < r.groups.n; i++)
        if (strcmp(r.groups.at[i].operator_name, "exp") == 0) exp_group = &r.groups.at[i];
    cr_assert_not_null(exp_group);
    cr_assert(exp_group->stack >= 1 && exp_group->stack <= r.stacks.n);
    const pp_report_stack *s = &r.stacks.at[exp_group->stack - 1];
    bool here = false; /* an address inside of block() */
    for (size_t i = 0; i < s->n_frames; i++) {
        uint64_t pc = r.frames.at[s->first_frame + i].pc, from = (uint64_t)(uintptr_t)&block;
        here |= pc > from && pc < from + 256;
    }
    cr_expect(here);
    pp_memcheck_free(&r);
    ppto_array_release(out);
    ppto_array_release(a);
    ppto_graph_destroy(g);
}

/* ---- runs by pieces ---------------------------------------------------------------------------- */

Test(memcheck_pieces, the_ledger_follows_windows_and_carries)
{
    char path[] = "/tmp/ppto-memcheck-XXXXXX.npy", to[] = "/tmp/ppto-memcheck-XXXXXX.npy";
    close(mkstemps(path, 4));
    close(mkstemps(to, 4));
    ppto_options o = PPTO_OPTIONS_INIT;
    o.memcheck_level = 2;
    o.chunk = 128;
    cr_assert_eq(ppto_context_create(&ctx, &o), PPTO_OK);
    const int64_t shape[] = {4096, 16};
    ppto_array *a = ppto_array_fill(ctx, PPTO_F32, 2, shape, "uniform(0,1)", "x");
    cr_assert_eq(ppto_array_save(a, path), PPTO_OK);
    ppto_array_release(a);
    ppto_graph *g = ppto_graph_create(ctx);
    (void)ppto_input(g, "x", PPTO_F32, "N, 16");
    ppto_tensor *y[2] = {ppto_expr(g, "(x - mean(x, axis=0)) / std(x, axis=0)"),
                         ppto_expr(g, "cumulative_sum(x, axis=0)")};
    ppto_program *p;
    cr_assert_eq(ppto_compile(2, y, &p), PPTO_OK, "%s", ppto_error_text(ctx));
    ppto_array *x = ppto_array_open(ctx, path), *out[2];
    cr_assert_eq(ppto_program_bind_name(p, "x", x), PPTO_OK);
    cr_assert_eq(ppto_program_bind_sink(p, 0, to), PPTO_OK);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(ppto_program_run(p, out), PPTO_OK, "%s", ppto_error_text(ctx));
        ppto_array_release(out[1]);
    }
    expect_nothing_retained();
    pp_memcheck r = report_now();
    bool windows = false, values = false;
    for (size_t i = 0; i < r.groups.n; i++) {
        windows |= strcmp(r.groups.at[i].kind, "window") == 0;
        values |= strcmp(r.groups.at[i].kind, "value") == 0;
    }
    cr_expect(windows);
    cr_expect(values);
    cr_expect_eq(r.runs, 3, "pieces are no runs of their own");
    pp_memcheck_free(&r);
    ppto_program_destroy(p);
    ppto_array_release(x);
    ppto_graph_destroy(g);
    cr_expect_eq(ppto_context_destroy(ctx), PPTO_OK);
    unlink(path);
    unlink(to);
}

/* ---- the end of a context ---------------------------------------------------------------------- */

static char *slurp(const char *path)
{
    static char text[1 << 16];
    FILE *f = fopen(path, "r");
    cr_assert_not_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    return text;
}

Test(memcheck_end, error_makes_a_leak_the_status_of_destroy)
{
    char path[] = "/tmp/ppto-memcheck-XXXXXX.txt", line[64];
    close(mkstemps(path, 4));
    setenv("PPTO_MEMCHECK", "error", 1);
    setenv("PPTO_MEMCHECK_FILE", path, 1);
    cr_assert_eq(ppto_context_create(&ctx, NULL), PPTO_OK, "%s", ppto_error_text(NULL));
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *y = ppto_exp(ppto_input(g, "x", PPTO_F32, "64, 64"));
    snprintf(line, sizeof line, "test_memcheck.c:%d", __LINE__ - 1);
    ppto_array *a = data(), *out = eval(y, a);
    (void)out; /* the leak */
    ppto_array_release(a);
    ppto_graph_destroy(g);
    const char *words[] = {"1 leaked", "exp", line, NULL};
    expect_error(ppto_context_destroy(ctx), PPTO_E_VALUE, words);
    char *text = slurp(path);
    cr_expect(strstr(text, "leaked") && strstr(text, line) && strstr(text, "at=shutdown"), "%s", text);
    unlink(path);
}

Test(memcheck_end, report_ends_well_and_writes_its_form)
{
    static const struct {
        const char *suffix, *begin;
    } forms[] = {
        {".json", "{\"schema\":\"ppto-memcheck/1\""}, {".svg", "<svg "}, {".txt", "ppto memcheck 1"}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        char path[64];
        snprintf(path, sizeof path, "/tmp/ppto-memcheck-XXXXXX%s", forms[i].suffix);
        close(mkstemps(path, (int)strlen(forms[i].suffix)));
        setenv("PPTO_MEMCHECK", "report", 1);
        setenv("PPTO_MEMCHECK_FILE", path, 1);
        cr_assert_eq(ppto_context_create(&ctx, NULL), PPTO_OK, "%s", ppto_error_text(NULL));
        ppto_array *a = data();
        ppto_array_release(a);
        cr_expect_eq(ppto_context_destroy(ctx), PPTO_OK);
        cr_expect_eq(strncmp(slurp(path), forms[i].begin, strlen(forms[i].begin)), 0, "%s", forms[i].suffix);
        unlink(path);
    }
}

Test(memcheck_end, suppressions_come_from_a_file)
{
    char path[] = "/tmp/ppto-memcheck-XXXXXX.sup";
    int fd = mkstemps(path, 4);
    cr_assert_eq(write(fd, "# known\nexp *test_memcheck.c:*\n", 31), 31);
    close(fd);
    setenv("PPTO_MEMCHECK", "error", 1);
    setenv("PPTO_MEMCHECK_FILE", "/dev/null", 1);
    setenv("PPTO_MEMCHECK_SUPPRESS", path, 1);
    cr_assert_eq(ppto_context_create(&ctx, NULL), PPTO_OK, "%s", ppto_error_text(NULL));
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_array *a = data(), *out = eval(ppto_exp(ppto_input(g, "x", PPTO_F32, "64, 64")), a);
    (void)out;
    ppto_array_release(a);
    ppto_graph_destroy(g);
    cr_expect_eq(ppto_context_destroy(ctx), PPTO_OK, "%s", ppto_error_text(NULL));
    unlink(path);
}

/* ---- wrong calls ------------------------------------------------------------------------------- */

Test(memcheck_off, says_how_to_switch_it_on)
{
    char *text = NULL;
    ppto_memcheck_summary summary = {.size = sizeof summary};
    open_context();
    EXPECT_ERROR(ppto_memcheck_text(ctx, PPTO_REPORT_TEXT, &text), PPTO_E_UNSUPPORTED, "PPTO_MEMCHECK");
    EXPECT_ERROR(ppto_memcheck_summarise(ctx, &summary), PPTO_E_UNSUPPORTED, "off");
    cr_expect_eq(ppto_memcheck_mark(ctx, "m"), PPTO_OK);
    ppto_array *a = data();
    cr_expect_eq(ppto_memcheck_keep(a, true), PPTO_OK);
    ppto_array_release(a);
    close_context();
}

Test(memcheck, wrong_calls_are_refused)
{
    char *text;
    ppto_memcheck_summary summary = {.size = 0};
    EXPECT_ERROR(ppto_memcheck_mark(NULL, NULL), PPTO_E_VALUE, "NULL");
    EXPECT_ERROR(ppto_memcheck_keep(NULL, true), PPTO_E_VALUE, "NULL");
    EXPECT_ERROR(ppto_memcheck_text(ctx, PPTO_REPORT_TEXT, NULL), PPTO_E_VALUE, "NULL");
    EXPECT_ERROR(ppto_memcheck_text(NULL, PPTO_REPORT_TEXT, &text), PPTO_E_VALUE, "NULL");
    EXPECT_ERROR(ppto_memcheck_text(ctx, (ppto_report)99, &text), PPTO_E_VALUE, "99");
    EXPECT_ERROR(ppto_memcheck_report(ctx, PPTO_REPORT_TEXT, NULL), PPTO_E_VALUE, "NULL");
    EXPECT_ERROR(ppto_memcheck_summarise(ctx, &summary), PPTO_E_VALUE, "size");
    EXPECT_ERROR(ppto_memcheck_convert("{}", 2, PPTO_REPORT_TEXT, NULL, NULL, &text), PPTO_E_FORMAT,
                 "schema");
    EXPECT_ERROR(ppto_memcheck_convert(NULL, 0, PPTO_REPORT_TEXT, NULL, NULL, &text), PPTO_E_VALUE, "NULL");
}

Test(memcheck, a_summary_says_what_tests_ask)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "64, 64");
    ppto_array *a = data(), *idle = eval(ppto_sqrt(x), a);
    (void)ppto_array_retain(idle);
    ppto_array_release(eval(ppto_neg(x), a));
    ppto_memcheck_summary s = {.size = sizeof s};
    cr_assert_eq(ppto_memcheck_summarise(ctx, &s), PPTO_OK);
    cr_expect_eq(s.level, 2);
    cr_expect(s.complete);
    cr_expect_eq(s.retained, 1);
    cr_expect_eq(s.retained_bytes, BYTES);
    cr_expect_eq(s.retention_max, 2);
    cr_expect_eq(s.avoidable_bytes, BYTES);
    ppto_array_release(idle);
    ppto_array_release(idle);
    ppto_array_release(a);
    ppto_graph_destroy(g);
}
