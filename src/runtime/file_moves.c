/* SPDX-License-Identifier: Apache-2.0
 * Bytes of whole files, for a run: by the context's I/O engine, several pieces at once and bounded with all
 * other files, while the run's thread only waits and looks whether the run is to stop. A pipe whose peer does
 * nothing holds nobody up that way. A few bytes of a file are moved at once: they wait for nothing. The
 * engine also closes large files that are given up, while the run is over already; the context waits for
 * that. */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/fdio.h"
#include "runtime/async_run.h"
#include "scheduler/io.h"

enum { FEW = 64 << 10 };

typedef struct transfer {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool done;
    pp_io_file file;
    pp_io_request request;
} transfer;

static void done(pp_io_request *request)
{
    transfer *t = request->owner;
    pthread_mutex_lock(&t->lock);
    t->done = true;
    pthread_cond_signal(&t->ended);
    pthread_mutex_unlock(&t->lock);
}

/* Until the engine has let go of it. What the run says when it is to stop. */
static ppto_status wait(pp_io *engine, transfer *t, const pp_run_control *control, pp_error *err)
{
    ppto_status stopped = PPTO_OK;
    pthread_mutex_lock(&t->lock);
    while (!t->done) {
        (void)pp_condition_wait(&t->ended, &t->lock, stopped == PPTO_OK ? pp_run_look_again(control) : 0);
        if (t->done || stopped != PPTO_OK) continue;
        stopped = pp_run_stopped(control, err);
        if (stopped == PPTO_OK) continue;
        pthread_mutex_unlock(&t->lock);
        pp_io_cancel(engine, &t->request); /* may end it here */
        pthread_mutex_lock(&t->lock);
    }
    pthread_mutex_unlock(&t->lock);
    return stopped;
}

static ppto_status by_engine(pp_io *engine, transfer *t, const pp_run_control *control, size_t *got,
                             pp_error *err)
{
    pp_io_submit(engine, &t->request);
    ppto_status status = wait(engine, t, control, err);
    *got = t->request.moved;
    if (status == PPTO_OK) status = pp_io_result(&t->request, err);
    if (status == PPTO_OK && !t->file.stream && lseek(t->file.fd, (off_t)*got, SEEK_CUR) < 0)
        status = pp_fail_errno(err, "cannot go on in the file", errno);
    return status;
}

static ppto_status with_transfer(pp_io *engine, transfer *t, const pp_run_control *control, size_t *got,
                                 pp_error *err)
{
    if (pthread_mutex_init(&t->lock, NULL) != 0) return pp_fail(err, PPTO_E_LIMIT, "no lock can be had");
    bool has_condition = pp_condition_init(&t->ended) == 0;
    ppto_status status = has_condition ? by_engine(engine, t, control, got, err)
                                       : pp_fail(err, PPTO_E_LIMIT, "no lock can be had");
    if (has_condition) pthread_cond_destroy(&t->ended);
    pthread_mutex_destroy(&t->lock);
    return status;
}

ppto_status pp_file_move(const pp_files_watch *watch, bool write, int fd, void *bytes, size_t n, size_t *got,
                         pp_error *err)
{
    const ppto_program *p = watch->arg;
    struct stat facts;
    pp_io *engine;
    *got = 0;
    if (fstat(fd, &facts) != 0) return pp_fail_errno(err, "cannot be asked", errno);
    off_t position = S_ISREG(facts.st_mode) ? lseek(fd, 0, SEEK_CUR) : -1;
    bool stream = position < 0;
    if (n <= FEW && !stream) {
        *got = n;
        return write ? pp_files_write(fd, bytes, n, err) : pp_files_read(fd, bytes, n, got, err);
    }
    PP_TRY(pp_context_io(p->ctx, &engine, err));
    transfer t = {.file = {.fd = fd, .stream = stream}};
    t.request = (pp_io_request){.op = write ? PP_IO_WRITE : PP_IO_READ,
                                .may_end = !write,
                                .file = &t.file,
                                .offset = position,
                                .data = bytes,
                                .bytes = n,
                                .done = done,
                                .owner = &t};
    return with_transfer(engine, &t, p->control, got, err);
}

/* ---- files that are given up --------------------------------------------------------------------------- */

typedef struct closing {
    pp_io_file file;
    pp_io_request request;
} closing;

static void closed(pp_io_request *request)
{
    closing *c = request->owner;
    if (request->moved == 0) close(c->file.fd); /* it never began */
    pp_free(c);
}

static bool is_large(int fd)
{
    enum { MUCH = 16 << 20, BLOCK = 512 };
    struct stat facts;
    return fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_blocks > MUCH / BLOCK;
}

void pp_file_close(const pp_files_watch *watch, int fd)
{
    const ppto_program *p = watch->arg;
    pp_io *engine;
    closing *c = NULL;
    if (is_large(fd) && pp_context_io(p->ctx, &engine, NULL) == PPTO_OK) c = pp_calloc(1, sizeof *c);
    if (!c) {
        close(fd);
        return;
    }
    c->file.fd = fd;
    c->request = (pp_io_request){.op = PP_IO_CLOSE, .file = &c->file, .bytes = 1, .done = closed, .owner = c};
    pp_io_submit(engine, &c->request);
}
