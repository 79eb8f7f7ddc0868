/* SPDX-License-Identifier: Apache-2.0
 * NAME=VALUE: what an input of a text is bound to.
 *
 * The value is a specification when it begins with a dtype and "[" (f32[4,N]:random(7)), a number when all of
 * it reads as one, else a file; "-" is the file on standard input. */
#ifndef PPTO_CLI_BINDING_H
#define PPTO_CLI_BINDING_H

#include "cli.h"
#include "ppto/array.h"
#include "ppto/types.h"

typedef enum cli_kind { CLI_FILE, CLI_SPEC, CLI_NUMBER } cli_kind;

enum { CLI_DIMS_ROOM = 1024 };

typedef struct cli_binding {
    char *name;
    const char *value; /* borrowed from argv */
    size_t position;   /* among the operands */
    cli_kind kind;
    /* SPEC */
    ppto_dtype dtype;
    int rank;
    int64_t shape[PPTO_MAX_RANK]; /* where not open */
    char dims[CLI_DIMS_ROOM];     /* the text between the brackets */
    bool open;                    /* it has named sizes */
    const char *filler;
    /* NUMBER */
    bool is_float;
    double number;
    int64_t integer;
    bool wide; /* integer holds the bits of a u64: beyond i64, so it is no weak number but a u64 */

    ppto_array *array; /* after cli_binding_fetch; NULL while sizes are open */
    bool used;         /* the text asked for it, or declares it */
    bool declared;     /* by the text; else its name was free and the binding gave the type */
} cli_binding;

typedef struct cli_bindings {
    size_t n;
    cli_binding *at;
} cli_bindings;

/* Reads the operands after the first. returns  CLI_OK; CLI_USAGE; CLI_LIMIT   owns  cli_bindings_free */
int cli_bindings_read(cli_bindings *bindings, const cli_list *operands, bool may_be_open);
void cli_bindings_free(cli_bindings *bindings);
cli_binding *cli_bindings_find(const cli_bindings *bindings, const char *name);

/* Loads, fills or makes binding->array, once. without_data: a specification gets its shape only, no memory
 * behind it; such an array must not be run. */
int cli_binding_fetch(cli_binding *binding, ppto_context *ctx, bool without_data, bool from_file);

/* Turns a number into an array of rank 0 of exactly this dtype, for an input that is declared so. A number
 * that the dtype does not hold, or of another kind, is CLI_USAGE. */
int cli_binding_number(cli_binding *binding, ppto_context *ctx, ppto_dtype dtype);

/* A name as the language has it: a letter or _, then letters, digits, _. */
size_t cli_name_length(const char *text);

#endif
