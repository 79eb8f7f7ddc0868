/* SPDX-License-Identifier: Apache-2.0
 * One file per object: a head, what the object was made from as text, the object. The name is the hash of
 * that text, and the text itself is compared, so two loops of the same hash are not taken for each other.
 *
 * Whoever can write here runs code as us, so the folder and every file must be ours, no link, and closed to
 * writing by others; both are opened first and looked at through the descriptor. A file is written under a
 * private name, synced and renamed, so others see all of it or nothing; a content hash finds what a crash of
 * the machine left. What does not fit is removed and counts as missing. Where two processes make the same
 * object each uses its own. */
#define _GNU_SOURCE
#include "devices/cpu/loop_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROOM = 4096, NAME_ROOM = 64, LEAST_FD = 3, PUTS_PER_LOOK = 64 };
#define MAGIC UINT64_C(0x31656f6f6c707070) /* "ppploo e1" as bytes; with another layout another number */
#define MOST_OBJECT (16u << 20)            /* bytes of one file */
#define MOST_BYTES (UINT64_C(128) << 20)   /* of all files; a quarter goes when there are more */
#define STALE_SECONDS 3600                 /* a private name that old belongs to nobody */
#define FOLDER (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define SUFFIX ".code"
#define PRIVATE "new-"

typedef struct head {
    uint64_t magic, text_bytes, object_bytes;
    uint64_t hash[2]; /* of text and object */
} head;

/* ---- what an object was made from ---------------------------------------------------------------------- */

static void add_function(const pp_function *function, pp_text *out)
{
    if (function != NULL) pp_text_add(out, " %016" PRIx64, function->hash);
}

/* Names of functions are for people: their hashes stand beside. */
static void describe(const pp_loop *loop, const char *simd, const char *generator, pp_text *out)
{
    pp_text_add(out, "%s\n%s\ninterface %u\n", generator, simd, PP_GENERATOR_ABI);
    pp_loop_print(loop, out);
    for (uint32_t i = 0; i < loop->n_callees; i++) add_function(loop->callees[i], out);
    for (uint32_t i = 0; i < loop->n_folds; i++) {
        add_function(loop->folds[i].fold->lift, out);
        add_function(loop->folds[i].fold->step, out);
        add_function(loop->folds[i].fold->join, out);
    }
}

static void name_of(const pp_text *text, char name[NAME_ROOM])
{
    snprintf(name, NAME_ROOM, "%016" PRIx64 SUFFIX, pp_hash_bytes(text->at, text->n, MAGIC));
}

static void content_hash(const pp_text *text, const void *object, size_t bytes, uint64_t out[2])
{
    for (unsigned i = 0; i < 2; i++)
        out[i] = pp_hash_bytes(object, bytes, pp_hash_bytes(text->at, text->n, i + 1));
}

/* ---- the folder ---------------------------------------------------------------------------------------- */

/* Not below the standard descriptors: those may be closed, and somebody writes to them. */
static int moved_up(int fd)
{
    if (fd < 0 || fd >= LEAST_FD) return fd;
    const int up = fcntl(fd, F_DUPFD_CLOEXEC, LEAST_FD);
    close(fd);
    return up;
}

static bool folder_name(char path[ROOM])
{
    const char *own = secure_getenv("PPTO_CACHE_DIR"), *shared = secure_getenv("XDG_CACHE_HOME"),
               *home = secure_getenv("HOME");
    int n = 0;
    if (own != NULL)
        n = snprintf(path, ROOM, "%s", own);
    else if (shared != NULL && shared[0] == '/')
        n = snprintf(path, ROOM, "%s/ppto", shared);
    else if (home != NULL && home[0] == '/')
        n = snprintf(path, ROOM, "%s/.cache/ppto", home);
    return n > 0 && n < ROOM;
}

static bool is_ours(int fd, mode_t kind, struct stat *about)
{
    return fstat(fd, about) == 0 && (about->st_mode & S_IFMT) == kind && about->st_uid == geteuid() &&
           (about->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* The folder and those above it, private where they are new. */
static void make_folder(char path[ROOM])
{
    for (char *at = path + 1; *at != '\0'; at++) {
        if (*at != '/') continue;
        *at = '\0';
        (void)mkdir(path, S_IRWXU);
        *at = '/';
    }
    (void)mkdir(path, S_IRWXU);
}

/* A descriptor; -1: there is none to be trusted. */
static int open_folder(bool make)
{
    char path[ROOM];
    struct stat about;
    if (!folder_name(path)) return -1;
    int fd = open(path, FOLDER);
    if (fd < 0 && make) {
        make_folder(path);
        fd = open(path, FOLDER);
    }
    fd = moved_up(fd);
    if (fd < 0 || is_ours(fd, S_IFDIR, &about)) return fd;
    close(fd);
    return -1;
}

static bool ends_with(const char *name, const char *suffix)
{
    const size_t n = strlen(name), m = strlen(suffix);
    return n >= m && strcmp(name + n - m, suffix) == 0;
}

static void count_objects(int take_fd, pp_loop_cache_facts *out)
{
    struct stat about;
    DIR *dir = fdopendir(take_fd);
    if (dir == NULL) {
        close(take_fd);
        return;
    }
    for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        if (!ends_with(e->d_name, SUFFIX) || fstatat(dirfd(dir), e->d_name, &about, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        out->files++;
        out->bytes += (uint64_t)about.st_size;
    }
    closedir(dir);
}

void pp_loop_cache_look(pp_loop_cache_facts *out)
{
    struct stat about;
    const char *own = secure_getenv("PPTO_CACHE_DIR");
    *out = (pp_loop_cache_facts){.why_not = NULL};
    if (!folder_name(out->folder)) {
        out->folder[0] = '\0';
        out->why_not = own != NULL && own[0] == '\0'
                           ? "PPTO_CACHE_DIR is empty, which switches it off"
                           : "PPTO_CACHE_DIR, XDG_CACHE_HOME and HOME name no folder";
        return;
    }
    const int fd = moved_up(open(out->folder, FOLDER));
    out->there = fd >= 0;
    if (fd < 0) {
        out->why_not = errno == ENOENT ? NULL : strerror(errno);
    } else if (!is_ours(fd, S_IFDIR, &about)) {
        close(fd);
        out->why_not = "not private: it is another user's, or others may write there";
    } else {
        out->writable = faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) == 0;
        count_objects(fd, out);
    }
}

/* ---- reading ------------------------------------------------------------------------------------------- */

static char *read_all(int fd, size_t bytes)
{
    char *at = pp_alloc(bytes);
    size_t done = 0;
    while (at != NULL && done < bytes) {
        const ssize_t n = read(fd, at + done, bytes - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        done += (size_t)n;
    }
    if (at != NULL && done == bytes) return at;
    pp_free(at);
    return NULL;
}

/* Whether the file holds this text and an object, all of it; the object moves to the front. */
static bool take_object(char *file, size_t bytes, const pp_text *text, size_t *object_bytes)
{
    head h;
    uint64_t hash[2];
    if (bytes < sizeof h) return false;
    memcpy(&h, file, sizeof h);
    const size_t rest = bytes - sizeof h;
    if (h.magic != MAGIC || h.text_bytes != text->n || rest < text->n || h.object_bytes != rest - text->n ||
        memcmp(file + sizeof h, text->at, text->n) != 0)
        return false;
    *object_bytes = (size_t)h.object_bytes;
    memmove(file, file + sizeof h + text->n, *object_bytes);
    content_hash(text, file, *object_bytes, hash);
    return hash[0] == h.hash[0] && hash[1] == h.hash[1];
}

static bool read_file(int folder, const char *name, const pp_text *text, void **object, size_t *bytes)
{
    struct stat about;
    const int fd = moved_up(openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (fd < 0) return false;
    char *file = NULL;
    if (is_ours(fd, S_IFREG, &about) && about.st_size > 0 && about.st_size <= MOST_OBJECT)
        file = read_all(fd, (size_t)about.st_size);
    const bool good = file != NULL && take_object(file, (size_t)about.st_size, text, bytes);
    if (good) (void)futimens(fd, NULL); /* used now */
    close(fd);
    if (good) {
        *object = file;
        return true;
    }
    pp_free(file);
    (void)unlinkat(folder, name, 0);
    return false;
}

bool pp_loop_cache_get(const pp_loop *loop, const char *simd, const char *generator, void **object,
                       size_t *bytes)
{
    pp_text text = {0};
    char name[NAME_ROOM];
    bool found = false;
    const int folder = open_folder(false);
    if (folder < 0) return false;
    describe(loop, simd, generator, &text);
    if (!text.failed) {
        name_of(&text, name);
        found = read_file(folder, name, &text, object, bytes);
    }
    pp_text_free(&text);
    close(folder);
    return found;
}

void pp_loop_cache_drop(const pp_loop *loop, const char *simd, const char *generator)
{
    pp_text text = {0};
    char name[NAME_ROOM];
    const int folder = open_folder(false);
    if (folder < 0) return;
    describe(loop, simd, generator, &text);
    name_of(&text, name);
    if (!text.failed) (void)unlinkat(folder, name, 0);
    pp_text_free(&text);
    close(folder);
}

/* ---- bounds -------------------------------------------------------------------------------------------- */

typedef struct file {
    char name[NAME_ROOM];
    uint64_t bytes;
    int64_t used; /* seconds */
} file;
typedef PP_VEC(file) files;

static int by_use(const void *a, const void *b)
{
    const int64_t x = ((const file *)a)->used, y = ((const file *)b)->used;
    return (x > y) - (x < y);
}

/* Notes a file of ours; removes what a process that died left. */
static uint64_t look_at(int folder, const char *name, int64_t now, files *out)
{
    struct stat about;
    file f = {.used = 0};
    const bool own = strncmp(name, PRIVATE, strlen(PRIVATE)) == 0;
    if ((!own && !ends_with(name, SUFFIX)) || strlen(name) >= sizeof f.name ||
        fstatat(folder, name, &about, AT_SYMLINK_NOFOLLOW) != 0)
        return 0;
    if (own) {
        if (now - about.st_mtime > STALE_SECONDS) (void)unlinkat(folder, name, 0);
        return 0;
    }
    memcpy(f.name, name, strlen(name) + 1);
    f.bytes = (uint64_t)about.st_size, f.used = about.st_mtime;
    return pp_vec_push(out, f) == PPTO_OK ? f.bytes : 0;
}

/* Keeps the folder within its bound: what was not used for longest goes. */
static void trim(int folder)
{
    files list = {0};
    uint64_t sum = 0;
    struct stat about;
    const int fd = moved_up(openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        if (fd >= 0) close(fd);
        return;
    }
    const int64_t now = fstat(folder, &about) == 0 ? about.st_mtime : 0; /* it was just written to */
    for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir))
        sum += look_at(folder, e->d_name, now, &list);
    closedir(dir);
    if (sum > MOST_BYTES) {
        qsort(list.at, list.n, sizeof *list.at, by_use);
        for (size_t i = 0; i < list.n && sum > MOST_BYTES / 4 * 3; i++) {
            (void)unlinkat(folder, list.at[i].name, 0);
            sum -= list.at[i].bytes;
        }
    }
    pp_vec_free(&list);
}

/* ---- writing ------------------------------------------------------------------------------------------- */

static bool write_all(int fd, const void *from, size_t bytes)
{
    const char *at = from;
    while (bytes > 0) {
        const ssize_t n = write(fd, at, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += n, bytes -= (size_t)n;
    }
    return true;
}

static void write_file(int folder, const char *name, const pp_text *text, const void *object, size_t bytes)
{
    static unsigned number;
    char own[NAME_ROOM];
    head h = {.magic = MAGIC, .text_bytes = text->n, .object_bytes = bytes};
    content_hash(text, object, bytes, h.hash);
    snprintf(own, sizeof own, PRIVATE "%ld-%u-%016" PRIx64, (long)getpid(), number++,
             (uint64_t)pp_clock_ns());
    const int fd = moved_up(
        openat(folder, own, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
    if (fd < 0) return;
    bool good = write_all(fd, &h, sizeof h) && write_all(fd, text->at, text->n) &&
                write_all(fd, object, bytes) && fsync(fd) == 0;
    good = close(fd) == 0 && good;
    if (!good || renameat(folder, own, folder, name) != 0) (void)unlinkat(folder, own, 0);
}

void pp_loop_cache_put(const pp_loop *loop, const char *simd, const char *generator, const void *object,
                       size_t bytes)
{
    static unsigned puts;
    pp_text text = {0};
    char name[NAME_ROOM];
    if (bytes > MOST_OBJECT / 2) return;
    const int folder = open_folder(true);
    if (folder < 0) return;
    describe(loop, simd, generator, &text);
    if (!text.failed && text.n < MOST_OBJECT / 4) {
        name_of(&text, name);
        write_file(folder, name, &text, object, bytes);
        if (puts++ % PUTS_PER_LOOK == 0) trim(folder);
    }
    pp_text_free(&text);
    close(folder);
}

/* ---- notes --------------------------------------------------------------------------------------------- */

/* A note is a file like any other, of the text "note NAME", whose object is the note. */
bool pp_cache_note_get(const char *name, char *text, size_t room)
{
    pp_text key = {0};
    void *note = NULL;
    size_t bytes = 0;
    const int folder = open_folder(false);
    if (folder < 0) return false;
    pp_text_add(&key, "note %s", name);
    const bool found = !key.failed && read_file(folder, name, &key, &note, &bytes) && bytes < room;
    if (found) memcpy(text, note, bytes);
    if (found) text[bytes] = '\0';
    pp_free(note);
    pp_text_free(&key);
    close(folder);
    return found;
}

bool pp_cache_note_put(const char *name, const char *text, char *path, size_t room)
{
    char again[ROOM];
    pp_loop_cache_facts facts;
    pp_text key = {0};
    const int folder = open_folder(true);
    pp_loop_cache_look(&facts);
    snprintf(path, room, "%s", facts.why_not != NULL ? facts.why_not : "the folder cannot be made");
    if (folder < 0) return false;
    pp_text_add(&key, "note %s", name);
    if (!key.failed) write_file(folder, name, &key, text, strlen(text));
    pp_text_free(&key);
    close(folder);
    const bool good = pp_cache_note_get(name, again, sizeof again) && strcmp(again, text) == 0;
    snprintf(path, room, good ? "%s/%s" : "%s: %s cannot be written", facts.folder, name);
    return good;
}
