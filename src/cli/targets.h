/* SPDX-License-Identifier: Apache-2.0
 * What -o says: results and the files they go to. Every -o is matched with a result before anything is
 * compiled, so that only what is asked for is computed. */
#ifndef PPTO_CLI_TARGETS_H
#define PPTO_CLI_TARGETS_H

#include "recording.h"

/* One -o: a result and where it goes. Those of one archive are written together, with the first of them. */
typedef struct cli_target {
    size_t result; /* of the text */
    const char *path;
    size_t archive; /* bytes of path that name the archive; 0: it is none */
    size_t first;   /* the first target of the same archive; itself */
} cli_target;

typedef struct cli_targets {
    const cli_recording *recording;
    const cli_arguments *arguments;
    bool printed; /* results are wanted on standard output too */
    size_t n;
    cli_target *at;
    size_t n_chosen; /* results that some target wants, in the order of the text; all of them without -o */
    size_t *chosen;
} cli_targets;

/* Free also after a failure. */
int cli_targets_read(cli_targets *targets, const cli_recording *recording, const cli_arguments *arguments,
                     bool printed);
void cli_targets_free(cli_targets *targets);
/* The name in its archive: what follows the colon, else the result's own; NULL when it has none. */
const char *cli_target_name(const cli_targets *targets, const cli_target *target);
size_t cli_target_result(const cli_targets *targets, size_t which); /* its place among the chosen */
/* The run writes it as it goes, unless the result is wanted elsewhere too. */
bool cli_target_by_run(const cli_targets *targets, size_t which);
/* Why a result is whole in memory that otherwise goes to its file by pieces; false: none is. */
bool cli_targets_whole(const cli_targets *targets, char *why, size_t room);
/* Tells the compiled program where its run writes. */
ppto_status cli_targets_bind(const cli_targets *targets);

#endif
