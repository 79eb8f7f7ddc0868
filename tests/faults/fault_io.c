/* SPDX-License-Identifier: Apache-2.0
 * I/O failure, everywhere: a file is read through an engine and replaced by another one, and every call of
 * the system on the way fails in turn, with several reasons. Each time there must be the old file or the new
 * one, whole; a success must mean the new one, a failure must have words; no temporary file, no descriptor
 * and no memory may be left. The calls are wrapped by the linker (meson.build), so the library has no seam
 * for this.
 *
 * Then no thread can be had at all. A plain program: 0 = passed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/fdio.h"
#include "files/sink.h"
#include "files/source.h"
#include "scheduler/io.h"

enum { BYTES = 40000 };

/* ---- wrapped calls ----------------------------------------------------------------------------- */

static atomic_int calls, fail_at, no_threads; /* fail_at: the number of the call; 0: none */
static int reason;

static bool fails(void)
{
    if (atomic_fetch_add(&calls, 1) + 1 != fail_at) return false;
    errno = reason;
    return true;
}

#define WRAP(type, name, parameters, ...)                                                                    \
    type __real_##name parameters;                                                                           \
    type __wrap_##name parameters;                                                                           \
    type __wrap_##name parameters                                                                            \
    {                                                                                                        \
        return fails() ? -1 : __real_##name(__VA_ARGS__);                                                    \
    }
WRAP(int, stat64, (const char *path, struct stat *facts), path, facts)
WRAP(int, fstat64, (int fd, struct stat *facts), fd, facts)
WRAP(off_t, lseek64, (int fd, off_t offset, int from), fd, offset, from)
WRAP(ssize_t, pread64, (int fd, void *to, size_t n, off_t at), fd, to, n, at)
WRAP(ssize_t, pwrite64, (int fd, const void *from, size_t n, off_t at), fd, from, n, at)
WRAP(int, fallocate64, (int fd, int mode, off_t at, off_t n), fd, mode, at, n)
WRAP(int, ftruncate64, (int fd, off_t n), fd, n)
WRAP(int, fsync, (int fd), fd)
WRAP(int, rename, (const char *from, const char *to), from, to)
WRAP(int, linkat, (int from, const char *old, int to, const char *new, int flags), from, old, to, new, flags)
WRAP(int, fchmod, (int fd, mode_t mode), fd, mode)
WRAP(int, access, (const char *path, int mode), path, mode)
WRAP(int, epoll_create1, (int flags), flags)
WRAP(int, epoll_ctl, (int set, int how, int fd, struct epoll_event *event), set, how, fd, event)
WRAP(int, eventfd, (unsigned first, int flags), first, flags)

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    int mode = flags & O_CREAT ? va_arg(rest, int) : 0;
    va_end(rest);
    return fails() ? -1 : __real_open64(path, flags, mode);
}

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd) /* one that fails has closed, too */
{
    int result = __real_close(fd);
    return fails() ? -1 : result;
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *arg)
{
    return no_threads || fails() ? EAGAIN : __real_pthread_create(thread, how, run, arg);
}

/* ---- the scenario ------------------------------------------------------------------------------ */

static unsigned char data[BYTES];

typedef struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t done;
    int left;
} waiter;

static void told(pp_io_request *request)
{
    waiter *all = request->owner;
    pthread_mutex_lock(&all->lock);
    if (--all->left == 0) pthread_cond_signal(&all->done);
    pthread_mutex_unlock(&all->lock);
}

static ppto_status move(pp_io *io, pp_io_op op, int fd, bool stream, size_t n, pp_error *err)
{
    waiter all = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 1};
    pp_io_file file = {.fd = fd, .stream = stream};
    pp_io_request request = {.op = op, .file = &file, .data = data, .bytes = n, .done = told, .owner = &all};
    pp_io_submit(io, &request);
    pthread_mutex_lock(&all.lock);
    while (all.left != 0) pthread_cond_wait(&all.done, &all.lock);
    pthread_mutex_unlock(&all.lock);
    return pp_io_result(&request, err);
}

/* "in" is read, "out" becomes the same. */
static ppto_status copy(const char *engine, pp_error *err)
{
    pp_io *io;
    pp_source source;
    pp_sink sink;
    memset(data, 0, sizeof data);
    PP_TRY(pp_io_create(engine, &(pp_io_options){.piece = 8192}, &io, err));
    ppto_status status = pp_source_open(&source, "in", err);
    if (status == PPTO_OK) {
        status = move(io, PP_IO_READ, source.fd, source.stream, BYTES, err);
        pp_source_close(&source);
    }
    if (status == PPTO_OK && (status = pp_sink_open(&sink, "out", BYTES, NULL, err)) == PPTO_OK) {
        status = move(io, PP_IO_WRITE, sink.fd, sink.stream, BYTES, err);
        if (status == PPTO_OK)
            status = pp_sink_finish(&sink, true, err);
        else
            pp_sink_abandon(&sink, NULL);
    }
    pp_io_destroy(io);
    return status;
}

/* ---- what is left ------------------------------------------------------------------------------ */

static int count(const char *folder)
{
    int n = 0;
    DIR *all = opendir(folder);
    while (readdir(all) != NULL) n++;
    closedir(all);
    return n;
}

static ppto_status fill(int fd, void *arg, pp_error *err)
{
    static unsigned char bytes[BYTES];
    memset(bytes, *(int *)arg, sizeof bytes);
    return pp_files_write(fd, bytes, sizeof bytes, err);
}

static bool make(const char *path, int byte)
{
    return pp_files_write_atomic(path, fill, &byte, NULL, NULL) == PPTO_OK;
}

/* The byte a whole file consists of; -1: it is none. */
static int content(const char *path)
{
    static unsigned char bytes[BYTES + 1];
    size_t got = 0;
    int fd = open(path, O_RDONLY);
    if (fd < 0 || pp_files_read(fd, bytes, sizeof bytes, &got, NULL) != PPTO_OK) got = 0;
    close(fd);
    for (size_t i = 0; i < got; i++)
        if (bytes[i] != bytes[0]) return -1;
    return got == BYTES ? bytes[0] : -1;
}

static bool try_call(const char *engine, int n, int number)
{
    pp_error err = {0};
    bool ready = make("in", 'n') && make("out", 'o');
    int descriptors = count("/proc/self/fd");
    int64_t live = pp_heap_count().live;
    reason = number;
    calls = 0;
    fail_at = n;
    ppto_status status = copy(engine, &err);
    fail_at = 0;
    int found = content("out");
    bool good = ready && (found == 'n' || (found == 'o' && status != PPTO_OK)) &&
                (status == PPTO_OK || err.text[0] != '\0') && count(".") == 4 &&
                count("/proc/self/fd") == descriptors && pp_heap_count().live == live;
    if (!good)
        fprintf(stderr, "%s, call %d fails with %d: status %d (%s), content %c, %d files, %d descriptors\n",
                engine, n, number, status, err.text, found, count(".") - 2,
                count("/proc/self/fd") - descriptors);
    return good;
}

static bool sweep(const char *engine)
{
    static const int reasons[] = {EIO, ENOSPC, EINTR, EAGAIN, EINVAL};
    bool good = try_call(engine, 0, 0);
    int most = calls;
    for (int n = 1; n <= most; n++)
        for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
            good = try_call(engine, n, reasons[i]) && good;
    return good;
}

/* ---- without threads --------------------------------------------------------------------------- */

static bool works_without_threads(void)
{
    pp_io *io;
    pp_io_facts facts;
    pp_error err = {0};
    int ends[2];
    no_threads = 1;
    bool good =
        make("in", 'n') && make("out", 'o') && copy("blocking", NULL) == PPTO_OK && content("out") == 'n';
    ppto_status status = pp_io_create("uv", &(pp_io_options){0}, &io, NULL);
    good = good && (status == PPTO_E_LIMIT || status == PPTO_E_UNSUPPORTED) && io == NULL;
    good = pp_io_create(NULL, &(pp_io_options){0}, &io, NULL) == PPTO_OK && good;
    pp_io_describe(io, &facts);
    good = good && !facts.thread && strcmp(facts.name, "blocking") == 0;
    good = good && pipe(ends) == 0 && close(ends[0]) == 0;
    good = good && move(io, PP_IO_WRITE, ends[1], true, BYTES, &err) == PPTO_E_IO &&
           strstr(err.text, "Broken pipe") != NULL;
    sigset_t pending, mask;
    sigpending(&pending);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    good = good && !sigismember(&pending, SIGPIPE) && !sigismember(&mask, SIGPIPE);
    close(ends[1]);
    pp_io_destroy(io);
    no_threads = 0;
    if (!good) fprintf(stderr, "something is wrong without threads: %s\n", err.text);
    return good;
}

int main(void)
{
    char folder[] = "fault_ioXXXXXX";
    if (mkdtemp(folder) == NULL || chdir(folder) != 0) return 2;
    bool good = works_without_threads();
    good = sweep("blocking") && good;
    for (size_t i = 0; pp_io_at(i) != NULL; i++)
        if (strcmp(pp_io_at(i), "uv") == 0) good = sweep("uv") && good;
    unlink("in");
    unlink("out");
    if (chdir("..") != 0 || rmdir(folder) != 0) return 2;
    return good ? 0 : 1;
}
