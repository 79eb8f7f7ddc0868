/* SPDX-License-Identifier: Apache-2.0
 * Memcheck on programs with a known answer: in each, one thing is planted, and the report must name its
 * verdict, operator and line, and who holds it. After each the ledger's totals are the pool's counters. */
#include "memcheck_common.h"

TestSuite(memcheck, .init = open_watched, .fini = close_context);

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
    cr_expect_eq(r.groups.at[0].n_holders, 3, "the two, and where one was given back");
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

Test(memcheck, a_donation_that_somebody_holds_is_in_vain)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *y = ppto_exp(ppto_input(g, "x", PPTO_F32, "64, 64"));
    int line = __LINE__ - 1;
    ppto_array *a = data(), *out;
    ppto_program *p = compile(y);
    cr_assert_eq(ppto_program_bind_name(p, "x", a), PPTO_OK);
    cr_assert_eq(ppto_program_donate(p, 0, true), PPTO_OK);
    cr_assert_eq(ppto_program_run(p, &out), PPTO_OK);
    pp_memcheck r = report_now();
    const pp_report_group *result = find(&r, "exp", line);
    cr_expect_eq(result->verdict, PP_UNPLANNED);
    cr_expect_str_eq(result->reason, "the donated input has other holders");
    pp_memcheck_free(&r);
    ppto_array_release(out);
    ppto_program_destroy(p);
    ppto_array_release(a);
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

/* Level 0 counts by operator, the largest first; a level that watches leaves that to its report. */
Test(memcheck, operators_are_counted_where_nobody_watches)
{
    ppto_options o = PPTO_OPTIONS_INIT;
    ppto_operator_memory rows[8];
    ppto_context *plain;
    o.memcheck_level = 0;
    cr_expect_eq(ppto_memcheck_operators(ctx, rows, 8), 0, "this one is watched");
    cr_assert_eq(ppto_context_create(&plain, &o), PPTO_OK);
    ppto_array *a = ppto_array_fill(plain, PPTO_F32, 2, square, "zeros", "a");
    ppto_array *b = ppto_array_fill(plain, PPTO_F32, 2, square, "ones", "b");
    cr_assert_eq(ppto_memcheck_operators(plain, rows, 8), 1);
    cr_expect_str_eq(rows[0].operator_name, "array_fill");
    cr_expect(rows[0].current_bytes == 2 * BYTES && rows[0].peak_bytes == 2 * BYTES && rows[0].blocks == 2);
    ppto_array_release(b);
    cr_assert_eq(ppto_memcheck_operators(plain, rows, 1), 1);
    cr_expect(rows[0].current_bytes == BYTES && rows[0].peak_bytes == 2 * BYTES && rows[0].blocks == 1);
    cr_expect_eq(ppto_memcheck_operators(plain, rows, 0) + ppto_memcheck_operators(NULL, rows, 8), 0);
    ppto_array_release(a);
    cr_expect_eq(ppto_memcheck_operators(plain, rows, 8), 0);
    ppto_context_destroy(plain);
}
