/* SPDX-License-Identifier: Apache-2.0
 * Definitions by name, and what is interned: scalar functions, folds, tables. One recursive mutex guards
 * everything; what was handed out is never changed or freed before the library is.
 *
 * Names and aliases share one map. Properties that follow from the text alone (elementwise, depends on
 * literal values, recursion) are in library_scan.c. */
#define _XOPEN_SOURCE 700
#include <stdlib.h>
#include <string.h>

#include "graph/library_state.h"

void pp_library_lock(pp_library *library)
{
    pthread_mutex_lock(&library->mutex);
}
void pp_library_unlock(pp_library *library)
{
    pthread_mutex_unlock(&library->mutex);
}
pp_types *pp_library_scratch(pp_library *library)
{
    return library->scratch;
}
pp_arena *pp_library_arena(pp_library *library)
{
    return &library->arena;
}

/* Locking does not change what a caller sees. */
static void lock_const(const pp_library *library)
{
    pp_library_lock((pp_library *)(uintptr_t)library);
}
static void unlock_const(const pp_library *library)
{
    pp_library_unlock((pp_library *)(uintptr_t)library);
}

ppto_status pp_library_create(pp_library **out)
{
    *out = NULL;
    pp_library *library = pp_calloc(1, sizeof *library);
    if (library == NULL) return PPTO_E_NOMEM;
    if (pp_types_create(&library->scratch) != PPTO_OK) {
        pp_free(library);
        return PPTO_E_NOMEM;
    }
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&library->mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    *out = library;
    return PPTO_OK;
}

void pp_library_destroy(pp_library *library)
{
    if (library == NULL) return;
    for (size_t i = 0; i < library->units.n; i++) library->units.at[i].destroy(library->units.at[i].unit);
    pp_vec_free(&library->units);
    pp_vec_free(&library->names);
    pp_vec_free(&library->entries);
    pp_vec_free(&library->functions);
    pp_vec_free(&library->monoids);
    pp_vec_free(&library->tables);
    pp_vec_free(&library->memos);
    pp_map_free(&library->by_name);
    pp_map_free(&library->by_function);
    pp_map_free(&library->by_monoid);
    pp_map_free(&library->by_table);
    pp_map_free(&library->by_key);
    pp_types_destroy(library->scratch);
    pp_arena_free(&library->arena);
    pthread_mutex_destroy(&library->mutex);
    pp_free(library);
}

/* ---- names ----------------------------------------------------------------------------------------- */

static uint64_t hash_name(const char *name)
{
    return pp_hash_bytes(name, strlen(name), 11);
}

typedef struct name_key {
    const pp_library *library;
    const char *name;
} name_key;

static bool same_name(const void *context, uint32_t value)
{
    const name_key *key = context;
    return strcmp(key->library->names.at[value].name, key->name) == 0;
}

static const pp_library_name *find_name(const pp_library *library, const char *name)
{
    uint32_t at;
    name_key key = {library, name};
    return pp_map_find(&library->by_name, hash_name(name), same_name, &key, &at) ? &library->names.at[at]
                                                                                 : NULL;
}

const pp_definition *pp_library_find(const pp_library *library, const char *name)
{
    lock_const(library);
    const pp_library_name *found = find_name(library, name);
    const pp_definition *definition = found != NULL ? found->definition : NULL;
    unlock_const(library);
    return definition;
}

const char *pp_library_nearest(const pp_library *library, const char *name)
{
    const char *best = NULL;
    unsigned least = strlen(name) < 4 ? 2 : 3;
    lock_const(library);
    for (size_t i = 0; i < library->names.n; i++) {
        const char *own = library->names.at[i].name;
        unsigned distance = own[0] == '_' ? least : pp_text_distance(name, own);
        if (distance >= least) continue;
        least = distance;
        best = own;
    }
    unlock_const(library);
    return best;
}

size_t pp_library_count(const pp_library *library)
{
    lock_const(library);
    size_t n = library->entries.n;
    unlock_const(library);
    return n;
}

const pp_definition *pp_library_at(const pp_library *library, size_t i)
{
    lock_const(library);
    const pp_definition *definition = i < library->entries.n ? library->entries.at[i].definition : NULL;
    unlock_const(library);
    return definition;
}

size_t pp_library_aliases(const pp_library *library, const pp_definition *definition, const char **out,
                          size_t max)
{
    size_t n = 0;
    lock_const(library);
    for (size_t i = 0; i < library->names.n && n < max; i++) {
        const pp_library_name *name = &library->names.at[i];
        if (name->definition == definition && strcmp(name->name, definition->name) != 0)
            out[n++] = name->name;
    }
    unlock_const(library);
    return n;
}

static pp_library_entry *find_entry(const pp_library *library, const char *name)
{
    size_t low = 0, high = library->entries.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(library->entries.at[middle].definition->name, name);
        if (order == 0) return &library->entries.at[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

pp_library_entry *pp_library_entry_of(const pp_library *library, const char *name)
{
    const pp_library_name *found = find_name(library, name);
    return found != NULL ? find_entry(library, found->definition->name) : NULL;
}

/* The same text from the name to the end, and the same kind. */
static bool same_definition(const pp_definition *a, const pp_definition *b)
{
    const char *x = a->owner->source + a->at, *y = b->owner->source + b->at;
    size_t n = a->end - a->at;
    return a->is_fold == b->is_fold && a->ordered == b->ordered && n == b->end - b->at &&
           memcmp(x, y, n) == 0;
}

bool pp_library_has(const pp_library *library, const pp_unit *unit)
{
    bool all = true;
    lock_const(library);
    for (const pp_definition *d = unit->definitions; d != NULL && all; d = d->next) {
        const pp_library_name *found = find_name(library, d->name);
        all = found != NULL && same_definition(found->definition, d);
    }
    unlock_const(library);
    return all;
}

/* ---- adding a unit ----------------------------------------------------------------------------------- */

static ppto_status add_name(pp_library *library, const pp_unit *unit, const char *name, uint32_t at,
                            const pp_definition *definition, bool builtin, pp_error *err)
{
    const pp_library_name *taken = find_name(library, name);
    if (taken != NULL) {
        return pp_unit_fail(
            unit, at, err, PPTO_E_NAME, "the name `%.60s` is taken by %s, expected another", name,
            taken->definition->builtin && !builtin ? "a shipped operator" : "another definition");
    }
    pp_library_name row = {name, definition};
    PP_TRY(pp_vec_push(&library->names, row));
    return pp_map_insert(&library->by_name, hash_name(name), (uint32_t)library->names.n - 1);
}

static int by_definition_name(const void *a, const void *b)
{
    const pp_library_entry *x = a, *y = b;
    return strcmp(x->definition->name, y->definition->name);
}

static ppto_status add_definitions(pp_library *library, pp_unit *unit, bool builtin, pp_error *err)
{
    for (pp_definition *d = unit->definitions; d != NULL; d = d->next) {
        const pp_library_name *known = find_name(library, d->name);
        if (known != NULL && known->definition->owner != unit && same_definition(known->definition, d))
            continue;
        d->builtin = builtin;
        pp_library_entry entry = {.definition = d};
        PP_TRY(add_name(library, unit, d->name, d->at, d, builtin, err));
        PP_TRY(pp_vec_push(&library->entries, entry));
    }
    if (library->entries.n != 0)
        qsort(library->entries.at, library->entries.n, sizeof *library->entries.at, by_definition_name);
    for (const pp_alias *alias = unit->aliases; alias != NULL; alias = alias->next) {
        const pp_library_name *target = find_name(library, alias->target);
        if (target == NULL)
            return pp_unit_fail(unit, alias->at, err, PPTO_E_NAME,
                                "no operator `%.60s`, expected one to be an alias of", alias->target);
        PP_TRY(add_name(library, unit, alias->name, alias->at, target->definition, builtin, err));
    }
    return PPTO_OK;
}

/* A failed unit leaves no names behind; there were n_names before it. */
static void remove_definitions(pp_library *library, const pp_unit *unit, size_t n_names)
{
    size_t kept = 0;
    library->names.n = n_names;
    for (size_t i = 0; i < library->entries.n; i++)
        if (library->entries.at[i].definition->owner != unit)
            library->entries.at[kept++] = library->entries.at[i];
    library->entries.n = kept;
    pp_map_clear(&library->by_name); /* no more names than before: nothing can fail */
    for (size_t i = 0; i < library->names.n; i++)
        (void)!pp_map_insert(&library->by_name, hash_name(library->names.at[i].name), (uint32_t)i);
}

ppto_status pp_library_add(pp_library *library, pp_unit *take_unit, void (*destroy)(pp_unit *), bool builtin,
                           pp_error *err)
{
    pp_library_lock(library);
    pp_owned_unit owned = {take_unit, destroy};
    size_t n_names = library->names.n;
    ppto_status status = add_definitions(library, take_unit, builtin, err);
    /* The shipped texts call each other; tests check their names. */
    for (const pp_definition *d = take_unit->definitions; d != NULL && !builtin && status == PPTO_OK;
         d = d->next)
        status = pp_library_check_names(library, d, err);
    if (status == PPTO_OK) status = pp_library_check(library, library->entries.at, library->entries.n, err);
    if (status == PPTO_OK) status = pp_vec_push(&library->units, owned);
    if (status != PPTO_OK) {
        if (status == PPTO_E_NOMEM) pp_fail(err, status, "out of memory");
        remove_definitions(library, take_unit, n_names);
        if (pp_library_check(library, library->entries.at, library->entries.n, NULL) != PPTO_OK)
            status = PPTO_E_NOMEM;
        destroy(take_unit);
    }
    pp_library_unlock(library);
    return status;
}

bool pp_library_elementwise(const pp_library *library, const pp_definition *definition)
{
    lock_const(library);
    const pp_library_entry *entry = find_entry(library, definition->name);
    bool yes = entry != NULL && entry->elementwise == PP_SCAN_YES;
    unlock_const(library);
    return yes;
}

bool pp_library_literal(const pp_library *library, const pp_definition *definition)
{
    lock_const(library);
    const pp_library_entry *entry = find_entry(library, definition->name);
    bool yes = entry != NULL && entry->literal == PP_SCAN_YES;
    unlock_const(library);
    return yes;
}
