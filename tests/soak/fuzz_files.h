/* SPDX-License-Identifier: Apache-2.0
 * The files of simulated runs: sources that are there, results over old files, and an I/O engine of which a
 * seed decides how long calls take, which are short, and which fail. */
#ifndef FUZZ_FILES_H
#define FUZZ_FILES_H

#include "runtime/runtime.h"

enum { FILE_SOURCES = 4, FILE_ELEMENTS = 12 };

bool files_begin(ppto_context *simulated); /* makes the folder and the sources */
bool files_end(void);                      /* removes all; false: something else was there, or is open */

/* For a case: a new engine of the simulated context, and how many of 8 sources are not there when runs open
 * them. The other way round for what compares with it. */
bool files_case_begin(uint64_t seed, int64_t now_ns);
void files_case_end(void);
void files_are_there(bool all);
/* Lets time pass to the next call of the engine, if there is one. True: it did something. */
bool files_move(int64_t *now_ns);

const char *files_source(uint32_t which);
/* The path of a result; an old file is put there. Then the same as a source. */
const char *files_result(uint32_t run, uint32_t output);
const char *files_stored(uint32_t run, uint32_t output);

typedef enum file_state { FILE_OLD, FILE_RIGHT, FILE_WRONG } file_state;
/* want: NULL where it is not known, as a group of its operators failed as a whole; then any are right. */
file_state files_look(uint32_t run, uint32_t output, const ppto_array *want);

#endif
