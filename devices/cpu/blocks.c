/* SPDX-License-Identifier: Apache-2.0
 * Which sets of block loops there are, which of them this CPU (and its operating system) can run, and the
 * look-up of generated loops in a set. */
#include "devices/cpu/blocks.h"

#include <pthread.h>
#include <string.h>

#if defined(__x86_64__) && !defined(PP_BASELINE_ONLY)
#define PP_MORE_SETS
#include <cpuid.h>
#endif

typedef struct set_entry {
    pp_block_set *set;
    void (*complete)(void); /* fills in the counts, see blocks_set.c */
    bool (*runs_here)(void);
} set_entry;

static bool always(void)
{
    return true;
}

extern pp_block_set pp_blocks_baseline;
void pp_blocks_complete_baseline(void);

#ifdef PP_MORE_SETS
extern pp_block_set pp_blocks_avx2, pp_blocks_avx512;
void pp_blocks_complete_avx2(void);
void pp_blocks_complete_avx512(void);

/* The builtins know whether the operating system saves the registers; F16C has no name in all of them. */
static bool has_avx2(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_F16C)) return false;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}
#endif

/* Best first. */
static const set_entry sets[] = {
#ifdef PP_MORE_SETS
    {&pp_blocks_avx512, pp_blocks_complete_avx512, has_avx512},
    {&pp_blocks_avx2, pp_blocks_complete_avx2, has_avx2},
#endif
    {&pp_blocks_baseline, pp_blocks_complete_baseline, always},
};

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void complete_all(void)
{
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) sets[i].complete();
}

const pp_block_set *pp_blocks_find(const char *name)
{
    (void)pthread_once(&once, complete_all);
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if ((!name || strcmp(name, sets[i].set->name) == 0) && sets[i].runs_here()) return sets[i].set;
    return NULL;
}

pp_function_loop pp_blocks_function(const pp_block_set *set, uint64_t hash)
{
    size_t low = 0, high = set->n_functions;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (set->functions[middle].hash < hash)
            low = middle + 1;
        else
            high = middle;
    }
    return low < set->n_functions && set->functions[low].hash == hash ? set->functions[low].loop : NULL;
}

static uint64_t hash_of(const pp_function *function)
{
    return function ? function->hash : 0;
}

const pp_fold_loops *pp_blocks_fold(const pp_block_set *set, const pp_fold *fold)
{
    const uint64_t lift = pp_fold_lift_key(fold), step = hash_of(fold->step), join = hash_of(fold->join);
    for (size_t i = 0; i < set->n_folds; i++) {
        const pp_fold_loops *loops = &set->folds[i];
        if (loops->lift == lift && loops->step == step && loops->join == join) return loops;
    }
    return NULL;
}
