/* SPDX-License-Identifier: Apache-2.0
 * Pipes that arrays are to be read from. The bytes of a pipe come once, and an array that is open has read
 * its header: who opened the same pipe meanwhile, under whatever name, would take the array's data for
 * another header. So a pipe is held from the opening until somebody reads the data or the array is gone. */
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/open_pipes.h"

typedef struct held_pipe {
    const pp_array_file *file;
    dev_t device;
    ino_t number;
} held_pipe;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static PP_VEC(held_pipe) pipes;

static bool is_pipe(const struct stat *facts)
{
    return S_ISFIFO(facts->st_mode) || S_ISSOCK(facts->st_mode);
}

/* Of the file that the text leads to: `FILE.raw:f32[N]` is one, too. */
static bool facts_of(const char *text, struct stat *facts)
{
    pp_file_name name = {0};
    pp_error ignored = {0};
    if (pp_file_is_standard(text)) return fstat(STDIN_FILENO, facts) == 0;
    if (pp_file_name_read(text, &name, &ignored) != PPTO_OK) return false;
    const bool known = stat(name.path, facts) == 0;
    pp_file_name_free(&name);
    return known;
}

ppto_status pp_open_pipe_check(const char *text, pp_error *err)
{
    struct stat facts;
    const bool known = facts_of(text, &facts);
    ppto_status status = PPTO_OK;
    if (!known || !is_pipe(&facts)) return PPTO_OK;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < pipes.n && status == PPTO_OK; i++)
        if (pipes.at[i].device == facts.st_dev && pipes.at[i].number == facts.st_ino)
            status =
                pp_fail(err, PPTO_E_VALUE, "it is the pipe of the input %.200s, which has not been read yet",
                        pipes.at[i].file->path);
    pthread_mutex_unlock(&lock);
    return status;
}

ppto_status pp_open_pipe_hold(const pp_array_file *file)
{
    struct stat facts;
    if (!file->reader.source.stream || fstat(file->reader.source.fd, &facts) != 0 || !is_pipe(&facts))
        return PPTO_OK;
    pthread_mutex_lock(&lock);
    ppto_status status = pp_vec_push(&pipes, ((held_pipe){file, facts.st_dev, facts.st_ino}));
    pthread_mutex_unlock(&lock);
    return status;
}

void pp_open_pipe_free(const pp_array_file *file)
{
    if (!file->reader.source.stream) return;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < pipes.n; i++)
        if (pipes.at[i].file == file) pipes.at[i--] = pipes.at[--pipes.n];
    if (pipes.n == 0) pp_vec_free(&pipes);
    pthread_mutex_unlock(&lock);
}
