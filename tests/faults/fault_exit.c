/* SPDX-License-Identifier: Apache-2.0
 * Processes that end while runs are under way: by exit from the main thread, from a callback, from a thread
 * of their own, by returning from main, by _exit and by a signal. Every one ends at once and as it said:
 * nothing crashes in a destructor, nothing is waited for, no half file appears.
 *
 * A plain program: 0 = passed. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ppto/ops.h"
#include "ppto/ppto.h"

enum { ELEMENTS = 4000000, PATIENCE_S = 300, TIMES = 4, CODE = 7 };

typedef enum end_kind { FROM_MAIN, FROM_CALLBACK, FROM_THREAD, QUICK, BY_SIGNAL, END_KINDS } end_kind;

static const char input[] = "fault_exit_in.npy", output[] = "fault_exit_out.npy";

/* For AddressSanitizer: what runs hold when the process ends is no leak. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

static void leave(void *arg, ppto_status status)
{
    (void)arg, (void)status;
    exit(CODE);
}

static void *leave_thread(void *arg)
{
    (void)arg;
    exit(CODE);
}

static ppto_program *started(ppto_context *ctx, ppto_array *x, int i)
{
    ppto_program *p = NULL;
    ppto_run *run = NULL;
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *y =
        ppto_cumulative_sum(ppto_sin(x ? ppto_input(g, "x", PPTO_F32, "N") : ppto_open(g, input)));
    y = ppto_add(ppto_softmax(y), ppto_int(g, i));
    if (!x) y = ppto_sink(g, y, output);
    if (ppto_compile(1, &y, &p) != PPTO_OK) _exit(1);
    if (x && ppto_program_bind(p, 0, x) != PPTO_OK) _exit(1);
    if (ppto_program_start(p, NULL, &run) != PPTO_OK) _exit(1);
    return p;
}

/* Runs in memory and from file to file, none of which is waited for. */
static void end_so(const char *executor, end_kind kind, int time)
{
    static const int64_t shape[] = {ELEMENTS};
    ppto_context *ctx = NULL;
    ppto_options o = PPTO_OPTIONS_INIT;
    ppto_event now;
    pthread_t thread;
    o.executor = executor;
    o.threads = 3;
    if (ppto_context_create(&ctx, &o) != PPTO_OK) _exit(1);
    ppto_array *x = ppto_array_fill(ctx, PPTO_F32, 1, shape, "ones", "x");
    (void)started(ctx, NULL, time);
    for (int i = 0; i < 2; i++) (void)started(ctx, x, i);
    usleep((useconds_t)(time * 3000));
    if (kind == BY_SIGNAL) raise(SIGTERM);
    if (kind == QUICK) _exit(CODE);
    if (kind == FROM_MAIN) exit(CODE);
    if (kind == FROM_THREAD) (void)pthread_create(&thread, NULL, leave_thread, NULL);
    if (kind == FROM_CALLBACK) {
        (void)ppto_event_create_user(ctx, &now);
        (void)ppto_event_then(now, leave, NULL);
        (void)ppto_event_signal(now, PPTO_OK);
    }
    for (;;) pause();
}

static bool half_file(void)
{
    struct stat is;
    return stat(output, &is) == 0 && is.st_size < (off_t)(ELEMENTS * sizeof(float));
}

static int once(const char *executor, end_kind kind, int time)
{
    unlink(output);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(PATIENCE_S);
        end_so(executor, kind, time);
    }
    int status = -1;
    bool good = child > 0 && waitpid(child, &status, 0) == child;
    if (kind == BY_SIGNAL)
        good = good && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM;
    else
        good = good && WIFEXITED(status) && WEXITSTATUS(status) == CODE;
    if (good && !half_file()) return 0;
    fprintf(stderr, "%s, kind %d, time %d: ended with %x\n", executor, (int)kind, time, (unsigned)status);
    return 1;
}

static ppto_status write_input(void)
{
    static const int64_t shape[] = {ELEMENTS};
    ppto_context *ctx = NULL;
    ppto_options o = PPTO_OPTIONS_INIT;
    o.executor = "serial";
    if (ppto_context_create(&ctx, &o) != PPTO_OK) return PPTO_E_INTERNAL;
    ppto_array *x = ppto_array_fill(ctx, PPTO_F32, 1, shape, "ones", "x");
    ppto_status status = ppto_array_save(x, input);
    ppto_array_release(x);
    ppto_context_destroy(ctx);
    return status;
}

int main(void)
{
    static const char *const executors[] = {"serial", "pthread", "tbb"};
    int failures = write_input() != PPTO_OK;
    for (size_t e = 0; e < sizeof executors / sizeof *executors; e++) {
        ppto_context *can = NULL;
        ppto_options o = PPTO_OPTIONS_INIT;
        o.executor = executors[e];
        if (ppto_context_create(&can, &o) != PPTO_OK) continue; /* not built in */
        ppto_context_destroy(can);
        for (int kind = 0; kind < END_KINDS; kind++)
            for (int time = 0; time < TIMES; time++) failures += once(executors[e], (end_kind)kind, time);
    }
    unlink(input);
    unlink(output);
    return failures != 0;
}
