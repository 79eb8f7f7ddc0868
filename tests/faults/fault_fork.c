/* SPDX-License-Identifier: Apache-2.0
 * Forks of a process that has contexts, at every moment of their life: new, after a run, with runs under way
 * and waiting, while other threads record, compile and run, after the last one is gone. In the child every
 * call that could want a lock or a thread of the parent says E_FORKED, giving back does nothing, a context of
 * its own works, and it may end in any way. The parent goes on as if nothing had happened.
 *
 * A plain program: 0 = passed. A child that does not end in time is killed, and that is a failure. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "ppto/memcheck.h"
#include "ppto/ops.h"
#include "ppto/ppto.h"
#include "ppto/trace.h"

enum { ELEMENTS = 300000, PATIENCE_S = 300, DURING = 12 };

typedef struct scene { /* all a program may hold when it forks */
    ppto_context *ctx;
    ppto_graph *graph;
    ppto_tensor *tensor;
    ppto_array *array;
    ppto_program *program, *idle;
    ppto_run *run; /* waits for `gate` */
    ppto_stream *stream;
    ppto_event gate, after;
    ppto_trace *trace;
} scene;

static int failures;
static const char file[] = "fault_fork.npy";

/* For AddressSanitizer: what the threads of the parent held is lost in a child, and is no leak. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

static void complain(const char *where, const char *what)
{
    fprintf(stderr, "%s: %s (%s)\n", where, what, ppto_error_text(NULL));
    failures++;
}

/* ---- what a child may not do --------------------------------------------------------------------- */

static bool refused(ppto_status status)
{
    return status == PPTO_E_FORKED;
}

static bool none(const void *made)
{
    return made == NULL && ppto_error_status(NULL) == PPTO_E_FORKED;
}

#define CHECK(call)                                                                                          \
    if (!(call)) complain("child", #call)

static void contexts_and_arrays(const scene *s)
{
    char *text = NULL;
    ppto_comparison difference;
    ppto_memcheck_summary summary = {.size = sizeof summary};
    static const int64_t shape[] = {2};
    static float data[2];
    CHECK(refused(ppto_define(s->ctx, "op f(x: num) = x\n")));
    CHECK(refused(ppto_list_operators(s->ctx, NULL, false, &text)));
    CHECK(refused(ppto_show_operator(s->ctx, "exp", false, &text)));
    CHECK(refused(ppto_runtime_info(s->ctx, false, &text)));
    CHECK(refused(ppto_selfcheck(s->ctx, &text)));
    CHECK(refused(ppto_tune(s->ctx, &text)));
    CHECK(none(ppto_array_create(s->ctx, PPTO_F32, 1, shape)));
    CHECK(none(ppto_array_copy_of(s->ctx, PPTO_F32, 1, shape, data)));
    CHECK(none(ppto_array_wrap(s->ctx, data, PPTO_F32, 1, shape, NULL, NULL, NULL)));
    CHECK(none(ppto_array_load(s->ctx, file)));
    CHECK(none(ppto_array_open(s->ctx, file)));
    CHECK(none(ppto_array_fill(s->ctx, PPTO_F32, 1, shape, "ones", "x")));
    CHECK(none(ppto_number(s->ctx, 1)));
    CHECK(refused(ppto_array_save(s->array, "fault_fork_child.npy")));
    CHECK(refused(ppto_arrays_save("fault_fork_child.npy", 1, NULL, &s->array)));
    CHECK(refused(ppto_array_text(s->array, false, &text)));
    CHECK(refused(ppto_compare(s->array, s->array, 0, 0, &difference)));
    CHECK(refused(ppto_memcheck_mark(s->ctx, "mark")));
    CHECK(refused(ppto_memcheck_keep(s->array, true)));
    CHECK(refused(ppto_memcheck_text(s->ctx, PPTO_REPORT_TEXT, &text)));
    CHECK(refused(ppto_memcheck_report(s->ctx, PPTO_REPORT_TEXT, stdout)));
    CHECK(refused(ppto_memcheck_summarise(s->ctx, &summary)));
}

static void graphs(const scene *s)
{
    ppto_graph *g = s->graph;
    ppto_tensor *t = s->tensor, **outputs, *one = NULL;
    char **names;
    size_t n;
    CHECK(none(ppto_graph_create(s->ctx)));
    CHECK(refused(ppto_graph_error(g)));
    CHECK(none(ppto_input(g, "z", PPTO_F32, "N")));
    CHECK(none(ppto_input_number(g, "n", true)));
    CHECK(none(ppto_float(g, 1)));
    CHECK(none(ppto_open(g, file)));
    CHECK(none(ppto_sink(g, t, "fault_fork_child.npy")));
    CHECK(none(ppto_expr(g, "1 + 1")));
    CHECK(none(ppto_op(g, "exp", NULL, t)));
    CHECK(refused(ppto_opn_at(PPTO_HERE, g, "exp", NULL, 1, &t, 1, &one)));
    CHECK(refused(ppto_parse_program(g, "1", 1, NULL, NULL, NULL, &n, &outputs, &names)));
    CHECK(none(ppto_exp(t)));
    CHECK(refused(ppto_stream_push(g, s->stream)));
    ppto_event event;
    CHECK(refused(ppto_event_record(g, s->stream, &event)));
    CHECK(refused(ppto_stream_wait(g, s->stream, s->gate)));
}

static void programs(const scene *s)
{
    ppto_program *p = s->idle, *made = NULL;
    ppto_tensor *t = s->tensor;
    ppto_array *out = NULL;
    ppto_run *run = NULL;
    char *text = NULL;
    size_t n;
    ppto_stats stats = {.size = sizeof stats};
    ppto_trace *trace = NULL;
    ppto_trace_counts counts = {.size = sizeof counts};
    CHECK(refused(ppto_compile(1, &t, &made)));
    CHECK(refused(ppto_eval(t, &out, "x", s->array, NULL)));
    CHECK(refused(ppto_program_bind(p, 0, s->array)));
    CHECK(refused(ppto_program_bind_name(p, "x", s->array)));
    CHECK(refused(ppto_program_bind_output(p, 0, NULL)));
    CHECK(refused(ppto_program_bind_sink(p, 0, "fault_fork_child.npy")));
    CHECK(refused(ppto_program_donate(p, 0, true)));
    CHECK(refused(ppto_program_run(p, &out)));
    CHECK(refused(ppto_program_start(p, NULL, &run)));
    CHECK(refused(ppto_program_stats(p, &stats)));
    CHECK(refused(ppto_program_explain(p, PPTO_EXPLAIN_SUMMARY, false, &text)));
    CHECK(refused(ppto_program_picture(p, PPTO_PICTURE_DOT, &text)));
    CHECK(refused(ppto_program_log_tasks(p, true)));
    CHECK(refused(ppto_program_task_log(p, &text)));
    CHECK(refused(ppto_program_trace(p, s->trace, "p")));
    CHECK(refused(ppto_trace_create(s->ctx, NULL, &trace)));
    CHECK(refused(ppto_trace_write(s->trace, PPTO_TRACE_CHROME, &text, &n)));
    CHECK(refused(ppto_trace_steps(s->trace, false, &text)));
    CHECK(refused(ppto_trace_count(s->trace, &counts)));
    ppto_program_cancel(p);
}

static void count_call(void *arg, ppto_status status)
{
    (void)status;
    atomic_fetch_add((atomic_int *)arg, 1);
}

static void streams_and_runs(const scene *s)
{
    static atomic_int called;
    ppto_event event;
    ppto_event_state at;
    ppto_poison poison;
    ppto_array *out[2];
    ppto_progress progress = {.size = sizeof progress};
    CHECK(none(ppto_stream_create(s->ctx, "other", PPTO_STREAM_CPU)));
    CHECK(refused(ppto_sync(s->stream)));
    CHECK(refused(ppto_event_create_user(s->ctx, &event)));
    CHECK(refused(ppto_event_signal(s->gate, PPTO_OK)));
    CHECK(refused(ppto_event_retain(s->gate)));
    CHECK(refused(ppto_event_query(s->after, &at)));
    CHECK(refused(ppto_event_poison(s->after, &poison)));
    CHECK(refused(ppto_event_wait(s->after, -1)));
    CHECK(refused(ppto_event_then(s->after, count_call, &called)));
    CHECK(refused(ppto_run_wait(s->run, -1)));
    CHECK(refused(ppto_run_cancel(s->run, "child")));
    CHECK(refused(ppto_run_progress(s->run, &progress)));
    CHECK(refused(ppto_run_outputs(s->run, out)));
    CHECK(!ppto_run_over(s->run, NULL));
}

static ppto_status give_all_back(const scene *s)
{
    ppto_event_release(s->gate);
    ppto_event_release(s->after);
    ppto_run_release(s->run);
    ppto_program_destroy(s->program);
    ppto_program_destroy(s->idle);
    ppto_trace_destroy(s->trace);
    ppto_graph_destroy(s->graph);
    ppto_stream_destroy(s->stream);
    ppto_array_release(s->array);
    return ppto_context_destroy(s->ctx);
}

/* ---- what it may do ------------------------------------------------------------------------------ */

/* Loads a file, computes, starts a run and waits, in a context of its own. */
static void own_context(void)
{
    ppto_context *ctx = NULL;
    ppto_program *p = NULL;
    ppto_array *out = NULL;
    ppto_run *run = NULL;
    ppto_options o = PPTO_OPTIONS_INIT;
    o.threads = 2;
    CHECK(ppto_context_create(&ctx, &o) == PPTO_OK);
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *y = ppto_sum(ppto_exp(ppto_mul(ppto_open(g, file), ppto_float(g, 0.0))));
    CHECK(ppto_compile(1, &y, &p) == PPTO_OK);
    CHECK(ppto_program_run(p, &out) == PPTO_OK);
    if (out) CHECK(*(float *)ppto_array_data(out) == ELEMENTS);
    ppto_array_release(out);
    CHECK(ppto_program_start(p, NULL, &run) == PPTO_OK && ppto_run_wait(run, -1) == PPTO_OK);
    ppto_run_release(run);
    ppto_program_destroy(p);
    ppto_graph_destroy(g);
    CHECK(ppto_context_destroy(ctx) == PPTO_OK);
}

typedef enum child_kind { REFUSED, OWN, GIVES_BACK, EXITS, LEAVES, EXECUTES, CHILD_KINDS } child_kind;

static void child_main(const scene *s, child_kind kind)
{
    failures = 0;
    if (s && kind == REFUSED) {
        contexts_and_arrays(s);
        graphs(s);
        programs(s);
        streams_and_runs(s);
    }
    if (s && (kind == GIVES_BACK || kind == REFUSED)) CHECK(refused(give_all_back(s)));
    if (kind == OWN) own_context();
    if (kind == EXECUTES) execlp("true", "true", (char *)NULL);
    if (kind == EXITS || kind == OWN || kind == GIVES_BACK) exit(failures != 0);
    _exit(failures != 0);
}

static void fork_one(const char *where, const scene *s, child_kind kind)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(PATIENCE_S);
        child_main(s, kind);
    }
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "%s: a child of kind %d ended with %x\n", where, (int)kind, (unsigned)status);
        failures++;
    }
}

static void fork_all(const char *where, const scene *s)
{
    for (int kind = 0; kind < CHILD_KINDS; kind++) fork_one(where, s, (child_kind)kind);
}

/* ---- moments ------------------------------------------------------------------------------------- */

static ppto_program *compiled(scene *s, bool on_stream)
{
    ppto_program *p = NULL;
    ppto_graph *g = ppto_graph_create(s->ctx);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "N");
    if (on_stream) (void)ppto_stream_wait(g, s->stream, s->gate);
    if (on_stream) ppto_stream_push(g, s->stream);
    ppto_tensor *y = ppto_exp(x);
    if (on_stream) ppto_stream_pop(g);
    if (on_stream && ppto_event_record(g, s->stream, &s->after) != PPTO_OK) complain("parent", "record");
    if (ppto_compile(1, &y, &p) != PPTO_OK) complain("parent", "compile");
    (void)ppto_program_bind(p, 0, s->array);
    ppto_graph_destroy(g);
    return p;
}

static void open_scene(scene *s, const char *executor)
{
    static const int64_t shape[] = {ELEMENTS};
    ppto_options o = PPTO_OPTIONS_INIT;
    *s = (scene){0};
    o.executor = executor;
    o.threads = 2;
    o.memcheck_level = 1;
    if (ppto_context_create(&s->ctx, &o) != PPTO_OK) exit(1);
    s->array = ppto_array_fill(s->ctx, PPTO_F32, 1, shape, "ones", "x");
    s->stream = ppto_stream_create(s->ctx, "s", PPTO_STREAM_CPU);
    s->graph = ppto_graph_create(s->ctx);
    s->tensor = ppto_sin(ppto_input(s->graph, "x", PPTO_F32, "N"));
    if (ppto_trace_create(s->ctx, NULL, &s->trace) != PPTO_OK) complain("parent", "trace");
    if (ppto_event_create_user(s->ctx, &s->gate) != PPTO_OK) complain("parent", "event");
    s->program = compiled(s, true);
    s->idle = compiled(s, false);
    if (ppto_program_start(s->program, NULL, &s->run) != PPTO_OK) complain("parent", "start");
}

static void run_files(scene *s)
{
    ppto_array *out = NULL;
    ppto_program *p = NULL;
    ppto_graph *g = ppto_graph_create(s->ctx);
    ppto_tensor *y = ppto_sum(ppto_open(g, file));
    if (ppto_compile(1, &y, &p) != PPTO_OK || ppto_program_run(p, &out) != PPTO_OK) complain("parent", "run");
    ppto_array_release(out);
    ppto_program_destroy(p);
    ppto_graph_destroy(g);
}

static void close_scene(scene *s)
{
    if (ppto_event_signal(s->gate, PPTO_OK) != PPTO_OK) complain("parent", "signal");
    if (ppto_run_wait(s->run, -1) != PPTO_OK) complain("parent", "wait");
    ppto_array *out = NULL;
    if (ppto_program_run(s->idle, &out) != PPTO_OK) complain("parent", "run");
    if (out && ((float *)ppto_array_data(out))[0] < 2.7f) complain("parent", "a value is wrong");
    ppto_array_release(out);
    if (give_all_back(s) != PPTO_OK) complain("parent", "destroy");
}

/* ASan's allocator has no handlers for fork before GCC 14: a child that begins while another thread is inside
 * it may wait for its lock for ever (SizeClassAllocator64::GetFromAllocator below calloc, in a stack of one
 * that did). There no child begins while other threads work. */
#if defined(__SANITIZE_ADDRESS__)
enum { WHILE_OTHERS_WORK = 0 };
#else
enum { WHILE_OTHERS_WORK = 1 };
#endif

static atomic_bool enough;

/* Records, compiles, loads, starts and runs without end, so that some lock is always held. */
static void *be_busy(void *arg)
{
    scene *s = arg;
    for (int i = 0; !atomic_load(&enough); i++) {
        ppto_run *run = NULL;
        ppto_array *out = NULL;
        ppto_program *p = NULL;
        ppto_graph *g = ppto_graph_create(s->ctx);
        ppto_tensor *x = i % 2 ? ppto_open(g, file) : ppto_input(g, "x", PPTO_F32, "N");
        ppto_tensor *y = ppto_sum(ppto_add(ppto_exp(ppto_neg(x)), ppto_int(g, i % 7)));
        if (ppto_compile(1, &y, &p) != PPTO_OK) complain("busy", "compile");
        if (i % 2 == 0) (void)ppto_program_bind(p, 0, s->array);
        if (i % 3 == 0 && ppto_program_start(p, NULL, &run) != PPTO_OK) complain("busy", "start");
        if (run ? ppto_run_wait(run, -1) : ppto_program_run(p, &out)) complain("busy", "run");
        ppto_array_release(out);
        ppto_run_release(run);
        ppto_program_destroy(p);
        ppto_graph_destroy(g);
    }
    return NULL;
}

static void while_busy(const char *executor)
{
    enum { THREADS = 2 };
    scene s;
    pthread_t threads[THREADS];
    open_scene(&s, executor);
    run_files(&s);
    atomic_store(&enough, false);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, be_busy, &s) != 0) exit(1);
    for (int i = 0; i < DURING; i++) fork_one("during runs", &s, (child_kind)(i % CHILD_KINDS));
    atomic_store(&enough, true);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    close_scene(&s);
}

/* A child of a callback is in no callback. */
static void forks(void *arg, ppto_status status)
{
    (void)arg, (void)status;
    fork_one("in a callback", NULL, OWN);
}

static void in_a_callback(const char *executor)
{
    scene s;
    open_scene(&s, executor);
    if (ppto_event_then(s.after, forks, NULL) != PPTO_OK) complain("parent", "then");
    close_scene(&s); /* the context goes after the callback */
}

int main(void)
{
    static const char *const executors[] = {"serial", "pthread", "tbb"};
    int64_t live = pp_heap_count().live;
    for (size_t i = 0; i < sizeof executors / sizeof *executors; i++) {
        scene s;
        ppto_context *can = NULL;
        ppto_options o = PPTO_OPTIONS_INIT;
        o.executor = executors[i];
        if (ppto_context_create(&can, &o) != PPTO_OK) continue; /* not built in */
        static const int64_t shape[] = {ELEMENTS};
        ppto_array *ones = ppto_array_fill(can, PPTO_F32, 1, shape, "ones", "x");
        if (ppto_array_save(ones, file) != PPTO_OK) complain("parent", "save");
        ppto_array_release(ones);
        fork_one("a context without a run", NULL, OWN);
        fork_one("a context without a run", NULL, EXITS);
        ppto_context_destroy(can);
        open_scene(&s, executors[i]);
        run_files(&s);
        fork_all("after a run", &s);
        close_scene(&s);
        fork_all("no context", NULL);
        if (WHILE_OTHERS_WORK) while_busy(executors[i]);
        if (WHILE_OTHERS_WORK) in_a_callback(executors[i]);
    }
    unlink(file);
    if (pp_heap_count().live != live) complain("parent", "blocks are left");
    return failures != 0;
}
