/* SPDX-License-Identifier: Apache-2.0
 * Work of a thread that must not be under way when the process ends: a door that the end closes. */
#ifndef PPTO_DEVICES_CPU_LOOP_EXIT_H
#define PPTO_DEVICES_CPU_LOOP_EXIT_H

#include <stdbool.h>

/* From a call that comes from the main thread on, that thread closes the door when it ends the process,
 * before any handler of exit, and waits for who is inside. Calls of other threads do nothing. The door stays
 * shut also if the main thread alone ends (pthread_exit). Any thread. */
void pp_exit_watch(void);

/* Goes in; false: the process ends, and the work must not begin. One thread at a time. */
bool pp_exit_enter(void);

/* Comes out; the thread that went in. */
void pp_exit_leave(void);

#endif
