/* SPDX-License-Identifier: Apache-2.0
 * See transfer.h. Types repeat a lot, so each is carried over once. */
#include "graph/transfer.h"

ppto_status pp_type_transfer(pp_types *to, pp_types *from, pp_type_id id, pp_type_id *out)
{
    pp_type type = *pp_type_get(from, id);
    for (uint32_t i = 0; i < type.rank; i++)
        type.dim[i] = pp_size_import(pp_types_sizes(to), pp_types_sizes(from), type.dim[i]);
    return pp_type_intern(to, &type, out);
}

ppto_status pp_flat_transfer(pp_flat *flat, pp_types *types)
{
    pp_sizes *to = pp_types_sizes(types), *from = pp_types_sizes(flat->types);
    pp_map known = {0};
    ppto_status status = PPTO_OK;
    for (size_t i = 0; status == PPTO_OK && i < flat->prims.n; i++) {
        pp_prim *p = &flat->prims.at[i];
        uint64_t key = (uint64_t)p->type + 1;
        if (!pp_map_find(&known, key * 0x9e3779b97f4a7c15u, NULL, NULL, &p->type)) {
            pp_type_id id;
            status = pp_type_transfer(types, flat->types, p->type, &id);
            if (status == PPTO_OK) status = pp_map_insert(&known, key * 0x9e3779b97f4a7c15u, id);
            p->type = id;
        }
        if (p->kind == PP_P_SIZE) p->u.size = pp_size_import(to, from, p->u.size);
        if (p->kind == PP_P_PAD) p->u.before = pp_size_import(to, from, p->u.before);
        if (p->kind == PP_P_SLICE) p->u.slice.start = pp_size_import(to, from, p->u.slice.start);
    }
    for (size_t i = 0; i < flat->conditions.n; i++)
        flat->conditions.at[i].margin = pp_size_import(to, from, flat->conditions.at[i].margin);
    pp_map_free(&known);
    flat->types = types;
    return status == PPTO_OK ? pp_sizes_status(to) : status;
}
