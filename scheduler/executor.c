/* SPDX-License-Identifier: Apache-2.0
 * The table of executors and their queue. `serial` and `sim` need no threads, so they are rows of the table
 * only; their orders are dispatch_inline.c and dispatch_sim.c. */
#include "scheduler/executor.h"

#include <string.h>

#include "base/fork.h"
#include "scheduler/sim_turns.h"

static const pp_executor_class serial_class = {.name = "serial", .mode = PP_RUN_INLINE};
static const pp_executor_class sim_class = {.name = "sim", .mode = PP_RUN_SIM};

static const pp_executor_class *class_at(size_t i)
{
    const pp_executor_class *const all[] = {&serial_class, &sim_class, &pp_executor_pthread, pp_executor_tbb};
    return i < sizeof all / sizeof *all ? all[i] : NULL;
}

const char *pp_executor_at(size_t i)
{
    const pp_executor_class *found = class_at(i);
    return found != NULL ? found->name : NULL;
}

static const pp_executor_class *class_named(const char *name)
{
    const pp_executor_class *found;
    for (size_t i = 0; (found = class_at(i)) != NULL; i++)
        if (strcmp(found->name, name) == 0) return found;
    return NULL;
}

bool pp_executor_forked(const pp_executor *executor)
{
    return !pp_process_is(executor->process);
}

const char *pp_executor_default(void)
{
    const pp_executor_class *tbb = pp_executor_tbb;
    return tbb != NULL && !tbb->is_parents() ? tbb->name : pp_executor_pthread.name;
}

/* ---- life -------------------------------------------------------------------------------------- */

static void release(pp_executor *executor)
{
    pp_sim_turns_free(executor->turns);
    pthread_mutex_destroy(&executor->lock);
    pp_free(executor);
}

ppto_status pp_executor_create(const char *name, uint32_t workers, uint64_t seed, pp_executor **out,
                               pp_error *err)
{
    const pp_domains one = {.n = 1, .workers = {workers}};
    return pp_executor_create_in(name, &one, seed, out, err);
}

/* Threads make no difference to who runs on the caller, but the simulator has workers of all domains. */
static void set_domains(pp_executor *executor, const pp_domains *domains)
{
    executor->domains = *domains;
    if (executor->class_of->mode == PP_RUN_INLINE) executor->domains = (pp_domains){.n = 1, .workers = {1}};
    pp_executor_limit(executor, UINT32_MAX);
}

ppto_status pp_executor_create_in(const char *name, const pp_domains *domains, uint64_t seed,
                                  pp_executor **out, pp_error *err)
{
    uint32_t workers = 0;
    *out = NULL;
    const pp_executor_class *found = class_named(name);
    if (found == NULL) {
        if (strcmp(name, "tbb") == 0) return pp_fail(err, PPTO_E_UNSUPPORTED, "executor tbb is not built in");
        return pp_fail(err, PPTO_E_VALUE, "there is no executor %s", name);
    }
    for (uint32_t d = 0; d < domains->n; d++) workers += domains->workers[d];
    if (workers == 0) return pp_fail(err, PPTO_E_VALUE, "an executor needs a worker");
    pp_executor *executor = pp_calloc(1, sizeof *executor);
    if (executor == NULL) return pp_fail(err, PPTO_E_NOMEM, "no memory for an executor");
    executor->class_of = found;
    set_domains(executor, domains);
    executor->seed = seed;
    if (pthread_mutex_init(&executor->lock, NULL) != 0) {
        pp_free(executor);
        return pp_fail(err, PPTO_E_NOMEM, "no lock for an executor");
    }
    executor->process = pp_process_mark();
    ppto_status status = found->open != NULL ? found->open(executor, err) : PPTO_OK;
    if (found->mode == PP_RUN_SIM && pp_sim_turns_make(&executor->turns) != PPTO_OK)
        status = pp_fail(err, PPTO_E_NOMEM, "no memory for an executor");
    if (status != PPTO_OK) {
        release(executor);
        return status;
    }
    *out = executor;
    return PPTO_OK;
}

void pp_executor_destroy(pp_executor *executor)
{
    if (executor == NULL) return;
    if (executor->class_of->close != NULL) executor->class_of->close(executor, pp_executor_forked(executor));
    release(executor);
}

const char *pp_executor_name(const pp_executor *executor)
{
    return executor->class_of->name;
}

uint32_t pp_executor_workers(const pp_executor *executor)
{
    return executor->workers;
}

uint32_t pp_executor_width(const pp_executor *executor)
{
    uint32_t most = executor->class_of->most != NULL ? executor->class_of->most() : UINT32_MAX;
    return most < executor->workers ? most : executor->workers;
}

/* ---- domains ----------------------------------------------------------------------------------- */

/* Each domain gets one worker, then each worker that is left goes where the share is least filled. */
void pp_domains_spread(pp_domains *domains, uint32_t workers)
{
    uint32_t weight[PP_MAX_DOMAINS];
    memcpy(weight, domains->workers, sizeof weight);
    memset(domains->workers, 0, sizeof domains->workers);
    for (; workers > 0; workers--) {
        uint32_t best = 0;
        for (uint32_t d = 1; d < domains->n; d++) {
            uint64_t here = (uint64_t)domains->workers[d] * (weight[best] != 0 ? weight[best] : 1);
            uint64_t there = (uint64_t)domains->workers[best] * (weight[d] != 0 ? weight[d] : 1);
            if (here < there) best = d;
        }
        domains->workers[best]++;
    }
}

uint32_t pp_domains_next(const pp_domains *domains, pp_turn *turn)
{
    for (;; turn->round++, turn->domain = 0)
        while (turn->domain < domains->n)
            if (turn->round < domains->workers[turn->domain++]) return turn->domain - 1;
}

const pp_domains *pp_executor_domains(const pp_executor *executor)
{
    return &executor->domains;
}

uint32_t pp_executor_room(const pp_executor *executor, uint32_t domain)
{
    return executor->domains.workers[domain] - (executor->domains.n == 1);
}

void pp_executor_limit(pp_executor *executor, uint32_t most)
{
    uint32_t sum = 0;
    for (uint32_t d = 0; d < executor->domains.n; d++) sum += executor->domains.workers[d];
    if (sum > most) pp_domains_spread(&executor->domains, most);
    executor->workers = sum < most ? sum : most;
}

void *pp_executor_enter(const pp_executor *executor, uint32_t domain)
{
    const pp_domains *domains = &executor->domains;
    return domains->enter != NULL ? domains->enter(domains->arg, domain) : NULL;
}

void pp_executor_leave(const pp_executor *executor, void *entered)
{
    if (executor->domains.leave != NULL) executor->domains.leave(executor->domains.arg, entered);
}

void pp_executor_simulate(pp_executor *executor, pp_sim_world *world)
{
    if (executor->class_of->mode != PP_RUN_SIM) return;
    executor->world = world;
    pp_sim_turns_begin(executor->turns, executor->seed, world != NULL ? world->runs : 0);
}

/* ---- queue ------------------------------------------------------------------------------------- */

static void unlink_job(pp_executor *executor, pp_job *job)
{
    pp_job_queue *queue = &executor->queue[job->domain];
    if (job->prev != NULL)
        job->prev->next = job->next;
    else
        queue->first = job->next;
    if (job->next != NULL)
        job->next->prev = job->prev;
    else
        queue->last = job->prev;
    job->queued = false;
}

void pp_executor_submit(pp_executor *executor, pp_job *job)
{
    pp_job_queue *queue = &executor->queue[job->domain];
    uint32_t domain = job->domain;
    pthread_mutex_lock(&executor->lock);
    job->next = NULL;
    job->prev = queue->last;
    job->queued = true;
    if (queue->last != NULL)
        queue->last->next = job;
    else
        queue->first = job;
    queue->last = job;
    pthread_mutex_unlock(&executor->lock);
    executor->class_of->wake(executor, domain);
}

bool pp_executor_withdraw(pp_executor *executor, pp_job *job)
{
    pthread_mutex_lock(&executor->lock);
    bool queued = job->queued;
    if (queued) unlink_job(executor, job);
    pthread_mutex_unlock(&executor->lock);
    return queued;
}

static pp_job *take_first(pp_executor *executor, uint32_t domain)
{
    pthread_mutex_lock(&executor->lock);
    pp_job *job = executor->queue[domain].first;
    if (job != NULL) unlink_job(executor, job);
    pthread_mutex_unlock(&executor->lock);
    return job;
}

void pp_executor_work(pp_executor *executor, uint32_t domain)
{
    pp_job *job;
    while ((job = take_first(executor, domain)) != NULL) job->fn(job);
}
