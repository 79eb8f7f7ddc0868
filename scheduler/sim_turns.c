/* SPDX-License-Identifier: Apache-2.0
 * Turns of simulated runs. Seats are kept in the order of the runs' numbers, and only whoever has the turn
 * draws, so nothing depends on which thread was faster. A run leaves when all of it is over, its streams too
 * (pp_executor_left); one that fails before its first step only lowers the number of those that are awaited.
 */
#include "scheduler/sim_turns.h"

typedef struct seat {
    uint64_t number;
    int64_t deadline_ns;
    bool rests;
    pthread_cond_t turn;
} seat;

struct pp_sim_turns {
    pthread_mutex_t lock; /* of all below */
    uint64_t state;
    uint32_t awaited, n; /* runs to come; seats taken */
    bool began;
    seat *now;
    seat *order[PP_SIM_RUNS];
    seat seats[PP_SIM_RUNS];
};

static _Thread_local seat *mine; /* of the run that this thread has */

/* ---- life -------------------------------------------------------------------------------------- */

ppto_status pp_sim_turns_make(pp_sim_turns **out)
{
    pp_sim_turns *turns = pp_calloc(1, sizeof *turns);
    if (turns == NULL) return PPTO_E_NOMEM;
    (void)pthread_mutex_init(&turns->lock, NULL); /* neither allocates: they do not fail */
    for (int i = 0; i < PP_SIM_RUNS; i++) (void)pthread_cond_init(&turns->seats[i].turn, NULL);
    *out = turns;
    return PPTO_OK;
}

void pp_sim_turns_free(pp_sim_turns *turns)
{
    if (turns == NULL) return;
    for (int i = 0; i < PP_SIM_RUNS; i++) pthread_cond_destroy(&turns->seats[i].turn);
    pthread_mutex_destroy(&turns->lock);
    pp_free(turns);
}

void pp_sim_turns_begin(pp_sim_turns *turns, uint64_t seed, uint32_t runs)
{
    pthread_mutex_lock(&turns->lock);
    turns->state = seed;
    turns->awaited = runs < PP_SIM_RUNS ? runs : PP_SIM_RUNS;
    turns->n = 0;
    turns->began = false;
    turns->now = NULL;
    pthread_mutex_unlock(&turns->lock);
}

/* ---- with the lock ----------------------------------------------------------------------------- */

static uint32_t below(pp_sim_turns *turns, uint32_t n)
{
    turns->state = pp_hash_mix(turns->state, 0x9e3779b97f4a7c15u);
    return (uint32_t)(turns->state >> 33) % n;
}

/* Draws among those who do not rest; false: there is none. */
static bool hand_over(pp_sim_turns *turns)
{
    uint32_t n = 0, at;
    for (uint32_t i = 0; i < turns->n; i++) n += !turns->order[i]->rests;
    turns->now = NULL;
    if (n == 0) return false;
    at = below(turns, n);
    for (uint32_t i = 0; turns->now == NULL; i++)
        if (!turns->order[i]->rests && at-- == 0) turns->now = turns->order[i];
    pthread_cond_signal(&turns->now->turn);
    return true;
}

static void all_look(pp_sim_turns *turns)
{
    for (uint32_t i = 0; i < turns->n; i++) turns->order[i]->rests = false;
}

static void begin_if_all_came(pp_sim_turns *turns)
{
    if (turns->awaited != 0 || turns->began) return;
    turns->began = true;
    (void)hand_over(turns);
}

static seat *free_seat(pp_sim_turns *turns)
{
    for (int i = 0; i < PP_SIM_RUNS; i++) {
        bool taken = false;
        for (uint32_t k = 0; k < turns->n; k++) taken = taken || turns->order[k] == &turns->seats[i];
        if (!taken) return &turns->seats[i];
    }
    return NULL;
}

static void sit_down(pp_sim_turns *turns, uint64_t number)
{
    uint32_t at = turns->n++;
    mine = free_seat(turns);
    mine->number = number;
    mine->rests = false;
    for (; at > 0 && turns->order[at - 1]->number > number; at--) turns->order[at] = turns->order[at - 1];
    turns->order[at] = mine;
}

/* ---- turns ------------------------------------------------------------------------------------- */

uint32_t pp_sim_turns_enter(pp_sim_turns *turns, uint64_t number, int64_t deadline_ns)
{
    uint32_t lower = 0;
    pthread_mutex_lock(&turns->lock);
    if (mine == NULL && turns->awaited != 0) {
        sit_down(turns, number);
        turns->awaited--;
        begin_if_all_came(turns);
        while (turns->now != mine) pthread_cond_wait(&mine->turn, &turns->lock);
    }
    if (mine != NULL) mine->deadline_ns = deadline_ns;
    for (uint32_t i = 0; mine != NULL && turns->order[i] != mine; i++) lower++;
    pthread_mutex_unlock(&turns->lock);
    return lower;
}

void pp_sim_turns_next(pp_sim_turns *turns, bool did)
{
    if (mine == NULL) return;
    pthread_mutex_lock(&turns->lock);
    if (did) all_look(turns);
    (void)hand_over(turns);
    while (turns->now != mine) pthread_cond_wait(&mine->turn, &turns->lock);
    pthread_mutex_unlock(&turns->lock);
}

bool pp_sim_turns_rest(pp_sim_turns *turns, bool did)
{
    if (mine == NULL) return false;
    pthread_mutex_lock(&turns->lock);
    if (did) all_look(turns);
    mine->rests = true;
    bool others = hand_over(turns);
    while (others && turns->now != mine) pthread_cond_wait(&mine->turn, &turns->lock);
    if (!others) turns->now = mine;
    mine->rests = false;
    pthread_mutex_unlock(&turns->lock);
    return others;
}

int64_t pp_sim_turns_deadline(pp_sim_turns *turns, int64_t now_ns)
{
    int64_t first = INT64_MAX;
    pthread_mutex_lock(&turns->lock);
    for (uint32_t i = 0; i < turns->n; i++) {
        int64_t one = turns->order[i]->deadline_ns;
        if (one > now_ns && one < first) first = one;
    }
    pthread_mutex_unlock(&turns->lock);
    return first;
}

void pp_executor_left(pp_executor *executor)
{
    pp_sim_turns *turns = executor->turns;
    if (turns == NULL) return;
    pthread_mutex_lock(&turns->lock);
    if (mine == NULL && turns->awaited != 0) {
        turns->awaited--;
        begin_if_all_came(turns);
    }
    if (mine != NULL) {
        uint32_t at = 0;
        while (turns->order[at] != mine) at++;
        for (turns->n--; at < turns->n; at++) turns->order[at] = turns->order[at + 1];
        mine = NULL;
        all_look(turns);
        (void)hand_over(turns);
    }
    pthread_mutex_unlock(&turns->lock);
}
