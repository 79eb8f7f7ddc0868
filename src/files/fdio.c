/* SPDX-License-Identifier: Apache-2.0
 * Reads, writes and output files (fdio.h).
 *
 * An output file is written under a temporary name in the folder of its target, then renamed over it: a
 * reader sees the old bytes or the new ones. The temporary name does not contain the target's, which may
 * already be as long as names can be. It is made with O_EXCL rather than mkstemp, so that the umask of the
 * user applies without reading it (which cannot be done without setting it, for all threads). No fsync: a
 * crash of the machine may lose the new file, a crash of the program cannot. */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/fdio.h"

enum { LARGEST_STEP = 1 << 30 }; /* of one read or write call; more is not portable */

static ppto_status fail_errno(pp_error *err, const char *what, int number)
{
    bool full = number == ENOSPC || number == EDQUOT || number == EFBIG;
    char reason[128];
    if (strerror_r(number, reason, sizeof reason) != 0) snprintf(reason, sizeof reason, "error %d", number);
    return pp_fail(err, full ? PPTO_E_LIMIT : PPTO_E_IO, "%s: %s", what, reason);
}

/* After a failed call: true when it is to be made again, at once or after waiting. */
static bool again(int fd, short events)
{
    if (errno == EINTR) return true;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return false;
    struct pollfd wait = {.fd = fd, .events = events};
    return poll(&wait, 1, -1) >= 0 || errno == EINTR;
}

ppto_status pp_files_read(int fd, void *bytes, size_t n, size_t *got, pp_error *err)
{
    unsigned char *at = bytes;
    *got = 0;
    while (*got < n) {
        size_t left = n - *got;
        ssize_t step = read(fd, at + *got, left < LARGEST_STEP ? left : LARGEST_STEP);
        if (step == 0) break;
        if (step > 0)
            *got += (size_t)step;
        else if (!again(fd, POLLIN))
            return fail_errno(err, "cannot read", errno);
    }
    return PPTO_OK;
}

ppto_status pp_files_write(int fd, const void *bytes, size_t n, pp_error *err)
{
    const unsigned char *at = bytes;
    while (n != 0) {
        ssize_t step = write(fd, at, n < LARGEST_STEP ? n : LARGEST_STEP);
        if (step >= 0) {
            at += step;
            n -= (size_t)step;
        } else if (!again(fd, POLLOUT)) {
            return fail_errno(err, "cannot write", errno);
        }
    }
    return PPTO_OK;
}

int64_t pp_files_remaining(int fd)
{
    struct stat facts;
    if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode)) return -1;
    off_t position = lseek(fd, 0, SEEK_CUR);
    if (position < 0) return -1;
    return position < facts.st_size ? (int64_t)(facts.st_size - position) : 0;
}

/* Closes fd whatever happened; a failed close is a failure of the writing. */
static ppto_status fill_and_close(int fd, pp_files_writer writer, void *arg, pp_error *err)
{
    ppto_status status = writer(fd, arg, err);
    if (close(fd) != 0 && errno != EINTR && status == PPTO_OK)
        status = fail_errno(err, "cannot write", errno);
    return status;
}

static ppto_status write_in_place(const char *path, pp_files_writer writer, void *arg, pp_error *err)
{
    int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    if (fd < 0) return fail_errno(err, "cannot open", errno);
    return fill_and_close(fd, writer, arg, err);
}

/* Opens a new file in the folder of target; its name goes to *name, which the caller frees in any case. */
static ppto_status open_beside(const char *target, pp_text *name, int *fd, pp_error *err)
{
    static atomic_uint serial;
    const char *slash = strrchr(target, '/');
    size_t folder = slash != NULL ? (size_t)(slash - target) + 1 : 0;
    pp_text_add(name, "%s", target);
    if (name->failed) return pp_fail(err, PPTO_E_NOMEM, "out of memory");
    for (int tries = 0; tries < 1000; tries++) {
        name->n = folder;
        pp_text_add(name, ".ppto-%ld-%u.tmp", (long)getpid(), atomic_fetch_add(&serial, 1));
        if (name->failed) return pp_fail(err, PPTO_E_NOMEM, "out of memory");
        *fd = open(name->at, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (*fd >= 0) return PPTO_OK;
        if (errno != EEXIST && errno != EINTR) break;
    }
    return fail_errno(err, "cannot create a file in its folder", errno);
}

static ppto_status replace(const char *target, const struct stat *old, pp_files_writer writer, void *arg,
                           pp_error *err)
{
    int fd = -1;
    pp_text name = {0};
    ppto_status status = open_beside(target, &name, &fd, err);
    if (status == PPTO_OK) {
        if (old != NULL && fchmod(fd, old->st_mode & 0777) != 0)
            status = fail_errno(err, "cannot keep the permissions", errno);
        if (status == PPTO_OK)
            status = fill_and_close(fd, writer, arg, err);
        else
            close(fd);
        if (status == PPTO_OK && rename(name.at, target) != 0)
            status = fail_errno(err, "cannot rename", errno);
        if (status != PPTO_OK) unlink(name.at);
    }
    pp_text_free(&name);
    return status;
}

/* These name descriptors that are open already, even when there is a regular file behind them. */
static bool names_a_descriptor(const char *path)
{
    static const char *const starts[] = {"/dev/fd/", "/dev/std", "/proc/"};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (strncmp(path, starts[i], strlen(starts[i])) == 0) return true;
    return false;
}

ppto_status pp_files_write_atomic(const char *path, pp_files_writer writer, void *arg, pp_error *err)
{
    struct stat old;
    if (stat(path, &old) != 0) {
        if (errno != ENOENT) return fail_errno(err, "cannot write", errno);
        return replace(path, NULL, writer, arg, err);
    }
    if (!S_ISREG(old.st_mode) || names_a_descriptor(path)) return write_in_place(path, writer, arg, err);
    if (access(path, W_OK) != 0) return fail_errno(err, "cannot write", errno);
    char target[4096]; /* PATH_MAX of Linux; elsewhere realpath fails cleanly on longer ones */
    if (realpath(path, target) == NULL) return fail_errno(err, "cannot write", errno);
    return replace(target, &old, writer, arg, err);
}
