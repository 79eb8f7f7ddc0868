/* SPDX-License-Identifier: Apache-2.0
 * Reading JSON without a tree: the caller asks for what it expects, and skips what it does not know.
 *
 * The first failure stays in `status` and err, with its place; from then on everything reads as empty and
 * every list ends, so a caller checks once at the end. The text may be anybody's; depth is bounded. */
#ifndef PP_JSON_H
#define PP_JSON_H

#include "base/base.h"

enum { PP_JSON_KEY = 48 }; /* room for a key; longer ones are cut */

typedef struct pp_json {
    const char *at, *start, *end;
    pp_arena *arena; /* of strings */
    pp_error *err;
    ppto_status status;
} pp_json;

void pp_json_open(pp_json *json, const char *text, size_t n, pp_arena *arena, pp_error *err);
void pp_json_fail(pp_json *json, ppto_status status, const char *what);

/* A list or object begins with pp_json_begin of '[' or '{'; then `first` is true, and the next element or key
 * is there while these say so. */
void pp_json_begin(pp_json *json, char c);
bool pp_json_next(pp_json *json, bool *first, char end);
bool pp_json_key(pp_json *json, bool *first, char key[PP_JSON_KEY]);

const char *pp_json_string(pp_json *json); /* in the arena; "" after a failure */
uint64_t pp_json_number(pp_json *json);    /* whole, not negative */
double pp_json_real(pp_json *json);
bool pp_json_boolean(pp_json *json);
void pp_json_skip(pp_json *json); /* any value */
void pp_json_end(pp_json *json);  /* nothing but blanks may follow */

#endif
