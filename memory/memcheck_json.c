/* SPDX-License-Identifier: Apache-2.0
 * A report as JSON, "ppto-memcheck/1" (docs/memcheck.schema.json): bytes are integers, units stand in the
 * keys, stacks in a table of their own. Written from front to back; pp_memcheck_read makes the report of it
 * again. */
#include "memory/memcheck.h"

typedef unsigned long long ull;

static void key(pp_text *t, const char *name)
{
    char last = t->n > 0 ? t->at[t->n - 1] : '{';
    pp_text_add(t, last == '{' || last == '[' ? "\"%s\":" : ",\"%s\":", name);
}

static void number(pp_text *t, const char *name, uint64_t value)
{
    key(t, name);
    pp_text_add(t, "%llu", (ull)value);
}

static void string(pp_text *t, const char *name, const char *value)
{
    if (value == NULL) return;
    key(t, name);
    pp_text_json(t, value);
}

static void real(pp_text *t, const char *name, double value)
{
    key(t, name);
    pp_text_add(t, "%.9g", value);
}

static void boolean(pp_text *t, const char *name, bool value)
{
    key(t, name);
    pp_text_add(t, value ? "true" : "false");
}

static void site(pp_text *t, const char *name, ppto_site place)
{
    if (place.file == NULL) return;
    key(t, name);
    pp_text_add(t, "{");
    string(t, "file", place.file);
    number(t, "line", place.line > 0 ? (uint64_t)place.line : 0);
    if (place.column > 0) number(t, "column", (uint64_t)place.column);
    string(t, "function", place.function);
    pp_text_add(t, "}");
}

/* The start of an element of a list. */
static void open(pp_text *t)
{
    pp_text_add(t, t->n > 0 && t->at[t->n - 1] == '[' ? "\n{" : ",\n{");
}

static void write_totals(const pp_memcheck *r, pp_text *t)
{
    key(t, "totals");
    pp_text_add(t, "{");
    number(t, "current_bytes", r->current_bytes);
    number(t, "peak_bytes", r->peak_bytes);
    if (r->has_ideal) number(t, "ideal_peak_bytes", r->ideal_peak_bytes);
    if (r->has_ideal) number(t, "avoidable_bytes", r->avoidable_bytes);
    number(t, "peak_node", r->peak_node);
    string(t, "peak_operator", r->peak_operator);
    site(t, "site", r->peak_site);
    key(t, "peak_parts_bytes");
    pp_text_add(t, "{");
    for (int i = 0; i < PP_SHARES; i++) number(t, pp_share_name((pp_share)i), r->share[i]);
    pp_text_add(t, "}");
    key(t, "verdicts");
    pp_text_add(t, "{");
    for (int i = 0; i < PP_VERDICTS; i++) number(t, pp_verdict_name((pp_verdict)i), r->count[i]);
    number(t, "suppressed", r->suppressed);
    pp_text_add(t, "}}");
}

static void write_holders(const pp_memcheck *r, const pp_report_group *g, pp_text *t)
{
    key(t, "holders");
    pp_text_add(t, "[");
    for (size_t i = 0; i < g->n_holders; i++) {
        const pp_report_holder *h = &r->holders.at[g->first_holder + i];
        open(t);
        string(t, "kind", h->kind);
        number(t, "count", h->count);
        site(t, "site", h->site);
        site(t, "of", h->of);
        if (h->stack != 0) number(t, "stack", h->stack - 1);
        pp_text_add(t, "}");
    }
    pp_text_add(t, "]");
}

static void write_use(const pp_report_group *g, pp_text *t)
{
    number(t, "retained_count", g->retained_count);
    number(t, "retained_bytes", g->retained_bytes);
    number(t, "retention_count", g->retention_count);
    number(t, "retention_max", g->retention_max);
    number(t, "loose_count", g->loose_count);
    key(t, "overstay_nodes");
    pp_text_add(t, "{");
    number(t, "median", g->overstay_nodes_median);
    number(t, "max", g->overstay_nodes_max);
    pp_text_add(t, "}");
    number(t, "overstay_ns", g->overstay_ns_max > 0 ? (uint64_t)g->overstay_ns_max : 0);
    real(t, "byte_seconds", g->byte_seconds);
    number(t, "survived_epochs", g->survived_epochs);
    real(t, "growth_bytes_per_epoch", g->growth_bytes_per_epoch);
}

static void write_group(const pp_memcheck *r, const pp_report_group *g, pp_text *t)
{
    open(t);
    string(t, "operator", g->operator_name != NULL ? g->operator_name : "unknown");
    string(t, "kind", g->kind);
    string(t, "dtype", g->dtype);
    string(t, "verdict", pp_verdict_name(g->verdict));
    string(t, "reason", g->reason);
    if (g->suppressed) boolean(t, "suppressed", true);
    site(t, "site", g->site);
    if (g->stack != 0) number(t, "stack", g->stack - 1);
    number(t, "allocation_size_bytes", g->allocation_size_bytes);
    number(t, "rounded_bytes", g->rounded_bytes);
    number(t, "total_count", g->total_count);
    number(t, "live_count", g->live_count);
    number(t, "live_bytes", g->live_bytes);
    write_use(g, t);
    number(t, "peak_share_bytes", g->peak_share_bytes);
    if (r->has_ideal) number(t, "avoidable_bytes", g->avoidable_bytes);
    string(t, "domain", r->domain[0] != '\0' ? r->domain : "host");
    boolean(t, "bound", r->bound);
    write_holders(r, g, t);
    pp_text_add(t, "}");
}

static void write_stack(const pp_memcheck *r, size_t i, pp_text *t)
{
    const pp_report_stack *s = &r->stacks.at[i];
    open(t);
    number(t, "id", i);
    key(t, "frames");
    pp_text_add(t, "[");
    for (size_t k = 0; k < s->n_frames; k++) {
        const pp_report_frame *f = &r->frames.at[s->first_frame + k];
        open(t);
        key(t, "pc");
        pp_text_add(t, "\"0x%llx\"", (ull)f->pc);
        string(t, "module", f->module);
        number(t, "offset", f->offset);
        string(t, "func", f->function);
        string(t, "file", f->file);
        if (f->line > 0) number(t, "line", (uint64_t)f->line);
        pp_text_add(t, "}");
    }
    pp_text_add(t, "]}");
}

/* Rows of numbers: there may be many. */
static void write_buffers(const pp_memcheck *r, pp_text *t)
{
    key(t, "buffers");
    pp_text_add(t, "[");
    for (size_t i = 0; i < r->buffers.n; i++) {
        const pp_report_buffer *b = &r->buffers.at[i];
        open(t);
        number(t, "group", b->group);
        key(t, "id");
        pp_text_add(t, "\"b%u.%u\"", (unsigned)b->id, (unsigned)b->generation);
        number(t, "bytes", b->bytes);
        key(t, "nodes");
        pp_text_add(t, "[%llu,%llu,%llu]", (ull)b->born, (ull)b->used, (ull)b->died);
        key(t, "ticks");
        pp_text_add(t, "[%llu,%llu,%llu]", (ull)b->born_tick, (ull)b->used_tick, (ull)b->died_tick);
        boolean(t, "live", b->live);
        pp_text_add(t, "}");
    }
    pp_text_add(t, "]");
}

static void write_marks(const pp_memcheck *r, pp_text *t)
{
    key(t, "marks");
    pp_text_add(t, "[");
    for (size_t i = 0; i < r->marks.n; i++) {
        open(t);
        string(t, "name", r->marks.at[i].name);
        number(t, "node", r->marks.at[i].node);
        number(t, "tick", r->marks.at[i].tick);
        number(t, "current_bytes", r->marks.at[i].current_bytes);
        pp_text_add(t, "}");
    }
    pp_text_add(t, "]");
}

static void write_left(const pp_memcheck *r, pp_text *t)
{
    key(t, "not_released");
    pp_text_add(t, "{");
    for (int i = 0; i < PP_LEFTS; i++)
        if (r->left[i] != 0) number(t, pp_left_name((pp_left)i), r->left[i]);
    pp_text_add(t, "}");
}

void pp_memcheck_write_json(const pp_memcheck *r, pp_text *t)
{
    pp_text_add(t, "{");
    string(t, "schema", "ppto-memcheck/1");
    number(t, "level", (uint64_t)r->level);
    boolean(t, "complete", r->why_incomplete == NULL);
    string(t, "why_incomplete", r->why_incomplete);
    string(t, "at", r->at);
    number(t, "runs", r->runs);
    number(t, "nodes", r->nodes);
    number(t, "epochs", r->epochs);
    number(t, "dropped", r->dropped);
    write_totals(r, t);
    write_left(r, t);
    key(t, "stacks");
    pp_text_add(t, "[");
    for (size_t i = 0; i < r->stacks.n; i++) write_stack(r, i, t);
    pp_text_add(t, "]");
    key(t, "groups");
    pp_text_add(t, "[");
    for (size_t i = 0; i < r->groups.n; i++) write_group(r, &r->groups.at[i], t);
    pp_text_add(t, "]");
    write_marks(r, t);
    if (r->has_ideal) write_buffers(r, t);
    pp_text_add(t, "}\n");
}
