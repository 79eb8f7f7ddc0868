/* SPDX-License-Identifier: Apache-2.0
 * Machine code of loops, for the whole process: what was compiled once serves every launch of every context.
 *
 * Devices enter and leave; the last one to leave ends the thread that compiles and frees all. Between that
 * any thread may ask for the code of a loop, and gives it back. The code is there when
 * pp_loop_code_fn says so. */
#ifndef PP_LOOP_STORE_H
#define PP_LOOP_STORE_H

#include <stdatomic.h>

#include "devices/cpu/loop.h"

/* One loop of the store. */
typedef struct pp_loop_code {
    _Atomic(pp_loop_fn) fn;
    int64_t compile_ns; /* this and the next: once fn is there */
    bool from_disk;
    atomic_bool claimed; /* for users: somebody has told of the compilation */
} pp_loop_code;

/* NULL: not compiled yet, or never. Pairs with the release when it is. */
static inline pp_loop_fn pp_loop_code_fn(const pp_loop_code *code)
{
    return atomic_load_explicit(&code->fn, memory_order_acquire);
}

/* A device comes in; leave when done. now: the generator is opened for the instruction set, else the thread
 * does that when a loop is asked for: opening takes milliseconds. E_UNSUPPORTED: there is none, err says why.
 */
ppto_status pp_loop_store_enter(const char *simd, bool now, pp_error *err);
void pp_loop_store_leave(void);

/* The loop's code, to give back. first: it was not there before. now: it is compiled at once if it was not;
 * else the thread does it. simd: static. The loop may go. first may be NULL. NULL: there is no memory. */
pp_loop_code *pp_loop_store_get(const pp_loop *loop, const char *simd, bool now, bool *first);
void pp_loop_store_put(pp_loop_code *code); /* NULL is fine */
/* Of the calling thread: from when *stop is not 0, or the clock past deadline_ns (0: none), what it asks for
 * `now` is left to the thread of the store, so that who is to stop waits for one loop at most. stop lives
 * until the next call; NULL: always now. */
void pp_loop_store_until(const volatile int *stop, int64_t deadline_ns);

/* The name of the generator, which is opened; NULL: err says why there is none. */
const char *pp_loop_store_generator(pp_error *err);

/* Since the process began. */
typedef struct pp_loop_facts {
    uint64_t hits, misses; /* loops asked for that were there, or were not */
    uint64_t refused;      /* the generator could not, and the interpreter does */
    uint64_t disk_hits;    /* misses whose code was on disk (loop_cache.h) */
    int64_t compile_ns;
    uint32_t loops; /* in the store */
} pp_loop_facts;
pp_loop_facts pp_loop_store_facts(void);
void pp_loop_store_settle(void); /* waits until nothing is left to compile */

/* For tests: this generator in place of the module's; NULL: the module's. While nobody is in. */
void pp_loop_store_use(const pp_generator *generator);

/* loop_module.c: whether there is a module; its generator, opened once: NULL: err says why there is none. Not
 * by two threads at once. */
bool pp_loop_module_there(void);
const pp_generator *pp_loop_module(pp_error *err);
const char *pp_loop_module_path(void); /* of its file, once it was opened; NULL: none was */

#endif
