/* SPDX-License-Identifier: Apache-2.0
 * Output files (sink.h).
 *
 * A file without a name (O_TMPFILE) cannot replace another one: when it is whole it is linked under a
 * temporary name, which is renamed. The temporary name does not contain the target's, which may already be as
 * long as names can be. It is made with O_EXCL rather than mkstemp, so that the umask of the user applies
 * without reading it (which cannot be done without setting it, for all threads). Room is taken with
 * fallocate, not posix_fallocate: where a file system cannot reserve, the latter writes the whole file once.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "files/formats.h"
#include "files/sink.h"

enum {
    PATH_ROOM = 4096, /* PATH_MAX of Linux; elsewhere realpath fails cleanly on longer ones */
    ROOM_STEP = 64 << 20
};

/* Closes fd whatever happened; a failed close is a failure of the writing. */
static ppto_status close_written(int fd, ppto_status status, pp_error *err)
{
    if (close(fd) == 0 || errno == EINTR || status != PPTO_OK) return status;
    return pp_fail_errno(err, "cannot write", errno);
}

/* The folder part of a path, with its slash. */
static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? (size_t)(slash - path) + 1 : 0;
}

/* The name of a descriptor in /proc. */
static void descriptor_name(int fd, char name[40])
{
    snprintf(name, 40, "/proc/self/fd/%d", fd);
}

/* Opens a new file in the folder of the target, without a name. false: that cannot be done there. */
static bool open_nameless(pp_sink *sink)
{
#ifdef O_TMPFILE
    char *folder = pp_strdup(sink->target), own[40];
    if (folder == NULL) return false;
    folder[folder_length(folder)] = '\0';
    sink->fd = open(folder[0] != '\0' ? folder : ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
    pp_free(folder);
    if (sink->fd < 0) return false;
    descriptor_name(sink->fd, own);
    if (access(own, F_OK) == 0) return true; /* it can be linked */
    close(sink->fd);
#endif
    return false;
}

/* ---- temporary names ----------------------------------------------------------------------------------- */

enum { MOST_UNFINISHED = 16 };

/* Known to a handler of signals, which can take no lock: a path is written before its row is used. */
typedef struct pp_unfinished {
    atomic_bool taken, used;
    char path[PATH_ROOM];
} pp_unfinished;
static pp_unfinished unfinished[MOST_UNFINISHED];
static atomic_int unknown; /* names that had no room */

static void note_name(pp_sink *sink, const char *name)
{
    for (size_t i = 0; i < MOST_UNFINISHED && strlen(name) < PATH_ROOM; i++) {
        pp_unfinished *row = &unfinished[i];
        if (atomic_exchange(&row->taken, true)) continue;
        memcpy(row->path, name, strlen(name) + 1);
        atomic_store(&row->used, true);
        sink->row = row;
        return;
    }
    atomic_fetch_add(&unknown, 1);
}

static void forget_name(pp_sink *sink)
{
    if (sink->row == NULL) {
        atomic_fetch_sub(&unknown, 1);
        return;
    }
    atomic_store(&sink->row->used, false);
    atomic_store(&sink->row->taken, false);
    sink->row = NULL;
}

bool pp_sinks_abandon_all(void)
{
    for (size_t i = 0; i < MOST_UNFINISHED; i++)
        if (atomic_load(&unfinished[i].used)) (void)unlink(unfinished[i].path);
    return atomic_load(&unknown) == 0;
}

/* Makes a name for the file beside its target: of a new file, or of the one that has none yet. */
static bool take_name(pp_sink *sink, const char *name)
{
    char own[40];
    if (sink->fd < 0) {
        sink->fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        return sink->fd >= 0;
    }
    descriptor_name(sink->fd, own);
    return linkat(AT_FDCWD, own, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0;
}

static ppto_status name_beside(pp_sink *sink, pp_error *err)
{
    static atomic_uint serial;
    pp_text name = {0};
    size_t folder = folder_length(sink->target);
    pp_text_add(&name, "%s", sink->target);
    for (int tries = 0; tries < 1000 && !name.failed; tries++) {
        name.n = folder;
        pp_text_add(&name, ".ppto-%ld-%u.tmp", (long)getpid(), atomic_fetch_add(&serial, 1));
        if (name.failed) break;
        sink->temporary = name.at; /* pp_free frees a text too */
        note_name(sink, name.at);
        if (take_name(sink, name.at)) return PPTO_OK;
        int why = errno;
        forget_name(sink);
        errno = why;
        if (errno != EEXIST && errno != EINTR) break;
    }
    int number = errno;
    sink->temporary = NULL;
    bool failed = name.failed;
    pp_text_free(&name);
    if (failed) return pp_fail(err, PPTO_E_NOMEM, "out of memory");
    return pp_fail_errno(err, "cannot create a file in its folder", number);
}

/* A file system in memory fills what it gives: so not all of it in one call, which nothing can end. */
static ppto_status take_room(int fd, int64_t bytes, const pp_files_watch *watch, pp_error *err)
{
    int64_t at = 0;
    while (at < bytes) {
        int64_t step = bytes - at < ROOM_STEP ? bytes - at : ROOM_STEP;
        if (watch != NULL && watch->stopped != NULL) PP_TRY(watch->stopped(watch->arg, err));
        if (fallocate(fd, 0, (off_t)at, (off_t)step) == 0)
            at += step;
        else if (errno != EINTR)
            break;
    }
    if (at >= bytes) return PPTO_OK;
    if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL)
        return pp_fail_errno(err, "cannot take room for it", errno);
    if (ftruncate(fd, (off_t)bytes) != 0) return pp_fail_errno(err, "cannot take room for it", errno);
    return PPTO_OK;
}

/* sink->target is set; on failure everything is let go. */
static ppto_status open_new(pp_sink *sink, const struct stat *old, int64_t bytes, const pp_files_watch *watch,
                            pp_error *err)
{
    ppto_status status = open_nameless(sink) ? PPTO_OK : name_beside(sink, err);
    if (status != PPTO_OK) {
        pp_free(sink->target);
        return status;
    }
    if (old != NULL && fchmod(sink->fd, old->st_mode & 0777) != 0)
        status = pp_fail_errno(err, "cannot keep the permissions", errno);
    if (status == PPTO_OK) status = take_room(sink->fd, bytes, watch, err);
    if (status != PPTO_OK) pp_sink_abandon(sink, watch);
    return status;
}

/* These name descriptors that are open already, even when there is a regular file behind them. */
static bool names_a_descriptor(const char *path)
{
    static const char *const starts[] = {"/dev/fd/", "/dev/std", "/proc/"};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (strncmp(path, starts[i], strlen(starts[i])) == 0) return true;
    return strcmp(path, "-") == 0;
}

/* The descriptor of this process that a name stands for; -1: none. */
static int own_descriptor(const char *path)
{
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    if (strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0) return STDOUT_FILENO;
    if (strcmp(path, "/dev/stderr") == 0) return STDERR_FILENO;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        size_t start = strlen(folders[i]);
        if (strncmp(path, folders[i], start) != 0) continue;
        size_t digits = strspn(path + start, "0123456789");
        if (digits > 0 && digits < 7 && path[start + digits] == '\0') return atoi(path + start);
    }
    return -1;
}

bool pp_sink_flows(const char *path)
{
    struct stat facts;
    if (names_a_descriptor(path)) return true;
    return stat(path, &facts) == 0 && (S_ISFIFO(facts.st_mode) || S_ISSOCK(facts.st_mode));
}

/* Opening a named pipe waits for a reader: by looking again, so that the wait can end. */
static ppto_status open_pipe(pp_sink *sink, const char *path, const pp_files_watch *watch, pp_error *err)
{
    static const struct timespec moment = {.tv_nsec = 10000000};
    while ((sink->fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC)) < 0) {
        if (errno != ENXIO && errno != EINTR) return pp_fail_errno(err, "cannot open", errno);
        PP_TRY(watch->stopped(watch->arg, err));
        nanosleep(&moment, NULL);
    }
    int flags = fcntl(sink->fd, F_GETFL); /* nobody else has this opening of the pipe */
    if (flags >= 0 && fcntl(sink->fd, F_SETFL, flags & ~O_NONBLOCK) == 0) return PPTO_OK;
    pp_fail_errno(err, "cannot open", errno);
    close(sink->fd);
    return PPTO_E_IO;
}

static ppto_status open_in_place(pp_sink *sink, const char *path, mode_t mode, const pp_files_watch *watch,
                                 pp_error *err)
{
    int own = own_descriptor(path);
    sink->stream = true;
    if (own >= 0) {
        sink->fd = fcntl(own, F_DUPFD_CLOEXEC, 3);
        return sink->fd >= 0 ? PPTO_OK : pp_fail_errno(err, "cannot write", errno);
    }
    if (S_ISFIFO(mode) && watch && watch->stopped && !names_a_descriptor(path))
        return open_pipe(sink, path, watch, err);
    sink->fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    return sink->fd >= 0 ? PPTO_OK : pp_fail_errno(err, "cannot open", errno);
}

/* Where a link leads that has no file at its end yet; the path itself, if it is none. False: too far. */
static bool end_of_links(const char *path, char end[PATH_ROOM])
{
    enum { MOST_LINKS = 40 }; /* as Linux follows */
    char next[PATH_ROOM];
    if (snprintf(end, PATH_ROOM, "%s", path) >= PATH_ROOM) return false;
    for (int i = 0; i < MOST_LINKS; i++) {
        const ssize_t n = readlink(end, next, sizeof next - 1);
        if (n < 0) return true;
        next[n] = '\0';
        const size_t folder = next[0] == '/' ? 0 : folder_length(end);
        if (folder + (size_t)n >= PATH_ROOM) return false;
        memcpy(end + folder, next, (size_t)n + 1);
    }
    return false;
}

ppto_status pp_sink_open(pp_sink *sink, const char *path, int64_t bytes, const pp_files_watch *watch,
                         pp_error *err)
{
    struct stat facts;
    *sink = (pp_sink){.fd = -1};
    bool named = names_a_descriptor(path), old = stat(path, &facts) == 0;
    if (named && (old || own_descriptor(path) >= 0))
        return open_in_place(sink, path, old ? facts.st_mode : 0, watch, err);
    if (!old && errno != ENOENT) return pp_fail_errno(err, "cannot write", errno);
    if (old && S_ISDIR(facts.st_mode)) return pp_fail_errno(err, "cannot write", EISDIR);
    if (old && !S_ISREG(facts.st_mode)) return open_in_place(sink, path, facts.st_mode, watch, err);
    if (old && access(path, W_OK) != 0) return pp_fail_errno(err, "cannot write", errno);
    char target[PATH_ROOM];
    if (old && realpath(path, target) == NULL) return pp_fail_errno(err, "cannot write", errno);
    if (!old && !end_of_links(path, target)) return pp_fail_errno(err, "cannot write", ELOOP);
    sink->target = pp_strdup(target);
    if (sink->target == NULL) return pp_fail(err, PPTO_E_NOMEM, "out of memory");
    return open_new(sink, old ? &facts : NULL, bytes, watch, err);
}

static bool can_make_files(const char *path)
{
    char folder[PATH_ROOM];
    if (!end_of_links(path, folder)) return true; /* opening tells */
    const size_t length = folder_length(folder);
    folder[length] = '\0';
    return access(length > 0 ? folder : ".", W_OK | X_OK) == 0;
}

ppto_status pp_sink_check(const char *path, pp_error *err)
{
    struct stat facts;
    const bool old = stat(path, &facts) == 0;
    if (names_a_descriptor(path)) return PPTO_OK;
    if (!old && errno != ENOENT) return pp_fail_errno(err, "cannot write", errno);
    if (old && S_ISDIR(facts.st_mode)) return pp_fail_errno(err, "cannot write", EISDIR);
    if (old && access(path, W_OK) != 0) return pp_fail_errno(err, "cannot write", errno);
    if (!old && !can_make_files(path)) return pp_fail_errno(err, "cannot write", errno);
    return PPTO_OK;
}

/* ---- end --------------------------------------------------------------------------------------- */

static void let_go(pp_sink *sink)
{
    if (sink->temporary != NULL) forget_name(sink);
    pp_free(sink->temporary);
    pp_free(sink->target);
    *sink = (pp_sink){.fd = -1};
}

/* Makes the renaming itself survive a crash. */
static ppto_status sync_folder(char *target, pp_error *err)
{
    size_t folder = folder_length(target);
    target[folder] = '\0';
    int fd = open(folder != 0 ? target : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return pp_fail_errno(err, "cannot sync its folder", errno);
    ppto_status status = PPTO_OK;
    if (fsync(fd) != 0 && errno != EINVAL) status = pp_fail_errno(err, "cannot sync its folder", errno);
    close(fd);
    return status;
}

ppto_status pp_sink_finish(pp_sink *sink, bool sync, pp_error *err)
{
    ppto_status status = PPTO_OK;
    if (sync && fsync(sink->fd) != 0 && errno != EINVAL && errno != EROFS)
        status = pp_fail_errno(err, "cannot sync", errno); /* EINVAL, EROFS: a pipe or the like */
    if (status == PPTO_OK && sink->target != NULL && sink->temporary == NULL) status = name_beside(sink, err);
    status = close_written(sink->fd, status, err);
    if (sink->temporary != NULL) {
        if (status == PPTO_OK && rename(sink->temporary, sink->target) != 0)
            status = pp_fail_errno(err, "cannot rename", errno);
        if (status != PPTO_OK)
            unlink(sink->temporary);
        else if (sync)
            status = sync_folder(sink->target, err);
    }
    let_go(sink);
    return status;
}

void pp_sink_abandon(pp_sink *sink, const pp_files_watch *watch)
{
    if (sink->temporary != NULL) unlink(sink->temporary);
    if (watch != NULL && watch->close != NULL)
        watch->close(watch, sink->fd);
    else
        close(sink->fd);
    let_go(sink);
}

ppto_status pp_files_write_atomic(const char *path, pp_files_writer writer, void *arg,
                                  const pp_files_watch *watch, pp_error *err)
{
    pp_sink sink;
    PP_TRY(pp_sink_open(&sink, path, -1, watch, err));
    ppto_status status = writer(sink.fd, arg, err);
    if (status == PPTO_OK) return pp_sink_finish(&sink, false, err);
    pp_sink_abandon(&sink, watch);
    return status;
}

/* The path without links and dots; of a file that is not there its folder's. false: it has none. */
static bool place_of(const char *path, char place[PATH_ROOM])
{
    char end[PATH_ROOM], folder[PATH_ROOM];
    if (realpath(path, place) != NULL) return true;
    if (!end_of_links(path, end)) return false;
    const size_t length = folder_length(end), n = strlen(end);
    memcpy(folder, end, length);
    folder[length] = '\0';
    if (realpath(length > 0 ? folder : ".", place) == NULL) return false;
    const size_t at = strlen(place);
    if (at + 1 + n - length >= PATH_ROOM) return false;
    place[at] = '/';
    memcpy(place + at + 1, end + length, n - length + 1);
    return true;
}

/* What the text leads to now, which for a descriptor of this process is what is behind it. */
static bool facts_of(const char *text, struct stat *facts, bool *open_already)
{
    const char *path = strncmp(text, "-:", 2) == 0 ? "-" : text;
    const int own = own_descriptor(path);
    *open_already = names_a_descriptor(path);
    return (own >= 0 ? fstat(own, facts) : stat(path, facts)) == 0;
}

static bool same_paths(const char *a, const char *b)
{
    char one[PATH_ROOM], other[PATH_ROOM];
    struct stat first, second;
    bool open_first, open_second;
    if (facts_of(a, &first, &open_first) && facts_of(b, &second, &open_second)) {
        /* nothing is lost in a device; and a name that is replaced leaves other names of its file alone */
        const bool replaced = S_ISREG(first.st_mode) && !open_first && !open_second;
        if (S_ISCHR(first.st_mode)) return a[0] == '-' && strcmp(a, b) == 0;
        if (!replaced) return first.st_dev == second.st_dev && first.st_ino == second.st_ino;
    }
    if (strcmp(a, b) == 0) return true;
    return place_of(a, one) && place_of(b, other) && strcmp(one, other) == 0;
}

/* What is said behind the path (`x.npz:a`, `x.raw:f32[N]`) makes no other file of it. */
bool pp_files_same(const char *a, const char *b)
{
    pp_file_name first = {0}, second = {0};
    pp_error ignored = {0};
    const bool told_a = !pp_file_is_standard(a) && pp_file_name_read(a, &first, &ignored) == PPTO_OK;
    const bool told_b = !pp_file_is_standard(b) && pp_file_name_read(b, &second, &ignored) == PPTO_OK;
    const bool same = same_paths(told_a ? first.path : a, told_b ? second.path : b);
    if (told_a) pp_file_name_free(&first);
    if (told_b) pp_file_name_free(&second);
    return same;
}
