/* SPDX-License-Identifier: Apache-2.0
 * What the text of a definition says without being evaluated. */
#ifndef PP_LIBRARY_SCAN_H
#define PP_LIBRARY_SCAN_H

#include "graph/library_impl.h"

/* What is known of the definition with that name or alias, read or not: 1 and *traits; and the definition
 * when it was read, else NULL. The library is locked. */
bool pp_library_traits(const pp_library *library, const char *name, pp_traits *traits,
                       pp_definition **definition);

/* Fills in the traits of definitions that are new, or of all when one waited for a name; E_VALUE at the place
 * of a call that makes one recursive. Those of a shelf stay as its index has them. */
ppto_status pp_library_check(pp_library *library, pp_error *err);

/* Every name in the text of the definition must be known: operators and their parameters, variables, states.
 * E_NAME, E_VALUE with the place in the text. */
ppto_status pp_library_check_names(pp_library *library, const pp_definition *definition, pp_error *err);

#endif
