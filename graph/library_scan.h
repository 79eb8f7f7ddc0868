/* SPDX-License-Identifier: Apache-2.0
 * What the text of a definition says without being evaluated. */
#ifndef PP_LIBRARY_SCAN_H
#define PP_LIBRARY_SCAN_H

#include "graph/library_impl.h"

typedef enum pp_scan_state { PP_SCAN_NEW, PP_SCAN_OPEN, PP_SCAN_YES, PP_SCAN_NO } pp_scan_state;

typedef struct pp_library_name { /* a name or an alias */
    const char *name;
    const pp_definition *definition;
} pp_library_name;

typedef struct pp_library_entry {
    const pp_definition *definition;
    uint8_t elementwise, literal; /* pp_scan_state */
    bool open;                    /* it calls a name that is not there yet */
} pp_library_entry;

/* The entry of the definition that has that name or alias; NULL when there is none. The library is locked. */
pp_library_entry *pp_library_entry_of(const pp_library *library, const char *name);

/* Fills in the properties of entries that are new, or of all when one waited for a name; E_VALUE at the place
 * of a call that makes one recursive. */
ppto_status pp_library_check(pp_library *library, pp_library_entry *entries, size_t n, pp_error *err);

/* Every name in the text of the definition must be known: operators and their parameters, variables, states.
 * E_NAME, E_VALUE with the place in the text. */
ppto_status pp_library_check_names(const pp_library *library, const pp_definition *definition, pp_error *err);

#endif
