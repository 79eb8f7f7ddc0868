/* SPDX-License-Identifier: Apache-2.0
 * Files of simulated runs (fuzz_files.h). Sources are a few dozen bytes, and all of them pass through the
 * engine: short reads and failures cut them anywhere. */
#include "fuzz_files.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scheduler/io_engine.h"

enum { MOST_PATHS = 16, MOST_BYTES = 1024, HEADER = 128, BYTES = 4 * FILE_ELEMENTS, OLD = 0x55 };

static char folder[] = "/tmp/ppto-soak-XXXXXX";
static ppto_context *of;
static uint64_t state;
static int open_before;
static bool gone;

static uint32_t draw(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

/* Entries of a folder; -1: there is none. */
static int entries(const char *path)
{
    int n = -2; /* . and .. */
    DIR *d = opendir(path);
    if (!d) return -1;
    while (readdir(d)) n++;
    closedir(d);
    return n;
}

static const char *path_of(const char *format, uint32_t a, uint32_t b)
{
    static char path[MOST_PATHS][64];
    static uint32_t next;
    char *at = path[next++ % MOST_PATHS];
    int n = snprintf(at, sizeof path[0], "%s/", folder);
    snprintf(at + n, sizeof path[0] - (size_t)n, format, a, b);
    return at;
}

/* ---- sources ------------------------------------------------------------------------------------ */

static bool write_file(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "w");
    bool ok = f && fwrite(bytes, 1, n, f) == n;
    return f && fclose(f) == 0 && ok;
}

const char *files_source(uint32_t which)
{
    static const char *const names[FILE_SOURCES] = {"a.npy", "b.raw:f32[12]", "c.npy", "d.raw:f32[N]"};
    return path_of(names[which], 0, 0);
}

static void put_header(char *out, char order)
{
    static const char head[] = "\x93NUMPY\x01\0v\0{'descr': '>f4', 'fortran_order': False, 'shape': (12,), }";
    memset(out, ' ', HEADER);
    memcpy(out, head, sizeof head - 1);
    *(char *)memchr(out + 10, '>', HEADER - 10) = order;
    out[HEADER - 1] = '\n';
}

/* The same elements; c.npy has them in the other order of bytes. */
static bool make_sources(void)
{
    const int64_t shape[] = {FILE_ELEMENTS};
    char swapped[HEADER + BYTES];
    ppto_array *a = ppto_array_fill(of, PPTO_F32, 1, shape, "uniform(-1,1)", "file");
    if (!a) return false;
    const char *bytes = ppto_array_data(a);
    put_header(swapped, '>');
    for (int i = 0; i < BYTES; i++) swapped[HEADER + i] = bytes[(i & ~3) + 3 - (i & 3)];
    bool ok = ppto_array_save(a, path_of("a.npy", 0, 0)) == PPTO_OK &&
              write_file(path_of("b.raw", 0, 0), bytes, BYTES) &&
              write_file(path_of("d.raw", 0, 0), bytes, BYTES) &&
              write_file(path_of("c.npy", 0, 0), swapped, sizeof swapped);
    ppto_array_release(a);
    return ok;
}

void files_are_there(bool all)
{
    const char *path = path_of("b.raw", 0, 0), *away = path_of("away", 0, 0);
    if (gone == !all) return;
    gone = !all;
    if (rename(all ? away : path, all ? path : away) != 0) perror("rename");
}

/* ---- results ------------------------------------------------------------------------------------ */

/* Results with odd numbers have no header. */
static const char *result_at(uint32_t run, uint32_t output)
{
    return path_of(output % 2 ? "out%u-%u.raw" : "out%u-%u.npy", run, output);
}

const char *files_result(uint32_t run, uint32_t output)
{
    const char *path = result_at(run, output);
    char old[HEADER + BYTES];
    put_header(old, '<');
    memset(old + HEADER, OLD, BYTES);
    bool ok = output % 2 ? write_file(path, old + HEADER, BYTES) : write_file(path, old, sizeof old);
    return ok ? path : "";
}

const char *files_stored(uint32_t run, uint32_t output)
{
    return output % 2 ? path_of("out%u-%u.raw:f32[12]", run, output) : result_at(run, output);
}

file_state files_look(uint32_t run, uint32_t output, const ppto_array *want)
{
    char bytes[MOST_BYTES];
    char old[BYTES];
    FILE *f = fopen(result_at(run, output), "r");
    size_t n = f ? fread(bytes, 1, sizeof bytes, f) : 0;
    if (f) fclose(f);
    bool whole = output % 2 ? n == BYTES : n > BYTES && n % 64 == BYTES && memcmp(bytes, "\x93NUMPY", 6) == 0;
    if (!whole) return FILE_WRONG;
    memset(old, OLD, BYTES);
    if (memcmp(bytes + n - BYTES, old, BYTES) == 0) return FILE_OLD;
    return !want || memcmp(bytes + n - BYTES, ppto_array_data(want), BYTES) == 0 ? FILE_RIGHT : FILE_WRONG;
}

/* ---- the engine --------------------------------------------------------------------------------- */

bool files_case_begin(uint64_t seed, int64_t now_ns)
{
    static const pp_io_fault failures[] = {PP_IO_EIO, PP_IO_ENOSPC, PP_IO_END};
    pp_error err = {.code = PPTO_OK};
    state = seed * 0x9e3779b97f4a7c15u + 7;
    pp_io_options options = {.depth = 1 + draw(4)};
    options.sim = (pp_io_sim){.seed = seed, .most_ns = 1 + draw(20000)};
    options.sim.rate[PP_IO_SHORT] = (uint16_t)draw(300);
    options.sim.rate[PP_IO_EINTR] = (uint16_t)draw(100);
    options.sim.rate[PP_IO_EAGAIN] = (uint16_t)draw(100);
    if (draw(3) == 0) options.sim.rate[failures[draw(3)]] = (uint16_t)(1 + draw(300));
    if (pp_io_create("sim", &options, &of->io, &err) != PPTO_OK) return false;
    (void)pp_io_sim_step(of->io, now_ns);
    files_are_there(draw(8) != 0);
    return true;
}

void files_case_end(void)
{
    pp_io_destroy(of->io);
    of->io = NULL;
}

bool files_move(int64_t *now_ns)
{
    pp_io_counters before, after;
    bool told = of->io->ended != NULL; /* cancelled, and its callback is still to come */
    pp_io_count(of->io, &before);
    int64_t next = pp_io_sim_step(of->io, *now_ns);
    pp_io_count(of->io, &after);
    if (told || after.calls != before.calls || after.done != before.done) return true;
    if (next == INT64_MAX) return false;
    if (next > *now_ns) *now_ns = next;
    (void)pp_io_sim_step(of->io, *now_ns);
    return true;
}

/* ---- all of it ---------------------------------------------------------------------------------- */

bool files_begin(ppto_context *simulated)
{
    of = simulated;
    of->few = 0;
    open_before = entries("/proc/self/fd");
    return mkdtemp(folder) && make_sources();
}

bool files_end(void)
{
    bool ok = entries("/proc/self/fd") == open_before;
    for (uint32_t i = 0; i < FILE_SOURCES; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s", files_source(i));
        path[strcspn(path, ":")] = '\0';
        ok = unlink(path) == 0 && ok;
    }
    for (uint32_t run = 0; run < 8; run++)
        for (uint32_t output = 0; output < 8; output++) (void)unlink(result_at(run, output));
    return rmdir(folder) == 0 && ok;
}
