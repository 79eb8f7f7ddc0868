/* SPDX-License-Identifier: Apache-2.0
 * When a run by pieces is done with a value: the stages of a region, in order, are for every pass what is
 * whole and then its pieces; and what is whole at the end. A cut value is computed again in every pass that
 * needs it, so what counts is the last stage that asks for it, and not the first. */
#include "graph/region.h"

/* The last stage that computes a prim which is asked for in this one. */
static uint32_t computed_in(const pp_region *r, uint32_t id, uint32_t asked)
{
    uint32_t place = r->place_of[id];
    if (r->trace.cross[id] && r->flat->prims.at[id].kind == PP_P_CONTRACT)
        return pp_stage_pieces(r->trace.depth[id] - 1);
    if (place != PP_NONE && r->places.at[place].kind == PP_AT_VALUE)
        return pp_stage_whole(r->trace.depth[id]);
    return asked;
}

/* The stage that reads its operands: the states of a fold are made by pieces, and joined where it is read; so
 * is a row that is kept. */
static uint32_t reads_in(const pp_region *r, uint32_t id, uint32_t stage)
{
    if (r->trace.takes[id]) return pp_stage_pieces(r->trace.depth[pp_flat_operands(r->flat, id)[0]]);
    bool joins = r->trace.cross[id] && r->flat->prims.at[id].kind == PP_P_REDUCE;
    return joins ? pp_stage_pieces(r->trace.depth[id] - 1) : stage;
}

static void ask(uint32_t *stage, uint32_t id, uint32_t in)
{
    if (stage[id] == PP_NONE || stage[id] < in) stage[id] = in;
}

static void ask_for_outputs(const pp_region *r, uint32_t *stage)
{
    for (size_t i = 0; i < r->flat->outputs.n; i++) {
        uint32_t id = r->flat->outputs.at[i];
        bool cut = r->trace.cut[id] != PP_WHOLE;
        ask(stage, id, cut ? pp_stage_pieces(r->trace.depth[id]) : pp_stage_whole(r->trace.depths));
    }
}

void pp_region_last_stages(const pp_region *r, uint32_t *stage)
{
    const pp_flat *flat = r->flat;
    for (uint32_t id = 0; id < flat->prims.n; id++) stage[id] = PP_NONE;
    ask_for_outputs(r, stage);
    for (uint32_t id = (uint32_t)flat->prims.n; id-- > 0;) { /* what reads it stands behind it */
        if (stage[id] == PP_NONE) continue;
        uint32_t in = stage[id] = computed_in(r, id, stage[id]);
        for (uint32_t k = 0; k < flat->prims.at[id].n_operands; k++)
            ask(stage, pp_flat_operands(flat, id)[k], reads_in(r, id, in));
    }
    ask_for_outputs(r, stage); /* those computed earlier are copied where they are wanted */
}
