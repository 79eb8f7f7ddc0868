/* SPDX-License-Identifier: Apache-2.0
 * Around the page cache (O_DIRECT): a file that is larger than what the system can keep of it gains nothing
 * there. It costs a copy, memory that others use, and much processor time where the pages are new.
 *
 * Whole blocks of the file go by a second descriptor, between the disk and blocks of memory: data must lie in
 * a block as they lie in the file. What of a read is in the page cache already is copied from there, which is
 * faster and was perhaps never on the disk. The first and last block of what is written, which others write
 * too, and all that the system refuses go through the page cache; it keeps both views of a file alike.
 *
 * A disk is asked for much at once, as long as it answers soon: no call can be interrupted, and a cancel is
 * to be heard. So calls grow up to MOST while they are quick, and get shorter where one took long, be it that
 * the disk is slow or that others use it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "scheduler/io_engine.h"

enum { FIRST = 1 << 20, LEAST = 256 << 10, MOST = 4 << 20 /* a piece of an engine */, BLOCK = PP_IO_BLOCK };

size_t pp_io_around_next(size_t step, size_t bytes, int64_t ns)
{
    enum { LONG_NS = 20000000, SHORT_NS = 5000000 };
    if (ns > LONG_NS) return step / 2 > LEAST ? step / 2 : LEAST;
    return ns < SHORT_NS && bytes >= step && step < MOST ? step * 2 : step;
}

/* Where the last file arrived the next one begins: files of a few MiB would be over before they had learnt.
 * Of the process, whatever the disk: one that is slower takes one call for long. */
static _Atomic size_t learnt = FIRST;

/* relaxed: a length that orders nothing, and one of several calls at once may be forgotten */
static size_t most_of(pp_io_file *file)
{
    return atomic_load_explicit(&file->around_step, memory_order_relaxed);
}

static void took(pp_io_file *file, size_t bytes, int64_t since_ns)
{
    size_t most_before = most_of(file);
    size_t next = pp_io_around_next(most_before, bytes, pp_clock_ns() - since_ns);
    atomic_store_explicit(&file->around_step, next, memory_order_relaxed);
    if (next != most_before) atomic_store_explicit(&learnt, next, memory_order_relaxed);
}

void pp_io_file_go_around(pp_io_file *file, bool write)
{
    char name[40];
    if (file->stream || file->goes_around) return;
    snprintf(name, sizeof name, "/proc/self/fd/%d", file->fd); /* the file itself, whatever its name is now */
    file->around = open(name, (write ? O_WRONLY : O_RDONLY) | O_DIRECT | O_CLOEXEC);
    file->goes_around = file->around >= 0;
    size_t first = atomic_load_explicit(&learnt, memory_order_relaxed);
    atomic_store_explicit(&file->around_step, first, memory_order_relaxed);
}

void pp_io_file_let_go(pp_io_file *file)
{
    if (file->goes_around) close(file->around);
    file->goes_around = false;
}

/* Is most of the range in the page cache? Also where the system does not say. */
static bool is_cached(int fd, int64_t from, size_t bytes)
{
    unsigned char in[MOST / BLOCK + 2];
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (bytes + page - 1) / page, n = 0;
    if (page < BLOCK || from % (int64_t)page != 0) return true;
    void *view = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, (off_t)from);
    if (view == MAP_FAILED) return true;
    bool told = mincore(view, bytes, in) == 0;
    for (size_t i = 0; told && i < pages; i++) n += in[i] & 1;
    (void)munmap(view, bytes);
    return !told || n * 2 > pages;
}

static int64_t read_blocks(const pp_io_request *request, size_t at, size_t n, size_t *step)
{
    int64_t place = pp_io_place(request, at);
    size_t most = most_of(request->file);
    size_t before = (size_t)(place % BLOCK), room = n < most - before ? n : most - before;
    size_t bytes = (before + room + BLOCK - 1) / BLOCK * BLOCK;
    if (is_cached(request->file->fd, place - (int64_t)before, bytes)) return -EINVAL;
    char *data = (char *)request->data + at - before;
    int64_t since = pp_clock_ns();
    ssize_t got = pread(request->file->around, data, bytes, (off_t)(place - (int64_t)before));
    if (got < 0) return -(int64_t)errno;
    took(request->file, bytes, since);
    *step = room;
    if ((size_t)got <= before) return 0;
    return (size_t)got - before < room ? got - (int64_t)before : (int64_t)room;
}

/* Up to the next block, all whole blocks, or the rest. */
static int64_t write_blocks(const pp_io_request *request, size_t at, size_t n, size_t *step)
{
    int64_t place = pp_io_place(request, at);
    size_t before = (size_t)(place % BLOCK), most = before != 0 ? BLOCK - before : most_of(request->file);
    if (most > n) most = n;
    *step = most >= BLOCK ? most / BLOCK * BLOCK : most;
    if (*step < BLOCK) return -EINVAL;
    int64_t since = pp_clock_ns();
    ssize_t moved = pwrite(request->file->around, (char *)request->data + at, *step, (off_t)place);
    if (moved < 0) return -(int64_t)errno;
    took(request->file, *step, since);
    return moved;
}

int64_t pp_io_call_around(const pp_io_request *request, size_t at, size_t n, size_t *step)
{
    int64_t place = pp_io_place(request, at);
    bool lies_alike = ((uintptr_t)request->data + at - (uintptr_t)place) % BLOCK == 0;
    if (!request->file->goes_around || request->stretch != 0 || !lies_alike) return -EINVAL;
    return request->op == PP_IO_READ ? read_blocks(request, at, n, step) : write_blocks(request, at, n, step);
}
