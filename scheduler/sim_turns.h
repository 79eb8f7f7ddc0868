/* SPDX-License-Identifier: Apache-2.0
 * Several runs under one simulator: each has its thread, and one of them its turn. Who is next is drawn, so
 * runs interleave task by task in an order that comes from the seed alone. Only where the world says how many
 * runs there will be (pp_sim_world.runs); else all of this does nothing. */
#ifndef PP_SIM_TURNS_H
#define PP_SIM_TURNS_H

#include "scheduler/executor.h"

enum { PP_SIM_RUNS = 8 }; /* at most */

ppto_status pp_sim_turns_make(pp_sim_turns **out);
void pp_sim_turns_free(pp_sim_turns *turns); /* NULL is fine */
/* A world begins: no run takes part yet. */
void pp_sim_turns_begin(pp_sim_turns *turns, uint64_t seed, uint32_t runs);

/* The calling thread's run takes part, once all that will are there, and has its turn. number: orders the
 * runs. deadline_ns: 0: none. A later dispatch of the same run changes nothing but the deadline. Returns how
 * many runs have a lower number. */
uint32_t pp_sim_turns_enter(pp_sim_turns *turns, uint64_t number, int64_t deadline_ns);
/* Somebody's turn, drawn: this one's or another's. did: this one did something, so others may have something
 * to do now. Returns with the turn. */
void pp_sim_turns_next(pp_sim_turns *turns, bool did);
/* This one has nothing to do; did: as above. False: nobody has, and it keeps the turn. True: others had a
 * turn meanwhile. */
bool pp_sim_turns_rest(pp_sim_turns *turns, bool did);
/* The first deadline of all who rest, after now_ns; INT64_MAX: none. */
int64_t pp_sim_turns_deadline(pp_sim_turns *turns, int64_t now_ns);

#endif
