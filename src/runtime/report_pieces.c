/* SPDX-License-Identifier: Apache-2.0
 * Explain, for a run that goes piece by piece or would have to: the same decision and the same plan that a
 * run makes (run_pieces.c), without a run. Read pp_report_pieces_read. */
#include <inttypes.h>

#include "runtime/region_run.h"
#include "runtime/report.h"
#include "runtime/run_parts.h"

/* What the run predicts: the memory of its pieces, or all with the files it loads. */
static void correct(pp_report_pieces *r, pp_report_sizes *s, uint64_t file_bytes)
{
    if (!r->region) {
        s->peak_bytes += file_bytes;
        s->lower_bytes += file_bytes;
        s->serial_bytes += file_bytes;
        return;
    }
    s->peak_bytes = pp_region_predicted(r->region);
    if (s->lower_bytes > s->peak_bytes) s->lower_bytes = s->peak_bytes;
    if (s->serial_bytes > s->peak_bytes) s->serial_bytes = s->peak_bytes;
}

ppto_status pp_report_pieces_read(ppto_program *program, pp_report_sizes *s, pp_report_pieces *r,
                                  pp_error *err)
{
    *r = (pp_report_pieces){.program = program, .limit = pp_pool_get_limit(program->ctx->pool)};
    if (!s->known) return PPTO_OK;
    pp_run_state run = {.p = program, .plan = program->plan, .in = s->instance, .inputs = s->inputs};
    run.results = pp_calloc(program->plan->flat.outputs.n + 1, sizeof *run.results);
    if (!run.results) return PPTO_E_NOMEM;
    pp_run_need(&run);
    r->whole_bytes = run.peak + pp_run_file_bytes(&run);
    r->over = pp_run_over_limit(&run);
    ppto_status status = PPTO_OK;
    if (pp_run_by_pieces(&run)) {
        status = pp_run_open_pieces(&run, r->whole_bytes, &r->region, &r->refusal, &r->why);
        r->not_cut = status == PPTO_E_UNSUPPORTED || status == PPTO_E_LIMIT;
    }
    pp_free(run.results);
    if (r->not_cut) status = PPTO_OK;
    if (status == PPTO_OK)
        correct(r, s, pp_run_file_bytes(&run));
    else
        pp_fail(err, status, "%s", r->why.text[0] ? r->why.text : ppto_status_text(status));
    return status;
}

void pp_report_pieces_free(pp_report_pieces *r)
{
    pp_region_close(r->region);
    r->region = NULL;
}

/* ---- what is told ------------------------------------------------------------------------------------- */

static const char *cut_input(const pp_report_pieces *r)
{
    const pp_plan *plan = r->program->plan;
    return plan->inputs.at[plan->flat.prims.at[r->region->region->seed].number].name;
}

/* The pieces of one pass and their files. */
typedef struct pass_view {
    int64_t pieces, rows;
    size_t n;
    pp_region_stream *streams;
} pass_view;

static ppto_status view_pass(const pp_report_pieces *r, uint32_t pass, pass_view *out)
{
    const pp_region *region = r->region->region;
    pp_error err = {0};
    pp_spans spans;
    uint32_t culprit;
    int64_t rows = r->region->pass_rows[pass], *longest;
    ppto_status status = pp_spans_create(region, pass, rows, &spans, &culprit, &err);
    pp_rows *scratch = pp_calloc(spans.at.n + 1, sizeof *scratch);
    longest = pp_calloc(spans.at.n + 1, sizeof *longest);
    *out = (pass_view){.rows = rows < spans.total ? rows : spans.total};
    out->streams = pp_calloc(spans.at.n + region->flat->outputs.n + 1, sizeof *out->streams);
    if (status == PPTO_OK && (!scratch || !longest || !out->streams)) status = PPTO_E_NOMEM;
    if (status == PPTO_OK) {
        out->pieces = pp_region_pieces(&spans);
        pp_spans_longest(region, &spans, longest, scratch);
        out->n = pp_region_streams(r->region, pass, &spans, longest, out->streams);
    }
    pp_free(scratch);
    pp_free(longest);
    pp_spans_free(&spans);
    return status;
}

/* Files that one pass reads or writes by pieces, each once, as the text or JSON wants them. */
static void print_files(const pp_report_pieces *r, const pass_view *view, bool write, bool json, pp_text *out)
{
    const char *comma = json ? "" : write ? "; writes " : "; reads ";
    for (size_t i = 0; i < view->n; i++) {
        const pp_region_stream *s = &view->streams[i];
        bool again = false;
        for (size_t k = 0; k < i; k++) again |= view->streams[k].place == s->place;
        if (s->write != write || again) continue;
        uint32_t number = r->region->region->places.at[s->place].number;
        const char *path = write ? r->program->sinks[number] : r->region->inputs[number]->file->path;
        pp_text_add(out, "%s", comma);
        if (json)
            pp_text_json(out, path);
        else
            pp_text_add(out, "%s", path);
        comma = ", ";
    }
}

static ppto_status print_pass(const pp_report_pieces *r, uint32_t pass, bool json, pp_text *out)
{
    pass_view view;
    ppto_status status = view_pass(r, pass, &view);
    if (status == PPTO_OK && json) {
        pp_text_add(out, "{\"pieces\": %" PRId64 ", \"rows\": %" PRId64 ", \"reads\": [", view.pieces,
                    view.rows);
        print_files(r, &view, false, true, out);
        pp_text_add(out, "], \"writes\": [");
        print_files(r, &view, true, true, out);
        pp_text_add(out, "]}");
    } else if (status == PPTO_OK) {
        pp_text_add(out, "%" PRId64 " of %" PRId64 " rows", view.pieces, view.rows);
        print_files(r, &view, false, false, out);
        print_files(r, &view, true, false, out);
        pp_text_add(out, "\n");
    }
    pp_free(view.streams);
    return status;
}

static const pp_origin *culprit_of(const pp_report_pieces *r)
{
    return r->refusal.culprit == PP_NONE ? NULL : pp_program_origin(r->program, r->refusal.culprit);
}

/* ---- text --------------------------------------------------------------------------------------------- */

static void text_not_cut(const pp_report_pieces *r, pp_text *out)
{
    char place[PP_SITE_ROOM];
    const pp_origin *origin = culprit_of(r);
    pp_text_add(out, "pieces\n  %s", r->over ? "the run is refused" : "in one piece");
    if (origin) pp_text_add(out, " because of %s", origin->operator_name);
    if (origin && origin->site.file)
        pp_text_add(out, " (%s)", pp_site_text(&origin->site, place, sizeof place));
    pp_text_add(out, ": %s\n", r->why.text);
    if (!r->over) return;
    pp_text_add(out, "  memory limit    %" PRIu64 " bytes\n  least limit     %" PRIu64 " bytes\n", r->limit,
                r->refusal.least);
}

ppto_status pp_report_pieces_text(const pp_report_pieces *r, pp_text *out)
{
    if (r->not_cut) text_not_cut(r, out);
    if (!r->region) return PPTO_OK;
    pp_text_add(out, "pieces\n  of %s along axis 0, %" PRId64 " rows, because ", cut_input(r),
                r->region->region->trace.rows);
    if (r->over)
        pp_text_add(out, "the memory limit is %" PRIu64 " bytes; in one piece %" PRIu64 " are needed\n",
                    r->limit, r->whole_bytes);
    else
        pp_text_add(out, "%s\n",
                    r->program->ctx->settings.o.chunk ? "a length of pieces is set" : "a file is large");
    for (uint32_t pass = 0, number = 1; pass < r->region->region->trace.depths; pass++) {
        if (!r->region->region->passes[pass].any) continue;
        pp_text_add(out, "  pass %" PRIu32 "  ", number++);
        PP_TRY(print_pass(r, pass, false, out));
    }
    return PPTO_OK;
}

/* ---- JSON --------------------------------------------------------------------------------------------- */

/* "operator": …, "site": …; null both where there is none. */
static void json_origin(const pp_origin *origin, pp_text *out)
{
    char place[PP_SITE_ROOM];
    pp_text_add(out, "\"operator\": ");
    if (origin)
        pp_text_json(out, origin->operator_name);
    else
        pp_text_add(out, "null");
    pp_text_add(out, ", \"site\": ");
    if (origin && origin->site.file)
        pp_text_json(out, pp_site_text(&origin->site, place, sizeof place));
    else
        pp_text_add(out, "null");
}

static void json_not_cut(const pp_report_pieces *r, pp_text *out)
{
    const pp_region_refusal *refusal = &r->refusal;
    pp_text_add(out, ",\n  \"pieces\": null,\n  \"not_by_pieces\": {");
    json_origin(culprit_of(r), out);
    pp_text_add(out, ", \"reason\": ");
    pp_text_json(out, r->why.text);
    pp_text_add(out, ", \"refused\": %s, \"least_limit_bytes\": %" PRIu64 ", \"most_for\": ",
                r->over ? "true" : "false", refusal->least);
    if (refusal->most_bytes != 0 && refusal->most_for < r->program->n_origins) {
        pp_text_add(out, "{");
        json_origin(&r->program->origins[refusal->most_for], out);
        pp_text_add(out, ", \"bytes\": %" PRIu64 "}}", refusal->most_bytes);
    } else {
        pp_text_add(out, "null}");
    }
}

ppto_status pp_report_pieces_json(const pp_report_pieces *r, pp_text *out)
{
    const char *comma = "";
    if (r->not_cut) {
        json_not_cut(r, out);
        return PPTO_OK;
    }
    if (!r->region) {
        pp_text_add(out, ",\n  \"pieces\": null, \"not_by_pieces\": null");
        return PPTO_OK;
    }
    pp_text_add(out, ",\n  \"pieces\": {\"input\": ");
    pp_text_json(out, cut_input(r));
    pp_text_add(out,
                ", \"axis\": 0, \"rows\": %" PRId64 ", \"because\": \"%s\", \"whole_peak_bytes\": %" PRIu64
                ", \"passes\": [",
                r->region->region->trace.rows,
                r->over                             ? "limit"
                : r->program->ctx->settings.o.chunk ? "option"
                                                    : "file",
                r->whole_bytes);
    for (uint32_t pass = 0; pass < r->region->region->trace.depths; pass++) {
        if (!r->region->region->passes[pass].any) continue;
        pp_text_add(out, "%s", comma);
        PP_TRY(print_pass(r, pass, true, out));
        comma = ", ";
    }
    pp_text_add(out, "]},\n  \"not_by_pieces\": null");
    return PPTO_OK;
}
