/* SPDX-License-Identifier: Apache-2.0
 * fault_unload LIBRARY [TIMES]: loads libppto, runs something in every way, gives all back and unloads it, so
 * many times in one process. Threads, descriptors and memory stay what they were: after the first tenth the
 * resident set grows by less than 2 MiB.
 *
 * A plain program that is linked with neither ppto nor what ppto needs: 0 = passed. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ppto/ppto.h"

enum { ELEMENTS = 50000, GROWTH_KIB = 2048, PATIENCE_MS = 10000 };

static const char file[] = "fault_unload.npy";

#define API(X)                                                                                               \
    X(ppto_context_create)                                                                                   \
    X(ppto_context_destroy)                                                                                  \
    X(ppto_graph_create)                                                                                     \
    X(ppto_graph_destroy)                                                                                    \
    X(ppto_open_at)                                                                                          \
    X(ppto_exprn_at)                                                                                         \
    X(ppto_compile)                                                                                          \
    X(ppto_program_run_at)                                                                                   \
    X(ppto_program_start_at)                                                                                 \
    X(ppto_program_destroy)                                                                                  \
    X(ppto_run_wait)                                                                                         \
    X(ppto_run_release)                                                                                      \
    X(ppto_array_fill_at)                                                                                    \
    X(ppto_array_save)                                                                                       \
    X(ppto_array_release_at)                                                                                 \
    X(ppto_event_create_user)                                                                                \
    X(ppto_event_signal)                                                                                     \
    X(ppto_event_then)                                                                                       \
    X(ppto_event_release)

#define DECLARE(name) __typeof__(&name) p_##name; /* NOLINT: a name of the library each */
typedef struct library {
    void *handle;
    API(DECLARE)
} library;

static int load(const char *path, library *l)
{
    if ((l->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)) == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
#define FIND(name) *(void **)&l->p_##name = dlsym(l->handle, #name);
    API(FIND)
    return l->p_ppto_event_release == NULL;
}

static void nothing(void *arg, ppto_status status)
{
    (void)arg, (void)status;
}

/* From a file, on threads, asynchronously, with a callback: every thread the library may start runs. */
static int use(const library *l, int time)
{
    static const char *const executors[] = {NULL, "pthread", "serial"};
    static const int64_t shape[] = {ELEMENTS};
    ppto_context *ctx = NULL;
    ppto_program *p = NULL;
    ppto_array *out = NULL;
    ppto_run *run = NULL;
    ppto_event event;
    ppto_options o = PPTO_OPTIONS_INIT;
    o.executor = executors[time % 3];
    o.threads = 2;
    o.grain = 5000;
    if (l->p_ppto_context_create(&ctx, &o) != PPTO_OK) return 1;
    ppto_array *x = l->p_ppto_array_fill_at(PPTO_HERE, ctx, PPTO_F32, 1, shape, "ones", "x");
    int bad = l->p_ppto_array_save(x, file) != PPTO_OK;
    ppto_graph *g = l->p_ppto_graph_create(ctx);
    ppto_tensor *source = l->p_ppto_open_at(PPTO_HERE, g, file);
    ppto_tensor *y = l->p_ppto_exprn_at(PPTO_HERE, g, "cumulative_sum(exp($0) * 2) + sin($0)", 1, &source);
    bad |= l->p_ppto_compile(1, &y, &p) != PPTO_OK;
    bad |= bad || l->p_ppto_program_run_at(PPTO_HERE, p, &out) != PPTO_OK;
    l->p_ppto_array_release_at(PPTO_HERE, out);
    bad |= bad || l->p_ppto_program_start_at(PPTO_HERE, p, NULL, &run) != PPTO_OK;
    bad |= l->p_ppto_event_create_user(ctx, &event) != PPTO_OK ||
           l->p_ppto_event_then(event, nothing, NULL) != PPTO_OK ||
           l->p_ppto_event_signal(event, PPTO_OK) != PPTO_OK;
    bad |= bad || l->p_ppto_run_wait(run, -1) != PPTO_OK;
    l->p_ppto_event_release(event);
    l->p_ppto_run_release(run);
    l->p_ppto_program_destroy(p);
    l->p_ppto_graph_destroy(g);
    l->p_ppto_array_release_at(PPTO_HERE, x);
    return bad || l->p_ppto_context_destroy(ctx) != PPTO_OK;
}

static int entries(const char *path)
{
    int n = 0;
    DIR *dir = opendir(path);
    while (dir != NULL && readdir(dir) != NULL) n++;
    if (dir != NULL) closedir(dir);
    return n;
}

static long resident_kib(void)
{
    long pages = 0, all;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (statm != NULL && fscanf(statm, "%ld %ld", &all, &pages) != 2) pages = 0;
    if (statm != NULL) fclose(statm);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* A thread that was joined may be seen for a moment still. */
static int threads_settled(int wanted)
{
    for (int ms = 0; ms < PATIENCE_MS && entries("/proc/self/task") > wanted; ms++) usleep(1000);
    return entries("/proc/self/task");
}

static int once(const char *path, int time)
{
    library l;
    if (load(path, &l) != 0 || use(&l, time) != 0) {
        fprintf(stderr, "time %d failed\n", time);
        return 1;
    }
    dlclose(l.handle);
    return 0;
}

int main(int argc, char **argv)
{
    int times = argc > 2 ? atoi(argv[2]) : 100;
    if (argc < 2) return 2;
    int threads = entries("/proc/self/task"), files = 0;
    long before = 0;
    for (int i = 0; i < times; i++) {
        if (once(argv[1], i) != 0) return 1;
        if (i != times / 10) continue;
        files = entries("/proc/self/fd");
        before = resident_kib();
    }
    long grown = resident_kib() - before;
    int now = threads_settled(threads), files_now = entries("/proc/self/fd");
    unlink(file);
    printf("%d times: %d threads, %d files more, %ld KiB more\n", times, now - threads, files_now - files,
           grown);
    return now != threads || files_now != files || grown > GROWTH_KIB;
}
