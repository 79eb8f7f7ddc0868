/* SPDX-License-Identifier: Apache-2.0
 * Runs over files, by the public interface: how far they are, sources and sinks of graphs. */
#include <fcntl.h>
#include <sys/stat.h>

#include "async_common.h"
#include "runtime/async_run.h"

TestSuite(files, .init = begin, .fini = end, .timeout = 120);

static char folder[] = "/tmp/ppto-files-XXXXXX";

static const char *path_of(const char *name)
{
    static char path[4][128];
    static int next;
    if (access(folder, F_OK) != 0) cr_assert_not_null(mkdtemp(folder));
    next = (next + 1) % 4;
    snprintf(path[next], sizeof path[next], "%s/%s", folder, name);
    return path[next];
}

static void remove_all(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_assert_eq(system(command), 0);
}

/* A file of f32[rows, 1024]. */
static void make_file(const char *path, int64_t rows)
{
    const int64_t shape[] = {rows, 1024};
    ppto_array *a = ppto_array_fill(ctx, PPTO_F32, 2, shape, "random(3)", "x");
    cr_assert_eq(ppto_array_save(a, path), PPTO_OK);
    ppto_array_release(a);
}

static void run_and_ask(const char *text, const char *in, const char *out, uint64_t file_bytes)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_input(g, "x", PPTO_F32, "N, 1024");
    ppto_tensor *y = ppto_expr(g, text);
    ppto_program *p = NULL;
    ppto_array *x = in ? ppto_array_open(ctx, in)
                       : ppto_array_fill(ctx, PPTO_F32, 2, (int64_t[]){64, 1024}, "zeros", "x");
    ppto_run *run;
    ppto_progress progress = {.size = sizeof progress};
    cr_assert_eq(ppto_compile(1, &y, &p), PPTO_OK, "%s", ppto_error_text(ctx));
    cr_assert_eq(ppto_program_bind(p, 0, x), PPTO_OK);
    if (out) cr_assert_eq(ppto_program_bind_sink(p, 0, out), PPTO_OK);
    for (int i = 0; i < 2; i++) {
        double before = 0;
        cr_assert_eq(ppto_program_start(p, NULL, &run), PPTO_OK);
        while (ppto_run_wait(run, 1000000) == PPTO_E_TIMEOUT) {
            cr_assert_eq(ppto_run_progress(run, &progress), PPTO_OK);
            cr_assert(progress.fraction >= before && progress.fraction <= 1, "%s", text);
            before = progress.fraction;
        }
        cr_assert_eq(ppto_run_wait(run, -1), PPTO_OK, "%s", ppto_error_text(ctx));
        cr_assert_eq(ppto_run_progress(run, &progress), PPTO_OK);
        cr_expect_eq(progress.fraction, 1);
        cr_expect_eq(progress.file_bytes, file_bytes, "%s: %llu", text,
                     (unsigned long long)progress.file_bytes);
        ppto_run_release(run);
    }
    ppto_program_destroy(p);
    ppto_array_release(x);
    ppto_graph_destroy(g);
}

Test(files, progress_counts_what_passes_through_files)
{
    enum { ROWS = 4096, BYTES = ROWS * 4096 };
    const char *in = path_of("in.npy"), *out = path_of("out.npy");
    make_file(in, ROWS);
    run_and_ask("x * 2", in, out, 2 * BYTES);               /* by pieces */
    run_and_ask("x - mean(x, axis=0)", in, out, 3 * BYTES); /* twice over the pieces */
    run_and_ask("sum(x)", in, NULL, BYTES);
    run_and_ask("flip(x, axis=0)", in, out, 2 * BYTES); /* whole */
    run_and_ask("flip(x, axis=0)", NULL, NULL, 0);
    remove_all();
}

/* The work that is planned is the work that is done. */
Test(files, a_run_that_is_done_had_come_near_its_end)
{
    const char *in = path_of("in.npy"), *out = path_of("out.npy");
    make_file(in, 4096);
    for (int i = 0; i < 2; i++) {
        ppto_graph *g = ppto_graph_create(ctx);
        ppto_input(g, "x", PPTO_F32, "N, 1024");
        ppto_tensor *y = ppto_expr(g, i ? "flip(x, axis=0) + 1" : "softmax(x - mean(x, axis=0))");
        ppto_program *p = NULL;
        ppto_array *x = ppto_array_open(ctx, in);
        ppto_run *run;
        cr_assert_eq(ppto_compile(1, &y, &p), PPTO_OK);
        cr_assert_eq(ppto_program_bind(p, 0, x), PPTO_OK);
        cr_assert_eq(ppto_program_bind_sink(p, 0, out), PPTO_OK);
        cr_assert_eq(ppto_program_start(p, NULL, &run), PPTO_OK);
        cr_assert_eq(ppto_run_wait(run, -1), PPTO_OK);
        cr_expect(run->fraction > 1 - 1e-9, "%d: %.17g", i, run->fraction);
        ppto_run_release(run);
        ppto_program_destroy(p);
        ppto_array_release(x);
        ppto_graph_destroy(g);
    }
    remove_all();
}

/* ---- sources and sinks of graphs ----------------------------------------------------------------------- */

static ppto_array *load(const char *path)
{
    ppto_array *a = ppto_array_load(ctx, path);
    cr_assert_not_null(a, "%s", ppto_error_text(ctx));
    return a;
}

static void expect_equal(const char *path, const char *text, const char *in)
{
    ppto_comparison c;
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_array *x = load(in), *want = NULL, *got = load(path);
    ppto_input(g, "x", ppto_array_dtype(x), "N, M");
    cr_assert_eq(ppto_eval(ppto_expr(g, text), &want, "x", x, NULL), PPTO_OK, "%s", ppto_error_text(ctx));
    cr_assert_eq(ppto_compare(got, want, 0, 0, &c), PPTO_OK);
    cr_expect(c.equal, "%s: %lld differ", text, (long long)c.different);
    ppto_array_release(x);
    ppto_array_release(want);
    ppto_array_release(got);
    ppto_graph_destroy(g);
}

Test(files, a_chain_from_a_source_to_a_sink_is_written_by_eval)
{
    static const int64_t rows[] = {3, 4096};
    for (size_t i = 0; i < 2; i++) {
        const char *in = path_of("in.npy"), *out = path_of("out.npy");
        make_file(in, rows[i]);
        ppto_graph *g = ppto_graph_create(ctx);
        ppto_tensor *x = ppto_open(g, in), *y = ppto_mul(ppto_sin(x), ppto_float(g, 2));
        ppto_array *result = (ppto_array *)&result;
        cr_expect_str_eq(ppto_tensor_type(x), rows[i] == 3 ? "f32[3, 1024]" : "f32[4096, 1024]");
        cr_assert_eq(ppto_eval(ppto_sink(g, y, out), &result, NULL), PPTO_OK, "%s", ppto_error_text(ctx));
        cr_expect_null(result);
        expect_equal(out, "sin(x) * 2", in);
        ppto_graph_destroy(g);
    }
    remove_all();
}

Test(files, a_sink_is_a_value_and_is_written_only_when_asked_for)
{
    const char *in = path_of("in.npy"), *out = path_of("out.npy");
    make_file(in, 8);
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *x = ppto_open(g, in), *y = ppto_sink(g, ppto_exp(x), out);
    ppto_array *sum = NULL, *both[2];
    cr_assert_eq(ppto_eval(ppto_sum(y), &sum, NULL), PPTO_OK, "%s", ppto_error_text(ctx));
    cr_expect_neq(access(out, F_OK), 0);
    cr_assert_eq(ppto_evaln(2, (ppto_tensor *[]){y, ppto_sum(y)}, both, 0, NULL, NULL), PPTO_OK);
    cr_expect(both[0] == NULL && *(float *)ppto_array_data(both[1]) == *(float *)ppto_array_data(sum));
    expect_equal(out, "exp(x)", in);
    ppto_array_release(sum);
    ppto_array_release(both[1]);
    ppto_graph_destroy(g);
    remove_all();
}

Test(files, graphs_over_other_files_share_a_plan)
{
    const char *in[2] = {path_of("a.npy"), path_of("b.npy")}, *out = path_of("out.npy");
    make_file(in[0], 8);
    make_file(in[1], 8);
    for (int i = 0; i < 2; i++) {
        ppto_graph *g = ppto_graph_create(ctx);
        ppto_tensor *y = ppto_sink(g, ppto_exp(ppto_open(g, in[i])), out);
        ppto_program *p = NULL;
        ppto_stats stats = {.size = sizeof stats};
        char *text;
        cr_assert_eq(ppto_compile(1, &y, &p), PPTO_OK);
        ppto_graph_destroy(g); /* the program keeps what it needs */
        cr_assert_eq(ppto_program_run(p, NULL), PPTO_OK, "%s", ppto_error_text(ctx));
        expect_equal(out, "exp(x)", in[i]);
        cr_assert_eq(ppto_program_stats(p, &stats), PPTO_OK);
        cr_expect_eq(stats.plan_hit, i == 1);
        cr_assert_eq(ppto_program_explain(p, PPTO_EXPLAIN_SUMMARY, false, &text), PPTO_OK);
        cr_expect(strstr(text, "source1 from ") && strstr(text, in[i]) && strstr(text, "output 0 to "), "%s",
                  text);
        ppto_text_free(text);
        cr_assert_eq(ppto_program_explain(p, PPTO_EXPLAIN_SUMMARY, true, &text), PPTO_OK);
        cr_expect(strstr(text, "\"source\": \"source1\"") && strstr(text, "\"result\": \"output 0\""), "%s",
                  text);
        ppto_text_free(text);
        cr_assert_eq(ppto_program_explain(p, PPTO_EXPLAIN_GRAPH, false, &text), PPTO_OK);
        cr_expect(strstr(text, "= open(%0)") && strstr(text, "= sink(%2)"), "%s", text);
        ppto_text_free(text);
        ppto_program_destroy(p);
    }
    remove_all();
}

/* Everything of one batch is on three streams; an event of the last stands behind the file. */
Test(files, streams_order_the_files_of_batches)
{
    enum { BATCHES = 4 };
    ppto_stream *store = ppto_stream_create(ctx, "store", PPTO_STREAM_IO);
    const char *in = path_of("in.npy"), *out = path_of("out.npy");
    make_file(in, 2048);
    ppto_program *p[BATCHES] = {NULL};
    ppto_run *run[BATCHES];
    ppto_event written[BATCHES];
    for (int i = 0; i < BATCHES; i++) {
        char text[16];
        ppto_graph *g = ppto_graph_create(ctx);
        snprintf(text, sizeof text, "$0 * %d", i + 2);
        cr_assert_eq(ppto_stream_push(g, s), PPTO_OK);
        ppto_tensor *x = ppto_open(g, in);
        cr_assert_eq(ppto_stream_pop(g), PPTO_OK);
        cr_assert_eq(ppto_stream_push(g, t), PPTO_OK);
        ppto_tensor *y = ppto_exprn(g, text, 1, &x);
        cr_assert_eq(ppto_stream_pop(g), PPTO_OK);
        cr_assert_eq(ppto_stream_push(g, store), PPTO_OK);
        y = ppto_sink(g, y, out);
        cr_assert_eq(ppto_event_record(g, store, &written[i]), PPTO_OK);
        cr_assert_eq(ppto_compile(1, &y, &p[i]), PPTO_OK, "%s", ppto_error_text(ctx));
        ppto_stats stats = {.size = sizeof stats};
        ppto_program_stats(p[i], &stats);
        cr_expect_eq(stats.kernels, 1, "opening and writing are no kernels: %zu", stats.kernels);
        ppto_graph_destroy(g);
    }
    for (int i = 0; i < BATCHES; i++) cr_assert_eq(ppto_program_start(p[i], NULL, &run[i]), PPTO_OK);
    for (int i = 0; i < BATCHES; i++) {
        cr_assert_eq(ppto_event_wait(written[i], -1), PPTO_OK);
        if (i == BATCHES - 1) expect_equal(out, "x * 5", in);
    }
    for (int i = 0; i < BATCHES; i++) {
        cr_assert_eq(ppto_run_wait(run[i], -1), PPTO_OK);
        ppto_run_release(run[i]);
        ppto_event_release(written[i]);
        ppto_program_destroy(p[i]);
    }
    cr_expect_eq(ppto_sync(store), PPTO_OK);
    ppto_stream_destroy(store);
    remove_all();
}

typedef struct batch {
    ppto_program *program;
    ppto_run *run;
    ppto_event loaded, computed, written;
} batch;

/* open on s, exp on t after the event (context NULL: none), sink on store. */
static void start_batch(batch *b, ppto_stream *store, const char *in, const char *out, ppto_event first)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_stream_push(g, s);
    ppto_tensor *x = ppto_open(g, in);
    ppto_event_record(g, s, &b->loaded);
    if (first.context) cr_assert_eq(ppto_stream_wait(g, t, first), PPTO_OK);
    ppto_stream_push(g, t);
    ppto_tensor *y = ppto_exp(x);
    ppto_event_record(g, t, &b->computed);
    ppto_stream_push(g, store);
    y = ppto_sink(g, y, out);
    ppto_event_record(g, store, &b->written);
    cr_assert_eq(ppto_compile(1, &y, &b->program), PPTO_OK, "%s", ppto_error_text(ctx));
    ppto_graph_destroy(g);
    cr_assert_eq(ppto_program_start(b->program, NULL, &b->run), PPTO_OK);
}

static void end_batch(batch *b)
{
    cr_expect_eq(ppto_run_wait(b->run, -1), PPTO_OK, "%s", ppto_error_text(ctx));
    ppto_run_release(b->run);
    ppto_program_destroy(b->program);
    ppto_event_release(b->loaded);
    ppto_event_release(b->computed);
    ppto_event_release(b->written);
}

static ppto_event_state state_of(ppto_event event)
{
    ppto_event_state state = PPTO_EVENT_POISONED;
    cr_expect_eq(ppto_event_query(event, &state), PPTO_OK);
    return state;
}

/* The header and the data of an NPY file as of a machine of the other kind. */
static void turn_bytes(const char *path)
{
    struct {
        char head[128];
        unsigned char data[];
    } *file = malloc(128 + 4096 * 4096);
    FILE *f = fopen(path, "r+");
    size_t n = fread(file, 1, 128 + 4096 * 4096, f) - 128;
    char *order = memchr(file->head, '<', 128);
    *order = '>';
    for (size_t i = 0; i < n; i += 4)
        for (size_t k = 0; k < 2; k++) {
            unsigned char low = file->data[i + k];
            file->data[i + k] = file->data[i + 3 - k];
            file->data[i + 3 - k] = low;
        }
    rewind(f);
    cr_assert_eq(fwrite(file, 1, 128 + n, f), 128 + n);
    fclose(f);
    free(file);
}

Test(files, big_endian_files_go_by_pieces)
{
    const char *in = path_of("in.npy"), *other = path_of("other.npy"), *out = path_of("out.npy");
    make_file(in, 4096);
    make_file(other, 4096);
    turn_bytes(other);
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *y = ppto_sink(g, ppto_exp(ppto_open(g, other)), out);
    ppto_program *p = NULL;
    ppto_stats stats = {.size = sizeof stats};
    cr_assert_eq(ppto_compile(1, &y, &p), PPTO_OK);
    cr_assert_eq(ppto_program_run(p, NULL), PPTO_OK, "%s", ppto_error_text(ctx));
    cr_assert_eq(ppto_program_stats(p, &stats), PPTO_OK);
    cr_expect_gt(stats.pieces, 1);
    expect_equal(out, "exp(x)", in);
    ppto_program_destroy(p);
    ppto_graph_destroy(g);
    remove_all();
}

/* The first cannot compute until it is let; the second is loaded meanwhile, and nothing is written. */
Test(files, a_batch_is_loaded_while_the_one_before_is_computed)
{
    const char *in = path_of("in.npy"), *one = path_of("one.npy"), *two = path_of("two.npy");
    ppto_stream *store = ppto_stream_create(ctx, "store", PPTO_STREAM_IO);
    ppto_event go;
    batch b[2];
    make_file(in, 8);
    cr_assert_eq(ppto_event_create_user(ctx, &go), PPTO_OK);
    start_batch(&b[0], store, in, one, go);
    start_batch(&b[1], store, in, two, (ppto_event){NULL, 0});
    cr_expect_eq(ppto_event_wait(b[1].loaded, -1), PPTO_OK);
    cr_expect_eq(state_of(b[0].computed), PPTO_EVENT_PENDING);
    cr_expect_eq(state_of(b[1].computed), PPTO_EVENT_PENDING, "its stream computes the first");
    cr_expect_neq(access(two, F_OK), 0);
    cr_expect_eq(ppto_event_signal(go, PPTO_OK), PPTO_OK);
    for (int i = 0; i < 2; i++) {
        cr_expect_eq(ppto_event_wait(b[i].written, -1), PPTO_OK);
        expect_equal(i ? two : one, "exp(x)", in);
    }
    for (int i = 0; i < 2; i++) end_batch(&b[i]);
    ppto_event_release(go);
    ppto_stream_destroy(store);
    remove_all();
}

static void expect_failure(ppto_graph *g, ppto_status status, const char *words)
{
    cr_expect_eq(ppto_graph_error(g), status, "%s", ppto_graph_error_text(g));
    cr_expect(strstr(ppto_graph_error_text(g), words), "%s", ppto_graph_error_text(g));
    ppto_graph_destroy(g);
}

static ppto_graph *graph_with(ppto_tensor **x)
{
    ppto_graph *g = ppto_graph_create(ctx);
    *x = ppto_input(g, "x", PPTO_F32, "4");
    return g;
}

Test(files, wrong_sources_and_sinks_are_errors_of_the_graph)
{
    const char *broken = path_of("broken.npy");
    FILE *f = fopen(broken, "w");
    fputs("no array", f);
    fclose(f);
    ppto_tensor *x, *other;
    ppto_graph *g = graph_with(&x), *h = graph_with(&other);
    cr_expect_null(ppto_open(g, "/nowhere/at.npy"));
    expect_failure(g, PPTO_E_IO, "/nowhere/at.npy");
    g = graph_with(&x);
    cr_expect_null(ppto_open(g, broken));
    cr_expect_null(ppto_sink(g, x, "out.npy"), "a graph that has failed records nothing more");
    expect_failure(g, PPTO_E_FORMAT, "broken.npy");
    g = graph_with(&x);
    cr_expect_null(ppto_open(g, NULL));
    expect_failure(g, PPTO_E_VALUE, "open: there is no path");
    g = graph_with(&x);
    cr_expect_null(ppto_sink(g, NULL, "out.npy"));
    expect_failure(g, PPTO_E_VALUE, "sink: the tensor is NULL");
    g = graph_with(&x);
    cr_expect_null(ppto_sink(g, other, "out.npy"));
    expect_failure(g, PPTO_E_VALUE, "sink: the tensor belongs to another graph");
    g = graph_with(&x);
    cr_expect_null(ppto_sink(g, x, ""));
    expect_failure(g, PPTO_E_VALUE, "sink: there is no path");
    g = graph_with(&x);
    cr_expect_null(ppto_sink(g, x, "folder.d/out.txt"));
    expect_failure(g, PPTO_E_VALUE, "sink: folder.d/out.txt: the end of the name says the format, and .txt");
    cr_expect_null(ppto_open(NULL, "a.npy"));
    cr_expect_null(ppto_sink(NULL, other, "a.npy"));
    ppto_tensor *twice[] = {ppto_sink(h, other, "a.npy"), ppto_sink(h, ppto_exp(other), "a.npy")};
    ppto_program *p = NULL;
    cr_expect_eq(ppto_compile(2, twice, &p), PPTO_E_VALUE);
    cr_expect(strstr(ppto_error_text(ctx), "both go to a.npy"), "%s", ppto_error_text(ctx));
    twice[1] = ppto_sink(h, ppto_exp(other), "./a.npy");
    cr_expect_eq(ppto_compile(2, twice, &p), PPTO_E_VALUE, "another spelling");
    ppto_tensor *inner = ppto_sink(h, other, "a.npy"), *outer = ppto_sink(h, inner, "b.npy");
    cr_expect_eq(ppto_compile(1, &outer, &p), PPTO_E_VALUE, "nobody would write the inner one");
    cr_expect(strstr(ppto_error_text(ctx), "b.npy writes the value of the sink a.npy, which is no output"),
              "%s", ppto_error_text(ctx));
    twice[0] = inner, twice[1] = outer;
    cr_expect_eq(ppto_compile(2, twice, &p), PPTO_OK, "%s", ppto_error_text(ctx));
    ppto_program_destroy(p);
    twice[0] = other, twice[1] = ppto_exp(other);
    cr_assert_eq(ppto_compile(2, twice, &p), PPTO_OK, "%s", ppto_error_text(ctx));
    cr_expect_eq(ppto_program_bind_sink(p, 0, "a.npy"), PPTO_OK);
    cr_expect_eq(ppto_program_bind_sink(p, 1, "./a.npy"), PPTO_E_VALUE);
    cr_expect_eq(ppto_program_bind_sink(p, 0, "./a.npy"), PPTO_OK, "its own");
    static const char *const fine[] = {"a",       "a.b/c",    ".hidden", "a.raw",
                                       "a.npz:y", "a.aXb2c3", "a.1",     "-:raw"};
    static const char *const none[] = {"a.txt", "./a.json", "a.npyz", "a.npy.h5", "a.safetensor"};
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++)
        cr_expect_eq(ppto_program_bind_sink(p, 0, fine[i]), PPTO_OK, "%s: %s", fine[i], ppto_error_text(ctx));
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        cr_expect_eq(ppto_program_bind_sink(p, 0, none[i]), PPTO_E_VALUE, "%s", none[i]);
    ppto_program_destroy(p);
    ppto_graph_destroy(h);
    remove_all();
}

Test(files, a_sink_that_cannot_be_written_fails_the_run)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_array *result = NULL;
    ppto_tensor *y = ppto_sink(g, ppto_float(g, 1), "/nowhere/at.npy");
    cr_expect_eq(ppto_eval(y, &result, NULL), PPTO_E_IO);
    cr_expect(strstr(ppto_error_text(ctx), "/nowhere/at.npy"), "%s", ppto_error_text(ctx));
    ppto_graph_destroy(g);
}

/* The run is to blame and not a file, and the text tells how far it came. */
static void expect_words_of_stop(const char *text, bool by_deadline)
{
    const char *begin =
        by_deadline ? "the run passed its deadline\n" : "the run was cancelled: nobody reads\n";
    cr_expect_eq(strncmp(text, begin, strlen(begin)), 0, "%s", text);
    cr_expect(strstr(text, "\n  last completed: "), "%s", text);
    cr_expect(strstr(text, "\n  first not completed: "), "%s", text);
}

static void expect_stop(const char *pipe, bool by_deadline, ppto_array *x)
{
    ppto_run_options options = PPTO_RUN_OPTIONS_INIT;
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *y = ppto_sink(g, ppto_exp(ppto_input(g, "x", PPTO_F32, "N, 1000")), pipe);
    ppto_program *p = NULL;
    ppto_run *run;
    options.deadline_ns = by_deadline ? 50000000 : 0;
    cr_assert_eq(ppto_compile(1, &y, &p), PPTO_OK, "%s", ppto_error_text(ctx));
    cr_assert_eq(ppto_program_bind(p, 0, x), PPTO_OK);
    cr_assert_eq(ppto_program_start(p, &options, &run), PPTO_OK);
    if (!by_deadline) {
        cr_expect_eq(ppto_run_wait(run, 20000000), PPTO_E_TIMEOUT, "nobody reads");
        cr_expect_eq(ppto_run_cancel(run, "nobody reads"), PPTO_OK);
    }
    cr_expect_eq(ppto_run_wait(run, -1), by_deadline ? PPTO_E_DEADLINE : PPTO_E_CANCELLED, "%s",
                 ppto_error_text(ctx));
    expect_words_of_stop(ppto_run_error(run), by_deadline);
    ppto_run_release(run);
    ppto_program_destroy(p);
    ppto_graph_destroy(g);
}

/* A pipe that nobody opens, or that is full, does not hold up the run: it ends when it is told to. */
Test(files, a_run_that_writes_to_a_pipe_can_be_stopped)
{
    const char *pipe = path_of("pipe"), *file = path_of("large.npy");
    ppto_array *x[2] = {ppto_array_fill(ctx, PPTO_F32, 2, (int64_t[]){2000, 1000}, "zeros", "x")};
    cr_assert_eq(ppto_array_save(x[0], file), PPTO_OK);
    x[1] = ppto_array_open(ctx, file); /* the run goes piece by piece */
    cr_assert_eq(mkfifo(pipe, 0600), 0);
    for (int i = 0; i < 4; i++) {
        int fd = i & 1 ? open(pipe, O_RDONLY | O_NONBLOCK) : -1;
        expect_stop(pipe, false, x[i / 2]);
        expect_stop(pipe, true, x[i / 2]);
        if (fd >= 0) close(fd);
    }
    for (int i = 0; i < 2; i++) ppto_array_release(x[i]);
    remove_all();
}

Test(files, progress_of_wrong_calls)
{
    ppto_progress progress = {.size = 0};
    cr_expect_eq(ppto_run_progress(NULL, &progress), PPTO_E_VALUE);
}
