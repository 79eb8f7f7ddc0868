/* SPDX-License-Identifier: Apache-2.0
 * Files as steps of a run: what does not read a file goes on while it is loaded, what fails or is cancelled
 * takes nothing along that does not depend on it, and every kind of file arrives as it is. A pipe whose
 * writer is this test decides when a load ends. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "async_common.h"
#include "files/npy.h"
#include "runtime/runtime.h"

enum { N = 50000 }; /* floats of a file: more than is read at once */

static char folder[] = "/tmp/ppto-steps-XXXXXX";
static const int64_t length[] = {N};

static void begin_steps(void)
{
    begin();
    cr_assert_not_null(mkdtemp(folder));
}

static void end_steps(void)
{
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_assert_eq(system(command), 0);
    end();
}

TestSuite(file_steps, .init = begin_steps, .fini = end_steps, .timeout = 120);

static const char *path_of(const char *name)
{
    static char path[8][128];
    static int next;
    next = (next + 1) % 8;
    snprintf(path[next], sizeof path[next], "%s/%s", folder, name);
    return path[next];
}

static const char *file_of_ones(const char *name)
{
    const char *path = path_of(name);
    ppto_array *a = ppto_array_fill(ctx, PPTO_F32, 1, length, "ones", "x");
    cr_assert_eq(ppto_array_save(a, path), PPTO_OK, "%s", ppto_error_text(ctx));
    ppto_array_release(a);
    return path;
}

/* A named pipe with the header of f32[N] in it. The descriptor to write the data to. */
static int pipe_at(const char *path)
{
    char head[PP_NPY_HEADER];
    size_t n, bytes;
    pp_error err = {.code = PPTO_OK};
    (void)unlink(path);
    cr_assert_eq(mkfifo(path, 0600), 0);
    int fd = open(path, O_RDWR);
    cr_assert(fd >= 0);
    cr_assert_eq(pp_npy_make_header(PPTO_F32, 1, length, head, &n, &bytes, &err), PPTO_OK);
    cr_assert_eq(write(fd, head, n), (ssize_t)n);
    return fd;
}

static void *write_ones(void *arg)
{
    static float ones[N];
    int fd = *(int *)arg;
    for (int i = 0; i < N; i++) ones[i] = 1;
    const char *at = (const char *)ones;
    for (size_t left = sizeof ones; left != 0;) {
        ssize_t step = write(fd, at, left);
        if (step < 0) break;
        at += step;
        left -= (size_t)step;
    }
    close(fd);
    return NULL;
}

static void use(const char *executor)
{
    ppto_stream_destroy(s);
    ppto_stream_destroy(t);
    ppto_context_destroy(ctx);
    ctx = context_with(executor, 0);
    s = ppto_stream_create(ctx, "s", PPTO_STREAM_CPU);
    t = ppto_stream_create(ctx, "t", PPTO_STREAM_IO);
}

static float first_of(const ppto_array *a)
{
    return *(const float *)ppto_array_data(a);
}

/* ---- side by side ------------------------------------------------------------------------------- */

/* Of one run: on s a file is computed on and an event recorded, while on t nobody writes the pipe yet. */
Test(file_steps, one_file_is_computed_on_while_another_is_loaded)
{
    static const char *const executors[] = {"serial", "pthread", "sim"};
    for (size_t i = 0; i < sizeof executors / sizeof *executors; i++) {
        use(executors[i]);
        const char *in = file_of_ones("in.npy"), *pipe = path_of("pipe.npy");
        int fd = pipe_at(pipe);
        ppto_graph *g = ppto_graph_create(ctx);
        ppto_event computed;
        ppto_program *p = NULL;
        ppto_array *y[2];
        pthread_t writer;
        ppto_stream_push(g, t);
        ppto_tensor *b = ppto_open(g, pipe);
        ppto_stream_pop(g);
        ppto_stream_push(g, s);
        ppto_tensor *a = ppto_open(g, in);
        ppto_tensor *out[] = {ppto_add(a, ppto_float(g, 1)), NULL};
        cr_assert_eq(ppto_event_record(g, s, &computed), PPTO_OK);
        out[1] = ppto_add(b, a);
        ppto_stream_pop(g);
        cr_assert_eq(ppto_compile(2, out, &p), PPTO_OK, "%s", ppto_error_text(ctx));
        ppto_run *run = start(p, NULL);
        cr_expect_eq(ppto_event_wait(computed, -1), PPTO_OK, "%s: nobody writes the pipe", executors[i]);
        cr_expect_eq(ppto_run_wait(run, 1000000), PPTO_E_TIMEOUT);
        cr_assert_eq(pthread_create(&writer, NULL, write_ones, &fd), 0);
        cr_expect_eq(ppto_run_wait(run, -1), PPTO_OK, "%s", ppto_run_error(run));
        pthread_join(writer, NULL);
        cr_assert_eq(ppto_run_outputs(run, y), PPTO_OK);
        for (int k = 0; k < 2; k++) {
            cr_expect_eq(first_of(y[k]), 2.0f);
            ppto_array_release(y[k]);
        }
        ppto_run_release(run);
        ppto_event_release(computed);
        ppto_program_destroy(p);
        ppto_graph_destroy(g);
    }
}

/* Without streams, too, a group waits for its own file alone: with one worker as well. */
Test(file_steps, a_group_waits_for_no_other_file)
{
    static const char *const executors[] = {"serial", "pthread", "sim"};
    for (size_t i = 0; i < sizeof executors / sizeof *executors; i++) {
        use(executors[i]);
        const char *in = file_of_ones("in.npy"), *pipe = path_of("pipe.npy");
        int fd = pipe_at(pipe);
        ppto_graph *g = ppto_graph_create(ctx);
        ppto_program *p = NULL;
        pthread_t writer;
        ppto_array *y[2];
        ppto_tensor *a = ppto_open(g, pipe), *b = ppto_open(g, in);
        ppto_tensor *out[] = {ppto_cumulative_sum(a), ppto_cumulative_sum(b)};
        cr_assert_eq(ppto_compile(2, out, &p), PPTO_OK, "%s", ppto_error_text(ctx));
        cr_assert_eq(p->plan->fused.groups.n, 2);
        ppto_run *run = start(p, NULL);
        ppto_progress progress = {.size = sizeof progress};
        while (progress.fraction < 0.49) { /* until the file's half of the work is done */
            cr_assert_eq(ppto_run_progress(run, &progress), PPTO_OK);
            pause_ms(1);
        }
        cr_assert_eq(pthread_create(&writer, NULL, write_ones, &fd), 0);
        cr_expect_eq(ppto_run_wait(run, -1), PPTO_OK, "%s", ppto_run_error(run));
        pthread_join(writer, NULL);
        cr_assert_eq(ppto_run_outputs(run, y), PPTO_OK);
        for (int k = 0; k < 2; k++) {
            cr_expect_eq(((const float *)ppto_array_data(y[k]))[N - 1], (float)N);
            ppto_array_release(y[k]);
        }
        ppto_run_release(run);
        ppto_program_destroy(p);
        ppto_graph_destroy(g);
    }
}

Test(file_steps, the_plan_tells_them_as_steps)
{
    ppto_graph *g = ppto_graph_create(ctx);
    const char *in = file_of_ones("in.npy");
    char want[200];
    ppto_program *p = NULL;
    char *text = NULL;
    ppto_stream_push(g, t);
    ppto_tensor *x = ppto_open(g, in);
    ppto_stream_pop(g);
    ppto_tensor *y = ppto_sink(g, ppto_exp(x), "out.npy");
    cr_assert_eq(ppto_compile(1, &y, &p), PPTO_OK, "%s", ppto_error_text(ctx));
    cr_assert_eq(ppto_program_explain(p, PPTO_EXPLAIN_PLAN, false, &text), PPTO_OK, "%s",
                 ppto_error_text(ctx));
    snprintf(want, sizeof want, "step 1: loads source1 from %s, stream t\n  after steps 0\n", in);
    cr_expect(strstr(text, want), "%s", text);
    cr_expect(strstr(text, "step 3: map, tasks by phase"), "%s", text);
    cr_expect(strstr(text, "step 4: stores result 0 to out.npy\n  after steps 3\n"), "%s", text);
    ppto_text_free(text);
    ppto_program_destroy(p);
    ppto_graph_destroy(g);
}

/* ---- failures ----------------------------------------------------------------------------------- */

/* Two programs of one graph structure: x + 1 of a file, and -x of another, which ends too early. */
static ppto_run *run_with_broken(ppto_policy policy, ppto_program **p)
{
    const char *in = file_of_ones("in.npy"), *broken = file_of_ones("broken.npy");
    ppto_run_options options = PPTO_RUN_OPTIONS_INIT;
    ppto_graph *g = ppto_graph_create(ctx);
    options.policy = policy;
    ppto_tensor *a = ppto_open(g, in), *b = ppto_open(g, broken);
    ppto_tensor *out[] = {ppto_neg(b), ppto_add(a, ppto_float(g, 1))};
    cr_assert_eq(ppto_compile(2, out, p), PPTO_OK, "%s", ppto_error_text(ctx));
    cr_assert_eq(truncate(broken, 3 * N), 0);
    ppto_graph_destroy(g);
    ppto_run *run = start(*p, &options);
    cr_expect_eq(ppto_run_wait(run, -1), PPTO_E_FORMAT, "%s", ppto_run_error(run));
    cr_expect(strstr(ppto_run_error(run), "broken.npy: "), "%s", ppto_run_error(run));
    cr_expect(strstr(ppto_run_error(run), "test_file_steps.c:"), "%s", ppto_run_error(run));
    return run;
}

Test(file_steps, what_does_not_read_a_broken_file_goes_on)
{
    for (int i = 0; i < 2; i++) {
        ppto_program *p;
        ppto_array *y[2];
        ppto_run *run = run_with_broken(i ? PPTO_KEEP_GOING : PPTO_FAIL_FAST, &p);
        cr_assert_eq(ppto_run_outputs(run, y), PPTO_OK);
        cr_expect_null(y[0]);
        cr_expect_eq(y[1] != NULL, i == 1);
        if (y[1]) cr_expect_eq(first_of(y[1]), 2.0f);
        ppto_array_release(y[1]);
        ppto_run_release(run);
        ppto_program_destroy(p);
    }
}

/* The failure of a load poisons the event behind it, with the place where it was recorded. */
Test(file_steps, an_event_behind_a_broken_file_is_poisoned)
{
    const char *broken = file_of_ones("broken.npy");
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_event loaded;
    ppto_poison poison;
    ppto_program *p = NULL;
    ppto_stream_push(g, t);
    ppto_tensor *y = ppto_open(g, broken);
    ppto_stream_pop(g);
    cr_assert_eq(ppto_event_record(g, t, &loaded), PPTO_OK);
    y = ppto_neg(y);
    cr_assert_eq(ppto_compile(1, &y, &p), PPTO_OK, "%s", ppto_error_text(ctx));
    cr_assert_eq(truncate(broken, 3 * N), 0);
    ppto_run *run = start(p, NULL);
    cr_expect_eq(ppto_run_wait(run, -1), PPTO_E_FORMAT, "%s", ppto_run_error(run));
    cr_expect_eq(ppto_event_wait(loaded, -1), PPTO_E_FORMAT);
    cr_assert_eq(ppto_event_poison(loaded, &poison), PPTO_OK);
    cr_expect_str_eq(poison.operator_name, "open");
    cr_expect_gt(poison.site.line, 0);
    ppto_run_release(run);
    ppto_event_release(loaded);
    ppto_program_destroy(p);
    ppto_graph_destroy(g);
}

/* A failure ends a run although a pipe it also reads brings nothing, and cancel and deadline do. */
Test(file_steps, a_pipe_that_brings_nothing_holds_nobody)
{
    for (int i = 0; i < 3; i++) {
        static const ppto_status ends[] = {PPTO_E_FORMAT, PPTO_E_CANCELLED, PPTO_E_DEADLINE};
        const char *pipe = path_of("pipe.npy"), *in = file_of_ones("in.npy");
        int fd = pipe_at(pipe);
        ppto_run_options options = PPTO_RUN_OPTIONS_INIT;
        ppto_graph *g = ppto_graph_create(ctx);
        ppto_program *p = NULL;
        ppto_tensor *a = ppto_open(g, pipe), *b = ppto_open(g, in);
        ppto_tensor *out[] = {ppto_exp(a), ppto_exp(b)};
        cr_assert_eq(ppto_compile(2, out, &p), PPTO_OK, "%s", ppto_error_text(ctx));
        if (i == 0) cr_assert_eq(truncate(in, 3 * N), 0);
        if (i == 2) options.deadline_ns = 30000000;
        ppto_run *run = start(p, &options);
        if (i == 1) pause_ms(10);
        if (i == 1) cr_expect_eq(ppto_run_cancel(run, "enough"), PPTO_OK);
        cr_expect_eq(ppto_run_wait(run, -1), ends[i], "%s", ppto_run_error(run));
        ppto_run_release(run);
        ppto_program_destroy(p);
        ppto_graph_destroy(g);
        close(fd);
    }
}

/* ---- stores ------------------------------------------------------------------------------------- */

/* Names in the folder, which would show a file that was given up. */
static int names_there(void)
{
    DIR *d = opendir(folder);
    int n = 0;
    cr_assert_not_null(d);
    for (const struct dirent *e; (e = readdir(d)) != NULL;) n += e->d_name[0] != '.' || e->d_name[1] == 'p';
    closedir(d);
    return n;
}

static float first_in(const char *path)
{
    ppto_array *a = ppto_array_load(ctx, path);
    cr_assert_not_null(a, "%s", ppto_error_text(ctx));
    float first = first_of(a);
    ppto_array_release(a);
    return first;
}

/* Stores 2 over a file of ones, and reads a pipe beside. */
static ppto_program *store_beside_a_pipe(const char *out, const char *pipe)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_program *p = NULL;
    ppto_tensor *a = ppto_open(g, out), *b = ppto_open(g, pipe);
    ppto_tensor *outputs[] = {ppto_sink(g, ppto_add(a, ppto_float(g, 1)), out), ppto_neg(b)};
    cr_assert_eq(ppto_compile(2, outputs, &p), PPTO_OK, "%s", ppto_error_text(ctx));
    ppto_graph_destroy(g);
    return p;
}

Test(file_steps, a_result_is_stored_while_another_is_not_there_and_gets_its_name_at_the_end)
{
    const char *out = file_of_ones("out.npy"), *pipe = path_of("pipe.npy");
    int fd = pipe_at(pipe);
    pthread_t writer;
    ppto_array *y[2];
    ppto_progress progress = {.size = sizeof progress};
    ppto_program *p = store_beside_a_pipe(out, pipe);
    ppto_run *run = start(p, NULL);
    while (progress.file_bytes < 8 * N) { /* one file is read and the other written */
        cr_assert_eq(ppto_run_progress(run, &progress), PPTO_OK);
        pause_ms(1);
    }
    cr_expect_eq(first_in(out), 1.0f);
    cr_expect_eq(names_there(), 2);
    cr_assert_eq(pthread_create(&writer, NULL, write_ones, &fd), 0);
    cr_expect_eq(ppto_run_wait(run, -1), PPTO_OK, "%s", ppto_run_error(run));
    pthread_join(writer, NULL);
    cr_expect_eq(first_in(out), 2.0f);
    cr_assert_eq(ppto_run_outputs(run, y), PPTO_OK);
    cr_expect_null(y[0]);
    cr_expect_eq(first_of(y[1]), -1.0f);
    ppto_array_release(y[1]);
    ppto_run_release(run);
    ppto_program_destroy(p);
}

Test(file_steps, a_run_that_is_cancelled_leaves_the_old_file_and_no_other)
{
    const char *out = file_of_ones("out.npy"), *pipe = path_of("pipe.npy");
    int fd = pipe_at(pipe);
    ppto_progress progress = {.size = sizeof progress};
    ppto_program *p = store_beside_a_pipe(out, pipe);
    ppto_run *run = start(p, NULL);
    while (progress.file_bytes < 8 * N) {
        cr_assert_eq(ppto_run_progress(run, &progress), PPTO_OK);
        pause_ms(1);
    }
    cr_expect_eq(ppto_run_cancel(run, "enough"), PPTO_OK);
    cr_expect_eq(ppto_run_wait(run, -1), PPTO_E_CANCELLED);
    cr_expect_eq(first_in(out), 1.0f);
    cr_expect_eq(names_there(), 2);
    ppto_run_release(run);
    ppto_program_destroy(p);
    close(fd);
}

/* The other result reads a file that is broken. With its event the file is there, or both are not. */
static void store_beside_a_failure(bool goes_on, bool on_stream)
{
    const char *in = file_of_ones("in.npy"), *broken = file_of_ones("broken.npy"),
               *out = file_of_ones("out.npy");
    ppto_run_options options = PPTO_RUN_OPTIONS_INIT;
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_event stored = no_event;
    ppto_program *p = NULL;
    options.policy = goes_on ? PPTO_KEEP_GOING : PPTO_FAIL_FAST;
    ppto_tensor *y[] = {ppto_neg(ppto_open(g, broken)), ppto_add(ppto_open(g, in), ppto_float(g, 1))};
    if (on_stream) ppto_stream_push(g, t);
    y[1] = ppto_sink(g, y[1], out);
    if (on_stream) ppto_stream_pop(g);
    if (on_stream) cr_assert_eq(ppto_event_record(g, t, &stored), PPTO_OK);
    cr_assert_eq(ppto_compile(2, y, &p), PPTO_OK, "%s", ppto_error_text(ctx));
    cr_assert_eq(truncate(broken, 3 * N), 0);
    ppto_run *run = start(p, &options);
    cr_expect_eq(ppto_run_wait(run, -1), PPTO_E_FORMAT, "%s", ppto_run_error(run));
    cr_expect_eq(first_in(out), goes_on ? 2.0f : 1.0f);
    cr_expect_eq(names_there(), 3);
    if (on_stream) cr_expect_eq(ppto_sync(t), goes_on ? PPTO_OK : PPTO_E_FORMAT);
    if (on_stream) cr_expect_eq(ppto_event_wait(stored, -1), goes_on ? PPTO_OK : PPTO_E_FORMAT);
    if (on_stream) ppto_event_release(stored);
    ppto_run_release(run);
    ppto_program_destroy(p);
    ppto_graph_destroy(g);
}

Test(file_steps, a_run_that_fails_leaves_the_old_file_unless_it_goes_on)
{
    for (int i = 0; i < 4; i++) store_beside_a_failure(i & 1, i & 2);
}

Test(file_steps, a_file_that_cannot_be_stored_is_named_with_its_place)
{
    ppto_graph *g = ppto_graph_create(ctx);
    const char *in = file_of_ones("in.npy");
    ppto_program *p = NULL;
    ppto_tensor *x = ppto_open(g, in), *y = ppto_sink(g, ppto_exp(x), "/dev/full");
    cr_assert_eq(ppto_compile(1, &y, &p), PPTO_OK, "%s", ppto_error_text(ctx));
    ppto_run *run = start(p, NULL);
    cr_expect_eq(ppto_run_wait(run, -1), PPTO_E_LIMIT, "%s", ppto_run_error(run));
    cr_expect(strstr(ppto_run_error(run), "sink: /dev/full: "), "%s", ppto_run_error(run));
    cr_expect(strstr(ppto_run_error(run), "test_file_steps.c:"), "%s", ppto_run_error(run));
    ppto_run_release(run);
    ppto_program_destroy(p);
    ppto_graph_destroy(g);
}

/* A file that is on no stream is read when the streams of its run are: here what an earlier run stored. */
Test(file_steps, a_file_on_no_stream_is_read_after_the_runs_before)
{
    const char *out = file_of_ones("out.npy");
    ppto_graph *g = ppto_graph_create(ctx), *h = ppto_graph_create(ctx);
    ppto_program *p = NULL, *q = NULL;
    ppto_event go;
    ppto_array *z = NULL;
    cr_assert_eq(ppto_event_create_user(ctx, &go), PPTO_OK);
    cr_assert_eq(ppto_stream_wait(g, s, go), PPTO_OK);
    ppto_stream_push(g, s);
    ppto_tensor *y = ppto_sink(g, ppto_add(ppto_open(g, out), ppto_float(g, 1)), out);
    ppto_stream_pop(g);
    cr_assert_eq(ppto_compile(1, &y, &p), PPTO_OK, "%s", ppto_error_text(ctx));
    ppto_tensor *x = ppto_open(h, out);
    ppto_stream_push(h, s);
    y = ppto_neg(x);
    ppto_stream_pop(h);
    cr_assert_eq(ppto_compile(1, &y, &q), PPTO_OK, "%s", ppto_error_text(ctx));
    ppto_run *first = start(p, NULL), *second = start(q, NULL);
    cr_expect_eq(ppto_event_signal(go, PPTO_OK), PPTO_OK);
    cr_expect_eq(ppto_run_wait(first, -1), PPTO_OK, "%s", ppto_run_error(first));
    cr_expect_eq(ppto_run_wait(second, -1), PPTO_OK, "%s", ppto_run_error(second));
    cr_assert_eq(ppto_run_outputs(second, &z), PPTO_OK);
    cr_expect_eq(first_of(z), -2.0f);
    ppto_array_release(z);
    ppto_run_release(first);
    ppto_run_release(second);
    ppto_event_release(go);
    ppto_program_destroy(p);
    ppto_program_destroy(q);
    ppto_graph_destroy(g);
    ppto_graph_destroy(h);
}

/* ---- kinds of files ------------------------------------------------------------------------------ */

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    cr_assert_not_null(f);
    fputs(text, f);
    fclose(f);
}

/* What a python of the tests writes, next to the same by ppto_array_load, which takes no steps. */
Test(file_steps, every_kind_of_file_arrives_as_it_is)
{
    static const char *const makes[] = {"np.save(p, a)",     "np.save(p, a.astype('>f4'))",
                                        "np.save(p, a > 0)", "np.save(p, np.asfortranarray(a))",
                                        "np.save(p, a[:0])", "np.save(p, (a * 9).astype('>i2'))",
                                        "np.save(p, a[:3])", "np.savez(p, a=a)"};
    char script[128];
    snprintf(script, sizeof script, "%s/make.py", folder);
    write_text(script, "import numpy as np, sys\np = sys.argv[1]\n"
                       "a = np.sin(np.arange(90000, dtype='f4')).reshape(300, 300)\nexec(sys.argv[2])\n");
    for (size_t i = 0; i < sizeof makes / sizeof *makes; i++) {
        const char *path = path_of(strstr(makes[i], "savez") ? "a.npz" : "a.npy");
        char command[400];
        snprintf(command, sizeof command, "%s %s %s \"%s\"", getenv("PPTO_PYTHON"), script, path, makes[i]);
        cr_assert_eq(system(command), 0);
        ppto_graph *g = ppto_graph_create(ctx);
        ppto_array *want = ppto_array_load(ctx, path), *got = NULL;
        ppto_comparison c;
        ppto_tensor *x = ppto_open(g, path);
        cr_assert_eq(ppto_eval(ppto_flip(ppto_flip(x)), &got, NULL), PPTO_OK, "%s", ppto_error_text(ctx));
        cr_assert_eq(ppto_compare(got, want, 0, 0, &c), PPTO_OK);
        cr_expect(c.equal, "%s: %lld differ", makes[i], (long long)c.different);
        ppto_array_release(want);
        ppto_array_release(got);
        ppto_graph_destroy(g);
    }
}

/* behind: bytes that follow the array; negative: so many are missing. */
static void expect_of_pipe(int behind, ppto_status status, const char *words)
{
    const char *pipe = path_of("pipe.npy");
    static char data[4 * N + 8];
    int fd = pipe_at(pipe);
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_program *p = NULL;
    ppto_array *y = NULL;
    ppto_tensor *x = ppto_exp(ppto_open(g, pipe));
    cr_assert_eq(ppto_compile(1, &x, &p), PPTO_OK, "%s", ppto_error_text(ctx));
    ppto_run *run = start(p, NULL);
    size_t n = (size_t)(4 * N + behind);
    for (size_t at = 0; at < n;) {
        ssize_t step = write(fd, data + at, n - at);
        cr_assert(step > 0);
        at += (size_t)step;
    }
    close(fd);
    cr_expect_eq(ppto_run_wait(run, -1), status, "%s", ppto_run_error(run));
    cr_expect(strstr(ppto_run_error(run), words), "%s", ppto_run_error(run));
    cr_assert_eq(ppto_run_outputs(run, &y), PPTO_OK);
    if (y) cr_expect_eq(first_of(y), 1.0f);
    ppto_array_release(y);
    ppto_run_release(run);
    ppto_program_destroy(p);
    ppto_graph_destroy(g);
}

Test(file_steps, a_pipe_must_bring_as_much_as_it_says)
{
    expect_of_pipe(0, PPTO_OK, "");
    expect_of_pipe(3, PPTO_E_FORMAT, "pipe.npy: bytes follow the array");
    expect_of_pipe(-5, PPTO_E_FORMAT, "pipe.npy: the array is cut off: 5 bytes of data missing");
}

/* A file that gives a number is read before there are steps; one that nobody computes on is a result. */
Test(file_steps, files_that_are_numbers_and_results)
{
    const char *in = file_of_ones("in.npy"), *number = path_of("two.npy");
    ppto_array *two = ppto_array_fill(ctx, PPTO_F64, 0, NULL, "ones", "n"), *a, *y[2] = {NULL, NULL};
    cr_assert_eq(ppto_array_save(two, number), PPTO_OK);
    ppto_array_release(two);
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_program *p = NULL;
    ppto_stream_push(g, t);
    ppto_tensor *x = ppto_open(g, in);
    ppto_stream_pop(g);
    ppto_tensor *out[] = {ppto_add(x, ppto_open(g, number)), x};
    cr_assert_eq(ppto_compile(2, out, &p), PPTO_OK, "%s", ppto_error_text(ctx));
    cr_assert_eq(ppto_program_run(p, y), PPTO_OK, "%s", ppto_error_text(ctx));
    a = ppto_array_load(ctx, in);
    ppto_comparison c;
    cr_assert_eq(ppto_compare(y[1], a, 0, 0, &c), PPTO_OK);
    cr_expect(c.equal);
    for (int i = 0; i < 2; i++) ppto_array_release(y[i]);
    ppto_array_release(a);
    ppto_program_destroy(p);
    ppto_graph_destroy(g);
}
