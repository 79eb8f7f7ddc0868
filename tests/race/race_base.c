/* SPDX-License-Identifier: Apache-2.0
 * Threads that allocate while hooks are switched, and that replace one file: no race, no block lost, the file
 * whole. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "files/fdio.h"
#include "files/sink.h"

enum { THREADS = 4, ROUNDS = 200, BYTES = 1000 };
static const char path[] = "race_base.tmp";

static ppto_status write_letters(int fd, void *arg, pp_error *err)
{
    char letters[BYTES];
    memset(letters, *(char *)arg, sizeof letters);
    return pp_files_write(fd, letters, sizeof letters, err);
}

static void *work(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        pp_heap_poison(i % 2 == 0);
        pp_free(pp_realloc(pp_alloc(10), (size_t)i));
        if (i % 10 == 0 && pp_files_write_atomic(path, write_letters, arg, NULL, NULL) != PPTO_OK) return arg;
    }
    return NULL;
}

static int file_is_whole(void)
{
    char letters[BYTES + 1];
    FILE *file = fopen(path, "rb");
    if (file == NULL) return 0;
    size_t n = fread(letters, 1, sizeof letters, file);
    fclose(file);
    for (size_t i = 1; i < n; i++)
        if (letters[i] != letters[0]) return 0;
    return n == BYTES;
}

int main(void)
{
    pthread_t thread[THREADS];
    char letter[THREADS];
    int bad = 0;
    for (int i = 0; i < THREADS; i++) {
        letter[i] = (char)('a' + i);
        bad |= pthread_create(&thread[i], NULL, work, &letter[i]) != 0;
    }
    for (int i = 0; i < THREADS; i++) {
        void *failure;
        pthread_join(thread[i], &failure);
        bad |= failure != NULL;
    }
    bad |= !file_is_whole() || pp_heap_count().live != 0;
    unlink(path);
    return bad;
}
