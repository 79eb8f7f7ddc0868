/* SPDX-License-Identifier: Apache-2.0
 * Plain threads: a crew for each domain, bound to it for life. Each thread is started when the first job
 * wants it, and parked on a condition when there is nothing to do (no spinning here: an idle context costs no
 * CPU time). Signals of the process are not theirs.
 *
 * wake counts: `tokens` is how many looks at the queue are still owed; a thread takes one token, then works
 * until the queue is empty. A token taken in vain costs one look. */
#include "base/thread.h"
#include "scheduler/executor.h"

typedef struct crew {
    pthread_mutex_t lock; /* of all below; may be held when nothing else is */
    pthread_cond_t wanted;
    pp_executor *executor;
    uint32_t domain;
    uint32_t tokens, parked, started, room; /* started <= room */
    bool stop;
    pthread_t threads[];
} crew;

static void *live(void *arg)
{
    crew *mine = arg;
    void *entered = pp_executor_enter(mine->executor, mine->domain);
    pthread_mutex_lock(&mine->lock);
    for (;;) {
        while (mine->tokens == 0 && !mine->stop) {
            mine->parked++;
            pthread_cond_wait(&mine->wanted, &mine->lock);
            mine->parked--;
        }
        if (mine->stop) break;
        mine->tokens--;
        pthread_mutex_unlock(&mine->lock);
        pp_executor_work(mine->executor, mine->domain);
        pthread_mutex_lock(&mine->lock);
    }
    pthread_mutex_unlock(&mine->lock);
    pp_executor_leave(mine->executor, entered);
    return NULL;
}

/* A thread that cannot be had is no failure: the caller of the run does the work. */
static void start_one(crew *mine)
{
    if (pp_thread_start(&mine->threads[mine->started], "ppto-worker", live, mine) == 0) mine->started++;
}

static void crew_wake(pp_executor *executor, uint32_t domain)
{
    crew *mine = ((crew **)executor->own)[domain];
    pthread_mutex_lock(&mine->lock);
    if (mine->tokens < mine->room) mine->tokens++;
    if (mine->parked < mine->tokens && mine->started < mine->room) start_one(mine);
    pthread_cond_signal(&mine->wanted);
    pthread_mutex_unlock(&mine->lock);
}

static crew *crew_create(pp_executor *executor, uint32_t domain)
{
    uint32_t room = pp_executor_room(executor, domain);
    crew *mine = pp_calloc(1, sizeof *mine + room * sizeof mine->threads[0]);
    if (mine == NULL) return NULL;
    mine->executor = executor;
    mine->domain = domain;
    mine->room = room;
    if (pthread_mutex_init(&mine->lock, NULL) != 0) goto fail_lock;
    if (pthread_cond_init(&mine->wanted, NULL) != 0) goto fail_condition;
    return mine;
fail_condition:
    pthread_mutex_destroy(&mine->lock);
fail_lock:
    pp_free(mine);
    return NULL;
}

/* forked: there are no threads, and the lock may look held for ever. */
static void crew_destroy(crew *mine, bool forked)
{
    if (mine == NULL) return;
    if (!forked) {
        pthread_mutex_lock(&mine->lock);
        mine->stop = true;
        pthread_cond_broadcast(&mine->wanted);
        pthread_mutex_unlock(&mine->lock);
        for (uint32_t i = 0; i < mine->started; i++) pthread_join(mine->threads[i], NULL);
        pthread_cond_destroy(&mine->wanted);
        pthread_mutex_destroy(&mine->lock);
    }
    pp_free(mine);
}

static void crews_close(pp_executor *executor, bool forked)
{
    crew **crews = executor->own;
    for (uint32_t d = 0; d < executor->domains.n; d++) crew_destroy(crews[d], forked);
    pp_free(crews);
}

static ppto_status crews_open(pp_executor *executor, pp_error *err)
{
    crew **crews = pp_calloc(executor->domains.n, sizeof *crews);
    if (crews == NULL) return pp_fail(err, PPTO_E_NOMEM, "no memory for the threads");
    executor->own = crews;
    for (uint32_t d = 0; d < executor->domains.n; d++) {
        if ((crews[d] = crew_create(executor, d)) != NULL) continue;
        crews_close(executor, false);
        return pp_fail(err, PPTO_E_NOMEM, "no memory for %u threads", pp_executor_room(executor, d));
    }
    return PPTO_OK;
}

const pp_executor_class pp_executor_pthread = {
    .name = "pthread", .mode = PP_RUN_THREADS, .open = crews_open, .close = crews_close, .wake = crew_wake};
