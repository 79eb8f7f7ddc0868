/* SPDX-License-Identifier: Apache-2.0
 * Definitions by name, and what is interned: scalar functions, folds, tables. One recursive mutex guards
 * everything; what was handed out is never changed or freed before the library is.
 *
 * Names and aliases share one map. A name that is not in it may stand on the shelf: then its definition is
 * parsed and becomes a unit of the library like any other, but for its traits, which the index has. A
 * definition that cannot be read for want of memory leaves nothing behind and is tried again next time.
 * Traits of other texts (elementwise, depends on literal values, recursion) are found in library_scan.c. */
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
ppto_status pp_library_scratched(pp_library *library, ppto_status status)
{
    ppto_status sizes = pp_sizes_take_status(pp_types_sizes(library->scratch));
    bool wins = status == PPTO_OK || status == PPTO_E_UNSUPPORTED || sizes == PPTO_E_NOMEM;
    return sizes != PPTO_OK && wins ? sizes : status;
}
pp_arena *pp_library_arena(pp_library *library)
{
    return &library->arena;
}

ppto_status pp_library_create(const pp_shelf *shelf, pp_library **out)
{
    *out = NULL;
    pp_library *library = pp_calloc(1, sizeof *library);
    if (library == NULL) return PPTO_E_NOMEM;
    if (pp_types_create(&library->scratch) != PPTO_OK) {
        pp_free(library);
        return PPTO_E_NOMEM;
    }
    if (shelf != NULL) library->shelf = *shelf;
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
    pp_vec_free(&library->functions);
    pp_vec_free(&library->monoids);
    pp_vec_free(&library->tables);
    pp_vec_free(&library->memos);
    pp_vec_free(&library->files);
    pp_map_free(&library->by_name);
    pp_map_free(&library->by_function);
    pp_map_free(&library->by_monoid);
    pp_map_free(&library->by_table);
    pp_map_free(&library->by_key);
    pp_map_free(&library->by_file);
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

/* The definition of that name or alias if it was read. */
static pp_definition *find_read(const pp_library *library, const char *name)
{
    uint32_t at;
    name_key key = {library, name};
    return pp_map_find(&library->by_name, hash_name(name), same_name, &key, &at)
               ? library->names.at[at].definition
               : NULL;
}

static ppto_status insert_name(pp_library *library, const char *name, pp_definition *definition,
                               const pp_unit *unit)
{
    PP_TRY(pp_vec_reserve(&library->names, library->names.n + 1));
    PP_TRY(pp_map_insert(&library->by_name, hash_name(name), (uint32_t)library->names.n));
    library->names.at[library->names.n++] = (pp_library_name){name, definition, unit};
    return PPTO_OK;
}

/* ---- the shelf ------------------------------------------------------------------------------------- */

const pp_shelf_row *pp_shelf_find(const pp_shelf *shelf, const char *name)
{
    size_t low = 0, high = shelf->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(shelf->row[middle].name, name);
        if (order == 0) return &shelf->row[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static pp_traits shelved_traits(const pp_shelf_row *row)
{
    return (pp_traits){.elementwise = row->elementwise ? PP_SCAN_YES : PP_SCAN_NO,
                       .literal = row->literal ? PP_SCAN_YES : PP_SCAN_NO};
}

/* Parses the definition of a row that is no alias. */
static ppto_status read_shelved(pp_library *library, const pp_shelf_row *row, pp_definition **out,
                                pp_error *err)
{
    const pp_shelf *shelf = &library->shelf;
    pp_owned_unit owned = {NULL, shelf->destroy};
    PP_TRY(shelf->parse(shelf->text[row->text] + row->at, row->length, shelf->file[row->text],
                        row->lines_above, &owned.unit, err));
    pp_definition *d = owned.unit->definitions;
    d->builtin = true;
    d->traits = shelved_traits(row);
    ppto_status status = pp_vec_reserve(&library->units, library->units.n + 1);
    if (status == PPTO_OK) status = insert_name(library, row->name, d, owned.unit);
    if (status != PPTO_OK) {
        shelf->destroy(owned.unit);
        return pp_fail(err, status, "out of memory");
    }
    library->units.at[library->units.n++] = owned;
    *out = d;
    return PPTO_OK;
}

/* The definition of that name or alias, read now if need be; NULL for a name that nobody has. */
static ppto_status find(pp_library *library, const char *name, pp_definition **out, pp_error *err)
{
    *out = find_read(library, name);
    const pp_shelf_row *row = *out == NULL ? pp_shelf_find(&library->shelf, name) : NULL;
    if (row == NULL) return PPTO_OK;
    const pp_shelf_row *target = pp_shelf_target(&library->shelf, row);
    pp_definition *d = target != row ? find_read(library, target->name) : NULL;
    if (d == NULL) PP_TRY(read_shelved(library, target, &d, err));
    if (target != row && insert_name(library, row->name, d, d->owner) != PPTO_OK)
        return pp_fail(err, PPTO_E_NOMEM, "out of memory");
    *out = d;
    return PPTO_OK;
}

/* ---- look-up --------------------------------------------------------------------------------------- */

ppto_status pp_library_find(pp_library *library, const char *name, const pp_definition **out, pp_error *err)
{
    pp_definition *found;
    pp_library_lock(library);
    ppto_status status = find(library, name, &found, err);
    pp_library_unlock(library);
    *out = found;
    return status;
}

pp_name_owner pp_library_owner(pp_library *library, const char *name)
{
    pp_library_lock(library);
    const pp_definition *d = find_read(library, name);
    bool shelved = d == NULL && pp_shelf_find(&library->shelf, name) != NULL;
    pp_library_unlock(library);
    if (d == NULL) return shelved ? PP_NAME_SHIPPED : PP_NAME_FREE;
    return d->builtin ? PP_NAME_SHIPPED : PP_NAME_DEFINED;
}

bool pp_library_traits(const pp_library *library, const char *name, pp_traits *traits,
                       pp_definition **definition)
{
    *definition = find_read(library, name);
    if (*definition != NULL) {
        *traits = (*definition)->traits;
        return true;
    }
    const pp_shelf_row *row = pp_shelf_find(&library->shelf, name);
    if (row != NULL) *traits = shelved_traits(pp_shelf_target(&library->shelf, row));
    return row != NULL;
}

static void nearer(pp_nearest *nearest, const char *name)
{
    if (name[0] != '_') pp_text_nearer(nearest, name);
}

const char *pp_library_nearest(pp_library *library, const char *name)
{
    pp_nearest nearest = {.to = name};
    const pp_shelf *shelf = &library->shelf;
    for (size_t i = 0; i < shelf->n; i++) nearer(&nearest, shelf->row[i].name);
    pp_library_lock(library);
    for (size_t i = 0; i < library->names.n; i++) nearer(&nearest, library->names.at[i].name);
    pp_library_unlock(library);
    return nearest.name;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

ppto_status pp_library_names(pp_library *library, pp_names *out)
{
    const pp_shelf *shelf = &library->shelf;
    ppto_status status = PPTO_OK;
    *out = (pp_names){0};
    for (size_t i = 0; i < shelf->n && status == PPTO_OK; i++)
        if (shelf->row[i].target == i) status = pp_vec_push(out, shelf->row[i].name);
    pp_library_lock(library);
    for (size_t i = 0; i < library->names.n && status == PPTO_OK; i++) {
        const pp_library_name *row = &library->names.at[i];
        if (row->name == row->definition->name && pp_shelf_find(shelf, row->name) == NULL)
            status = pp_vec_push(out, row->name);
    }
    pp_library_unlock(library);
    if (status == PPTO_OK && out->n != 0) qsort(out->at, out->n, sizeof *out->at, by_text);
    if (status != PPTO_OK) pp_vec_free(out);
    return status;
}

size_t pp_library_aliases(pp_library *library, const char *name, const char **out, size_t max)
{
    const pp_shelf *shelf = &library->shelf;
    size_t n = 0;
    for (size_t i = 0; i < shelf->n && n < max; i++)
        if (shelf->row[i].target != i && strcmp(pp_shelf_target(shelf, &shelf->row[i])->name, name) == 0)
            out[n++] = shelf->row[i].name;
    pp_library_lock(library);
    for (size_t i = 0; i < library->names.n && n < max; i++) {
        const pp_library_name *row = &library->names.at[i];
        if (strcmp(row->definition->name, name) == 0 && strcmp(row->name, name) != 0 &&
            pp_shelf_find(shelf, row->name) == NULL)
            out[n++] = row->name;
    }
    pp_library_unlock(library);
    return n;
}

/* The same text from the name to the end, and the same kind. */
static bool same_definition(const pp_definition *a, const pp_definition *b)
{
    const char *x = a->owner->source + a->at, *y = b->owner->source + b->at;
    size_t n = a->end - a->at;
    return a->is_fold == b->is_fold && a->ordered == b->ordered && n == b->end - b->at &&
           memcmp(x, y, n) == 0;
}

ppto_status pp_library_has(pp_library *library, const pp_unit *unit, bool *out, pp_error *err)
{
    ppto_status status = PPTO_OK;
    *out = true;
    pp_library_lock(library);
    for (const pp_definition *d = unit->definitions; d != NULL && *out && status == PPTO_OK; d = d->next) {
        pp_definition *known;
        status = find(library, d->name, &known, err);
        *out = status == PPTO_OK && known != NULL && same_definition(known, d);
    }
    pp_library_unlock(library);
    return status;
}

/* ---- adding a unit ----------------------------------------------------------------------------------- */

static ppto_status add_name(pp_library *library, const pp_unit *unit, const char *name, uint32_t at,
                            pp_definition *definition, bool builtin, pp_error *err)
{
    pp_name_owner owner = pp_library_owner(library, name);
    if (owner != PP_NAME_FREE) {
        return pp_unit_fail(
            unit, at, err, PPTO_E_NAME, "the name `%.60s` is taken by %s, expected another", name,
            owner == PP_NAME_SHIPPED && !builtin ? "a shipped operator" : "another definition");
    }
    return insert_name(library, name, definition, unit);
}

static ppto_status add_definitions(pp_library *library, pp_unit *unit, bool builtin, pp_error *err)
{
    pp_definition *known;
    for (pp_definition *d = unit->definitions; d != NULL; d = d->next) {
        PP_TRY(find(library, d->name, &known, err));
        if (known != NULL && known->owner != unit && same_definition(known, d)) continue;
        d->builtin = builtin;
        PP_TRY(add_name(library, unit, d->name, d->at, d, builtin, err));
    }
    for (const pp_alias *alias = unit->aliases; alias != NULL; alias = alias->next) {
        PP_TRY(find(library, alias->target, &known, err));
        if (known == NULL)
            return pp_unit_fail(unit, alias->at, err, PPTO_E_NAME,
                                "no operator `%.60s`, expected one to be an alias of", alias->target);
        PP_TRY(add_name(library, unit, alias->name, alias->at, known, builtin, err));
    }
    return PPTO_OK;
}

/* A failed unit leaves no names behind. */
static void remove_names(pp_library *library, const pp_unit *unit)
{
    size_t kept = 0;
    for (size_t i = 0; i < library->names.n; i++)
        if (library->names.at[i].unit != unit) library->names.at[kept++] = library->names.at[i];
    library->names.n = kept;
    pp_map_clear(&library->by_name); /* no more names than before: nothing can fail */
    for (size_t i = 0; i < kept; i++)
        (void)!pp_map_insert(&library->by_name, hash_name(library->names.at[i].name), (uint32_t)i);
}

ppto_status pp_library_add(pp_library *library, pp_unit *take_unit, void (*destroy)(pp_unit *), bool builtin,
                           pp_error *err)
{
    pp_library_lock(library);
    pp_owned_unit owned = {take_unit, destroy};
    ppto_status status = add_definitions(library, take_unit, builtin, err);
    /* The shipped texts call each other; tests check their names. */
    for (const pp_definition *d = take_unit->definitions; d != NULL && !builtin && status == PPTO_OK;
         d = d->next)
        status = pp_library_check_names(library, d, err);
    if (status == PPTO_OK) status = pp_library_check(library, err);
    if (status == PPTO_OK) status = pp_vec_push(&library->units, owned);
    if (status != PPTO_OK) {
        if (status == PPTO_E_NOMEM) pp_fail(err, status, "out of memory");
        remove_names(library, take_unit);
        if (pp_library_check(library, NULL) != PPTO_OK) status = PPTO_E_NOMEM;
        destroy(take_unit);
    }
    pp_library_unlock(library);
    return status;
}

bool pp_library_elementwise(pp_library *library, const pp_definition *definition)
{
    pp_library_lock(library);
    bool yes = definition->traits.elementwise == PP_SCAN_YES;
    pp_library_unlock(library);
    return yes;
}

bool pp_library_literal(pp_library *library, const pp_definition *definition)
{
    pp_library_lock(library);
    bool yes = definition->traits.literal == PP_SCAN_YES;
    pp_library_unlock(library);
    return yes;
}
