/* SPDX-License-Identifier: Apache-2.0
 * Processes that the main thread ends with a context open, while the thread of the machine code waits, loads
 * its generator or compiles for the first time: each ends as it said. What a generator's library registers
 * for the end meanwhile would run before our own handlers (devices/cpu/loop_exit.c).
 *
 * A plain program: 0 = passed. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ppto/ops.h"
#include "ppto/ppto.h"

enum { ELEMENTS = 1000, PATIENCE_S = 300, LATEST_MS = 48, CODE = 7 };

/* For AddressSanitizer: what is there when the process ends is no leak. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

/* A run that asks for machine code, and then so many ms of life. */
static void end_after(int ms)
{
    static const int64_t shape[] = {ELEMENTS};
    ppto_context *ctx = NULL;
    ppto_program *p = NULL;
    ppto_array *result = NULL;
    ppto_options o = PPTO_OPTIONS_INIT;
    o.executor = "serial";
    if (ppto_context_create(&ctx, &o) != PPTO_OK) _exit(1);
    ppto_array *x = ppto_array_fill(ctx, PPTO_F32, 1, shape, "ones", "x");
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *y = ppto_sin(ppto_input(g, "x", PPTO_F32, "N"));
    y = ppto_add(ppto_mul(y, y), ppto_int(g, ms));
    if (ppto_compile(1, &y, &p) != PPTO_OK || ppto_program_bind(p, 0, x) != PPTO_OK) _exit(2);
    if (ppto_program_run(p, &result) != PPTO_OK) _exit(3);
    usleep((useconds_t)(ms * 1000));
    exit(CODE);
}

static int once(int ms)
{
    int status = -1;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(PATIENCE_S);
        end_after(ms);
    }
    const bool good = child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status);
    if (good && WEXITSTATUS(status) == CODE) return 0;
    fprintf(stderr, "after %d ms: ended with %x\n", ms, (unsigned)status);
    return 1;
}

int main(void)
{
    int failures = 0;
    for (int ms = 0; ms <= LATEST_MS; ms++) failures += once(ms);
    return failures != 0;
}
