/* SPDX-License-Identifier: Apache-2.0
 * Signals and the standard descriptors.
 *
 * A run holds nothing that outlives the process, but for temporary names of its unfinished files, which the
 * handler removes: so an interruption ends it at once, from there. There are two exceptions. A file that is
 * being replaced at the end becomes whole first. A run that reports were asked of is cancelled, and they are
 * written. A signal more than a second later ends it at once all the same, in both (`timeout` sends two
 * together). Writing into a pipe may wait for ever and makes no file, so it stays interruptible. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "ppto/run.h"

static volatile sig_atomic_t holding, pending;
static struct ppto_program *volatile running;
static volatile sig_atomic_t reporting; /* of what runs reports are wanted */

static void end_process(void)
{
    static const char words[] = "ppto: interrupted\n";
    ssize_t written = write(STDERR_FILENO, words, sizeof words - 1);
    (void)written;
    _exit(CLI_INTERRUPTED);
}

/* The kernel takes a quarter of a second for each GB of a file that is given up, of whoever closes it last.
 * That is to be a process nobody waits for: a copy of this one, which ends after it. */
static void leave_the_closing(void)
{
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
    static const struct timespec moment = {.tv_nsec = 5000000};
    pid_t parent = getpid();
    if (_Fork() != 0) return; /* a signal handler may do this; without a copy it only takes longer */
    for (int fd = 0; fd < 3; ++fd) close(fd);
    for (int i = 0; i < 4000 && getppid() == parent; ++i) nanosleep(&moment, NULL);
    _exit(0);
#endif
}

static void on_signal(int number)
{
    static struct timespec first;
    struct timespec now;
    (void)number;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (!pending) first = now;
    if (running && !pending) {
        leave_the_closing();
        if (!reporting && ppto_files_abandon()) end_process();
        ppto_program_cancel(running);
    } else if ((!holding && !running) || now.tv_sec - first.tv_sec > 1) {
        end_process();
    }
    pending = 1;
}

static void handle(int number)
{
    struct sigaction old, action;
    if (sigaction(number, NULL, &old) != 0 || old.sa_handler == SIG_IGN) return; /* as under nohup */
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

void cli_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    signal(SIGPIPE, SIG_DFL);
    handle(SIGINT);
    handle(SIGTERM);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

void cli_broken_pipes(bool told)
{
    signal(SIGPIPE, told ? SIG_IGN : SIG_DFL);
}

void cli_uninterrupted_begin(void)
{
    holding = 1;
}

void cli_uninterrupted_end(void)
{
    holding = 0;
    if (pending) end_process();
}

void cli_cancel_begin(struct ppto_program *program, bool reports)
{
    reporting = reports;
    running = program;
}

void cli_cancel_begun(void)
{
    if (pending) ppto_program_cancel(running);
}

void cli_cancel_end(void)
{
    running = NULL;
    if (pending && !holding) end_process();
}

bool cli_interrupted(void)
{
    return pending != 0;
}

void cli_standard_files(void)
{
    /* The wrong direction on purpose: reading a closed input and writing a closed output must fail, not
     * succeed. */
    static const int flags[] = {O_WRONLY, O_RDONLY, O_RDWR};
    for (int fd = 0; fd < 3; ++fd)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", flags[fd]) != fd) _exit(CLI_INTERNAL);
}

bool cli_is_standard(const char *path)
{
    return path[0] == '-' && (path[1] == '\0' || path[1] == ':');
}

bool cli_makes_file(const char *path)
{
    static const char *const descriptors[] = {"/dev/fd/", "/dev/std", "/proc/"};
    struct stat facts;
    if (cli_is_standard(path)) return false;
    for (size_t i = 0; i < sizeof descriptors / sizeof descriptors[0]; ++i)
        if (strncmp(path, descriptors[i], strlen(descriptors[i])) == 0) return false;
    return stat(path, &facts) != 0 || S_ISREG(facts.st_mode);
}
