/* SPDX-License-Identifier: Apache-2.0
 * I/O engines under ThreadSanitizer: several threads submit to one engine, cancel each other's requests, read
 * counters, feed pipes at both ends; buffers are written and checked without any lock, so a missing order
 * shows as a race. Then engines are destroyed with work queued. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "scheduler/io.h"

enum { THREADS = 3, ROUNDS = 30, FILES = 4, BYTES = 50000, PIPED = 20000 };

typedef struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t none;
    int left;
} waiter;

static void told(pp_io_request *request)
{
    waiter *all = request->owner;
    pthread_mutex_lock(&all->lock);
    if (--all->left == 0) pthread_cond_signal(&all->none);
    pthread_mutex_unlock(&all->lock);
}

static void wait_for(waiter *all)
{
    pthread_mutex_lock(&all->lock);
    while (all->left != 0) pthread_cond_wait(&all->none, &all->lock);
    pthread_mutex_unlock(&all->lock);
}

typedef struct user {
    pp_io *io;
    int number;
    bool good;
    waiter all;
    pp_io_file files[FILES], ends[2];
    pp_io_request requests[FILES], in, out;
    unsigned char there[FILES][BYTES], back[FILES][BYTES], sent[PIPED], got[PIPED];
} user;

static void submit_files(user *mine, pp_io_op op)
{
    for (int i = 0; i < FILES; i++) {
        mine->requests[i] = (pp_io_request){.op = op,
                                            .file = &mine->files[i],
                                            .data = op == PP_IO_READ ? mine->back[i] : mine->there[i],
                                            .bytes = BYTES,
                                            .done = told,
                                            .owner = &mine->all};
        pp_io_submit(mine->io, &mine->requests[i]);
    }
}

static bool all_ok(const user *mine)
{
    for (int i = 0; i < FILES; i++)
        if (mine->requests[i].status != PPTO_OK) return false;
    return true;
}

/* Writes the files and, meanwhile, a pipe to itself; then reads, the last one cancelled. */
static bool round_of(user *mine, int round)
{
    mine->all.left = FILES + 2;
    memset(mine->there, round + mine->number, sizeof mine->there);
    memset(mine->sent, round, sizeof mine->sent);
    mine->in = (pp_io_request){.op = PP_IO_READ,
                               .file = &mine->ends[0],
                               .data = mine->got,
                               .bytes = PIPED,
                               .done = told,
                               .owner = &mine->all};
    mine->out = mine->in;
    mine->out.op = PP_IO_WRITE;
    mine->out.file = &mine->ends[1];
    mine->out.data = mine->sent;
    pp_io_submit(mine->io, &mine->in);
    submit_files(mine, PP_IO_WRITE);
    pp_io_submit(mine->io, &mine->out);
    wait_for(&mine->all);
    if (!all_ok(mine) || mine->in.status != PPTO_OK || memcmp(mine->sent, mine->got, PIPED) != 0)
        return false;
    pp_io_counters counters;
    pp_io_count(mine->io, &counters);
    mine->all.left = FILES;
    submit_files(mine, PP_IO_READ);
    pp_io_cancel(mine->io, &mine->requests[FILES - 1]);
    wait_for(&mine->all);
    if (mine->requests[FILES - 1].status == PPTO_E_CANCELLED) mine->requests[FILES - 1].status = PPTO_OK;
    return all_ok(mine) && memcmp(mine->there, mine->back, (size_t)(FILES - 1) * BYTES) == 0;
}

static void *use(void *arg)
{
    user *mine = arg;
    mine->good = true;
    for (int round = 0; round < ROUNDS && mine->good; round++) mine->good = round_of(mine, round);
    return NULL;
}

static bool try_engine(const char *name, user *users)
{
    pthread_t threads[THREADS];
    pp_io *io;
    pp_error err = {0};
    bool good = true;
    if (pp_io_create(name, &(pp_io_options){.piece = 8192}, &io, &err) != PPTO_OK) {
        fprintf(stderr, "%s: %s\n", name, err.text);
        return false;
    }
    for (int i = 0; i < THREADS; i++) {
        user *mine = &users[i];
        int ends[2];
        *mine =
            (user){.io = io, .number = i, .all = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0}};
        if (pipe(ends) != 0) return false;
        for (int k = 0; k < 2; k++) mine->ends[k] = (pp_io_file){.fd = ends[k], .stream = true};
        for (int k = 0; k < FILES; k++) mine->files[k].fd = memfd_create("race", MFD_CLOEXEC);
    }
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, use, &users[i]) != 0) return false;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        good = good && users[i].good;
    }
    for (int i = 0; i < THREADS; i++) { /* destroyed with work queued */
        users[i].all.left = FILES;
        submit_files(&users[i], PP_IO_WRITE);
    }
    pp_io_destroy(io);
    for (int i = 0; i < THREADS; i++) {
        good = good && users[i].all.left == 0;
        for (int k = 0; k < 2; k++) close(users[i].ends[k].fd);
        for (int k = 0; k < FILES; k++) close(users[i].files[k].fd);
    }
    if (!good) fprintf(stderr, "%s: wrong bytes, status or count\n", name);
    return good;
}

int main(void)
{
    static user users[THREADS];
    bool good = true;
    for (int i = 0; i < 5; i++) good = good && try_engine("blocking", users);
    for (size_t i = 0; pp_io_at(i) != NULL; i++)
        for (int k = 0; k < 5 && strcmp(pp_io_at(i), "uv") == 0; k++) good = good && try_engine("uv", users);
    return good ? 0 : 1;
}
