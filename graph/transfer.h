/* SPDX-License-Identifier: Apache-2.0
 * A flat graph carried to types of its own, so that a plan can outlive the graph it was recorded in. */
#ifndef PP_TRANSFER_H
#define PP_TRANSFER_H

#include "graph/flat.h"

/* Re-interns every type and size of the flat graph in `types`, in place. */
ppto_status pp_flat_transfer(pp_flat *flat, pp_types *types);
ppto_status pp_type_transfer(pp_types *to, pp_types *from, pp_type_id type, pp_type_id *out);

#endif
