/* SPDX-License-Identifier: Apache-2.0
 * The operators a graph can call: definitions by name, and the scalar functions and folds made from them. One
 * library belongs to a context; definitions are added, never changed. Those of the shelf (graph/shelf.h) are
 * there from the start, and read when they are first asked for. Thread-safe. */
#ifndef PP_LIBRARY_H
#define PP_LIBRARY_H

#include "graph/flat.h"
#include "graph/shelf.h"

typedef struct pp_library pp_library;

/* shelf: copied, what it points to is borrowed; NULL for an empty library. */
ppto_status pp_library_create(const pp_shelf *shelf, pp_library **out);
void pp_library_destroy(pp_library *library);
/* Takes the unit (also on failure) with `destroy`. Names must be new or defined by the same text, targets of
 * aliases known, no recursion, and what the definitions of a user name must be there: E_NAME, E_VALUE with
 * the place in the text. */
ppto_status pp_library_add(pp_library *library, pp_unit *take_unit, void (*destroy)(pp_unit *), bool builtin,
                           pp_error *err);
/* *out: all definitions of the unit are there already, each under its name with the same text. */
ppto_status pp_library_has(pp_library *library, const pp_unit *unit, bool *out, pp_error *err);

/* By name or alias; *out is NULL for an unknown name, which is no failure. A definition of the shelf is read
 * at its first look-up: E_NOMEM. Borrowed for the life of the library. */
ppto_status pp_library_find(pp_library *library, const char *name, const pp_definition **out, pp_error *err);
/* Whose name it is, without reading anything. */
typedef enum pp_name_owner { PP_NAME_FREE, PP_NAME_SHIPPED, PP_NAME_DEFINED } pp_name_owner;
pp_name_owner pp_library_owner(pp_library *library, const char *name);
/* "did you mean"; NULL when nothing is near */
const char *pp_library_nearest(pp_library *library, const char *name);
/* The names of all definitions, in order, without reading them; those that begin with _ are internal. The
 * caller frees the vector, not the names. */
typedef PP_VEC(const char *) pp_names;
ppto_status pp_library_names(pp_library *library, pp_names *out);
/* The aliases of that definition, at most `max`; how many. */
size_t pp_library_aliases(pp_library *library, const char *name, const char **out, size_t max);
/* Made of scalar primitives and such operators only: a scalar function over broadcast operands. */
bool pp_library_elementwise(pp_library *library, const pp_definition *definition);

/* Interning by content: gives the library's own copy (deep copy made when new). */
const char *pp_library_file(pp_library *library, const char *file); /* a text's name; NULL: out of memory */
ppto_status pp_library_function(pp_library *library, const pp_function *function, const pp_function **out);
ppto_status pp_library_monoid(pp_library *library, const pp_monoid *monoid, const pp_monoid **out);
const pp_table *pp_library_table(pp_library *library, const pp_table *table); /* NULL: out of memory */

/* What the build compiles loops for: every elementwise operator of the shipped library with default
 * parameters in f32 and f64, and every fold in f32, f64 and i64. */
ppto_status pp_library_precompile(pp_library *library, const pp_function *const **functions,
                                  size_t *n_functions, const pp_monoid *const **monoids, size_t *n_monoids,
                                  pp_error *err);
pp_fold pp_library_fold(const pp_monoid *monoid); /* of a kernel program, its inputs not set */

#endif
