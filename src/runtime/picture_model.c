/* SPDX-License-Identifier: Apache-2.0
 * What a picture of a plan shows: its inputs, kernels and results, and the values between them, with bytes as
 * far as sizes are known. A value that two kernels share stands with the reason why they are two. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "runtime/picture.h"
#include "runtime/report.h"
#include "runtime/sync.h"

typedef struct reader {
    const ppto_program *program;
    const pp_plan *plan;
    pp_report_sizes sizes;
    pp_picture *out;
    uint32_t first_kernel, first_result; /* nodes */
    pp_map edge_of;                      /* from, to -> edge */
    pp_text text;                        /* being made */
} reader;

/* The text made so far, kept; begins the next. NULL: no memory, or `failed`. */
static const char *keep(reader *r)
{
    pp_text_add(&r->text, "%s", "");
    const char *own = r->text.failed ? NULL : pp_arena_strndup(&r->out->arena, r->text.at, r->text.n);
    r->text.n = 0;
    return own;
}

static ppto_status add_node(reader *r, pp_picture_node node)
{
    if (!node.title || !node.text || !node.bytes || !node.detail) return PPTO_E_NOMEM;
    return pp_vec_push(&r->out->nodes, node);
}

/* Bytes of a value; 0 while its sizes are open. */
static uint64_t bytes_of(const reader *r, const pp_type *type)
{
    int64_t n = (int64_t)ppto_dtype_size((ppto_dtype)type->dtype);
    for (uint32_t d = 0; d < type->rank; d++) {
        int64_t dim;
        if (!r->sizes.known ||
            pp_size_eval(pp_types_sizes(r->plan->types), type->dim[d], r->sizes.names, &dim) != PPTO_OK ||
            !pp_mul_i64(n, dim, &n))
            return 0;
    }
    return (uint64_t)n;
}

/* "f32[8, 4], 128 B" */
static void add_type(reader *r, const pp_type *type)
{
    uint64_t bytes = bytes_of(r, type);
    pp_type_print(r->plan->types, type, &r->text);
    if (bytes == 0) return;
    pp_text_add(&r->text, ", ");
    pp_text_bytes(&r->text, bytes);
}

/* ---- nodes ------------------------------------------------------------------------------------------- */

static ppto_status add_input(reader *r, uint32_t i)
{
    const pp_plan_input *input = &r->plan->inputs.at[i];
    pp_picture_node node = {.role = PP_NODE_INPUT, .title = input->name, .bytes = ""};
    add_type(r, pp_type_get(r->plan->types, input->type));
    node.text = keep(r);
    pp_text_add(&r->text, "input %s", input->name);
    node.detail = keep(r);
    return add_node(r, node);
}

static void add_operator(void *arg, const pp_origin *origin)
{
    pp_text *text = arg;
    pp_text_add(text, "%s%s", text->n ? ", " : "", origin->operator_name);
}

static void add_place(void *arg, const pp_origin *origin)
{
    char place[PP_SITE_ROOM];
    pp_text *text = arg;
    pp_text_add(text, "\n%s", origin->operator_name);
    if (origin->site.file)
        pp_text_add(text, ", recorded at %s", pp_site_text(&origin->site, place, sizeof place));
}

static ppto_status add_bytes(reader *r, uint32_t g)
{
    uint64_t reads, writes;
    if (!r->sizes.known) return PPTO_OK;
    PP_TRY(pp_report_bytes(r->plan, g, r->sizes.names, &reads, &writes));
    pp_text_add(&r->text, "reads ");
    pp_text_bytes(&r->text, reads);
    pp_text_add(&r->text, ", writes ");
    pp_text_bytes(&r->text, writes);
    return PPTO_OK;
}

static ppto_status add_kernel(reader *r, uint32_t g)
{
    pp_picture_node node = {.role = pp_plan_is_copy(r->plan, g) ? PP_NODE_COPY : PP_NODE_KERNEL};
    uint32_t stream = r->plan->fused.groups.at[g].stream;
    pp_text_add(&r->text, "kernel %" PRIu32 ", %s", g, pp_report_kind(r->plan, g));
    if (stream) pp_text_add(&r->text, ", stream %s", pp_program_stream(r->program, stream));
    node.title = keep(r);
    PP_TRY(pp_report_operators(r->program, g, add_operator, &r->text));
    node.text = keep(r);
    PP_TRY(add_bytes(r, g));
    node.bytes = keep(r);
    pp_text_add(&r->text, "%s", node.title ? node.title : "");
    PP_TRY(pp_report_operators(r->program, g, add_place, &r->text));
    node.detail = keep(r);
    return add_node(r, node);
}

static ppto_status add_result(reader *r, uint32_t i)
{
    const pp_flat *flat = &r->plan->flat;
    pp_picture_node node = {.role = PP_NODE_RESULT, .bytes = ""};
    if (r->program->names[i])
        pp_text_add(&r->text, "%s", r->program->names[i]);
    else if (flat->outputs.n == 1)
        pp_text_add(&r->text, "result");
    else
        pp_text_add(&r->text, "result %" PRIu32, i);
    node.title = keep(r);
    add_type(r, pp_flat_type(flat, flat->outputs.at[i]));
    node.text = keep(r);
    pp_text_add(&r->text, "made by %s", pp_program_origin(r->program, flat->outputs.at[i])->operator_name);
    node.detail = keep(r);
    return add_node(r, node);
}

/* ---- edges ------------------------------------------------------------------------------------------- */

static bool is_in(const pp_group *g, uint32_t prim)
{
    for (size_t m = 0; m < g->members.n; m++)
        if (g->members.at[m] == prim) return true;
    for (size_t i = 0; i < g->roots.n; i++)
        if (g->roots.at[i].prim == prim) return true;
    return false;
}

/* Why the kernel that stores prim is not the one that reads it. */
static pp_reason reason_of(const reader *r, uint32_t prim, uint32_t reader_group)
{
    const pp_fused *fused = &r->plan->fused;
    for (size_t i = 0; i < fused->missed.n; i++) {
        const pp_missed *m = &fused->missed.at[i];
        if (fused->stored_in[m->producer] == fused->stored_in[prim] &&
            is_in(&fused->groups.at[reader_group], m->consumer))
            return m->reason;
    }
    return PP_R_NONE;
}

typedef struct edge_key {
    const pp_picture *picture;
    uint32_t from, to;
} edge_key;

static bool is_edge(const void *context, uint32_t value)
{
    const edge_key *key = context;
    const pp_picture_edge *e = &key->picture->edges.at[value];
    return e->from == key->from && e->to == key->to;
}

/* group: the reader, PP_NONE for a result. A second value on the same way is one label more; what an input or
 * result is stands in its node. */
static ppto_status add_edge(reader *r, uint32_t from, uint32_t to, uint32_t prim, uint32_t group)
{
    edge_key key = {r->out, from, to};
    uint64_t hash = pp_hash_mix(from, to);
    uint32_t found;
    if (pp_map_find(&r->edge_of, hash, is_edge, &key, &found)) {
        pp_picture_edge *e = &r->out->edges.at[found];
        if (!e->label[0]) return PPTO_OK;
        pp_text_add(&r->text, "%s + ", e->label);
        add_type(r, pp_flat_type(&r->plan->flat, prim));
        e->label = keep(r);
        return e->label ? PPTO_OK : PPTO_E_NOMEM;
    }
    pp_picture_edge edge = {.from = from, .to = to};
    pp_reason reason = group != PP_NONE && from >= r->first_kernel ? reason_of(r, prim, group) : PP_R_NONE;
    if (from >= r->first_kernel && to < r->first_result) add_type(r, pp_flat_type(&r->plan->flat, prim));
    edge.label = keep(r);
    if (!edge.label) return PPTO_E_NOMEM;
    if (reason != PP_R_NONE) {
        edge.why = pp_reason_code(reason);
        edge.detail = pp_reason_text(reason);
    }
    PP_TRY(pp_map_insert(&r->edge_of, hash, (uint32_t)r->out->edges.n));
    return pp_vec_push(&r->out->edges, edge);
}

/* The node whose value prim is; PP_NONE: none (a number made on the host). */
static uint32_t node_of(const reader *r, uint32_t prim)
{
    const pp_prim *p = pp_flat_prim(&r->plan->flat, prim);
    if (p->kind == PP_P_INPUT) return p->number;
    uint32_t group = r->plan->fused.stored_in[prim];
    return group == PP_NONE ? PP_NONE : r->first_kernel + group;
}

/* Numbers are computed on the host from inputs of rank 0: edges from those. */
static ppto_status add_number(reader *r, uint32_t prim, uint32_t to, uint32_t group)
{
    const pp_prim *p = pp_flat_prim(&r->plan->flat, prim);
    const uint32_t *operands = pp_flat_operands(&r->plan->flat, prim);
    if (p->kind == PP_P_INPUT) return add_edge(r, p->number, to, prim, group);
    for (uint32_t i = 0; i < p->n_operands; i++) PP_TRY(add_number(r, operands[i], to, group));
    return PPTO_OK;
}

static bool has_edge(const reader *r, uint32_t from, uint32_t to)
{
    edge_key key = {r->out, from, to};
    uint32_t found;
    return pp_map_find(&r->edge_of, pp_hash_mix(from, to), is_edge, &key, &found);
}

static ppto_status add_edges_to(reader *r, uint32_t g)
{
    const pp_lowered *l = &r->plan->lowered[g];
    uint32_t to = r->first_kernel + g;
    for (size_t t = 0; t < l->tensors.n; t++) {
        uint32_t from = l->tensors.at[t].output ? PP_NONE : node_of(r, l->tensors.at[t].prim);
        bool again = false;
        for (size_t k = 0; k < t; k++)
            again |= !l->tensors.at[k].output && l->tensors.at[k].prim == l->tensors.at[t].prim;
        if (from != PP_NONE && !again) PP_TRY(add_edge(r, from, to, l->tensors.at[t].prim, g));
    }
    for (size_t a = 0; a < l->args.n; a++) {
        uint32_t prim = l->args.at[a].prim, from = node_of(r, prim);
        if (from != PP_NONE && has_edge(r, from, to)) continue;
        PP_TRY(add_number(r, prim, to, g));
    }
    return PPTO_OK;
}

static int by_end(const void *left, const void *right)
{
    const pp_picture_edge *a = left, *b = right;
    if (a->to != b->to) return a->to < b->to ? -1 : 1;
    return a->from < b->from ? -1 : a->from > b->from;
}

/* ---- the whole ---------------------------------------------------------------------------------------- */

static ppto_status add_title(reader *r)
{
    size_t kernels = 0;
    for (size_t g = 0; g < r->plan->fused.groups.n; g++) kernels += !pp_plan_is_copy(r->plan, g);
    pp_text_add(&r->text, "%zu operator%s recorded, %zu kernel%s", r->plan->recorded_ops,
                r->plan->recorded_ops == 1 ? "" : "s", kernels, kernels == 1 ? "" : "s");
    if (r->sizes.known) {
        pp_text_add(&r->text, ", predicted peak ");
        pp_text_bytes(&r->text, r->sizes.peak_bytes);
    }
    r->out->title = keep(r);
    return r->out->title ? PPTO_OK : PPTO_E_NOMEM;
}

static ppto_status read_all(reader *r)
{
    const pp_plan *plan = r->plan;
    PP_TRY(add_title(r));
    r->first_kernel = (uint32_t)plan->inputs.n;
    r->first_result = r->first_kernel + (uint32_t)plan->fused.groups.n;
    for (uint32_t i = 0; i < plan->inputs.n; i++) PP_TRY(add_input(r, i));
    for (uint32_t g = 0; g < plan->fused.groups.n; g++) PP_TRY(add_kernel(r, g));
    for (uint32_t i = 0; i < plan->flat.outputs.n; i++) PP_TRY(add_result(r, i));
    for (uint32_t g = 0; g < plan->fused.groups.n; g++) PP_TRY(add_edges_to(r, g));
    for (uint32_t i = 0; i < plan->flat.outputs.n; i++) {
        uint32_t from = node_of(r, plan->flat.outputs.at[i]);
        if (from != PP_NONE)
            PP_TRY(add_edge(r, from, r->first_result + i, plan->flat.outputs.at[i], PP_NONE));
    }
    if (r->out->edges.n) qsort(r->out->edges.at, r->out->edges.n, sizeof *r->out->edges.at, by_end);
    return PPTO_OK;
}

ppto_status pp_picture_read(const ppto_program *program, pp_picture *picture, pp_error *err)
{
    *picture = (pp_picture){0};
    reader r = {.program = program, .plan = program->plan, .out = picture};
    ppto_status status = pp_report_sizes_read(program, &r.sizes, err);
    if (status == PPTO_OK) status = read_all(&r);
    pp_report_sizes_free(&r.sizes);
    pp_map_free(&r.edge_of);
    pp_text_free(&r.text);
    return status;
}

void pp_picture_free(pp_picture *picture)
{
    pp_vec_free(&picture->nodes);
    pp_vec_free(&picture->edges);
    pp_arena_free(&picture->arena);
}

ppto_status ppto_program_name_output(ppto_program *p, size_t i, const char *name)
{
    if (!p || i >= p->plan->flat.outputs.n)
        return pp_report_new(PPTO_E_VALUE, "name output: the program has no output %zu", i);
    if (atomic_load_explicit(&p->running, memory_order_acquire))
        return pp_report_new(PPTO_E_BUSY, "name output: the program is running");
    char *own = name && name[0] ? pp_strdup(name) : NULL;
    if (name && name[0] && !own) return pp_report_new(PPTO_E_NOMEM, "name output: out of memory");
    pp_free(p->names[i]);
    p->names[i] = own;
    return PPTO_OK;
}
