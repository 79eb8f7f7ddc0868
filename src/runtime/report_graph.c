/* SPDX-License-Identifier: Apache-2.0
 * The first stages of lowering as text and as JSON: the operator calls as recorded, and the tensor primitives
 * after simplification. */
#include <inttypes.h>

#include "runtime/report.h"
#include "runtime/sync.h"

/* ---- text ------------------------------------------------------------------------------------------ */

void pp_report_recorded(const ppto_program *program, pp_text *out)
{
    const pp_plan *plan = program->plan;
    const pp_recorded *recorded = &plan->recorded;
    char place[PP_SITE_ROOM];
    pp_text_add(out, "recorded, %zu operator%s\n", plan->recorded_ops, plan->recorded_ops == 1 ? "" : "s");
    for (size_t i = 0; i < recorded->rows.n; i++) {
        const pp_recorded_row *row = &recorded->rows.at[i];
        pp_recorded_print_row(recorded, i, program->literals, out);
        if (row->stream != 0) pp_text_add(out, ", stream %s", pp_program_stream(program, row->stream));
        const ppto_site *site = &program->origins[i].site;
        if (site->file != NULL) pp_text_add(out, ", at %s", pp_site_text(site, place, sizeof place));
        pp_text_add(out, "\n");
    }
    pp_text_add(out, "outputs");
    for (size_t i = 0; i < recorded->outputs.n; i++) {
        pp_text_add(out, " ");
        pp_recorded_print_ref(recorded, recorded->outputs.at[i], out);
    }
    pp_text_add(out, "\n");
}

void pp_report_simplified(const ppto_program *program, pp_text *out)
{
    const size_t n = program->plan->recorded_ops;
    pp_text_add(out, "simplified, from %zu operator%s\n", n, n == 1 ? "" : "s");
    pp_flat_print(&program->plan->flat, out);
    for (uint32_t s = 1; s <= program->plan->flat.n_streams; s++)
        pp_text_add(out, "stream %" PRIu32 " is %s\n", s, pp_program_stream(program, s));
}

/* ---- JSON ------------------------------------------------------------------------------------------ */

static void json_text(const char *key, pp_text *value, pp_text *out)
{
    pp_text_add(out, ", \"%s\": ", key);
    pp_text_json(out, value->at != NULL ? value->at : "");
    out->failed |= value->failed;
    pp_text_free(value);
}

static void json_stream(const ppto_program *program, uint32_t stream, pp_text *out)
{
    pp_text_add(out, ", \"stream\": ");
    if (stream != 0)
        pp_text_json(out, pp_program_stream(program, stream));
    else
        pp_text_add(out, "null");
}

static void json_site(const ppto_site *site, pp_text *out)
{
    char place[PP_SITE_ROOM];
    pp_text_add(out, ", \"site\": ");
    if (site->file != NULL)
        pp_text_json(out, pp_site_text(site, place, sizeof place));
    else
        pp_text_add(out, "null");
}

static void json_type(const pp_types *types, pp_type_id type, pp_text *out)
{
    pp_text text = {0};
    pp_type_print(types, pp_type_get(types, type), &text);
    pp_text_json(out, text.at != NULL ? text.at : "");
    out->failed |= text.failed;
    pp_text_free(&text);
}

/* [[row, result], …] */
static void json_refs(const pp_ref *at, size_t n, pp_text *out)
{
    pp_text_add(out, "[");
    for (size_t i = 0; i < n; i++)
        pp_text_add(out, "%s[%" PRIu32 ", %" PRIu32 "]", i ? ", " : "", at[i].node, at[i].result);
    pp_text_add(out, "]");
}

static void json_row(const ppto_program *program, size_t i, pp_text *out)
{
    static const char *const kinds[] = {"input", "literal", "call", "sync"};
    const pp_recorded *recorded = &program->plan->recorded;
    const pp_recorded_row *row = &recorded->rows.at[i];
    pp_text value = {0};
    pp_recorded_print_value(recorded, i, program->literals, &value);
    pp_text_add(out, "%s\n    {\"id\": %zu, \"kind\": \"%s\", \"name\": ", i ? "," : "", i, kinds[row->kind]);
    pp_text_json(out, row->name);
    json_text("text", &value, out);
    pp_text_add(out, ", \"operands\": ");
    json_refs(recorded->operands.at + row->first_operand, row->n_operands, out);
    pp_text_add(out, ", \"types\": [");
    for (uint32_t k = 0; k < row->n_types; k++) {
        if (k != 0) pp_text_add(out, ", ");
        json_type(recorded->table, recorded->types.at[row->first_type + k], out);
    }
    pp_text_add(out, "]");
    json_stream(program, row->stream, out);
    json_site(&program->origins[i].site, out);
    pp_text_add(out, "}");
}

static void json_head(const pp_plan *plan, const char *stage, const char *list, pp_text *out)
{
    pp_text_add(out, "{\n  \"schema\": \"ppto-explain/1\",\n  \"stage\": \"%s\",\n", stage);
    pp_text_add(out, "  \"recorded_ops\": %zu,\n  \"%s\": [", plan->recorded_ops, list);
}

void pp_report_recorded_json(const ppto_program *program, pp_text *out)
{
    const pp_recorded *recorded = &program->plan->recorded;
    json_head(program->plan, "graph", "nodes", out);
    for (size_t i = 0; i < recorded->rows.n; i++) json_row(program, i, out);
    pp_text_add(out, "],\n  \"outputs\": ");
    json_refs(recorded->outputs.at, recorded->outputs.n, out);
    pp_text_add(out, "\n}\n");
}

static void json_prim(const ppto_program *program, uint32_t id, pp_text *out)
{
    const pp_plan *plan = program->plan;
    const pp_flat *flat = &plan->flat;
    const pp_prim *p = pp_flat_prim(flat, id);
    const pp_origin *origin = pp_program_origin(program, id);
    pp_text value = {0};
    pp_flat_print_prim(flat, id, &value);
    pp_text_add(out, "%s\n    {\"id\": %" PRIu32 ", \"kind\": \"%s\"", id ? "," : "", id,
                pp_prim_kind_name((pp_prim_kind)p->kind));
    json_text("text", &value, out);
    pp_text_add(out, ", \"operands\": [");
    for (uint32_t i = 0; i < p->n_operands; i++)
        pp_text_add(out, "%s%" PRIu32, i ? ", " : "", pp_flat_operands(flat, id)[i]);
    pp_text_add(out, "], \"type\": ");
    json_type(plan->types, p->type, out);
    pp_text_add(out, ", \"op\": ");
    pp_text_json(out, origin->operator_name);
    json_stream(program, p->stream, out);
    json_site(&origin->site, out);
    pp_text_add(out, "}");
}

void pp_report_simplified_json(const ppto_program *program, pp_text *out)
{
    const pp_flat *flat = &program->plan->flat;
    json_head(program->plan, "simplified", "prims", out);
    for (uint32_t id = 0; id < flat->prims.n; id++) json_prim(program, id, out);
    pp_text_add(out, "],\n  \"outputs\": [");
    for (size_t i = 0; i < flat->outputs.n; i++)
        pp_text_add(out, "%s%" PRIu32, i ? ", " : "", flat->outputs.at[i]);
    pp_text_add(out, "]\n}\n");
}
