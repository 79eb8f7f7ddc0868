/* SPDX-License-Identifier: Apache-2.0
 * A report from the JSON it was written as: every object is read by a function that knows its keys and skips
 * the others, as the schema asks. Numbers are checked before they become an index. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "memory/memcheck.h"

/* ---- tables of keys ---------------------------------------------------------------------------- */

typedef struct field { /* a key and where its value goes in a struct */
    const char *key;
    enum { NUMBER, REAL, STRING, BOOLEAN } type;
    size_t offset;
} field;

/* Reads the value of a key that the table has; false: it has not. */
static bool read_field(pp_json *r, const field *fields, size_t n, const char *key, void *into)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(fields[i].key, key) != 0) continue;
        char *to = (char *)into + fields[i].offset;
        switch (fields[i].type) {
        case NUMBER: *(uint64_t *)(void *)to = pp_json_number(r); break;
        case REAL: *(double *)(void *)to = pp_json_real(r); break;
        case STRING: *(const char **)(void *)to = pp_json_string(r); break;
        case BOOLEAN: *(bool *)(void *)to = pp_json_boolean(r); break;
        }
        return true;
    }
    return false;
}
#define READ(table, key, into) read_field(r, table, sizeof table / sizeof table[0], key, into)

/* ---- objects ----------------------------------------------------------------------------------- */

static ppto_site read_site(pp_json *r)
{
    ppto_site site = {NULL, NULL, 0, 0};
    char key[PP_JSON_KEY];
    bool first = true;
    pp_json_begin(r, '{');
    while (pp_json_key(r, &first, key)) {
        if (strcmp(key, "file") == 0)
            site.file = pp_json_string(r);
        else if (strcmp(key, "function") == 0)
            site.function = pp_json_string(r);
        else if (strcmp(key, "line") == 0)
            site.line = (int32_t)(pp_json_number(r) & INT32_MAX);
        else if (strcmp(key, "column") == 0)
            site.column = (int32_t)(pp_json_number(r) & INT32_MAX);
        else
            pp_json_skip(r);
    }
    return site;
}

static uint32_t read_stack_number(pp_json *r)
{
    uint64_t number = pp_json_number(r);
    return number < UINT32_MAX ? (uint32_t)number + 1 : 0;
}

static pp_verdict read_verdict(pp_json *r)
{
    const char *name = pp_json_string(r);
    int v = 0;
    while (name != NULL && v < PP_FINE && strcmp(name, pp_verdict_name((pp_verdict)v)) != 0) v++;
    return (pp_verdict)v;
}

static void read_holder(pp_json *r, pp_memcheck *out)
{
    pp_report_holder h = {.kind = "none"};
    char key[PP_JSON_KEY];
    bool first = true;
    pp_json_begin(r, '{');
    while (pp_json_key(r, &first, key)) {
        if (strcmp(key, "kind") == 0)
            h.kind = pp_json_string(r);
        else if (strcmp(key, "count") == 0)
            h.count = pp_json_number(r);
        else if (strcmp(key, "site") == 0)
            h.site = read_site(r);
        else if (strcmp(key, "of") == 0)
            h.of = read_site(r);
        else if (strcmp(key, "stack") == 0)
            h.stack = read_stack_number(r);
        else
            pp_json_skip(r);
    }
    if (pp_vec_push(&out->holders, h) != PPTO_OK) pp_json_fail(r, PPTO_E_NOMEM, "out of memory");
}

static void read_holders(pp_json *r, pp_memcheck *out, pp_report_group *g)
{
    bool first = true;
    g->first_holder = out->holders.n;
    pp_json_begin(r, '[');
    while (pp_json_next(r, &first, ']')) read_holder(r, out);
    g->n_holders = out->holders.n - g->first_holder;
}

static void read_overstay(pp_json *r, pp_report_group *g)
{
    static const field fields[] = {{"median", NUMBER, offsetof(pp_report_group, overstay_nodes_median)},
                                   {"max", NUMBER, offsetof(pp_report_group, overstay_nodes_max)}};
    char key[PP_JSON_KEY];
    bool first = true;
    pp_json_begin(r, '{');
    while (pp_json_key(r, &first, key))
        if (!READ(fields, key, g)) pp_json_skip(r);
}

static void read_group(pp_json *r, pp_memcheck *out)
{
#define AT(member) offsetof(pp_report_group, member)
    static const field fields[] = {
        {"operator", STRING, AT(operator_name)},
        {"kind", STRING, AT(kind)},
        {"dtype", STRING, AT(dtype)},
        {"reason", STRING, AT(reason)},
        {"suppressed", BOOLEAN, AT(suppressed)},
        {"allocation_size_bytes", NUMBER, AT(allocation_size_bytes)},
        {"rounded_bytes", NUMBER, AT(rounded_bytes)},
        {"total_count", NUMBER, AT(total_count)},
        {"live_count", NUMBER, AT(live_count)},
        {"live_bytes", NUMBER, AT(live_bytes)},
        {"retained_count", NUMBER, AT(retained_count)},
        {"retained_bytes", NUMBER, AT(retained_bytes)},
        {"retention_count", NUMBER, AT(retention_count)},
        {"retention_max", NUMBER, AT(retention_max)},
        {"loose_count", NUMBER, AT(loose_count)},
        {"byte_seconds", REAL, AT(byte_seconds)},
        {"survived_epochs", NUMBER, AT(survived_epochs)},
        {"growth_bytes_per_epoch", REAL, AT(growth_bytes_per_epoch)},
        {"peak_share_bytes", NUMBER, AT(peak_share_bytes)},
        {"avoidable_bytes", NUMBER, AT(avoidable_bytes)},
    };
#undef AT
    pp_report_group g = {.operator_name = "?", .kind = "other", .verdict = PP_FINE};
    char key[PP_JSON_KEY];
    bool first = true;
    pp_json_begin(r, '{');
    while (pp_json_key(r, &first, key)) {
        if (READ(fields, key, &g)) continue;
        if (strcmp(key, "verdict") == 0)
            g.verdict = read_verdict(r);
        else if (strcmp(key, "site") == 0)
            g.site = read_site(r);
        else if (strcmp(key, "stack") == 0)
            g.stack = read_stack_number(r);
        else if (strcmp(key, "overstay_nodes") == 0)
            read_overstay(r, &g);
        else if (strcmp(key, "overstay_ns") == 0)
            g.overstay_ns_max = (int64_t)(pp_json_number(r) & INT64_MAX);
        else if (strcmp(key, "holders") == 0)
            read_holders(r, out, &g);
        else
            pp_json_skip(r);
    }
    if (pp_vec_push(&out->groups, g) != PPTO_OK) pp_json_fail(r, PPTO_E_NOMEM, "out of memory");
}

static void read_frame(pp_json *r, pp_memcheck *out)
{
    static const field fields[] = {{"module", STRING, offsetof(pp_report_frame, module)},
                                   {"offset", NUMBER, offsetof(pp_report_frame, offset)},
                                   {"func", STRING, offsetof(pp_report_frame, function)},
                                   {"file", STRING, offsetof(pp_report_frame, file)}};
    pp_report_frame f = {.pc = 0};
    char key[PP_JSON_KEY];
    bool first = true;
    pp_json_begin(r, '{');
    while (pp_json_key(r, &first, key)) {
        if (READ(fields, key, &f)) continue;
        if (strcmp(key, "line") == 0)
            f.line = (int32_t)(pp_json_number(r) & INT32_MAX);
        else if (strcmp(key, "pc") == 0)
            f.pc = strtoull(pp_json_string(r), NULL, 16);
        else
            pp_json_skip(r);
    }
    if (pp_vec_push(&out->frames, f) != PPTO_OK) pp_json_fail(r, PPTO_E_NOMEM, "out of memory");
}

static void read_stack(pp_json *r, pp_memcheck *out)
{
    pp_report_stack s = {out->frames.n, 0};
    char key[PP_JSON_KEY];
    bool first = true;
    pp_json_begin(r, '{');
    while (pp_json_key(r, &first, key)) {
        bool first_frame = true;
        if (strcmp(key, "frames") != 0) {
            pp_json_skip(r);
            continue;
        }
        pp_json_begin(r, '[');
        while (pp_json_next(r, &first_frame, ']')) read_frame(r, out);
    }
    s.n_frames = out->frames.n - s.first_frame;
    if (pp_vec_push(&out->stacks, s) != PPTO_OK) pp_json_fail(r, PPTO_E_NOMEM, "out of memory");
}

static void read_three(pp_json *r, uint64_t *a, uint64_t *b, uint64_t *c)
{
    uint64_t *const to[] = {a, b, c};
    bool first = true;
    size_t n = 0;
    pp_json_begin(r, '[');
    for (; pp_json_next(r, &first, ']'); n++) {
        uint64_t value = pp_json_number(r);
        if (n < 3) *to[n] = value;
    }
}

/* "b12.3" */
static void read_id(pp_json *r, pp_report_buffer *b)
{
    const char *id = pp_json_string(r), *dot = strchr(id, '.');
    b->id = id[0] == 'b' ? (uint32_t)strtoul(id + 1, NULL, 10) : 0;
    b->generation = dot != NULL ? (uint32_t)strtoul(dot + 1, NULL, 10) : 0;
}

static void read_buffer(pp_json *r, pp_memcheck *out)
{
    pp_report_buffer b = {.group = 0};
    uint64_t group = 0;
    char key[PP_JSON_KEY];
    bool first = true;
    pp_json_begin(r, '{');
    while (pp_json_key(r, &first, key)) {
        if (strcmp(key, "group") == 0)
            group = pp_json_number(r);
        else if (strcmp(key, "id") == 0)
            read_id(r, &b);
        else if (strcmp(key, "bytes") == 0)
            b.bytes = pp_json_number(r);
        else if (strcmp(key, "nodes") == 0)
            read_three(r, &b.born, &b.used, &b.died);
        else if (strcmp(key, "ticks") == 0)
            read_three(r, &b.born_tick, &b.used_tick, &b.died_tick);
        else if (strcmp(key, "live") == 0)
            b.live = pp_json_boolean(r);
        else
            pp_json_skip(r);
    }
    if (group >= out->groups.n && r->status == PPTO_OK)
        pp_json_fail(r, PPTO_E_FORMAT, "a buffer of a group that is not there");
    b.group = (uint32_t)group;
    if (pp_vec_push(&out->buffers, b) != PPTO_OK) pp_json_fail(r, PPTO_E_NOMEM, "out of memory");
}

static void read_mark(pp_json *r, pp_memcheck *out)
{
    static const field fields[] = {{"name", STRING, offsetof(pp_report_mark, name)},
                                   {"node", NUMBER, offsetof(pp_report_mark, node)},
                                   {"tick", NUMBER, offsetof(pp_report_mark, tick)},
                                   {"current_bytes", NUMBER, offsetof(pp_report_mark, current_bytes)}};
    pp_report_mark m = {.name = NULL};
    char key[PP_JSON_KEY];
    bool first = true;
    pp_json_begin(r, '{');
    while (pp_json_key(r, &first, key))
        if (!READ(fields, key, &m)) pp_json_skip(r);
    if (pp_vec_push(&out->marks, m) != PPTO_OK) pp_json_fail(r, PPTO_E_NOMEM, "out of memory");
}

/* ---- the whole --------------------------------------------------------------------------------- */

static void read_names(pp_json *r, const char *(*name)(int), int n, uint64_t *values, uint64_t *other)
{
    char key[PP_JSON_KEY];
    bool first = true;
    pp_json_begin(r, '{');
    while (pp_json_key(r, &first, key)) {
        int i = 0;
        while (i < n && strcmp(key, name(i)) != 0) i++;
        uint64_t value = pp_json_number(r);
        if (i < n)
            values[i] = value;
        else if (other != NULL && strcmp(key, "suppressed") == 0)
            *other = value;
    }
}

static const char *share_name(int i)
{
    return pp_share_name((pp_share)i);
}

static const char *verdict_name(int i)
{
    return pp_verdict_name((pp_verdict)i);
}

static void read_totals(pp_json *r, pp_memcheck *out)
{
    static const field fields[] = {{"current_bytes", NUMBER, offsetof(pp_memcheck, current_bytes)},
                                   {"peak_bytes", NUMBER, offsetof(pp_memcheck, peak_bytes)},
                                   {"avoidable_bytes", NUMBER, offsetof(pp_memcheck, avoidable_bytes)},
                                   {"peak_node", NUMBER, offsetof(pp_memcheck, peak_node)},
                                   {"peak_operator", STRING, offsetof(pp_memcheck, peak_operator)}};
    char key[PP_JSON_KEY];
    bool first = true;
    pp_json_begin(r, '{');
    while (pp_json_key(r, &first, key)) {
        if (READ(fields, key, out)) continue;
        if (strcmp(key, "ideal_peak_bytes") == 0) {
            out->ideal_peak_bytes = pp_json_number(r);
            out->has_ideal = true;
        } else if (strcmp(key, "site") == 0) {
            out->peak_site = read_site(r);
        } else if (strcmp(key, "peak_parts_bytes") == 0) {
            read_names(r, share_name, PP_SHARES, out->share, NULL);
        } else if (strcmp(key, "verdicts") == 0) {
            read_names(r, verdict_name, PP_VERDICTS, out->count, &out->suppressed);
        } else {
            pp_json_skip(r);
        }
    }
}

static void read_list(pp_json *r, pp_memcheck *out, void (*element)(pp_json *, pp_memcheck *))
{
    bool first = true;
    pp_json_begin(r, '[');
    while (pp_json_next(r, &first, ']')) element(r, out);
}

static void read_member(pp_json *r, pp_memcheck *out, const char *key)
{
    static const field fields[] = {{"at", STRING, offsetof(pp_memcheck, at)},
                                   {"why_incomplete", STRING, offsetof(pp_memcheck, why_incomplete)},
                                   {"runs", NUMBER, offsetof(pp_memcheck, runs)},
                                   {"nodes", NUMBER, offsetof(pp_memcheck, nodes)},
                                   {"epochs", NUMBER, offsetof(pp_memcheck, epochs)},
                                   {"dropped", NUMBER, offsetof(pp_memcheck, dropped)}};
    if (READ(fields, key, out)) return;
    if (strcmp(key, "level") == 0)
        out->level = (int)(pp_json_number(r) & 0xff);
    else if (strcmp(key, "totals") == 0)
        read_totals(r, out);
    else if (strcmp(key, "stacks") == 0)
        read_list(r, out, read_stack);
    else if (strcmp(key, "groups") == 0)
        read_list(r, out, read_group);
    else if (strcmp(key, "marks") == 0)
        read_list(r, out, read_mark);
    else if (strcmp(key, "buffers") == 0)
        read_list(r, out, read_buffer);
    else
        pp_json_skip(r);
}

ppto_status pp_memcheck_read(const char *text, size_t n, pp_memcheck *out, pp_error *err)
{
    pp_json json, *r = &json;
    char key[PP_JSON_KEY];
    bool first = true, named = false;
    *out = (pp_memcheck){0};
    pp_json_open(r, text, n, &out->arena, err);
    pp_json_begin(r, '{');
    while (pp_json_key(r, &first, key)) {
        if (strcmp(key, "schema") != 0) {
            read_member(r, out, key);
            continue;
        }
        named = strcmp(pp_json_string(r), "ppto-memcheck/1") == 0;
        if (!named) pp_json_fail(r, PPTO_E_FORMAT, "another schema than ppto-memcheck/1");
    }
    pp_json_end(r);
    if (r->status == PPTO_OK && !named) pp_json_fail(r, PPTO_E_FORMAT, "it names no schema");
    return r->status;
}
