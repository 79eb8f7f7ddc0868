/* SPDX-License-Identifier: Apache-2.0
 * Whole reads and writes (fdio.h): one loop for short counts, interruptions and descriptors that do not
 * block. A descriptor that does not block is waited for with poll, since its flags may be shared with other
 * processes. */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/fdio.h"

enum { LARGEST_STEP = 1 << 30 }; /* of one read or write call; more is not portable */

/* After a failed call: true when it is to be made again, at once or after waiting. */
static bool again(int fd, short events)
{
    if (errno == EINTR) return true;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return false;
    struct pollfd wait = {.fd = fd, .events = events};
    return poll(&wait, 1, -1) >= 0 || errno == EINTR;
}

ppto_status pp_files_read_some(int fd, void *bytes, size_t n, size_t *got, pp_error *err)
{
    for (*got = 0; n != 0;) {
        ssize_t step = read(fd, bytes, n < LARGEST_STEP ? n : LARGEST_STEP);
        if (step >= 0) {
            *got = (size_t)step;
            break;
        }
        if (!again(fd, POLLIN)) return pp_fail_errno(err, "cannot read", errno);
    }
    return PPTO_OK;
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
            return pp_fail_errno(err, "cannot read", errno);
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
            return pp_fail_errno(err, "cannot write", errno);
        }
    }
    return PPTO_OK;
}

/* After n bytes more. */
static ppto_status look(const pp_files_watch *watch, size_t n, pp_error *err)
{
    /* relaxed: a number to show */
    if (watch->moved) atomic_fetch_add_explicit(watch->moved, n, memory_order_relaxed);
    return watch->stopped ? watch->stopped(watch->arg, err) : PPTO_OK;
}

ppto_status pp_files_read_by(const pp_files_watch *watch, int fd, void *bytes, size_t n, size_t *got,
                             pp_error *err)
{
    return watch && watch->move ? watch->move(watch, false, fd, bytes, n, got, err)
                                : pp_files_read(fd, bytes, n, got, err);
}

static ppto_status read_fd(void *arg, void *bytes, size_t n, size_t *got, const pp_files_watch *watch,
                           pp_error *err)
{
    return pp_files_read_by(watch, *(int *)arg, bytes, n, got, err);
}

static int64_t left_in_fd(void *arg)
{
    return pp_files_remaining(*(int *)arg);
}

pp_files_from pp_files_from_fd(int *fd)
{
    return (pp_files_from){read_fd, left_in_fd, fd};
}

ppto_status pp_files_read_watched(const pp_files_from *from, void *bytes, size_t n, size_t *got,
                                  const pp_files_watch *watch, pp_error *err)
{
    if (!watch) return from->read(from->arg, bytes, n, got, NULL, err);
    for (*got = 0; *got < n;) {
        size_t left = n - *got, step;
        left = left < PP_FILES_STEP ? left : PP_FILES_STEP;
        PP_TRY(from->read(from->arg, (unsigned char *)bytes + *got, left, &step, watch, err));
        *got += step;
        PP_TRY(look(watch, step, err));
        if (step < left) break;
    }
    return PPTO_OK;
}

ppto_status pp_files_write_by(const pp_files_watch *watch, int fd, const void *bytes, size_t n, pp_error *err)
{
    size_t got;
    if (!watch || !watch->move) return pp_files_write(fd, bytes, n, err);
    return watch->move(watch, true, fd, (void *)(uintptr_t)bytes, n, &got, err); /* only read */
}

ppto_status pp_files_write_watched(int fd, const void *bytes, size_t n, const pp_files_watch *watch,
                                   pp_error *err)
{
    if (!watch) return pp_files_write(fd, bytes, n, err);
    for (size_t at = 0; at < n;) {
        size_t step = n - at < PP_FILES_STEP ? n - at : PP_FILES_STEP;
        PP_TRY(pp_files_write_by(watch, fd, (const unsigned char *)bytes + at, step, err));
        PP_TRY(look(watch, step, err));
        at += step;
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
