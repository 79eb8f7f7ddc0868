/* SPDX-License-Identifier: Apache-2.0
 * Whole reads and writes (fdio.h): one loop for short counts, interruptions and descriptors that do not
 * block. A descriptor that does not block is waited for with poll, since its flags may be shared with other
 * processes. */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <poll.h>
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

int64_t pp_files_remaining(int fd)
{
    struct stat facts;
    if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode)) return -1;
    off_t position = lseek(fd, 0, SEEK_CUR);
    if (position < 0) return -1;
    return position < facts.st_size ? (int64_t)(facts.st_size - position) : 0;
}
