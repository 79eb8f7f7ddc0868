/* SPDX-License-Identifier: Apache-2.0
 * A report from the JSON it was written as, by jansson (docs/decisions/005-memcheck.md): every object is read
 * by a table of its keys, and keys that no table has are ignored, as the schema asks. Types are checked, and
 * numbers before they become an index. */
#include <stdlib.h>
#include <string.h>

#include "memory/memcheck.h"

#ifdef PP_WITH_JANSSON
#include <jansson.h>

typedef struct reader {
    pp_memcheck *out;
    pp_error *err;
    ppto_status status; /* the first failure */
} reader;

static void fail(reader *r, ppto_status status, const char *what, const char *key)
{
    if (r->status == PPTO_OK) r->status = pp_fail(r->err, status, "%s%s", what, key);
}

/* ---- tables of keys ---------------------------------------------------------------------------- */

typedef enum field_type {
    NUMBER, /* uint64_t */
    SIGNED, /* int64_t */
    LINE,   /* int32_t */
    STACK,  /* uint32_t: one more than what is written, 0: none */
    REAL,
    STRING,
    BOOLEAN
} field_type;

typedef struct field { /* a key and where its value goes in a struct */
    const char *key;
    field_type type;
    size_t offset;
} field;

/* In the report's arena; "" after a failure. */
static const char *copy(reader *r, const json_t *value)
{
    const char *own = pp_arena_strndup(&r->out->arena, json_string_value(value), json_string_length(value));
    if (own == NULL) fail(r, PPTO_E_NOMEM, "out of memory", "");
    return own != NULL ? own : "";
}

static bool has_type(const field *f, const json_t *value)
{
    if (f->type == STRING) return json_is_string(value);
    if (f->type == BOOLEAN) return json_is_boolean(value);
    if (f->type == REAL) return json_is_number(value);
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

static void read_field(reader *r, const field *f, const json_t *value, void *into)
{
    void *to = (char *)into + f->offset;
    int64_t number = json_integer_value(value);
    if (!has_type(f, value)) {
        fail(r, PPTO_E_FORMAT, "a value of the wrong type: ", f->key);
        return;
    }
    switch (f->type) {
    case NUMBER: *(uint64_t *)to = (uint64_t)number; break;
    case SIGNED: *(int64_t *)to = number; break;
    case LINE: *(int32_t *)to = (int32_t)(number & INT32_MAX); break;
    case STACK: *(uint32_t *)to = number < UINT32_MAX ? (uint32_t)number + 1 : 0; break;
    case REAL: *(double *)to = json_number_value(value); break;
    case STRING: *(const char **)to = copy(r, value); break;
    case BOOLEAN: *(bool *)to = json_is_true(value); break;
    }
}

static void read_fields(reader *r, const json_t *object, const field *fields, size_t n, void *into)
{
    for (size_t i = 0; i < n; i++) {
        const json_t *value = json_object_get(object, fields[i].key);
        if (value != NULL) read_field(r, &fields[i], value, into);
    }
}
#define READ(object, table, into) read_fields(r, object, table, sizeof table / sizeof table[0], into)

/* The object under a key; NULL when there is none. */
static const json_t *object_at(reader *r, const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (value == NULL || json_is_object(value)) return value;
    fail(r, PPTO_E_FORMAT, "no object: ", key);
    return NULL;
}

static void read_list(reader *r, const json_t *object, const char *key,
                      void (*element)(reader *, const json_t *))
{
    const json_t *list = json_object_get(object, key);
    if (list != NULL && !json_is_array(list)) fail(r, PPTO_E_FORMAT, "no list: ", key);
    for (size_t i = 0; i < json_array_size(list) && r->status == PPTO_OK; i++) {
        const json_t *value = json_array_get(list, i);
        if (json_is_object(value))
            element(r, value);
        else
            fail(r, PPTO_E_FORMAT, "no list of objects: ", key);
    }
}

static void pushed(reader *r, ppto_status status)
{
    if (status != PPTO_OK) fail(r, status, "out of memory", "");
}

/* ---- groups ------------------------------------------------------------------------------------ */

static ppto_site read_site(reader *r, const json_t *object, const char *key)
{
    static const field fields[] = {{"file", STRING, offsetof(ppto_site, file)},
                                   {"function", STRING, offsetof(ppto_site, function)},
                                   {"line", LINE, offsetof(ppto_site, line)},
                                   {"column", LINE, offsetof(ppto_site, column)}};
    ppto_site site = {NULL, NULL, 0, 0};
    const json_t *value = object_at(r, object, key);
    if (value != NULL) READ(value, fields, &site);
    return site;
}

static pp_verdict read_verdict(const json_t *object)
{
    const char *name = json_string_value(json_object_get(object, "verdict"));
    int v = 0;
    while (name != NULL && v < PP_FINE && strcmp(name, pp_verdict_name((pp_verdict)v)) != 0) v++;
    return name != NULL ? (pp_verdict)v : PP_FINE;
}

static void read_holder(reader *r, const json_t *object)
{
    static const field fields[] = {{"kind", STRING, offsetof(pp_report_holder, kind)},
                                   {"count", NUMBER, offsetof(pp_report_holder, count)},
                                   {"stack", STACK, offsetof(pp_report_holder, stack)}};
    pp_report_holder h = {.kind = "none"};
    READ(object, fields, &h);
    h.site = read_site(r, object, "site");
    h.of = read_site(r, object, "of");
    pushed(r, pp_vec_push(&r->out->holders, h));
}

static void read_overstay(reader *r, const json_t *object, pp_report_group *g)
{
    static const field fields[] = {{"median", NUMBER, offsetof(pp_report_group, overstay_nodes_median)},
                                   {"max", NUMBER, offsetof(pp_report_group, overstay_nodes_max)}};
    const json_t *value = object_at(r, object, "overstay_nodes");
    if (value != NULL) READ(value, fields, g);
}

static void read_group(reader *r, const json_t *object)
{
#define AT(member) offsetof(pp_report_group, member)
    static const field fields[] = {
        {"operator", STRING, AT(operator_name)},
        {"kind", STRING, AT(kind)},
        {"dtype", STRING, AT(dtype)},
        {"reason", STRING, AT(reason)},
        {"suppressed", BOOLEAN, AT(suppressed)},
        {"stack", STACK, AT(stack)},
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
        {"overstay_ns", SIGNED, AT(overstay_ns_max)},
        {"byte_seconds", REAL, AT(byte_seconds)},
        {"survived_epochs", NUMBER, AT(survived_epochs)},
        {"growth_bytes_per_epoch", REAL, AT(growth_bytes_per_epoch)},
        {"peak_share_bytes", NUMBER, AT(peak_share_bytes)},
        {"avoidable_bytes", NUMBER, AT(avoidable_bytes)},
    };
#undef AT
    pp_report_group g = {.operator_name = "unknown", .kind = "other", .first_holder = r->out->holders.n};
    READ(object, fields, &g);
    g.verdict = read_verdict(object);
    g.site = read_site(r, object, "site");
    read_overstay(r, object, &g);
    read_list(r, object, "holders", read_holder);
    g.n_holders = r->out->holders.n - g.first_holder;
    pushed(r, pp_vec_push(&r->out->groups, g));
}

/* ---- stacks, history --------------------------------------------------------------------------- */

static void read_frame(reader *r, const json_t *object)
{
    static const field fields[] = {{"module", STRING, offsetof(pp_report_frame, module)},
                                   {"offset", NUMBER, offsetof(pp_report_frame, offset)},
                                   {"func", STRING, offsetof(pp_report_frame, function)},
                                   {"file", STRING, offsetof(pp_report_frame, file)},
                                   {"line", LINE, offsetof(pp_report_frame, line)}};
    const char *pc = json_string_value(json_object_get(object, "pc"));
    pp_report_frame f = {.pc = pc != NULL ? strtoull(pc, NULL, 16) : 0};
    READ(object, fields, &f);
    pushed(r, pp_vec_push(&r->out->frames, f));
}

static void read_stack(reader *r, const json_t *object)
{
    pp_report_stack s = {r->out->frames.n, 0};
    read_list(r, object, "frames", read_frame);
    s.n_frames = r->out->frames.n - s.first_frame;
    pushed(r, pp_vec_push(&r->out->stacks, s));
}

static void read_three(const json_t *object, const char *key, uint64_t *a, uint64_t *b, uint64_t *c)
{
    uint64_t *const to[] = {a, b, c};
    const json_t *list = json_object_get(object, key);
    for (size_t i = 0; i < 3; i++) *to[i] = (uint64_t)json_integer_value(json_array_get(list, i));
}

/* "b12.3" */
static void read_id(const json_t *object, pp_report_buffer *b)
{
    const char *id = json_string_value(json_object_get(object, "id"));
    const char *dot = id != NULL ? strchr(id, '.') : NULL;
    b->id = id != NULL && id[0] == 'b' ? (uint32_t)strtoul(id + 1, NULL, 10) : 0;
    b->generation = dot != NULL ? (uint32_t)strtoul(dot + 1, NULL, 10) : 0;
}

static void read_buffer(reader *r, const json_t *object)
{
    static const field fields[] = {{"bytes", NUMBER, offsetof(pp_report_buffer, bytes)},
                                   {"live", BOOLEAN, offsetof(pp_report_buffer, live)}};
    pp_report_buffer b = {.group = 0};
    int64_t group = json_integer_value(json_object_get(object, "group"));
    READ(object, fields, &b);
    read_id(object, &b);
    read_three(object, "nodes", &b.born, &b.used, &b.died);
    read_three(object, "ticks", &b.born_tick, &b.used_tick, &b.died_tick);
    if (group < 0 || (uint64_t)group >= r->out->groups.n)
        fail(r, PPTO_E_FORMAT, "a buffer of a group that is not there", "");
    b.group = (uint32_t)group;
    pushed(r, pp_vec_push(&r->out->buffers, b));
}

static void read_mark(reader *r, const json_t *object)
{
    static const field fields[] = {{"name", STRING, offsetof(pp_report_mark, name)},
                                   {"node", NUMBER, offsetof(pp_report_mark, node)},
                                   {"tick", NUMBER, offsetof(pp_report_mark, tick)},
                                   {"current_bytes", NUMBER, offsetof(pp_report_mark, current_bytes)}};
    pp_report_mark m = {.name = NULL};
    READ(object, fields, &m);
    pushed(r, pp_vec_push(&r->out->marks, m));
}

/* ---- the whole --------------------------------------------------------------------------------- */

static uint64_t number_at(const json_t *object, const char *key)
{
    int64_t number = json_integer_value(json_object_get(object, key));
    return number > 0 ? (uint64_t)number : 0;
}

static void read_totals(reader *r, const json_t *root)
{
    static const field fields[] = {{"current_bytes", NUMBER, offsetof(pp_memcheck, current_bytes)},
                                   {"peak_bytes", NUMBER, offsetof(pp_memcheck, peak_bytes)},
                                   {"ideal_peak_bytes", NUMBER, offsetof(pp_memcheck, ideal_peak_bytes)},
                                   {"avoidable_bytes", NUMBER, offsetof(pp_memcheck, avoidable_bytes)},
                                   {"peak_node", NUMBER, offsetof(pp_memcheck, peak_node)},
                                   {"peak_operator", STRING, offsetof(pp_memcheck, peak_operator)}};
    const json_t *totals = object_at(r, root, "totals");
    const json_t *shares = object_at(r, totals, "peak_parts_bytes"),
                 *verdicts = object_at(r, totals, "verdicts");
    if (totals == NULL) return;
    READ(totals, fields, r->out);
    r->out->has_ideal = json_object_get(totals, "ideal_peak_bytes") != NULL;
    r->out->peak_site = read_site(r, totals, "site");
    for (int i = 0; i < PP_SHARES; i++) r->out->share[i] = number_at(shares, pp_share_name((pp_share)i));
    for (int i = 0; i < PP_VERDICTS; i++)
        r->out->count[i] = number_at(verdicts, pp_verdict_name((pp_verdict)i));
    r->out->suppressed = number_at(verdicts, "suppressed");
}

/* A report that lacks what every report has is told to be incomplete. */
static void note_missing(reader *r, const json_t *root)
{
    static const char *const parts[] = {"level", "complete", "totals", "stacks", "groups"};
    if (r->out->why_incomplete != NULL) return;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (json_object_get(root, parts[i]) != NULL) continue;
        json_t *text = json_sprintf("the report has no \"%s\"", parts[i]);
        r->out->why_incomplete = text != NULL ? copy(r, text) : "";
        json_decref(text);
        return;
    }
    if (json_is_false(json_object_get(root, "complete")))
        r->out->why_incomplete = "the report does not say why";
}

static void read_all(reader *r, const json_t *root)
{
    static const field fields[] = {{"at", STRING, offsetof(pp_memcheck, at)},
                                   {"why_incomplete", STRING, offsetof(pp_memcheck, why_incomplete)},
                                   {"runs", NUMBER, offsetof(pp_memcheck, runs)},
                                   {"nodes", NUMBER, offsetof(pp_memcheck, nodes)},
                                   {"epochs", NUMBER, offsetof(pp_memcheck, epochs)},
                                   {"dropped", NUMBER, offsetof(pp_memcheck, dropped)}};
    const char *schema = json_string_value(json_object_get(root, "schema"));
    if (schema == NULL) {
        fail(r, PPTO_E_FORMAT, "it names no schema", "");
    } else if (strcmp(schema, "ppto-memcheck/1") != 0) {
        fail(r, PPTO_E_FORMAT, "another schema than ppto-memcheck/1", "");
    } else {
        READ(root, fields, r->out);
        r->out->level = (int)(number_at(root, "level") & 0xff);
        read_totals(r, root);
        const json_t *left = json_object_get(root, "not_released"); /* older reports have none */
        for (int i = 0; i < PP_LEFTS; i++) r->out->left[i] = number_at(left, pp_left_name((pp_left)i));
        read_list(r, root, "stacks", read_stack);
        read_list(r, root, "groups", read_group);
        read_list(r, root, "marks", read_mark);
        read_list(r, root, "buffers", read_buffer);
        note_missing(r, root);
    }
}

ppto_status pp_memcheck_read(const char *text, size_t n, pp_memcheck *out, pp_error *err)
{
    reader r = {.out = out, .err = err, .status = PPTO_OK};
    json_error_t why;
    *out = (pp_memcheck){0};
    json_t *root = json_loadb(text, n, 0, &why);
    if (root == NULL && json_error_code(&why) == json_error_out_of_memory)
        return pp_fail(err, PPTO_E_NOMEM, "out of memory");
    if (root == NULL) return pp_fail(err, PPTO_E_FORMAT, "%s, at byte %d", why.text, why.position);
    read_all(&r, root);
    json_decref(root);
    return r.status;
}

bool pp_memcheck_reads(void)
{
    return true;
}

#else

ppto_status pp_memcheck_read(const char *text, size_t n, pp_memcheck *out, pp_error *err)
{
    (void)text, (void)n;
    *out = (pp_memcheck){0};
    return pp_fail(err, PPTO_E_UNSUPPORTED, "reading reports needs jansson, which this build has not");
}

bool pp_memcheck_reads(void)
{
    return false;
}

#endif
