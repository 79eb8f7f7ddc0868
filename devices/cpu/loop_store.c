/* SPDX-License-Identifier: Apache-2.0
 * The store of machine code: a table by hash, a queue, and one thread of low priority that compiles.
 *
 * Three locks, taken in this order: `life` (who is in), `generating` (the generator is used by one thread at
 * a time, for milliseconds) and `table` (moments; also the queue and all counters). An entry is compiled
 * while `generating` is held from before it leaves the queue: whoever has that lock knows that nothing is
 * under way. So a fork waits for all three, and the child finds the store whole, without the thread.
 *
 * The generator must not be inside a compilation, nor be loaded, when the process ends, since its static
 * state goes then: both happen behind a door (loop_exit.h). For a process that another thread than the main
 * one ends, a handler of exit is registered when the generator is loaded, and once more when it has worked
 * for the first time: it runs before what was registered earlier. It also runs when the library is unloaded.
 *
 * Code that no launch holds stays, up to IDLE_LOOPS; then the one used longest ago goes. */
#define _GNU_SOURCE
#include "devices/cpu/loop_store.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/thread.h"
#include "devices/cpu/loop_cache.h"
#include "devices/cpu/loop_copy.h"
#include "devices/cpu/loop_exit.h"

enum { BUCKETS = 1024, IDLE_LOOPS = 512, SETS = 4, NICE = 5 };
#define PATIENCE_NS 3000000 /* a process that ends sooner need not load the generator */

typedef struct entry {
    pp_loop_code code; /* first: the user's handle */
    pp_loop loop;
    pp_arena arena;
    const char *simd;
    bool waits, busy; /* in the queue; being compiled */
    uint32_t refs;
    uint64_t last_use;
    void *handle;
    struct entry *next;  /* of the bucket, of the dead */
    struct entry *after; /* in the queue */
} entry;

static pthread_mutex_t life = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t generating = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;

static uint32_t users; /* under life */

/* Under generating. */
static const pp_generator *given; /* by a test */
static struct {
    const char *simd;
    ppto_status status;
} opened[SETS];
static bool worked; /* the generator has compiled something */

/* Under table. */
static entry *bucket[BUCKETS], *first_waiting, **last_waiting = &first_waiting, *dead;
static uint32_t n_loops;
static uint64_t now_used;
static pp_loop_facts facts;
static pthread_cond_t bell;
static pthread_t thread;
static bool bell_made, runs, ends, over; /* over: the process ends */

/* ---- the generator --------------------------------------------------------------------------- */

static void stop_for_good(void);

static const pp_generator *generator(pp_error *err)
{
    return given != NULL ? given : pp_loop_module(err);
}

/* With generating. */
static ppto_status open_for(const char *simd, const pp_generator **out, pp_error *err)
{
    unsigned i = 0;
    *out = generator(err);
    if (*out == NULL) return PPTO_E_UNSUPPORTED;
    while (i < SETS - 1 && opened[i].simd != NULL && strcmp(opened[i].simd, simd) != 0) i++;
    if (opened[i].simd == NULL) {
        if (i == 0 && atexit(stop_for_good) != 0) return PPTO_E_NOMEM;
        opened[i].simd = simd;
        opened[i].status = (*out)->open(simd, err);
    }
    return opened[i].status == PPTO_OK
               ? PPTO_OK
               : pp_fail(err, PPTO_E_UNSUPPORTED, "%s makes no code for %s", (*out)->name, simd);
}

typedef struct object {
    void *at;
    size_t bytes;
} object;

/* What an earlier process left; no generator of a test keeps anything. */
static bool from_disk(entry *e, const pp_generator *g, pp_loop_fn *fn)
{
    object o = {0};
    pp_error err = {0};
    if (given != NULL || !pp_loop_cache_get(&e->loop, e->simd, g->name, &o.at, &o.bytes)) return false;
    const bool good = g->load(o.at, o.bytes, &e->handle, fn, &err) == PPTO_OK;
    if (!good) pp_loop_cache_drop(&e->loop, e->simd, g->name);
    pp_free(o.at);
    return good;
}

/* With generating. made: the object, when it was not on disk. */
static ppto_status generate(entry *e, pp_loop_fn *fn, object *made, pp_error *err)
{
    const pp_generator *g;
    PP_TRY(open_for(e->simd, &g, err));
    e->code.from_disk = from_disk(e, g, fn);
    if (e->code.from_disk) return PPTO_OK;
    if (g->fault != NULL) *g->fault = pp_fault_now();
    PP_TRY(g->compile(&e->loop, e->simd, pp_alloc, &made->at, &made->bytes, err));
    return g->load(made->at, made->bytes, &e->handle, fn, err);
}

/* With generating; after the code is there, since disks are slow. */
static void to_disk(const entry *e, const object *made)
{
    pp_error err = {0};
    if (given == NULL && made->at != NULL)
        pp_loop_cache_put(&e->loop, e->simd, generator(&err)->name, made->at, made->bytes);
}

/* With generating; the entry is busy. */
static void compile(entry *e)
{
    pp_error err = {0};
    pp_loop_fn fn = NULL;
    const int64_t start = pp_clock_ns();
    object made = {0};
    const ppto_status status = generate(e, &fn, &made, &err);
    if (!worked) worked = atexit(stop_for_good) == 0;
    e->code.compile_ns = pp_clock_ns() - start;
    pthread_mutex_lock(&table);
    facts.compile_ns += e->code.compile_ns;
    facts.refused += status != PPTO_OK;
    facts.disk_hits += e->code.from_disk;
    e->busy = false;
    pthread_mutex_unlock(&table);
    /* release: the code is in memory before anyone can call it */
    if (status == PPTO_OK) atomic_store_explicit(&e->code.fn, fn, memory_order_release);
    if (status == PPTO_OK) to_disk(e, &made);
    pp_free(made.at);
}

/* With generating. */
static void free_entry(entry *e)
{
    pp_error err = {0};
    if (e->handle != NULL) generator(&err)->unload(e->handle);
    pp_arena_free(&e->arena);
    pp_free(e);
}

static void free_list(entry *e)
{
    while (e != NULL) {
        entry *next = e->next;
        free_entry(e);
        e = next;
    }
}

/* ---- the queue ------------------------------------------------------------------------------- */

/* With table. */
static void leave_queue(entry *e)
{
    entry **at = &first_waiting;
    while (*at != e) at = &(*at)->after;
    *at = e->after;
    if (last_waiting == &e->after) last_waiting = at;
    e->waits = false;
}

/* With generating and table. */
static bool may_begin(void)
{
    over = over || !pp_exit_enter();
    return !over;
}

/* Compiles the entry, or the next one; false when none waits, or the process ends. */
static bool compile_one(entry *e)
{
    pthread_mutex_lock(&generating);
    pthread_mutex_lock(&table);
    entry *gone = dead;
    dead = NULL;
    if (e == NULL) e = first_waiting;
    const bool waits = e != NULL && e->waits && may_begin();
    if (waits) {
        leave_queue(e);
        e->busy = true;
    }
    pthread_mutex_unlock(&table);
    free_list(gone);
    if (waits) {
        compile(e);
        pp_exit_leave();
    }
    pthread_mutex_unlock(&generating);
    return waits;
}

static void *compile_all(void *arg)
{
    (void)arg;
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
    const int64_t until = pp_clock_ns() + PATIENCE_NS;
    pthread_mutex_lock(&table);
    while (!ends && pp_condition_wait(&bell, &table, until)) {
    }
    while (!ends && !over) {
        if (first_waiting == NULL && dead == NULL) {
            (void)pp_condition_wait(&bell, &table, 0);
            continue;
        }
        pthread_mutex_unlock(&table);
        (void)compile_one(NULL);
        pthread_mutex_lock(&table);
    }
    pthread_mutex_unlock(&table);
    return NULL;
}

/* With table. Without a thread loops stay with the interpreter. */
static void wake(void)
{
    if (!bell_made) bell_made = pp_condition_init(&bell) == 0;
    if (!bell_made || over) return;
    pp_exit_watch();
    if (!runs) runs = pp_thread_start(&thread, "ppto-code", compile_all, NULL) == 0;
    pthread_cond_signal(&bell);
}

/* With life. */
static void stop(void)
{
    pthread_mutex_lock(&table);
    const bool join = runs;
    ends = true;
    if (join) pthread_cond_signal(&bell);
    pthread_mutex_unlock(&table);
    if (join) pthread_join(thread, NULL);
    pthread_mutex_lock(&table);
    runs = ends = false;
    pthread_mutex_unlock(&table);
}

static void stop_for_good(void)
{
    pthread_mutex_lock(&life);
    pthread_mutex_lock(&table);
    over = true;
    pthread_mutex_unlock(&table);
    stop();
    pthread_mutex_unlock(&life);
}

/* ---- forks ----------------------------------------------------------------------------------- */

static void before_fork(void)
{
    pthread_mutex_lock(&life);
    pthread_mutex_lock(&generating);
    pthread_mutex_lock(&table);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&table);
    pthread_mutex_unlock(&generating);
    pthread_mutex_unlock(&life);
}

/* The devices of the parent are not the child's, and the thread is not there. */
static void in_child(void)
{
    users = 0;
    runs = bell_made = false;
    after_fork();
}

__attribute__((constructor)) static void guard(void)
{
    (void)pthread_atfork(before_fork, after_fork, in_child);
}

/* ---- the table ------------------------------------------------------------------------------- */

static entry **bucket_of(uint64_t hash)
{
    return &bucket[(hash ^ hash >> 32) % BUCKETS];
}

static entry *find(const pp_loop *loop, const char *simd)
{
    for (entry *e = *bucket_of(loop->hash); e != NULL; e = e->next)
        if (strcmp(e->simd, simd) == 0 && pp_loop_equal(&e->loop, loop)) return e;
    return NULL;
}

static entry *add(const pp_loop *loop, const char *simd)
{
    entry *e = pp_calloc(1, sizeof *e), **head = bucket_of(loop->hash);
    if (e == NULL || pp_loop_copy(&e->arena, loop, &e->loop) != PPTO_OK) {
        if (e != NULL) pp_arena_free(&e->arena);
        pp_free(e);
        return NULL;
    }
    e->simd = simd;
    e->next = *head;
    *head = e;
    n_loops++;
    e->waits = true;
    *last_waiting = e;
    last_waiting = &e->after;
    return e;
}

static bool is_idle(const entry *e)
{
    return e->refs == 0 && !e->waits && !e->busy;
}

/* One more than may stay: the idle one used longest ago waits for its end. */
static void shrink(void)
{
    entry **oldest = NULL;
    if (n_loops <= IDLE_LOOPS) return;
    for (unsigned b = 0; b < BUCKETS; b++)
        for (entry **at = &bucket[b]; *at != NULL; at = &(*at)->next)
            if (is_idle(*at) && (oldest == NULL || (*at)->last_use < (*oldest)->last_use)) oldest = at;
    if (oldest == NULL) return;
    entry *e = *oldest;
    *oldest = e->next;
    e->next = dead;
    dead = e;
    n_loops--;
}

static _Thread_local struct {
    const volatile int *stop;
    int64_t deadline_ns;
} until;

void pp_loop_store_until(const volatile int *stop, int64_t deadline_ns)
{
    until.stop = stop;
    until.deadline_ns = deadline_ns;
}

static bool must_stop(void)
{
    if (until.stop != NULL && *until.stop != 0) return true;
    return until.deadline_ns != 0 && pp_clock_ns() >= until.deadline_ns;
}

pp_loop_code *pp_loop_store_get(const pp_loop *loop, const char *simd, bool now, bool *first)
{
    now = now && !must_stop();
    pthread_mutex_lock(&table);
    entry *e = find(loop, simd);
    if (first != NULL) *first = e == NULL;
    facts.hits += e != NULL;
    if (e == NULL) {
        shrink();
        e = add(loop, simd);
        facts.misses += e != NULL;
    }
    if (e != NULL) {
        e->refs++;
        e->last_use = ++now_used;
        if (!now && e->waits) wake();
    }
    pthread_mutex_unlock(&table);
    if (e != NULL && now) (void)compile_one(e);
    return e != NULL ? &e->code : NULL;
}

void pp_loop_store_put(pp_loop_code *code)
{
    if (code == NULL) return;
    pthread_mutex_lock(&table);
    ((entry *)(void *)code)->refs--;
    pthread_mutex_unlock(&table);
}

/* ---- who is in ------------------------------------------------------------------------------- */

/* With generating. */
static ppto_status open_now(const char *simd, pp_error *err)
{
    const pp_generator *g;
    pp_exit_watch();
    if (!pp_exit_enter()) return pp_fail(err, PPTO_E_UNSUPPORTED, "no code is made while the process ends");
    const ppto_status status = open_for(simd, &g, err);
    pp_exit_leave();
    return status;
}

ppto_status pp_loop_store_enter(const char *simd, bool now, pp_error *err)
{
    ppto_status status = PPTO_OK;
    pthread_mutex_lock(&life);
    pthread_mutex_lock(&generating);
    if (now)
        status = open_now(simd, err);
    else if (given == NULL && !pp_loop_module_there())
        status = PPTO_E_UNSUPPORTED;
    pthread_mutex_unlock(&generating);
    users += status == PPTO_OK;
    pthread_mutex_unlock(&life);
    return status;
}

/* All of it. With life, and without the thread. */
static void clear(void)
{
    pthread_mutex_lock(&generating);
    pthread_mutex_lock(&table);
    free_list(dead);
    for (unsigned b = 0; b < BUCKETS; b++) {
        free_list(bucket[b]);
        bucket[b] = NULL;
    }
    dead = first_waiting = NULL;
    last_waiting = &first_waiting;
    n_loops = 0;
    pthread_mutex_unlock(&table);
    pthread_mutex_unlock(&generating);
}

void pp_loop_store_leave(void)
{
    pthread_mutex_lock(&life);
    if (--users == 0) {
        stop();
        clear();
    }
    pthread_mutex_unlock(&life);
}

void pp_loop_store_settle(void)
{
    while (compile_one(NULL)) {
    }
}

pp_loop_facts pp_loop_store_facts(void)
{
    pthread_mutex_lock(&table);
    pp_loop_facts out = facts;
    out.loops = n_loops;
    pthread_mutex_unlock(&table);
    return out;
}

const char *pp_loop_store_generator(pp_error *err)
{
    pthread_mutex_lock(&generating);
    const pp_generator *g = generator(err);
    pthread_mutex_unlock(&generating);
    return g != NULL ? g->name : NULL;
}

void pp_loop_store_use(const pp_generator *generator_of_test)
{
    pthread_mutex_lock(&generating);
    given = generator_of_test;
    memset(opened, 0, sizeof opened);
    pthread_mutex_unlock(&generating);
}
