/* SPDX-License-Identifier: Apache-2.0
 * The library itself, for the files that implement it. */
#ifndef PP_LIBRARY_STATE_H
#define PP_LIBRARY_STATE_H

#include <pthread.h>

#include "graph/library_scan.h"

typedef struct pp_owned_unit {
    pp_unit *unit;
    void (*destroy)(pp_unit *);
} pp_owned_unit;

typedef struct pp_memo {
    const uint64_t *key;
    size_t n;
    const void *value;
} pp_memo;

/* A name or an alias of a definition that was read. */
typedef struct pp_library_name {
    const char *name;
    pp_definition *definition;
    const pp_unit *unit; /* that brought the name */
} pp_library_name;

struct pp_library {
    pthread_mutex_t mutex;
    pp_shelf shelf;
    PP_VEC(pp_owned_unit) units;
    PP_VEC(pp_library_name) names; /* in no order */
    pp_map by_name;                /* names */
    PP_VEC(const pp_function *) functions;
    PP_VEC(const pp_monoid *) monoids;
    PP_VEC(const pp_table *) tables;
    PP_VEC(pp_memo) memos;
    PP_VEC(const char *) files;
    pp_map by_function, by_monoid, by_table, by_key, by_file;
    pp_types *scratch;
    pp_arena arena;
};

#endif
