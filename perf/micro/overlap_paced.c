/* SPDX-License-Identifier: Apache-2.0
 * Pipes at a pace (overlap_paced.h). A pipe holds a step of its data before anybody reads it; the time of a
 * file begins when that is taken. Ends are opened before the other side comes, so nobody waits in an open. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "overlap_paced.h"

enum { STEP = 1 << 16 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void sleep_until(double when)
{
    struct timespec t = {(time_t)when, (long)((when - (double)(time_t)when) * 1e9)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) continue;
}

static bool feed_one(const paced *p, int fd)
{
    static const char data[STEP];
    double start = 0;
    for (size_t at = 0; at < p->bytes;) {
        size_t left = p->bytes - at;
        ssize_t moved = write(fd, data, left < STEP ? left : STEP);
        if (moved <= 0) return false;
        at += (size_t)moved;
        if (at == (size_t)moved) continue;
        if (start == 0) start = now();
        sleep_until(start + p->seconds * (double)at / (double)p->bytes);
    }
    return true;
}

static void *feed(void *arg)
{
    paced *p = arg;
    for (int i = 0; i < p->n; i++) {
        p->well &= feed_one(p, p->in_end[i]);
        close(p->in_end[i]);
    }
    return NULL;
}

/* Until the writer closes it. */
static bool empty_one(const paced *p, int fd)
{
    static char data[STEP];
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    double start = 0;
    for (size_t at = 0;;) {
        if (poll(&wait, 1, -1) < 0) return false;
        ssize_t moved = read(fd, data, sizeof data);
        if (moved <= 0) return moved == 0 && at != 0;
        at += (size_t)moved;
        if (start == 0) start = now();
        sleep_until(start + p->seconds * (double)at / (double)p->bytes);
    }
}

static void *empty(void *arg)
{
    paced *p = arg;
    for (int i = 0; i < p->n; i++) {
        p->well &= empty_one(p, p->out_end[i]);
        close(p->out_end[i]);
    }
    return NULL;
}

bool paced_begin(paced *p)
{
    p->well = true;
    for (int i = 0; i < p->n; i++) {
        if (mkfifo(p->in[i], 0600) != 0 || mkfifo(p->out[i], 0600) != 0) return false;
        p->in_end[i] = open(p->in[i], O_RDWR | O_CLOEXEC);
        p->out_end[i] = open(p->out[i], O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        if (p->in_end[i] < 0 || p->out_end[i] < 0) return false;
    }
    return pthread_create(&p->feeder, NULL, feed, p) == 0 && pthread_create(&p->drain, NULL, empty, p) == 0;
}

bool paced_end(paced *p)
{
    pthread_join(p->feeder, NULL);
    pthread_join(p->drain, NULL);
    for (int i = 0; i < p->n; i++) p->well &= unlink(p->in[i]) == 0 && unlink(p->out[i]) == 0;
    return p->well;
}
