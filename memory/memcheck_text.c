/* SPDX-License-Identifier: Apache-2.0
 * A report as text for a terminal: a line of totals, what the peak is made of, one line a group with who
 * holds it and how its recording was reached; and folded stacks for flame graphs. */
#include <stdio.h>
#include <string.h>

#include "memory/memcheck.h"

enum { MOST_ROWS = 30, MOST_HOLDERS = 4, MOST_FRAMES = 6 };

static const char *known(const char *text, const char *other)
{
    return text != NULL ? text : other;
}

typedef struct words { /* so that a function can return a short text */
    char at[160];
} words;

static words bytes_of(double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    words w;
    int unit = 0;
    for (; (bytes >= 1024 || bytes <= -1024) && unit < 4; unit++) bytes /= 1024;
    snprintf(w.at, sizeof w.at,
             unit == 0 || bytes >= 100 ? "%.0f %s"
             : bytes >= 10             ? "%.1f %s"
                                       : "%.2f %s",
             bytes, units[unit]);
    return w;
}

static words site_of(ppto_site site)
{
    words w = {"-"};
    char line[32] = "", function[64] = "";
    if (site.file == NULL) return w;
    if (site.column > 0)
        snprintf(line, sizeof line, ":%d:%d", (int)site.line, (int)site.column);
    else if (site.line > 0)
        snprintf(line, sizeof line, ":%d", (int)site.line);
    if (site.function != NULL && site.function[0] != '\0')
        snprintf(function, sizeof function, " %.50s()", site.function);
    snprintf(w.at, sizeof w.at, "%.70s%s%s", site.file, line, function);
    return w;
}

static words overstay_of(const pp_report_group *g)
{
    words w = {"-"};
    if (g->overstay_nodes_max == 0 && (g->retained_count == 0 || g->overstay_ns_max == 0)) return w;
    pp_snprintf(w.at, sizeof w.at, "%llu nodes/%.3gs", (unsigned long long)g->overstay_nodes_max,
                (double)g->overstay_ns_max * 1e-9);
    return w;
}

/* ---- totals ------------------------------------------------------------------------------------ */

static void write_head(const pp_memcheck *r, pp_text *t)
{
    pp_text_add(t, "ppto memcheck 1  level=%d complete=%s  at=%s  run=%llu  epochs=%llu\n", r->level,
                r->why_incomplete == NULL ? "yes" : "no", known(r->at, "now"), (unsigned long long)r->runs,
                (unsigned long long)r->epochs);
    if (r->why_incomplete != NULL) pp_text_add(t, "incomplete: %s\n", r->why_incomplete);
    pp_text_add(t, "peak %s at node #%llu %s", bytes_of((double)r->peak_bytes).at,
                (unsigned long long)r->peak_node, known(r->peak_operator, "unknown"));
    if (r->peak_site.file != NULL) pp_text_add(t, " %s", site_of(r->peak_site).at);
    if (r->has_ideal)
        pp_text_add(t, "  |  ideal %s  |  avoidable %s (%.0f%%)", bytes_of((double)r->ideal_peak_bytes).at,
                    bytes_of((double)r->avoidable_bytes).at,
                    r->peak_bytes == 0 ? 0.0 : 100.0 * (double)r->avoidable_bytes / (double)r->peak_bytes);
    pp_text_add(t, "\npeak made of:");
    for (int i = 0; i < PP_SHARES; i++)
        pp_text_add(t, "  %s %s", i == PP_SHARE_RETAINED ? "RETAINED" : pp_share_name((pp_share)i),
                    bytes_of((double)r->share[i]).at);
    pp_text_add(t, "\nnow %s\n", bytes_of((double)r->current_bytes).at);
}

static void write_left(const pp_memcheck *r, pp_text *t)
{
    bool any = false;
    for (int i = 0; i < PP_LEFTS; i++) {
        if (r->left[i] == 0) continue;
        pp_text_add(t, "%s  %s %llu", any ? "" : "not released:", pp_left_name((pp_left)i),
                    (unsigned long long)r->left[i]);
        any = true;
    }
    if (any) pp_text_add(t, "\n");
}

static void write_foot(const pp_memcheck *r, pp_text *t)
{
    write_left(r, t);
    pp_text_add(t, "%llu leaked, %llu growing, %llu retained", (unsigned long long)r->count[PP_LEAKED],
                (unsigned long long)r->count[PP_GROWING], (unsigned long long)r->count[PP_RETAINED]);
    for (int v = PP_UNPLANNED; v < PP_KEPT; v++)
        if (r->count[v] != 0)
            pp_text_add(t, ", %llu %s", (unsigned long long)r->count[v], pp_verdict_name((pp_verdict)v));
    pp_text_add(t, ", %llu suppressed; %llu records dropped\n", (unsigned long long)r->suppressed,
                (unsigned long long)r->dropped);
}

/* ---- stacks ------------------------------------------------------------------------------------ */

static bool is_own(const pp_report_frame *f)
{
    if (f->function != NULL && (strncmp(f->function, "pp_", 3) == 0 || strncmp(f->function, "ppto_", 5) == 0))
        return true;
    return f->module != NULL && strstr(f->module, "/libppto.so") != NULL;
}

/* The module without its folders: a frame nobody has names for. */
static void add_frame(pp_text *t, const pp_report_frame *f)
{
    const char *module = f->module != NULL ? strrchr(f->module, '/') : NULL;
    if (f->function != NULL)
        pp_text_add(t, "%s", f->function);
    else
        pp_text_add(t, "%s+0x%llx", module != NULL ? module + 1 : known(f->module, "?"),
                    (unsigned long long)f->offset);
    if (f->file != NULL) pp_text_add(t, " %s:%d", f->file, (int)f->line);
}

/* Below main there is only how it was called. */
static bool is_start(const pp_report_frame *f)
{
    return f->function != NULL &&
           (strncmp(f->function, "__libc_start", 12) == 0 || strcmp(f->function, "_start") == 0);
}

/* Without names a stack says nothing to a reader; the JSON has its addresses. */
static bool has_names(const pp_memcheck *r, const pp_report_stack *s)
{
    for (size_t i = 0; i < s->n_frames; i++) {
        const pp_report_frame *f = &r->frames.at[s->first_frame + i];
        if (is_start(f)) break;
        if (f->function != NULL && !is_own(f)) return true;
    }
    return false;
}

/* From the innermost frame outside of the library to main. */
static void write_stack(const pp_memcheck *r, uint32_t number, const char *what, pp_text *t)
{
    size_t shown = 0;
    if (number == 0 || number > r->stacks.n) return;
    const pp_report_stack *s = &r->stacks.at[number - 1];
    if (!has_names(r, s)) return;
    for (size_t i = 0; i < s->n_frames && shown < MOST_FRAMES; i++) {
        const pp_report_frame *f = &r->frames.at[s->first_frame + i];
        if (shown == 0 && is_own(f)) continue;
        if (is_start(f)) break;
        pp_text_add(t, shown++ == 0 ? "   %s: " : " < ", what);
        add_frame(t, f);
        if (f->function != NULL && strcmp(f->function, "main") == 0) break;
    }
    if (shown != 0) pp_text_add(t, "\n");
}

/* ---- groups ------------------------------------------------------------------------------------ */

static bool same_word(const char *a, const char *b)
{
    return strcmp(known(a, ""), known(b, "")) == 0;
}

static bool same_place(const ppto_site *a, const ppto_site *b)
{
    return a->line == b->line && a->column == b->column && same_word(a->file, b->file) &&
           same_word(a->function, b->function);
}

static bool is_given(const pp_report_holder *h)
{
    return strcmp(h->kind, pp_hold_name(PP_HOLD_GIVEN)) == 0;
}

/* Handles taken at the place that were given back elsewhere. */
static uint64_t given_of(const pp_report_holder *h, size_t n, const ppto_site *place)
{
    uint64_t count = 0;
    for (size_t i = 0; place->file != NULL && i < n; i++)
        if (is_given(&h[i]) && same_place(&h[i].of, place)) count += h[i].count;
    return count;
}

/* The holders of one kind and place, which differ by their stacks alone; how many they are. */
static size_t write_holder(const pp_memcheck *r, const pp_report_group *g, size_t first, bool growth,
                           pp_text *t)
{
    const pp_report_holder *all = r->holders.at + g->first_holder, *h = all + first;
    size_t n = 0;
    uint64_t count = 0;
    for (; first + n < g->n_holders; n++) {
        if (strcmp(h[n].kind, h->kind) != 0 || !same_place(&h[n].site, &h->site)) break;
        count += h[n].count;
    }
    uint64_t given = given_of(all, g->n_holders, &h->site);
    pp_text_add(t, "   held by %llu x %s", (unsigned long long)(count > given ? count - given : 0), h->kind);
    bool compiled = strcmp(h->kind, pp_hold_name(PP_HOLD_PROGRAM)) == 0;
    if (h->site.file != NULL)
        pp_text_add(t, " %s at %s", compiled ? "compiled" : "taken", site_of(h->site).at);
    if (growth) pp_text_add(t, "   growth +%s/epoch", bytes_of(g->growth_bytes_per_epoch).at);
    pp_text_add(t, "\n");
    for (size_t i = 0; i < n; i++) write_stack(r, h[i].stack, i == 0 ? "taken" : "or", t);
    return n;
}

static void write_given(const pp_report_holder *h, pp_text *t)
{
    pp_text_add(t, "   %llu %s", (unsigned long long)h->count,
                h->of.file != NULL ? "more, taken at" : "of these");
    if (h->of.file != NULL) pp_text_add(t, " %s,", site_of(h->of).at);
    pp_text_add(t, h->count == 1 ? " was given back" : " were given back");
    if (h->site.file != NULL) pp_text_add(t, " at %s", site_of(h->site).at);
    pp_text_add(t, h->of.file != NULL ? "\n" : ", and nothing says which\n");
}

static void write_holders(const pp_memcheck *r, const pp_report_group *g, pp_text *t)
{
    size_t i = 0, lines = 0, more = 0;
    while (i < g->n_holders) {
        const pp_report_holder *h = &r->holders.at[g->first_holder + i];
        if (is_given(h)) {
            write_given(h, t);
            i++;
        } else if (lines < MOST_HOLDERS) {
            i += write_holder(r, g, i, lines == 0 && g->verdict == PP_GROWING, t);
            lines++;
        } else {
            more++;
            i++;
        }
    }
    if (more != 0) pp_text_add(t, "   and by %zu more kinds of holders\n", more);
    if (g->n_holders == 0 && g->retained_count != 0)
        pp_text_add(t,
                    "   no holder is known: a reference was given back twice, or its record was dropped\n");
}

static void write_group(const pp_memcheck *r, const pp_report_group *g, pp_text *t)
{
    char verdict[32], name[64];
    bool slab =
        g->kind != NULL && strcmp(g->kind, "slab") == 0 && strcmp(known(g->operator_name, ""), "slab") != 0;
    snprintf(name, sizeof name, "%s%.50s", slab ? "slab of " : "", known(g->operator_name, "unknown"));
    snprintf(verdict, sizeof verdict, "%s%s", pp_verdict_name(g->verdict), g->suppressed ? "*" : "");
    pp_text_add(t, "%-15s %-16s %10s %6llu %10s %9llu  %-18s %s\n", verdict, name,
                bytes_of((double)g->allocation_size_bytes).at, (unsigned long long)g->live_count,
                bytes_of((double)g->retained_bytes).at, (unsigned long long)g->retention_count,
                overstay_of(g).at, site_of(g->site).at);
    if (g->verdict < PP_KEPT && !g->suppressed) write_holders(r, g, t);
    if (g->verdict == PP_UNPLANNED && g->reason != NULL) pp_text_add(t, "   because %s\n", g->reason);
    if (r->has_ideal && g->avoidable_bytes != 0)
        pp_text_add(t, "   avoidable %s of the peak\n", bytes_of((double)g->avoidable_bytes).at);
    write_stack(r, g->stack, "created", t);
}

void pp_memcheck_write_text(const pp_memcheck *r, pp_text *t)
{
    size_t rows = 0;
    write_head(r, t);
    pp_text_add(t, "%-15s %-16s %10s %6s %10s %9s  %-18s %s\n", "VERDICT", "OPERATOR", "SIZE", "LIVE",
                "RETAINED", "RETENTION", "OVERSTAY", "SITE");
    for (; rows < r->groups.n; rows++) {
        const pp_report_group *g = &r->groups.at[rows];
        if (rows >= MOST_ROWS && g->verdict >= PP_UNPLANNED) break;
        if (g->allocation_size_bytes == 0 && g->verdict == PP_FINE) continue; /* nothing to tell */
        write_group(r, g, t);
    }
    if (rows < r->groups.n) pp_text_add(t, "and %zu more, none of them retained\n", r->groups.n - rows);
    write_foot(r, t);
}

/* ---- folded stacks ----------------------------------------------------------------------------- */

static void add_folded_stack(const pp_memcheck *r, uint32_t number, pp_text *t)
{
    if (number == 0 || number > r->stacks.n) return;
    const pp_report_stack *s = &r->stacks.at[number - 1];
    for (size_t i = s->n_frames; i-- > 0;) {
        const pp_report_frame *f = &r->frames.at[s->first_frame + i];
        if (f->function != NULL && !is_own(f)) pp_text_add(t, "%s;", f->function);
    }
}

void pp_memcheck_write_folded(const pp_memcheck *r, pp_text *t)
{
    pp_text_add(t, "%s", "");
    for (size_t i = 0; i < r->groups.n; i++) {
        const pp_report_group *g = &r->groups.at[i];
        if (g->peak_share_bytes == 0) continue;
        add_folded_stack(r, g->stack, t);
        pp_text_add(t, "%s", known(g->operator_name, "unknown"));
        if (g->site.file != NULL) pp_text_add(t, " (%s:%d)", g->site.file, (int)g->site.line);
        pp_text_add(t, " %llu\n", (unsigned long long)g->peak_share_bytes);
    }
}
