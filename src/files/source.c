/* SPDX-License-Identifier: Apache-2.0
 * Input files (source.h). What has a size is read at offsets. A regular file that says it is empty is read as
 * a stream: files of /proc and /sys say so and are not, and for a file that is empty it makes no difference.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/source.h"

static ppto_status look_at(pp_source *source, pp_error *err)
{
    struct stat facts;
    source->stream = true;
    source->size = -1;
    if (fstat(source->fd, &facts) != 0) return pp_fail_errno(err, "cannot open", errno);
    if (S_ISDIR(facts.st_mode)) return pp_fail_errno(err, "cannot read", EISDIR);
    if (!S_ISREG(facts.st_mode) && !S_ISBLK(facts.st_mode)) return PPTO_OK;
    off_t position = lseek(source->fd, 0, SEEK_CUR), end = facts.st_size;
    if (position >= 0 && S_ISBLK(facts.st_mode)) {
        end = lseek(source->fd, 0, SEEK_END);
        if (lseek(source->fd, position, SEEK_SET) != position) end = -1;
    }
    if (position < 0 || end <= 0) return PPTO_OK;
    source->stream = false;
    source->start = position;
    source->size = end;
    return PPTO_OK;
}

ppto_status pp_source_open(pp_source *source, const char *path, pp_error *err)
{
    *source = (pp_source){.owned = true};
    while ((source->fd = open(path, O_RDONLY | O_CLOEXEC)) < 0 && errno == EINTR) {
    }
    if (source->fd < 0) return pp_fail_errno(err, "cannot open", errno);
    ppto_status status = look_at(source, err);
    if (status != PPTO_OK) pp_source_close(source);
    return status;
}

ppto_status pp_source_of(pp_source *source, int fd, pp_error *err)
{
    *source = (pp_source){.fd = fd};
    ppto_status status = look_at(source, err);
    if (status != PPTO_OK) source->fd = -1;
    return status;
}

void pp_source_close(pp_source *source)
{
    if (source->owned && source->fd >= 0) close(source->fd);
    *source = (pp_source){.fd = -1};
}
