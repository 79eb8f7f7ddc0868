/* SPDX-License-Identifier: Apache-2.0
 * Fusion, consumers first. Every value collects the demands on it: which group needs it, at which index map.
 * When its turn comes (all consumers are done) it is
 *   - passed on: its operands are demanded where it was (inlined), or
 *   - stored: by a group that demands it at a map that runs through all elements once, by a sibling over the
 * same frame that reads the same data, or by a new group. Reductions, scans and products join the group that
 * demands them when its axes can be split into outer and inner ones that fit; else they start their own. A
 * join is refused when the group would come to wait for itself. The result never depends on known sizes other
 * than 1. Start reading at visit(); fuse_parts.h lists the parts. */
#include <string.h>

#include "graph/fuse_parts.h"

enum { MOST_COST = 10000, MOST_PARTS = 16 };

static const struct {
    const char *code, *text;
} reasons[PP_REASON_COUNT] = {
    [PP_R_NONE] = {"none", "merged"},
    [PP_R_OUTPUT] = {"output", "it is a result of the program"},
    [PP_R_FRAME] = {"frame", "the axes of the two differ: another reduction or another shape"},
    [PP_R_INDEX] = {"index", "a reduced value is read at a shifted, strided or repeated place"},
    [PP_R_RESHAPE] = {"reshape", "the sizes of a reshape neither split nor merge axis by axis"},
    [PP_R_RECOMPUTE] = {"recompute", "it would be computed several times and is not cheap"},
    [PP_R_SHARED] = {"shared", "several kernels that cannot merge use it"},
    [PP_R_CYCLE] = {"cycle", "the kernels would wait for each other"},
    [PP_R_TOO_LARGE] = {"too_large", "the kernel has reached its size limit"},
    [PP_R_CONTRACT] = {"contract", "a product is computed by a kernel of its own frame"},
    [PP_R_GATHER] = {"gather", "the source of a gather is read from memory"},
    [PP_R_OFF] = {"off", "the optimiser is off"},
    [PP_R_STREAM] = {"stream", "the two are recorded on different streams"},
    [PP_R_SYNC] = {"sync", "a sync point lies between them"},
};
const char *pp_reason_code(pp_reason reason)
{
    return reasons[reason].code;
}
const char *pp_reason_text(pp_reason reason)
{
    return reasons[reason].text;
}
/* ---- facts about every prim, operands first ---------------------------------------------------- */

uint32_t pp_prim_cost(const pp_prim *p)
{
    if (p->kind != PP_P_MAP) return 0;
    return p->op == PP_CALL ? 20 : p->op == PP_DIV || p->op == PP_SQRT ? 4 : 1;
}

static bool is_number(const pp_flat *flat, const uint8_t *number, const pp_prim *p)
{
    const pp_type *type = pp_type_get(flat->types, p->type);
    if (type->rank) return false;
    if (p->kind == PP_P_LITERAL || p->kind == PP_P_SIZE) return true;
    if (p->kind == PP_P_INPUT) return type->weak;
    if (p->kind != PP_P_MAP) return false;
    for (uint32_t k = 0; k < p->n_operands; k++)
        if (!number[flat->operands.at[p->first_operand + k]]) return false;
    return true;
}
static void measure_prim(pp_fuser *f, uint32_t id)
{
    const pp_prim *p = pp_flat_prim(f->flat, id);
    const uint32_t *operand = pp_flat_operands(f->flat, id);
    uint32_t cost = pp_prim_cost(p);
    uint8_t flag = p->kind == PP_P_INPUT ? PP_FUSE_TENSOR : 0;
    for (uint32_t k = 0; k < p->n_operands; k++) {
        cost += f->cost[operand[k]];
        f->uses[operand[k]]++;
        flag |= f->flag[operand[k]] & PP_FUSE_TENSOR;
    }
    if (p->kind == PP_P_PART) cost = 0;
    f->out->number[id] = is_number(f->flat, f->out->number, p);
    if (f->out->number[id]) flag = PP_FUSE_NUMBER, cost = 0;
    f->flag[id] |= flag;
    f->cost[id] = (uint16_t)(cost > MOST_COST ? MOST_COST : cost);
}

/* ---- the walk ---------------------------------------------------------------------------------- */

/* A source is in memory already, or made of nothing; an iota that is gathered from must exist in memory. */
static ppto_status visit_source(pp_fuser *f, uint32_t id)
{
    bool input = pp_flat_prim(f->flat, id)->kind == PP_P_INPUT, output = f->flag[id] & PP_FUSE_OUTPUT;
    pp_demand *list = f->demands[id];
    bool gathered = pp_flat_prim(f->flat, id)->kind == PP_P_IOTA && pp_demand_of_stored(list);
    return output || gathered ? pp_fuse_store(f, id, input ? NULL : list, PP_R_OUTPUT) : PPTO_OK;
}

/* A view of numbers costs nothing, even where the optimiser is off. */
static bool is_of_numbers(const pp_fuser *f, uint32_t id)
{
    return pp_prim_is_view(pp_flat_prim(f->flat, id)) &&
           (f->flag[pp_flat_operands(f->flat, id)[0]] & PP_FUSE_NUMBER) &&
           !pp_demand_of_stored(f->demands[id]);
}

static ppto_status visit(pp_fuser *f, uint32_t id, const uint32_t *parts, uint32_t n_parts)
{
    const pp_prim *p = pp_flat_prim(f->flat, id);
    pp_demand *list = f->demands[id];
    bool output = f->flag[id] & PP_FUSE_OUTPUT;
    if (p->kind == PP_P_CONTRACT) return pp_fuse_heavy(f, id, &id, 1);
    if (pp_prim_is_heavy(p)) return pp_fuse_heavy(f, id, parts, n_parts);
    if (p->kind == PP_P_PART || (!list && !output)) return PPTO_OK;
    if ((f->flag[id] & PP_FUSE_NUMBER) && !output) return PPTO_OK;
    if (pp_prim_is_source(p) && !(f->flag[id] & PP_FUSE_NUMBER)) return visit_source(f, id);
    if (output) return pp_fuse_store(f, id, list, PP_R_OUTPUT);
    pp_reason why = is_of_numbers(f, id) ? PP_R_NONE : pp_fuse_why_not_inline(f, id, list);
    return why == PP_R_NONE ? pp_fuse_inline(f, id, list) : pp_fuse_store(f, id, list, why);
}

/* Lists the parts of every heavy prim: head[heavy], then next[part]. */
static void list_parts(const pp_flat *flat, uint32_t *head, uint32_t *next)
{
    uint32_t n = (uint32_t)flat->prims.n;
    for (uint32_t i = 0; i < n; i++) head[i] = PP_NONE;
    for (uint32_t i = 0; i < n; i++) {
        if (pp_flat_prim(flat, i)->kind != PP_P_PART) continue;
        uint32_t heavy = pp_flat_operands(flat, i)[0];
        next[i] = head[heavy];
        head[heavy] = i;
    }
}

static ppto_status walk(pp_fuser *f)
{
    size_t n = f->flat->prims.n;
    uint32_t *next = pp_alloc((n + 1) * sizeof *next), *head = pp_alloc((n + 1) * sizeof *head);
    ppto_status status = next && head ? PPTO_OK : PPTO_E_NOMEM;
    if (status == PPTO_OK) list_parts(f->flat, head, next);
    for (uint32_t id = (uint32_t)n; status == PPTO_OK && id-- > 0;) {
        uint32_t parts[MOST_PARTS], n_parts = 0;
        for (uint32_t p = head[id]; p != PP_NONE && n_parts < MOST_PARTS; p = next[p]) parts[n_parts++] = p;
        status = visit(f, id, parts, n_parts);
    }
    pp_free(next);
    pp_free(head);
    return status;
}

/* ---- from the first demand to the last group --------------------------------------------------- */

static ppto_status open_fuser(pp_fuser *f)
{
    size_t n = f->flat->prims.n;
    f->out->stored_in = pp_alloc((n + 1) * sizeof *f->out->stored_in);
    f->out->result = pp_calloc(n + 1, 1);
    f->out->number = pp_calloc(n + 1, 1);
    f->demands = pp_calloc(n + 1, sizeof *f->demands);
    f->flag = pp_calloc(n + 1, 1);
    f->cost = pp_calloc(n + 1, sizeof *f->cost);
    f->uses = pp_calloc(n + 1, sizeof *f->uses);
    bool all =
        f->out->stored_in && f->out->result && f->out->number && f->demands && f->flag && f->cost && f->uses;
    return all ? PPTO_OK : PPTO_E_NOMEM;
}

static void close_fuser(pp_fuser *f)
{
    pp_free(f->demands);
    pp_free(f->flag);
    pp_free(f->cost);
    pp_free(f->uses);
    pp_free(f->stamp);
    pp_vec_free(&f->kinds);
}

static ppto_status fuse_all(pp_fuser *f)
{
    const pp_flat *flat = f->flat;
    PP_TRY(open_fuser(f));
    for (size_t i = 0; i < flat->prims.n; i++) f->out->stored_in[i] = PP_NONE;
    for (size_t i = 0; i < flat->outputs.n; i++) {
        f->flag[flat->outputs.at[i]] |= PP_FUSE_OUTPUT;
        f->out->result[flat->outputs.at[i]] = 1;
    }
    for (uint32_t id = 0; id < flat->prims.n; id++) measure_prim(f, id);
    PP_TRY(walk(f));
    if (f->optimise) PP_TRY(pp_fuse_chains(f));
    PP_TRY(pp_fuse_order(f->out, flat->prims.n));
    return pp_sizes_status(pp_types_sizes(flat->types));
}

ppto_status pp_fuse(const pp_flat *flat, bool optimise, pp_fused *out)
{
    memset(out, 0, sizeof *out);
    pp_fuser f = {.flat = flat, .out = out, .optimise = optimise};
    ppto_status status = fuse_all(&f);
    close_fuser(&f);
    return status;
}

static void free_group(pp_group *g)
{
    pp_vec_free(&g->roots);
    pp_vec_free(&g->heavies);
    pp_vec_free(&g->members);
    pp_vec_free(&g->needs);
    pp_vec_free(&g->locals);
}

void pp_fused_free(pp_fused *fused)
{
    for (size_t i = 0; i < fused->groups.n; i++) {
        for (uint32_t k = 0; k < fused->groups.at[i].n_parts; k++) free_group(&fused->groups.at[i].parts[k]);
        free_group(&fused->groups.at[i]);
    }
    pp_vec_free(&fused->groups);
    pp_vec_free(&fused->missed);
    pp_free(fused->stored_in);
    pp_free(fused->result);
    pp_free(fused->number);
    pp_arena_free(&fused->arena);
    memset(fused, 0, sizeof *fused);
}
