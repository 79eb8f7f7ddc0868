/* SPDX-License-Identifier: Apache-2.0
 * Reading, computing and writing by plain threads (overlap_plain.h). Files are read and written by one call
 * each, behind the header of what is read, into memory that is touched before: nothing a program could leave
 * out. Around the page cache it is a call for every 4 MiB. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "overlap_plain.h"

enum { HEADER = 128, BLOCK = 4096, MOST = 4 << 20 };

typedef struct hand {
    const plain_work *work;
    void *data;
    bool well;
} hand;

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Around the page cache whole blocks are read into blocks of memory. */
static bool read_file(const plain_work *work, const char *path, char *data)
{
    const size_t bytes = work->read_bytes, most = work->read_around ? MOST : bytes;
    int file = open(path, O_RDONLY | O_CLOEXEC | (work->read_around ? O_DIRECT : 0));
    size_t at = 0;
    ssize_t got = 1;
    for (; file >= 0 && at < bytes && got > 0; at += got > 0 ? (size_t)got : 0) {
        size_t left = at != 0 || work->read_around ? bytes - at : HEADER;
        got = pread(file, data + at, left < most ? left : most, (off_t)at);
    }
    if (file >= 0) close(file);
    return file >= 0 && at == bytes;
}

static bool write_file(const plain_work *work, const char *path, const char *data)
{
    const size_t bytes = work->write_bytes, most = work->write_around ? MOST : bytes;
    int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | (work->write_around ? O_DIRECT : 0);
    int file = open(path, flags, 0666);
    size_t at = 0;
    ssize_t got = 1;
    if (file >= 0) (void)posix_fallocate(file, 0, (off_t)bytes);
    for (; file >= 0 && at < bytes && got > 0; at += got > 0 ? (size_t)got : 0)
        got = pwrite(file, data + at, bytes - at < most ? bytes - at : most, (off_t)at);
    return file >= 0 && close(file) == 0 && at == bytes;
}

static void *read_all(void *arg)
{
    hand *mine = arg;
    for (int i = 0; i < mine->work->n; i++)
        mine->well &= read_file(mine->work, mine->work->in(i), mine->data);
    return NULL;
}

static void *compute(void *arg)
{
    hand *mine = arg;
    volatile double x = 0;
    while (seconds(CLOCK_THREAD_CPUTIME_ID) < mine->work->compute_seconds)
        for (int i = 0; i < 10000; i++) x += i;
    return x < 0 ? arg : NULL; /* never: so that x is used */
}

static void *write_all(void *arg)
{
    hand *mine = arg;
    for (int i = 0; i < mine->work->n; i++)
        mine->well &= write_file(mine->work, mine->work->out(i), mine->data);
    return NULL;
}

/* Of those parts that are wanted. */
static double run(hand hands[PLAIN_PARTS], unsigned wanted)
{
    static void *(*const parts[PLAIN_PARTS])(void *) = {read_all, compute, write_all};
    pthread_t threads[PLAIN_PARTS];
    hands[0].work->cool();
    double start = seconds(CLOCK_MONOTONIC);
    for (int i = 0; i < PLAIN_PARTS; i++)
        if ((wanted >> i & 1) != 0 && pthread_create(&threads[i], NULL, parts[i], &hands[i]) != 0) {
            hands[i].well = false;
            wanted &= ~(1u << i);
        }
    for (int i = 0; i < PLAIN_PARTS; i++)
        if ((wanted >> i & 1) != 0) pthread_join(threads[i], NULL);
    return seconds(CLOCK_MONOTONIC) - start;
}

bool plain_measure(const plain_work *work, plain_times *times)
{
    hand hands[PLAIN_PARTS];
    const size_t bytes[PLAIN_PARTS] = {work->read_bytes, 1, work->write_bytes};
    bool well = true;
    for (int i = 0; i < PLAIN_PARTS; i++) {
        hands[i] = (hand){
            .work = work, .data = aligned_alloc(BLOCK, (bytes[i] + BLOCK - 1) / BLOCK * BLOCK), .well = true};
        well &= hands[i].data != NULL;
        if (hands[i].data != NULL) memset(hands[i].data, 1, bytes[i]);
    }
    for (int i = 0; i < PLAIN_PARTS && well; i++) times->alone[i] = run(hands, 1u << i);
    if (well) times->files = run(hands, 1u << PLAIN_READ | 1u << PLAIN_WRITE);
    if (well) times->together = run(hands, 7);
    work->cool();
    for (int i = 0; i < PLAIN_PARTS; i++) {
        well &= hands[i].well;
        free(hands[i].data);
    }
    return well;
}
