/* SPDX-License-Identifier: Apache-2.0
 * What the library keeps one copy of: scalar functions, folds, tables, and the memos of what was built.
 * Copies are deep and live as long as the library. */
#define _XOPEN_SOURCE 700
#include <string.h>

#include "graph/library_state.h"

static void *copy_bytes(pp_library *library, const void *bytes, size_t size, bool *ok)
{
    if (size == 0) return NULL;
    void *copy = pp_arena_alloc(&library->arena, size);
    if (copy != NULL) memcpy(copy, bytes, size);
    *ok = *ok && copy != NULL;
    return copy;
}

/* ---- names of texts: places of recorded calls outlive the graph -------------------------------------- */

typedef struct file_key {
    const pp_library *library;
    const char *file;
} file_key;

static bool same_file(const void *context, uint32_t value)
{
    const file_key *key = context;
    return strcmp(key->library->files.at[value], key->file) == 0;
}

static const char *intern_file(pp_library *library, const char *file)
{
    uint32_t at;
    bool ok = true;
    file_key key = {library, file};
    uint64_t hash = pp_hash_bytes(file, strlen(file), 29);
    if (pp_map_find(&library->by_file, hash, same_file, &key, &at)) return library->files.at[at];
    const char *copy = copy_bytes(library, file, strlen(file) + 1, &ok);
    if (!ok || pp_vec_push(&library->files, copy) != PPTO_OK) return NULL;
    if (pp_map_insert(&library->by_file, hash, (uint32_t)library->files.n - 1) == PPTO_OK) return copy;
    library->files.n--;
    return NULL;
}

const char *pp_library_file(pp_library *library, const char *file)
{
    pp_library_lock(library);
    const char *own = intern_file(library, file);
    pp_library_unlock(library);
    return own;
}

/* ---- tables ------------------------------------------------------------------------------------------ */

static uint64_t hash_table(const pp_table *table)
{
    uint64_t hash = pp_hash_mix(pp_hash_mix(3, table->dtype), table->length);
    for (uint32_t i = 0; i < table->length; i++) hash = pp_hash_mix(hash, table->bits[i]);
    return hash;
}

typedef struct table_key {
    const pp_library *library;
    const pp_table *table;
} table_key;

static bool same_table(const void *context, uint32_t value)
{
    const table_key *key = context;
    const pp_table *x = key->library->tables.at[value], *y = key->table;
    return x->dtype == y->dtype && x->length == y->length &&
           memcmp(x->bits, y->bits, x->length * sizeof *x->bits) == 0;
}

static const pp_table *intern_table(pp_library *library, const pp_table *table)
{
    uint32_t at;
    bool ok = true;
    table_key key = {library, table};
    uint64_t hash = hash_table(table);
    if (pp_map_find(&library->by_table, hash, same_table, &key, &at)) return library->tables.at[at];
    pp_table *copy = copy_bytes(library, table, sizeof *table, &ok);
    const uint64_t *bits = copy_bytes(library, table->bits, table->length * sizeof *table->bits, &ok);
    if (!ok || pp_vec_push(&library->tables, copy) != PPTO_OK) return NULL;
    copy->bits = bits;
    if (pp_map_insert(&library->by_table, hash, (uint32_t)library->tables.n - 1) != PPTO_OK) return NULL;
    return copy;
}

const pp_table *pp_library_table(pp_library *library, const pp_table *table)
{
    pp_library_lock(library);
    const pp_table *own = intern_table(library, table);
    pp_library_unlock(library);
    return own;
}

static ppto_status copy_function(pp_library *library, const pp_function *function, const pp_function **out)
{
    bool ok = true;
    pp_function *copy = copy_bytes(library, function, sizeof *function, &ok);
    if (copy == NULL) return PPTO_E_NOMEM;
    copy->name = copy_bytes(library, function->name, strlen(function->name) + 1, &ok);
    copy->code = copy_bytes(library, function->code, function->n_code * sizeof *function->code, &ok);
    copy->operands =
        copy_bytes(library, function->operands, function->n_operands * sizeof *function->operands, &ok);
    copy->consts = copy_bytes(library, function->consts, function->n_consts * sizeof *function->consts, &ok);
    copy->callees = copy_bytes(library, function->callees, function->n_callees * sizeof(pp_function *), &ok);
    pp_table *tables =
        copy_bytes(library, function->tables, function->n_tables * sizeof *function->tables, &ok);
    for (uint32_t i = 0; ok && i < function->n_tables; i++) {
        const pp_table *table = intern_table(library, &function->tables[i]);
        if (table == NULL) return PPTO_E_NOMEM;
        tables[i] = *table;
    }
    copy->tables = tables;
    *out = copy;
    return ok ? PPTO_OK : PPTO_E_NOMEM;
}

typedef struct function_key {
    const pp_library *library;
    const pp_function *function;
} function_key;

static bool same_function(const void *context, uint32_t value)
{
    const function_key *key = context;
    const pp_function *x = key->library->functions.at[value], *y = key->function;
    return x->hash == y->hash && x->n_code == y->n_code && x->n_params == y->n_params &&
           x->n_results == y->n_results && memcmp(x->param, y->param, sizeof x->param) == 0;
}

ppto_status pp_library_function(pp_library *library, const pp_function *function, const pp_function **out)
{
    uint32_t at;
    function_key key = {library, function};
    ppto_status status = PPTO_OK;
    pp_library_lock(library);
    if (pp_map_find(&library->by_function, function->hash, same_function, &key, &at)) {
        *out = library->functions.at[at];
    } else {
        status = copy_function(library, function, out);
        if (status == PPTO_OK) status = pp_vec_push(&library->functions, *out);
        if (status == PPTO_OK)
            status = pp_map_insert(&library->by_function, function->hash, (uint32_t)library->functions.n - 1);
    }
    pp_library_unlock(library);
    return status;
}

static uint64_t function_hash(const pp_function *function)
{
    return function != NULL ? function->hash : 0;
}

static uint64_t hash_monoid(const pp_monoid *m)
{
    uint64_t hash = pp_hash_bytes(&m->n_states, 3, 17);
    hash = pp_hash_mix(hash, pp_hash_bytes(m->state, sizeof m->state, 1) ^
                                 pp_hash_bytes(m->result, sizeof m->result, 2));
    hash = pp_hash_mix(hash, (uint64_t)m->joined << 3 | (uint64_t)m->position << 2 |
                                 (uint64_t)m->ordered << 1 | m->has_unit);
    hash = pp_hash_mix(pp_hash_mix(hash, function_hash(m->lift)), function_hash(m->step));
    hash = pp_hash_mix(pp_hash_mix(hash, function_hash(m->join)), function_hash(m->finish));
    return pp_hash_mix(hash, pp_hash_bytes(m->unit, sizeof m->unit, 5));
}

typedef struct monoid_key {
    const pp_library *library;
    const pp_monoid *monoid;
} monoid_key;

static bool same_monoid(const void *context, uint32_t value)
{
    const monoid_key *key = context;
    const pp_monoid *x = key->library->monoids.at[value], *y = key->monoid;
    return x->n_states == y->n_states && x->n_inputs == y->n_inputs && x->n_results == y->n_results &&
           memcmp(x->state, y->state, sizeof x->state) == 0 &&
           memcmp(x->result, y->result, sizeof x->result) == 0 && x->joined == y->joined &&
           x->position == y->position && x->ordered == y->ordered && x->lift == y->lift &&
           x->step == y->step && x->join == y->join && x->finish == y->finish && x->has_unit == y->has_unit &&
           memcmp(x->unit, y->unit, sizeof x->unit) == 0;
}

ppto_status pp_library_monoid(pp_library *library, const pp_monoid *monoid, const pp_monoid **out)
{
    uint32_t at;
    bool ok = true;
    monoid_key key = {library, monoid};
    uint64_t hash = hash_monoid(monoid);
    ppto_status status = PPTO_OK;
    pp_library_lock(library);
    if (pp_map_find(&library->by_monoid, hash, same_monoid, &key, &at)) {
        *out = library->monoids.at[at];
    } else {
        pp_monoid *copy = copy_bytes(library, monoid, sizeof *monoid, &ok);
        if (copy != NULL) copy->name = copy_bytes(library, monoid->name, strlen(monoid->name) + 1, &ok);
        status = ok ? pp_vec_push(&library->monoids, copy) : PPTO_E_NOMEM;
        if (status == PPTO_OK)
            status = pp_map_insert(&library->by_monoid, hash, (uint32_t)library->monoids.n - 1);
        *out = copy;
    }
    pp_library_unlock(library);
    return status;
}

/* ---- memos ----------------------------------------------------------------------------------------- */

typedef struct memo_key {
    const pp_library *library;
    const pp_key *key;
} memo_key;

static bool same_key(const void *context, uint32_t value)
{
    const memo_key *key = context;
    const pp_memo *m = &key->library->memos.at[value];
    return m->n == key->key->n && memcmp(m->key, key->key->at, m->n * sizeof *m->key) == 0;
}

static uint64_t hash_key(const pp_key *key)
{
    return pp_hash_bytes(key->at, key->n * sizeof *key->at, 23);
}

const void *pp_library_memo_find(pp_library *library, const pp_key *key)
{
    uint32_t at;
    memo_key context = {library, key};
    return pp_map_find(&library->by_key, hash_key(key), same_key, &context, &at) ? library->memos.at[at].value
                                                                                 : NULL;
}

ppto_status pp_library_memo_add(pp_library *library, const pp_key *key, const void *value, size_t bytes)
{
    bool ok = true;
    pp_memo m = {.n = key->n};
    m.key = copy_bytes(library, key->at, key->n * sizeof *key->at, &ok);
    m.value = copy_bytes(library, value, bytes, &ok);
    if (!ok) return PPTO_E_NOMEM;
    PP_TRY(pp_vec_push(&library->memos, m));
    return pp_map_insert(&library->by_key, hash_key(key), (uint32_t)library->memos.n - 1);
}
