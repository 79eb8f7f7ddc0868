/* SPDX-License-Identifier: Apache-2.0
 * See recorded.h. Names and types repeat a lot, so each is carried over once, found by where it stood. */
#include <inttypes.h>
#include <string.h>

#include "graph/graph_impl.h"
#include "graph/recorded.h"
#include "graph/transfer.h"

typedef struct keeper {
    const pp_graph *graph;
    const pp_cut *cut;
    pp_arena *arena;
    pp_recorded *out;
    uint32_t *row;              /* node -> its row */
    PP_VEC(const char *) texts; /* copies */
    pp_map by_text, by_type;    /* address of a text -> copy; type of the graph -> type */
    uint32_t n_literals;
} keeper;

/* ---- keeping --------------------------------------------------------------------------------------- */

static ppto_status keep_text(keeper *k, const char *text, const char **out)
{
    uint64_t hash = (uint64_t)(uintptr_t)text;
    uint32_t at;
    if (text == NULL || pp_map_find(&k->by_text, hash, NULL, NULL, &at)) {
        *out = text != NULL ? k->texts.at[at] : NULL;
        return PPTO_OK;
    }
    *out = pp_arena_strndup(k->arena, text, strlen(text));
    if (*out == NULL) return PPTO_E_NOMEM;
    PP_TRY(pp_vec_push(&k->texts, *out));
    return pp_map_insert(&k->by_text, hash, (uint32_t)k->texts.n - 1);
}

static ppto_status keep_type(keeper *k, pp_type_id type)
{
    uint32_t own;
    if (!pp_map_find(&k->by_type, (uint64_t)type + 1, NULL, NULL, &own)) {
        pp_type_id id;
        PP_TRY(pp_type_transfer(k->out->table, k->graph->types, type, &id));
        PP_TRY(pp_map_insert(&k->by_type, (uint64_t)type + 1, id));
        own = id;
    }
    return pp_vec_push(&k->out->types, own);
}

/* A value that is its operand again is a call of one result. */
static ppto_status keep_call(keeper *k, const pp_node *node, pp_recorded_row *row)
{
    static const char one_operand[] = {PP_OPERAND_MARK, '\0'};
    const pp_expansion *x = node->kind == PP_N_CALL ? node->u.expansion : NULL;
    PP_TRY(keep_text(k, x != NULL ? x->arguments : one_operand, &row->arguments));
    for (uint32_t i = 0; i < node->n_operands; i++) {
        pp_ref ref = k->graph->operands.at[node->first_operand + i];
        PP_TRY(pp_vec_push(&k->out->operands, ((pp_ref){k->row[ref.node], ref.result})));
    }
    if (x == NULL) return keep_type(k, node->type);
    for (uint32_t i = 0; i < x->n_results; i++) PP_TRY(keep_type(k, x->types[i]));
    return PPTO_OK;
}

static ppto_status keep_node(keeper *k, uint32_t id)
{
    const pp_node *node = &k->graph->nodes.at[id];
    const char *name = node->called_as != NULL ? node->called_as : "";
    pp_recorded_row row = {.kind = PP_RECORDED_SYNC,
                           .arguments = "",
                           .first_operand = (uint32_t)k->out->operands.n,
                           .n_operands = node->n_operands,
                           .first_type = (uint32_t)k->out->types.n,
                           .stream = node->stream != 0 ? k->cut->stream[node->stream - 1] : 0};
    if (node->kind == PP_N_INPUT) {
        row.kind = PP_RECORDED_INPUT;
        name = k->graph->inputs.at[node->u.input].name;
        PP_TRY(keep_type(k, node->type));
    } else if (node->kind == PP_N_LITERAL) {
        row.kind = PP_RECORDED_LITERAL;
        row.literal = k->n_literals++;
        PP_TRY(keep_type(k, node->type));
    } else if (node->kind == PP_N_CALL || node->kind == PP_N_SAME) {
        row.kind = PP_RECORDED_CALL;
        PP_TRY(keep_call(k, node, &row));
    } else {
        row.literal = k->cut->sync[node->u.sync];
    }
    row.n_types = (uint32_t)k->out->types.n - row.first_type;
    PP_TRY(keep_text(k, name, &row.name));
    k->row[id] = (uint32_t)k->out->rows.n;
    return pp_vec_push(&k->out->rows, row);
}

ppto_status pp_graph_recorded(const pp_graph *graph, const pp_ref *outputs, size_t n, pp_arena *arena,
                              pp_recorded *out)
{
    pp_cut cut;
    keeper k = {.graph = graph, .cut = &cut, .arena = arena, .out = out};
    ppto_status status = pp_graph_cut(graph, outputs, n, &cut);
    k.row = pp_calloc(graph->nodes.n + 1, sizeof *k.row);
    if (k.row == NULL) status = PPTO_E_NOMEM;
    if (status == PPTO_OK) status = pp_types_create(&out->table);
    for (uint32_t id = 0; status == PPTO_OK && id < cut.end; id++)
        if (cut.needed[id]) status = keep_node(&k, id);
    for (size_t i = 0; status == PPTO_OK && i < n; i++)
        status = pp_vec_push(&out->outputs, ((pp_ref){k.row[outputs[i].node], outputs[i].result}));
    pp_graph_cut_free(&cut);
    pp_free(k.row);
    pp_vec_free(&k.texts);
    pp_map_free(&k.by_text);
    pp_map_free(&k.by_type);
    return status;
}

void pp_recorded_free(pp_recorded *recorded)
{
    pp_types_destroy(recorded->table);
    recorded->table = NULL;
    pp_vec_free(&recorded->rows);
    pp_vec_free(&recorded->operands);
    pp_vec_free(&recorded->types);
    pp_vec_free(&recorded->outputs);
}

/* ---- printing -------------------------------------------------------------------------------------- */

void pp_recorded_print_ref(const pp_recorded *recorded, pp_ref ref, pp_text *out)
{
    pp_text_add(out, "%%%" PRIu32, ref.node);
    if (recorded->rows.at[ref.node].n_types > 1) pp_text_add(out, ".%" PRIu32, ref.result);
}

static void print_call(const pp_recorded *recorded, const pp_recorded_row *row, pp_text *out)
{
    uint32_t k = 0;
    pp_text_add(out, "%s(", row->name);
    for (const char *p = row->arguments; *p != '\0'; p++) {
        if (*p == PP_OPERAND_MARK && k < row->n_operands)
            pp_recorded_print_ref(recorded, recorded->operands.at[row->first_operand + k++], out);
        else
            pp_text_add(out, "%c", *p);
    }
    pp_text_add(out, ")");
}

void pp_recorded_print_value(const pp_recorded *recorded, size_t i, const uint64_t *literals, pp_text *out)
{
    const pp_recorded_row *row = &recorded->rows.at[i];
    if (row->kind == PP_RECORDED_CALL) {
        print_call(recorded, row, out);
    } else if (row->kind == PP_RECORDED_LITERAL) {
        pp_value value = {.kind = PP_V_FLOAT};
        memcpy(&value.u.f, &literals[row->literal], sizeof value.u.f);
        if (pp_type_get(recorded->table, recorded->types.at[row->first_type])->dtype == PPTO_F64)
            pp_value_print(NULL, &value, out);
        else
            pp_text_add(out, "%" PRId64, (int64_t)literals[row->literal]);
    } else {
        pp_text_add(out, "%s%s", row->kind == PP_RECORDED_INPUT ? "input " : "", row->name);
    }
}

void pp_recorded_print_row(const pp_recorded *recorded, size_t i, const uint64_t *literals, pp_text *out)
{
    const pp_recorded_row *row = &recorded->rows.at[i];
    pp_text_add(out, "%%%zu = ", i);
    pp_recorded_print_value(recorded, i, literals, out);
    for (uint32_t k = 0; k < row->n_types; k++) {
        pp_text_add(out, k == 0 ? " : " : ", ");
        pp_type_print(recorded->table, pp_type_get(recorded->table, recorded->types.at[row->first_type + k]),
                      out);
    }
}
