/* SPDX-License-Identifier: Apache-2.0
 * The rest of memcheck: stacks, runs by pieces, the end of a context, suppressions, wrong calls. */
#include "memcheck_common.h"

TestSuite(memcheck_more, .init = open_watched, .fini = close_context);

/* ---- stacks ------------------------------------------------------------------------------------ */

static __attribute__((noinline)) ppto_tensor *block(ppto_tensor *x)
{
    ppto_tensor *y = ppto_exp(x);
    return y;
}

Test(memcheck_more, level_two_knows_the_stack_of_the_recording)
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

/* ---- after something went wrong ---------------------------------------------------------------- */

Test(memcheck_wrong, a_report_after_the_limit_was_reached_names_what_fills_it)
{
    ppto_options o = PPTO_OPTIONS_INIT;
    o.executor = "serial";
    o.memcheck_level = 2;
    o.memory_limit = 20 * BYTES;
    cr_assert_eq(ppto_context_create(&ctx, &o), PPTO_OK);
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *y = ppto_exp(ppto_input(g, "x", PPTO_F32, "64, 64"));
    int line = __LINE__ - 1, n = 0;
    ppto_array *a = data(), *held[32] = {NULL};
    ppto_status status = PPTO_OK;
    for (; n < 32 && status == PPTO_OK; n++) status = ppto_eval(y, &held[n], "x", a, NULL);
    cr_expect_eq(status, PPTO_E_LIMIT);
    cr_expect(strstr(ppto_error_text(ctx), "x exp (") != NULL, "%s", ppto_error_text(ctx));
    pp_memcheck r = report_now();
    const pp_report_group *worst = &r.groups.at[0];
    cr_expect_str_eq(worst->operator_name, "exp");
    cr_expect_eq(worst->site.line, line);
    cr_expect_eq(worst->verdict, PP_GROWING);
    cr_expect_geq(worst->retained_bytes, 8 * (uint64_t)BYTES);
    pp_memcheck_free(&r);
    for (int i = 0; i < n; i++) ppto_array_release(held[i]);
    ppto_array_release(a);
    ppto_graph_destroy(g);
    cr_expect_eq(ppto_context_destroy(ctx), PPTO_OK);
}

Test(memcheck_wrong, without_memcheck_the_operators_that_fill_the_limit_are_named)
{
    ppto_options o = PPTO_OPTIONS_INIT;
    o.executor = "serial";
    o.memory_limit = 20 * BYTES;
    cr_assert_eq(ppto_context_create(&ctx, &o), PPTO_OK);
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "64, 64"), *y = ppto_exp(x), *z = ppto_neg(x);
    ppto_array *a = data(), *held[32] = {NULL};
    ppto_status status = PPTO_OK;
    int n = 0;
    for (; n < 32 && status == PPTO_OK; n++) status = ppto_eval(n == 2 ? z : y, &held[n], "x", a, NULL);
    cr_expect_eq(status, PPTO_E_LIMIT);
    const char *text = ppto_error_text(ctx), *most = strstr(text, "\n  held: ");
    cr_expect(most != NULL && strstr(most, " x exp (peak ") != NULL, "%s", text);
    pp_tally_row rows[8];
    size_t n_rows = pp_pool_operators(ctx->pool, rows, 8), found = 0;
    for (size_t i = 0; i < n_rows; i++) {
        found +=
            strcmp(rows[i].operator_name, "exp") == 0 && rows[i].current_bytes == (uint64_t)(n - 2) * BYTES;
        found += strcmp(rows[i].operator_name, "neg") == 0 && rows[i].current_bytes == BYTES;
        found += strcmp(rows[i].operator_name, "array_fill") == 0 && rows[i].blocks == 1;
    }
    cr_expect_eq(found, 3);
    for (int i = 0; i < n; i++) ppto_array_release(held[i]);
    ppto_array_release(a);
    ppto_graph_destroy(g);
    cr_expect_eq(ppto_context_destroy(ctx), PPTO_OK);
}

Test(memcheck_more, a_run_that_was_cancelled_leaves_nothing)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_stream *s = ppto_stream_create(ctx, "s", PPTO_STREAM_CPU);
    ppto_event never;
    ppto_run *run;
    cr_assert_eq(ppto_event_create_user(ctx, &never), PPTO_OK);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "64, 64");
    cr_assert_eq(ppto_stream_push(g, s), PPTO_OK);
    cr_assert_eq(ppto_stream_wait(g, s, never), PPTO_OK);
    ppto_program *p = compile(ppto_exp(x));
    ppto_array *a = data();
    cr_assert_eq(ppto_program_bind_name(p, "x", a), PPTO_OK);
    cr_assert_eq(ppto_program_start(p, NULL, &run), PPTO_OK);
    cr_expect_eq(ppto_run_cancel(run, "test"), PPTO_OK);
    cr_expect_eq(ppto_run_wait(run, -1), PPTO_E_CANCELLED);
    ppto_run_release(run);
    ppto_program_destroy(p);
    ppto_array_release(a);
    pp_memcheck r = report_now();
    cr_expect_eq(r.count[PP_RETAINED] + r.count[PP_GROWING] + r.count[PP_LEAKED], 0);
    for (size_t i = 0; i < r.groups.n; i++)
        cr_expect(r.groups.at[i].live_count == 0 || strcmp(r.groups.at[i].kind, "scratch") == 0, "%s",
                  r.groups.at[i].operator_name);
    pp_memcheck_free(&r);
    ppto_event_release(never);
    ppto_stream_destroy(s);
    ppto_graph_destroy(g);
}

/* ---- the end of a context ---------------------------------------------------------------------- */

static ppto_array *volatile leaked; /* on purpose; still reachable, so that LeakSanitizer says nothing */

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
    snprintf(line, sizeof line, "test_memcheck_end.c:%d", __LINE__ - 1);
    ppto_array *a = data(), *out = eval(y, a);
    leaked = out;
    ppto_array_release(a);
    ppto_graph_destroy(g);
    const char *words[] = {"1 leaked", "exp", line, NULL};
    expect_error(ppto_context_destroy(ctx), PPTO_E_VALUE, words);
    char *text = slurp(path);
    cr_expect(strstr(text, "leaked") && strstr(text, line) && strstr(text, "at=shutdown"), "%s", text);
    unlink(path);
}

static ppto_program *volatile undestroyed[2];
static ppto_graph *volatile undestroyed_graph;
static ppto_run *volatile forgotten[4]; /* as above; released when the context is gone */

Test(memcheck_end, runs_that_nobody_released_hold_their_results)
{
    char path[] = "/tmp/ppto-memcheck-XXXXXX.txt", line[64];
    int taken = 0;
    close(mkstemps(path, 4));
    setenv("PPTO_MEMCHECK", "error", 1);
    setenv("PPTO_MEMCHECK_FILE", path, 1);
    cr_assert_eq(ppto_context_create(&ctx, NULL), PPTO_OK, "%s", ppto_error_text(NULL));
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_program *p = compile(ppto_exp(ppto_input(g, "x", PPTO_F32, "64, 64")));
    ppto_array *a = data();
    cr_assert_eq(ppto_program_bind_name(p, "x", a), PPTO_OK);
    for (size_t i = 0; i < 4; i++) {
        ppto_run *run;
        cr_assert_eq(ppto_program_start(p, NULL, &run), PPTO_OK);
        taken = __LINE__ - 1;
        cr_assert_eq(ppto_run_wait(run, -1), PPTO_OK);
        forgotten[i] = run;
    }
    snprintf(line, sizeof line, "test_memcheck_end.c:%d", taken);
    ppto_array_release(a);
    ppto_program_destroy(p);
    ppto_graph_destroy(g);
    const char *words[] = {"1 growing", "exp", NULL};
    expect_error(ppto_context_destroy(ctx), PPTO_E_VALUE, words);
    char *text = slurp(path);
    cr_expect(strstr(text, "held by 4 x run_object") && strstr(text, line), "%s", text);
    for (size_t i = 0; i < 4; i++) ppto_run_release(forgotten[i]);
    unlink(path);
}

/* Of two programs of one plan the second is destroyed. Both the scratch of the plan and what is bound name
 * the place of the other one, whose words are gone by then. */
Test(memcheck_end, programs_that_are_not_destroyed_are_named)
{
    for (int bound = 0; bound < 2; bound++) {
        char path[] = "/tmp/ppto-memcheck-XXXXXX.txt", file[] = "plugin.c";
        close(mkstemps(path, 4));
        setenv("PPTO_MEMCHECK", "error", 1);
        setenv("PPTO_MEMCHECK_FILE", path, 1);
        cr_assert_eq(ppto_context_create(&ctx, NULL), PPTO_OK, "%s", ppto_error_text(NULL));
        ppto_graph *g = ppto_graph_create(ctx);
        ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "64, 64"), *y = ppto_matmul(x, x);
        ppto_program *p[2];
        ppto_array *a = data(), *out;
        for (int i = 0; i < 2; i++)
            cr_assert_eq(ppto_compile_at((ppto_site){file, "load", 7 + i, 0}, 1, &y, &p[i]), PPTO_OK);
        memset(file, '?', strlen(file));
        for (int i = 0; i < 2; i++) {
            cr_assert_eq(ppto_program_bind(p[i], 0, a), PPTO_OK);
            cr_assert_eq(ppto_program_run(p[i], &out), PPTO_OK, "%s", ppto_error_text(ctx));
            ppto_array_release(out);
        }
        if (!bound) cr_expect_eq(ppto_program_bind(p[0], 0, NULL), PPTO_OK);
        ppto_program_destroy(p[1]);
        undestroyed[bound] = p[0];
        ppto_array_release(a);
        ppto_graph_destroy(g);
        const char *words[] = {bound ? "2 leaked" : "1 leaked", "scratch", "of plugin.c:7", NULL};
        expect_error(ppto_context_destroy(ctx), PPTO_E_VALUE, words);
        const char *text = slurp(path), *first = strstr(text, "program compiled at plugin.c:7 load()");
        cr_assert_not_null(first, "%s", text);
        cr_expect_null(strstr(text, "plugin.c:8"), "%s", text);
        cr_expect_null(strstr(text, "plan_cache"), "%s", text);
        cr_expect_eq(strstr(first + 1, "program compiled at plugin.c:7 load()") != NULL, bound, "%s", text);
        unlink(path);
    }
}

/* They hold no array, so they are no leak; but they are told. */
Test(memcheck_end, what_holds_no_array_is_counted)
{
    char path[] = "/tmp/ppto-memcheck-XXXXXX.json";
    pp_error err = {0};
    pp_memcheck r;
    close(mkstemps(path, 5));
    setenv("PPTO_MEMCHECK", "error", 1);
    setenv("PPTO_MEMCHECK_FILE", path, 1);
    cr_assert_eq(ppto_context_create(&ctx, NULL), PPTO_OK, "%s", ppto_error_text(NULL));
    ppto_event event[3];
    ppto_stream *gone = ppto_stream_create(ctx, "gone", PPTO_STREAM_CPU);
    cr_assert_not_null(ppto_stream_create(ctx, "left", PPTO_STREAM_CPU));
    for (int i = 0; i < 3; i++) cr_assert_eq(ppto_event_create_user(ctx, &event[i]), PPTO_OK);
    ppto_event_release(event[1]);
    ppto_stream_destroy(gone);
    ppto_graph_destroy(ppto_graph_create(ctx));
    undestroyed_graph = ppto_graph_create(ctx);
    cr_expect_eq(ppto_context_destroy(ctx), PPTO_OK, "%s", ppto_error_text(NULL));
    char *json = slurp(path), *text;
    cr_expect_not_null(strstr(json, "\"not_released\":{\"graphs\":1,\"streams\":1,\"events\":2}"), "%s",
                       json);
    if (pp_memcheck_reads()) {
        cr_assert_eq(pp_memcheck_read(json, strlen(json), &r, &err), PPTO_OK, "%s", err.text);
        cr_expect_eq(r.left[PP_LEFT_EVENTS], 2);
        pp_memcheck_free(&r);
        cr_assert_eq(ppto_memcheck_convert(json, strlen(json), PPTO_REPORT_TEXT, NULL, NULL, &text), PPTO_OK);
        cr_expect_not_null(strstr(text, "not released:  graphs 1  streams 1  events 2\n"), "%s", text);
        ppto_text_free(text);
    }
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
    cr_assert_eq(write(fd, "# known\nexp *test_memcheck_end.c:*\n", 35), 35);
    close(fd);
    setenv("PPTO_MEMCHECK", "error", 1);
    setenv("PPTO_MEMCHECK_FILE", "/dev/null", 1);
    setenv("PPTO_MEMCHECK_SUPPRESS", path, 1);
    cr_assert_eq(ppto_context_create(&ctx, NULL), PPTO_OK, "%s", ppto_error_text(NULL));
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_array *a = data(), *out = eval(ppto_exp(ppto_input(g, "x", PPTO_F32, "64, 64")), a);
    leaked = out;
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

Test(memcheck_more, wrong_calls_are_refused)
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
    EXPECT_ERROR(ppto_memcheck_convert("{}", 2, PPTO_REPORT_TEXT, NULL, NULL, &text),
                 pp_memcheck_reads() ? PPTO_E_FORMAT : PPTO_E_UNSUPPORTED,
                 pp_memcheck_reads() ? "schema" : "jansson");
    EXPECT_ERROR(ppto_memcheck_convert(NULL, 0, PPTO_REPORT_TEXT, NULL, NULL, &text), PPTO_E_VALUE, "NULL");
}

Test(memcheck_more, a_summary_says_what_tests_ask)
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
