/* SPDX-License-Identifier: Apache-2.0
 * A check in a process of its own. Slow (contexts are made anew), but what crashes can be shrunk like what
 * differs. */
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { APART_SECONDS = 600 };

typedef struct shared {
    fz_verdict verdict;
    fz_failure failure;
} shared;

fz_verdict fz_check_apart(const fz_program *program, uint64_t mask, fz_failure *failure)
{
    shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = 0;
    if (s == MAP_FAILED) return FZ_INVALID;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        static fz_checker checker;
        alarm(APART_SECONDS);
        s->verdict = fz_check(&checker, program, mask, &s->failure);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) < 0) status = 0;
    fz_verdict verdict = s->verdict;
    *failure = s->failure;
    if (WIFSIGNALED(status)) {
        verdict = FZ_FAIL;
        failure->config = 0;
        snprintf(failure->text, sizeof failure->text, "stopped by signal %d", WTERMSIG(status));
    }
    munmap(s, sizeof *s);
    return verdict;
}
