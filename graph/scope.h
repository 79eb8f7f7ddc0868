/* SPDX-License-Identifier: Apache-2.0
 * Names in order of appearance, found from the last one back: the variables of a body. Leaving a body cuts
 * its names off, so each bucket is a chain of positions that only its end changes. */
#ifndef PP_SCOPE_H
#define PP_SCOPE_H

#include "base/base.h"

typedef struct pp_scope_row {
    const char *name;      /* borrowed */
    uint32_t hash, before; /* the row before in its bucket, PP_SCOPE_NONE: none */
} pp_scope_row;

typedef struct pp_scope {
    PP_VEC(pp_scope_row) rows;
    uint32_t *last; /* of each bucket; NULL while there are few names */
    uint32_t n_buckets;
} pp_scope; /* zero-initialised is empty */

enum { PP_SCOPE_NONE = UINT32_MAX >> 1 };

ppto_status pp_scope_push(pp_scope *scope, const char *name);
/* The last row of that name from `base` on, PP_SCOPE_NONE when there is none. */
uint32_t pp_scope_find(const pp_scope *scope, const char *name, size_t base);
void pp_scope_cut(pp_scope *scope, size_t n); /* keeps the first n rows */
void pp_scope_free(pp_scope *scope);

#endif
