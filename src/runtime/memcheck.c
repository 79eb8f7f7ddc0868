/* SPDX-License-Identifier: Apache-2.0
 * Memcheck as a user sees it (ppto/memcheck.h), and the report at the end of a context. */
#include "memory/memcheck.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files/fdio.h"
#include "files/sink.h"
#include "ppto/memcheck.h"
#include "runtime/domains.h"
#include "runtime/runtime.h"

enum { MOST_SUPPRESSIONS = 1 << 20 };

/* ---- making ------------------------------------------------------------------------------------ */

/* The whole file, with a NUL behind. */
static ppto_status read_small(const char *path, char *room, size_t *n, pp_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : 1;
    for (*n = 0; got > 0 && *n<MOST_SUPPRESSIONS; *n += got> 0 ? (size_t)got : 0)
        got = read(fd, room + *n, MOST_SUPPRESSIONS - *n);
    if (got < 0) pp_fail(err, PPTO_E_IO, "PPTO_MEMCHECK_SUPPRESS: %.500s: %m", path);
    if (fd >= 0) close(fd);
    if (got < 0) return PPTO_E_IO;
    if (*n == MOST_SUPPRESSIONS)
        return pp_fail(err, PPTO_E_VALUE, "PPTO_MEMCHECK_SUPPRESS: %.500s is larger than 1 MiB", path);
    return PPTO_OK;
}

ppto_status pp_memcheck_suppressions(const char *path, char **text, pp_error *err)
{
    pp_error why = {0};
    size_t n = 0;
    *text = NULL;
    if (!path) return PPTO_OK;
    char *room = pp_calloc(MOST_SUPPRESSIONS + 1, 1);
    if (!room) return PPTO_E_NOMEM;
    ppto_status status = read_small(path, room, &n, err);
    if (status == PPTO_OK && strlen(room) != n)
        status = pp_fail(err, PPTO_E_VALUE, "PPTO_MEMCHECK_SUPPRESS: %.500s is no text", path);
    if (status == PPTO_OK && (status = pp_memcheck_check_suppressions(room, path, &why)) != PPTO_OK)
        pp_fail(err, status, "PPTO_MEMCHECK_SUPPRESS: %.1000s", why.text);
    *text = status == PPTO_OK ? pp_strdup(room) : NULL;
    pp_free(room);
    return status == PPTO_OK && !*text ? PPTO_E_NOMEM : status;
}

static ppto_status make(ppto_context *ctx, const char *at, pp_memcheck *out, pp_error *err)
{
    ppto_status status = pp_memcheck_make(ctx->ledger, ctx->stacks, at, ctx->suppressions, out);
    pp_placing_tell(ctx, out->domain, &out->bound);
    return status == PPTO_OK ? status : pp_fail(err, status, "memcheck: %s", ppto_status_text(status));
}

static ppto_status write_form(const pp_memcheck *report, ppto_report form, pp_text *text, pp_error *err)
{
    switch (form) {
    case PPTO_REPORT_TEXT: pp_memcheck_write_text(report, text); break;
    case PPTO_REPORT_JSON: pp_memcheck_write_json(report, text); break;
    case PPTO_REPORT_SVG: pp_memcheck_write_svg(report, text); break;
    case PPTO_REPORT_FOLDED: pp_memcheck_write_folded(report, text); break;
    default: return pp_fail(err, PPTO_E_VALUE, "memcheck: there is no form %d of a report", (int)form);
    }
    return text->failed ? pp_fail(err, PPTO_E_NOMEM, "memcheck: out of memory") : PPTO_OK;
}

static ppto_status usable(const ppto_context *ctx, pp_error *err)
{
    PP_TRY(pp_context_check(ctx, err));
    if (ctx->ledger) return PPTO_OK;
    return pp_fail(err, PPTO_E_UNSUPPORTED,
                   "memcheck is off in this context: set PPTO_MEMCHECK=report, or the option memcheck_level");
}

static ppto_status report(ppto_context *ctx, ppto_report form, pp_text *text, pp_error *err)
{
    pp_memcheck made;
    PP_TRY(usable(ctx, err));
    ppto_status status = make(ctx, "now", &made, err);
    if (status == PPTO_OK) status = write_form(&made, form, text, err);
    pp_memcheck_free(&made);
    return status;
}

/* ---- the interface ----------------------------------------------------------------------------- */

ppto_status ppto_memcheck_mark(ppto_context *ctx, const char *name)
{
    pp_error err = {0};
    if (pp_context_check(ctx, &err) == PPTO_OK) pp_ledger_mark(ctx->ledger, name);
    return pp_report(&err);
}

ppto_status ppto_memcheck_keep(ppto_array *array, bool keep)
{
    if (!array) return pp_report_new(PPTO_E_VALUE, "memcheck keep: the array is NULL");
    PP_TRY(pp_context_refuses(array->ctx));
    if (array->owned) pp_ledger_keep(array->ctx->ledger, array->data, keep);
    return PPTO_OK;
}

/* Gives the text to the caller, or frees it after a failure. */
static ppto_status hand_out(pp_text *text, char **out, pp_error *err)
{
    if (err->code == PPTO_OK)
        *out = text->at;
    else
        pp_text_free(text);
    return pp_report(err);
}

ppto_status ppto_memcheck_text(ppto_context *ctx, ppto_report form, char **text)
{
    pp_error err = {0};
    pp_text made = {0};
    if (!text) return pp_report_new(PPTO_E_VALUE, "memcheck: the place for the text is NULL");
    *text = NULL;
    (void)report(ctx, form, &made, &err);
    return hand_out(&made, text, &err);
}

ppto_status ppto_memcheck_report(ppto_context *ctx, ppto_report form, FILE *to)
{
    pp_error err = {0};
    pp_text made = {0};
    if (!to) return pp_report_new(PPTO_E_VALUE, "memcheck: the file is NULL");
    ppto_status status = report(ctx, form, &made, &err);
    if (status == PPTO_OK && (fwrite(made.at, 1, made.n, to) != made.n || fflush(to) != 0))
        pp_fail(&err, PPTO_E_IO, "memcheck: the report cannot be written: %m");
    pp_text_free(&made);
    return pp_report(&err);
}

static const char *keep(pp_memcheck *r, const char *word, const char *before)
{
    const char *own = word[0] ? pp_arena_strndup(&r->arena, word, strlen(word)) : NULL;
    return own ? own : before;
}

/* Names for the frames of a report that was read. */
static void name_frames(pp_memcheck *r, ppto_symbol_fn name, void *arg)
{
    for (size_t i = 0; name && i < r->frames.n; i++) {
        pp_report_frame *f = &r->frames.at[i];
        ppto_symbol symbol = {"", "", 0};
        if (!f->module || !name(arg, f->module, f->offset, &symbol)) continue;
        symbol.function[sizeof symbol.function - 1] = symbol.file[sizeof symbol.file - 1] = '\0';
        f->function = keep(r, symbol.function, f->function);
        f->file = keep(r, symbol.file, f->file);
        f->line = symbol.line;
    }
}

ppto_status ppto_memcheck_convert(const char *json, size_t length, ppto_report form, ppto_symbol_fn name,
                                  void *arg, char **text)
{
    pp_error err = {0};
    pp_text made = {0};
    pp_memcheck read_back;
    if (!json || !text) return pp_report_new(PPTO_E_VALUE, "memcheck: an argument is NULL");
    *text = NULL;
    ppto_status status = pp_memcheck_read(json, length, &read_back, &err);
    if (status == PPTO_OK) name_frames(&read_back, name, arg);
    if (status == PPTO_OK) status = write_form(&read_back, form, &made, &err);
    if (status != PPTO_OK) pp_fail(&err, status, "memcheck: %s", ppto_status_text(status));
    pp_memcheck_free(&read_back);
    return hand_out(&made, text, &err);
}

static void summarise(const pp_memcheck *r, ppto_memcheck_summary *out)
{
    out->level = r->level;
    out->complete = r->why_incomplete == NULL;
    out->current_bytes = r->current_bytes;
    out->peak_bytes = r->peak_bytes;
    out->ideal_peak_bytes = r->has_ideal ? r->ideal_peak_bytes : r->peak_bytes;
    out->avoidable_bytes = r->avoidable_bytes;
    for (size_t i = 0; i < r->groups.n; i++) {
        const pp_report_group *g = &r->groups.at[i];
        out->retained_bytes += g->retained_bytes;
        if (g->retention_max > out->retention_max) out->retention_max = g->retention_max;
    }
    out->leaked = r->count[PP_LEAKED];
    out->growing = r->count[PP_GROWING];
    out->retained = r->count[PP_RETAINED];
    out->unplanned = r->count[PP_UNPLANNED];
    out->late_free = r->count[PP_LATE_FREE];
    out->suppressed = r->suppressed;
}

ppto_status ppto_memcheck_summarise(ppto_context *ctx, ppto_memcheck_summary *out)
{
    pp_error err = {0};
    pp_memcheck made = {0};
    ppto_memcheck_summary all = {.size = sizeof all};
    if (!out || out->size == 0 || out->size > sizeof all)
        return pp_report_new(PPTO_E_VALUE, "memcheck: set size to sizeof(ppto_memcheck_summary)");
    ppto_status status = usable(ctx, &err);
    if (status == PPTO_OK) status = make(ctx, "now", &made, &err);
    if (status == PPTO_OK) {
        all.size = out->size;
        summarise(&made, &all);
        memcpy(out, &all, out->size);
    }
    pp_memcheck_free(&made);
    return pp_report(&err);
}

enum { MOST_BLAMED = 3, MOST_OPERATORS = 4096 };

/* ---- level 0 ----------------------------------------------------------------------------------- */

size_t ppto_memcheck_operators(ppto_context *ctx, ppto_operator_memory *out, size_t most)
{
    pp_error err = {0};
    if (!out || most == 0 || pp_context_check(ctx, &err) != PPTO_OK || ctx->ledger) return 0;
    if (most > MOST_OPERATORS) most = MOST_OPERATORS;
    pp_tally_row *rows = pp_calloc(most, sizeof *rows);
    size_t n = rows ? pp_pool_operators(ctx->pool, rows, most) : 0;
    for (size_t i = 0; i < n; i++)
        out[i] = (ppto_operator_memory){rows[i].operator_name, rows[i].current_bytes, rows[i].peak_bytes,
                                        rows[i].blocks};
    pp_free(rows);
    return n;
}

/* ---- no memory left ---------------------------------------------------------------------------- */

static int by_live_bytes(const void *a, const void *b)
{
    const pp_report_group *x = a, *y = b;
    return x->live_bytes > y->live_bytes ? -1 : x->live_bytes < y->live_bytes;
}

static void blame_operators(ppto_context *ctx, pp_error *err)
{
    pp_tally_row rows[MOST_BLAMED];
    size_t n = pp_pool_operators(ctx->pool, rows, MOST_BLAMED);
    for (size_t i = 0; i < n; i++) {
        size_t at = strlen(err->text);
        snprintf(err->text + at, sizeof err->text - at, "\n  held: %llu bytes in %llu x %s (peak %llu)",
                 (unsigned long long)rows[i].current_bytes, (unsigned long long)rows[i].blocks,
                 rows[i].operator_name, (unsigned long long)rows[i].peak_bytes);
    }
}

void pp_memcheck_blame(ppto_context *ctx, pp_error *err)
{
    pp_memcheck made = {0};
    pp_error none = {0};
    if (!err) return;
    if (!ctx->ledger) {
        blame_operators(ctx, err);
        return;
    }
    if (make(ctx, "now", &made, &none) == PPTO_OK && made.groups.n > 1)
        qsort(made.groups.at, made.groups.n, sizeof *made.groups.at, by_live_bytes);
    for (size_t i = 0; i < made.groups.n && i < MOST_BLAMED; i++) {
        const pp_report_group *g = &made.groups.at[i];
        size_t n = strlen(err->text);
        if (g->live_bytes == 0) break;
        snprintf(err->text + n, sizeof err->text - n, "\n  held: %llu bytes in %llu x %s",
                 (unsigned long long)g->live_bytes, (unsigned long long)g->live_count,
                 g->operator_name ? g->operator_name : "unknown");
        n = strlen(err->text);
        if (g->site.file)
            snprintf(err->text + n, sizeof err->text - n, " (%s:%d)", g->site.file, (int)g->site.line);
    }
    pp_memcheck_free(&made);
}

/* ---- the end of a context ---------------------------------------------------------------------- */

static ppto_report form_of(const char *path)
{
    const char *dot = path ? strrchr(path, '.') : NULL;
    if (dot && strcmp(dot, ".json") == 0) return PPTO_REPORT_JSON;
    if (dot && strcmp(dot, ".svg") == 0) return PPTO_REPORT_SVG;
    return dot && strcmp(dot, ".folded") == 0 ? PPTO_REPORT_FOLDED : PPTO_REPORT_TEXT;
}

static ppto_status write_text(int fd, void *arg, pp_error *err)
{
    const pp_text *text = arg;
    return pp_files_write(fd, text->at, text->n, err);
}

static ppto_status put(const ppto_context *ctx, const pp_memcheck *r, pp_error *err)
{
    pp_text text = {0};
    const char *path = ctx->settings.memcheck_file;
    ppto_status status = write_form(r, form_of(path), &text, err);
    if (status == PPTO_OK)
        status = path ? pp_files_write_atomic(path, write_text, &text, NULL, err)
                      : write_text(STDERR_FILENO, &text, err);
    pp_text_free(&text);
    if (status != PPTO_OK && path) {
        pp_error why = *err;
        *err = (pp_error){0};
        pp_fail(err, status, "memcheck: %.500s: %.1000s", path, why.text);
    }
    return status;
}

static void tell_leaks(const pp_memcheck *r, pp_error *err)
{
    pp_text text = {0};
    for (size_t i = 0; i < r->groups.n; i++) {
        const pp_report_group *g = &r->groups.at[i];
        if (g->suppressed || g->verdict > PP_LEAKED) continue;
        pp_text_add(&text, "\n  %s: %s, %llu bytes", pp_verdict_name(g->verdict),
                    g->operator_name ? g->operator_name : "unknown", (unsigned long long)g->retained_bytes);
        const pp_report_holder *h = g->n_holders != 0 ? &r->holders.at[g->first_holder] : NULL;
        if (g->site.file)
            pp_text_add(&text, ", recorded at %s:%d", g->site.file, (int)g->site.line);
        else if (h && h->site.file)
            pp_text_add(&text, ", held by a %s of %s:%d", h->kind, h->site.file, (int)h->site.line);
    }
    pp_fail(err, PPTO_E_VALUE, "memcheck: %llu leaked, %llu growing%s",
            (unsigned long long)r->count[PP_LEAKED], (unsigned long long)r->count[PP_GROWING],
            text.at ? text.at : "");
    pp_text_free(&text);
}

void pp_memcheck_shutdown(ppto_context *ctx, const uint64_t *left, pp_error *err)
{
    pp_memcheck made = {0};
    if (strcmp(ctx->settings.memcheck, "off") == 0) return;
    ppto_status status = make(ctx, "shutdown", &made, err);
    memcpy(made.left, left, sizeof made.left);
    if (status == PPTO_OK) status = put(ctx, &made, err);
    if (status == PPTO_OK && strcmp(ctx->settings.memcheck, "error") == 0 &&
        made.count[PP_LEAKED] + made.count[PP_GROWING] != 0)
        tell_leaks(&made, err);
    pp_memcheck_free(&made);
}
