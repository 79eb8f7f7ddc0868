/* SPDX-License-Identifier: Apache-2.0
 * Scopes: a plain list while there are few names, then buckets, so that a text of a million assignments is
 * no slower per name than a short one. See scope.h. */
#include "graph/scope.h"

#include <string.h>

enum { FEW = 16 };

static uint32_t hash_name(const char *name)
{
    return (uint32_t)pp_hash_bytes(name, strlen(name), 29);
}

static void link_row(pp_scope *scope, uint32_t i)
{
    pp_scope_row *row = &scope->rows.at[i];
    uint32_t *last = &scope->last[row->hash & (scope->n_buckets - 1)];
    row->before = *last;
    *last = i;
}

static ppto_status make_buckets(pp_scope *scope, uint32_t n)
{
    uint32_t *last = pp_alloc(n * sizeof *last);
    if (last == NULL) return PPTO_E_NOMEM;
    for (uint32_t i = 0; i < n; i++) last[i] = PP_SCOPE_NONE;
    pp_free(scope->last);
    scope->last = last;
    scope->n_buckets = n;
    for (uint32_t i = 0; i < scope->rows.n; i++) link_row(scope, i);
    return PPTO_OK;
}

ppto_status pp_scope_push(pp_scope *scope, const char *name)
{
    pp_scope_row row = {name, hash_name(name), PP_SCOPE_NONE};
    if (scope->rows.n >= PP_SCOPE_NONE) return PPTO_E_NOMEM;
    PP_TRY(pp_vec_push(&scope->rows, row));
    if (scope->rows.n <= FEW && scope->last == NULL) return PPTO_OK;
    if (scope->rows.n > scope->n_buckets) {
        ppto_status status = make_buckets(scope, scope->n_buckets == 0 ? 4 * FEW : 2 * scope->n_buckets);
        if (status != PPTO_OK) scope->rows.n--;
        return status;
    }
    link_row(scope, (uint32_t)scope->rows.n - 1);
    return PPTO_OK;
}

static bool is_name(const pp_scope_row *row, uint32_t hash, const char *name)
{
    return row->hash == hash && strcmp(row->name, name) == 0;
}

uint32_t pp_scope_find(const pp_scope *scope, const char *name, size_t base)
{
    uint32_t hash = hash_name(name);
    if (scope->last == NULL) {
        for (size_t i = scope->rows.n; i > base; i--)
            if (is_name(&scope->rows.at[i - 1], hash, name)) return (uint32_t)i - 1;
        return PP_SCOPE_NONE;
    }
    uint32_t i = scope->last[hash & (scope->n_buckets - 1)];
    while (i != PP_SCOPE_NONE && i >= base && !is_name(&scope->rows.at[i], hash, name))
        i = scope->rows.at[i].before;
    return i != PP_SCOPE_NONE && i >= base ? i : PP_SCOPE_NONE;
}

void pp_scope_cut(pp_scope *scope, size_t n)
{
    for (; scope->rows.n > n; scope->rows.n--) {
        const pp_scope_row *row = &scope->rows.at[scope->rows.n - 1];
        if (scope->last != NULL) scope->last[row->hash & (scope->n_buckets - 1)] = row->before;
    }
}

void pp_scope_free(pp_scope *scope)
{
    pp_vec_free(&scope->rows);
    pp_free(scope->last);
    scope->last = NULL;
    scope->n_buckets = 0;
}
