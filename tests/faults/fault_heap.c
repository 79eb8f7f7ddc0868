/* SPDX-License-Identifier: Apache-2.0
 * Allocation failure, everywhere: every scenario is run once to count its allocations, then again and again
 * with the N-th of them failing, once and for good. Each time the scenario must say E_NOMEM (or succeed,
 * where a failure only costs a cache entry) with a text, leave no block behind when its context is gone, and
 * succeed on the same context as soon as there is memory again. Scenarios with many allocations are sampled:
 * every one of the first DENSE, then ever wider steps. FAULT_DENSE=N in the environment sets another DENSE.
 *
 * A plain program: 0 = passed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "ppto/ops.h"
#include "ppto/ppto.h"

enum { DENSE = 120, WIDER = 32 };

static uint64_t arm_at;
static bool arm_all;
static uint64_t armed_allocations; /* since arm() */
static char path[64];

static void arm(void)
{
    armed_allocations = pp_heap_count().allocations;
    pp_heap_fail_at(arm_at, arm_all);
}
static void disarm(void)
{
    pp_heap_fail_at(0, false);
    armed_allocations = pp_heap_count().allocations - armed_allocations;
}

/* The status of a call that answers NULL on failure. */
static ppto_status of_pointer(const void *p)
{
    return p ? PPTO_OK : ppto_error_status(NULL);
}

/* ---- scenarios: PPTO_OK or the first failure; everything but the context is cleaned up ---- */

static ppto_context *new_context(void)
{
    ppto_context *ctx = NULL;
    ppto_options o = PPTO_OPTIONS_INIT;
    o.executor = "pthread";
    o.threads = 2;
    return ppto_context_create(&ctx, &o) == PPTO_OK ? ctx : NULL;
}

/* Creation, the operator library, device and executor. */
static ppto_status first_use(ppto_context *unused)
{
    (void)unused;
    arm();
    ppto_context *ctx = new_context();
    ppto_status s = of_pointer(ctx);
    ppto_graph *g = s == PPTO_OK ? ppto_graph_create(ctx) : NULL;
    if (s == PPTO_OK) s = of_pointer(g);
    char *text = NULL;
    if (s == PPTO_OK) s = ppto_runtime_info(ctx, true, &text);
    disarm();
    ppto_text_free(text);
    ppto_graph_destroy(g);
    ppto_context_destroy(ctx);
    return s;
}

/* Each use defines other names: a context keeps what it was told. */
static ppto_status define(ppto_context *ctx)
{
    static unsigned serial;
    char text[512];
    snprintf(text, sizeof text,
             "op fault_%u(x: float, k: float = 2.0) = exp(x) * k + sum(x, axis=-1, keepdims=true)\n",
             serial++);
    arm();
    ppto_status s = ppto_define(ctx, text);
    disarm();
    return s;
}

static ppto_status record(ppto_context *ctx)
{
    arm();
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_status s = of_pointer(g);
    if (s == PPTO_OK) {
        ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "N, 8"), *w = ppto_input(g, "w", PPTO_F32, "8, M");
        ppto_tensor *y = ppto_relu(ppto_matmul(ppto_add(x, ppto_float(g, 1.5)), w));
        ppto_tensor *pair[2] = {y, y}, *z = NULL;
        ppto_opn_at(PPTO_HERE, g, "add", NULL, 2, pair, 1, &z);
        z = ppto_exprn(g, "softmax($0 * 2 + sum($1), axis=1)", 2, ((ppto_tensor *[]){z, y}));
        s = of_pointer(z);
        if (s == PPTO_OK && *ppto_tensor_type(z) == 0) s = PPTO_E_NOMEM;
        if (s != PPTO_OK && ppto_graph_error(g) != s) s = PPTO_E_INTERNAL; /* the graph keeps it */
    }
    disarm();
    ppto_graph_destroy(g);
    return s;
}

/* Three graphs alike, called from C alone: the first lays a track, the others are on it. */
static ppto_status record_alike(ppto_context *ctx)
{
    ppto_status s = PPTO_OK;
    const int64_t shape[] = {4};
    ppto_array *a = ppto_array_create(ctx, PPTO_F32, 1, shape);
    if (!a) return ppto_error_status(NULL);
    arm();
    for (int i = 0; i < 3 && s == PPTO_OK; i++) {
        ppto_array *out = NULL;
        ppto_graph *g = ppto_graph_create(ctx);
        ppto_tensor *x = g ? ppto_input(g, "x", PPTO_F32, "N") : NULL;
        ppto_tensor *y = x ? ppto_mul(ppto_sum(x, 0, true), ppto_float(g, i)) : NULL;
        s = of_pointer(i == 2 ? ppto_reshape(y, 1, 1) : y); /* the last one leaves it */
        if (s == PPTO_OK) s = ppto_eval(y, &out, "x", a, NULL);
        if (s == PPTO_OK && *(float *)ppto_array_data(out) != 0) s = PPTO_E_INTERNAL;
        ppto_array_release(out);
        ppto_graph_destroy(g);
    }
    disarm();
    ppto_array_release(a);
    return s;
}

static const char chain[] = "input x: f32[N, 8]\ninput w: f32[8, M]\n"
                            "h = softmax(x * 2 + 1, axis=1) @ w\n"
                            "output y = concat([h, exp(h)], axis=0), m = cumulative_sum(mean(h, axis=1))\n";

static ppto_status parse(ppto_context *ctx, ppto_graph **g, size_t *n, ppto_tensor ***outputs, char ***names)
{
    *outputs = NULL;
    *names = NULL;
    *n = 0;
    *g = ppto_graph_create(ctx);
    if (!*g) return ppto_error_status(NULL);
    return ppto_parse_program(*g, chain, sizeof chain - 1, "chain", NULL, NULL, n, outputs, names);
}

static ppto_status compile(ppto_context *ctx)
{
    ppto_graph *g;
    ppto_tensor **outputs;
    char **names;
    size_t n;
    ppto_program *p = NULL;
    arm();
    ppto_status s = parse(ctx, &g, &n, &outputs, &names);
    if (s == PPTO_OK) s = ppto_compile(n, outputs, &p);
    disarm();
    ppto_outputs_free(n, outputs, names);
    ppto_graph_destroy(g);
    ppto_program_destroy(p);
    return s;
}

static ppto_status program(ppto_context *ctx, ppto_program **p)
{
    ppto_graph *g;
    ppto_tensor **outputs;
    char **names;
    size_t n;
    *p = NULL;
    ppto_status s = parse(ctx, &g, &n, &outputs, &names);
    if (s == PPTO_OK) s = ppto_compile(n, outputs, p);
    ppto_outputs_free(n, outputs, names);
    ppto_graph_destroy(g);
    return s;
}

static const int64_t shape_x[] = {5, 8}, shape_w[] = {8, 3}, strides_w[] = {4, 32};

static ppto_status bind(ppto_context *ctx, ppto_program *p)
{
    static float w[24];
    ppto_array *x = ppto_array_fill(ctx, PPTO_F32, 2, shape_x, "uniform(-1, 1, 7)", "x");
    ppto_status s = of_pointer(x);
    if (s == PPTO_OK) s = ppto_program_bind_name(p, "x", x);
    ppto_array_release(x);
    ppto_array *view =
        s == PPTO_OK ? ppto_array_wrap(ctx, w, PPTO_F32, 2, shape_w, strides_w, NULL, NULL) : NULL;
    if (s == PPTO_OK) s = of_pointer(view);
    if (s == PPTO_OK) s = ppto_program_bind_name(p, "w", view);
    ppto_array_release(view);
    return s;
}

static ppto_status run(ppto_context *ctx)
{
    ppto_program *p;
    ppto_array *out[2] = {NULL, NULL};
    ppto_status s = program(ctx, &p);
    if (s != PPTO_OK) return s;
    arm();
    s = bind(ctx, p);
    if (s == PPTO_OK) s = ppto_program_run(p, out);
    disarm();
    bool half = s != PPTO_OK && (out[0] || out[1]);
    ppto_array_release(out[0]);
    ppto_array_release(out[1]);
    ppto_program_destroy(p);
    return half ? PPTO_E_INTERNAL : s;
}

/* Blocks that come from mmap, a strided input that must be packed, the task log. */
static ppto_status run_large(ppto_context *ctx)
{
    enum { N = 1 << 19 };
    static float data[2 * N];
    static const int64_t shape[] = {2, N / 2}, strides[] = {4 * N, 8};
    ppto_array *y = NULL;
    char *text = NULL;
    ppto_program *p = NULL;
    arm();
    ppto_graph *g = ppto_graph_create(ctx);
    if (g) ppto_input(g, "x", PPTO_F32, "2, N");
    ppto_tensor *out = g ? ppto_expr(g, "cumulative_sum(reshape(x, [-1])) + reshape(x, [-1])") : NULL;
    ppto_status s = of_pointer(out);
    if (s == PPTO_OK) s = ppto_compile(1, &out, &p);
    ppto_array *a = s == PPTO_OK ? ppto_array_wrap(ctx, data, PPTO_F32, 2, shape, strides, NULL, NULL) : NULL;
    if (s == PPTO_OK) s = of_pointer(a);
    if (s == PPTO_OK) s = ppto_program_bind_name(p, "x", a);
    if (s == PPTO_OK) s = ppto_program_log_tasks(p, true);
    if (s == PPTO_OK) s = ppto_program_run(p, &y);
    if (s == PPTO_OK) s = ppto_program_task_log(p, &text);
    disarm();
    ppto_text_free(text);
    ppto_array_release(y);
    ppto_array_release(a);
    ppto_program_destroy(p);
    ppto_graph_destroy(g);
    return s;
}

static ppto_status files(ppto_context *ctx)
{
    static float data[12];
    static const int64_t shape[] = {3, 4}, strides[] = {4, 12};
    ppto_array *back = NULL;
    arm();
    ppto_array *a = ppto_array_wrap(ctx, data, PPTO_F32, 2, shape, strides, NULL, NULL);
    ppto_status s = of_pointer(a);
    if (s == PPTO_OK) s = ppto_array_save(a, path);
    if (s == PPTO_OK) s = of_pointer(back = ppto_array_load(ctx, path));
    char *text = NULL;
    if (s == PPTO_OK) s = ppto_array_text(back, true, &text);
    ppto_comparison difference;
    if (s == PPTO_OK) s = ppto_compare(a, back, 0, 0, &difference);
    disarm();
    if (s == PPTO_OK && !difference.equal) s = PPTO_E_INTERNAL;
    ppto_text_free(text);
    ppto_array_release(back);
    ppto_array_release(a);
    unlink(path);
    return s;
}

static ppto_status explain(ppto_context *ctx)
{
    ppto_program *p;
    ppto_status s = program(ctx, &p);
    if (s == PPTO_OK) s = bind(ctx, p);
    arm();
    for (int stage = PPTO_EXPLAIN_SUMMARY; stage <= PPTO_EXPLAIN_SOURCE; stage++)
        for (int json = 0; json < (stage == PPTO_EXPLAIN_SUMMARY ? 2 : 1) && s == PPTO_OK; json++) {
            char *text = NULL;
            s = ppto_program_explain(p, (ppto_explain_stage)stage, json != 0, &text);
            if (s == PPTO_OK && !text) s = PPTO_E_INTERNAL;
            ppto_text_free(text);
        }
    for (int format = PPTO_PICTURE_SVG; s == PPTO_OK && format <= PPTO_PICTURE_DOT; format++) {
        char *text = NULL;
        s = ppto_program_picture(p, (ppto_picture_format)format, &text);
        if (s == PPTO_OK && !text) s = PPTO_E_INTERNAL;
        ppto_text_free(text);
    }
    disarm();
    ppto_program_destroy(p);
    return s;
}

static ppto_status traces(ppto_context *ctx)
{
    ppto_program *p;
    ppto_trace *trace = NULL;
    ppto_array *out[2] = {NULL, NULL};
    char *bytes = NULL;
    size_t n = 0;
    ppto_status s = program(ctx, &p);
    if (s == PPTO_OK) s = bind(ctx, p);
    arm();
    if (s == PPTO_OK) s = ppto_trace_create(ctx, NULL, &trace);
    if (s == PPTO_OK) s = ppto_program_trace(p, trace, "p");
    if (s == PPTO_OK) s = ppto_program_run(p, out);
    for (int format = PPTO_TRACE_CHROME; s == PPTO_OK && format <= PPTO_TRACE_TIMELINE; format++) {
        s = ppto_trace_write(trace, (ppto_trace_format)format, &bytes, &n);
        ppto_text_free(bytes);
    }
    char *text = NULL;
    if (s == PPTO_OK) s = ppto_trace_steps(trace, true, &text);
    disarm();
    ppto_text_free(text);
    for (int i = 0; i < 2; i++) ppto_array_release(out[i]);
    ppto_program_destroy(p);
    ppto_trace_destroy(trace);
    return s;
}

static ppto_status lists(ppto_context *ctx)
{
    char *text = NULL;
    arm();
    ppto_status s = ppto_list_operators(ctx, "soft", true, &text);
    ppto_text_free(text);
    text = NULL;
    if (s == PPTO_OK) s = ppto_show_operator(ctx, "softmax", false, &text);
    ppto_text_free(text);
    disarm();
    return s;
}

static ppto_status eval_several(ppto_context *ctx)
{
    static const char *const names[] = {"x", "k"};
    ppto_array *out[3] = {NULL, NULL, NULL}, *bound[2] = {NULL, NULL};
    arm();
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_status s = of_pointer(g);
    if (s == PPTO_OK) s = of_pointer(bound[0] = ppto_array_fill(ctx, PPTO_F32, 2, shape_x, "normal", "x"));
    if (s == PPTO_OK) s = of_pointer(bound[1] = ppto_number(ctx, 3.0));
    if (s == PPTO_OK) {
        ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "N, 8"), *k = ppto_input_number(g, "k", true);
        ppto_tensor *t[3] = {ppto_mul(x, k), ppto_sum(x), x};
        s = ppto_evaln(3, t, out, 2, names, bound);
    }
    disarm();
    bool half = s != PPTO_OK && (out[0] || out[1] || out[2]);
    for (int i = 0; i < 3; i++) ppto_array_release(out[i]);
    ppto_array_release(bound[0]);
    ppto_array_release(bound[1]);
    ppto_graph_destroy(g);
    return half ? PPTO_E_INTERNAL : s;
}

static void nothing(void *arg, ppto_status status)
{
    (void)arg, (void)status;
}

/* Two graphs linked by an event, the second run on its own. */
static ppto_status streams(ppto_context *ctx)
{
    ppto_event gate = {NULL, 0}, e = {NULL, 0};
    ppto_program *p = NULL;
    ppto_run *r = NULL;
    ppto_array *a = NULL, *y = NULL;
    arm();
    ppto_stream *stream = ppto_stream_create(ctx, "s", PPTO_STREAM_CPU);
    ppto_status s = of_pointer(stream);
    if (s == PPTO_OK) s = ppto_event_create_user(ctx, &gate);
    ppto_graph *g = s == PPTO_OK ? ppto_graph_create(ctx) : NULL;
    if (s == PPTO_OK) s = of_pointer(g);
    if (s == PPTO_OK) s = ppto_stream_wait(g, stream, gate);
    if (s == PPTO_OK) s = ppto_stream_push(g, stream);
    ppto_tensor *t = s == PPTO_OK ? ppto_exp(ppto_input(g, "x", PPTO_F32, "N, 8")) : NULL;
    if (s == PPTO_OK) s = of_pointer(t);
    if (s == PPTO_OK) s = ppto_stream_pop(g);
    if (s == PPTO_OK) s = ppto_event_record(g, stream, &e);
    if (s == PPTO_OK) s = ppto_event_then(e, nothing, NULL);
    if (s == PPTO_OK) s = ppto_compile(1, &t, &p);
    if (s == PPTO_OK) s = of_pointer(a = ppto_array_fill(ctx, PPTO_F32, 2, shape_x, "normal", "x"));
    if (s == PPTO_OK) s = ppto_program_bind(p, 0, a);
    if (s == PPTO_OK) s = ppto_program_start(p, NULL, &r);
    if (s == PPTO_OK) s = ppto_event_signal(gate, PPTO_OK);
    if (s == PPTO_OK) s = ppto_run_wait(r, -1);
    if (s == PPTO_OK) s = ppto_run_outputs(r, &y);
    if (s == PPTO_OK && !y) s = PPTO_E_INTERNAL;
    disarm();
    ppto_array_release(y);
    ppto_array_release(a);
    ppto_run_release(r);
    ppto_program_destroy(p);
    ppto_graph_destroy(g);
    ppto_event_release(e);
    ppto_event_release(gate);
    ppto_stream_destroy(stream);
    return s;
}

/* A watched context: what the ledger drops for lack of memory is counted, and no run fails for it. */
static ppto_status watched(ppto_context *unused)
{
    (void)unused;
    ppto_context *ctx = NULL;
    ppto_options o = PPTO_OPTIONS_INIT;
    ppto_array *a = NULL, *y = NULL;
    char *json = NULL, *text[3] = {NULL, NULL, NULL};
    o.executor = "serial";
    o.memcheck_level = 2;
    arm();
    ppto_status s = ppto_context_create(&ctx, &o);
    ppto_graph *g = s == PPTO_OK ? ppto_graph_create(ctx) : NULL;
    if (s == PPTO_OK) s = of_pointer(g);
    if (s == PPTO_OK) s = of_pointer(a = ppto_array_fill(ctx, PPTO_F32, 2, shape_x, "uniform(0, 1)", "x"));
    if (s == PPTO_OK) s = ppto_eval(ppto_exp(ppto_input(g, "x", PPTO_F32, "N, 8")), &y, "x", a, NULL);
    if (s == PPTO_OK) s = ppto_memcheck_mark(ctx, "after");
    if (s == PPTO_OK) s = ppto_memcheck_text(ctx, PPTO_REPORT_JSON, &json);
    for (int form = 0; form < 3 && s == PPTO_OK; form++)
        s = ppto_memcheck_convert(json, strlen(json), (ppto_report)form, NULL, NULL, &text[form]);
    disarm();
    for (int i = 0; i < 3; i++) ppto_text_free(text[i]);
    ppto_text_free(json);
    ppto_array_release(y);
    ppto_array_release(a);
    ppto_graph_destroy(g);
    ppto_context_destroy(ctx);
    return s;
}

/* A source on a stream to a sink on another, and the file they leave. */
static ppto_status from_file_to_file(ppto_context *ctx, const char *from, const char *to)
{
    ppto_array *none = NULL, *back = NULL;
    ppto_stream *load = ppto_stream_create(ctx, "load", PPTO_STREAM_IO);
    ppto_graph *g = load ? ppto_graph_create(ctx) : NULL;
    ppto_status s = of_pointer(g);
    if (s == PPTO_OK) s = ppto_stream_push(g, load);
    ppto_tensor *x = s == PPTO_OK ? ppto_open(g, from) : NULL;
    if (s == PPTO_OK) s = ppto_stream_pop(g);
    ppto_tensor *y = s == PPTO_OK ? ppto_sink(g, ppto_exp(x), to) : NULL;
    if (s == PPTO_OK) s = of_pointer(y);
    if (s == PPTO_OK) s = ppto_eval(y, &none, NULL);
    if (s == PPTO_OK) s = of_pointer(back = ppto_array_load(ctx, to));
    ppto_array_release(back);
    ppto_graph_destroy(g);
    ppto_stream_destroy(load);
    return s;
}

static ppto_status archive(ppto_context *ctx, const char *ending)
{
    static const char *const names[] = {"a", NULL};
    const int64_t shape[] = {4, 3};
    char file[80], one[90], other[90];
    snprintf(file, sizeof file, "%s%s", path, ending);
    snprintf(one, sizeof one, "%s:a", file);
    snprintf(other, sizeof other, "%s:b", file);
    arm();
    ppto_array *a = ppto_array_fill(ctx, PPTO_F32, 2, shape, "random(1)", "a"), *both[] = {a, a};
    ppto_status s = of_pointer(a);
    if (s == PPTO_OK) s = ppto_arrays_save(file, 2, names, both);
    if (s == PPTO_OK) s = from_file_to_file(ctx, one, other);
    ppto_array_release(a);
    disarm();
    unlink(file);
    return s == PPTO_E_UNSUPPORTED ? PPTO_OK : s; /* without the library */
}

static ppto_status npz(ppto_context *ctx)
{
    return archive(ctx, ".npz");
}

static ppto_status safetensors(ppto_context *ctx)
{
    return archive(ctx, ".safetensors");
}

/* ---- the sweep ---- */

typedef struct scenario {
    const char *name;
    ppto_status (*body)(ppto_context *ctx);
    bool own_context;
} scenario;

static const scenario scenarios[] = {
    {"first use", first_use, true},
    {"define", define, false},
    {"record", record, false},
    {"record alike", record_alike, false},
    {"compile", compile, false},
    {"run", run, false},
    {"run large", run_large, false},
    {"files", files, false},
    {"explain", explain, false},
    {"lists", lists, false},
    {"eval several", eval_several, false},
    {"streams", streams, false},
    {"memcheck", watched, true},
    {"traces", traces, false},
    {"npz", npz, false},
    {"safetensors", safetensors, false},
};

static int failures;

static void complain(const scenario *s, const char *what)
{
    fprintf(stderr, "%s: allocation %llu%s: %s (%s)\n", s->name, (unsigned long long)arm_at,
            arm_all ? " and all after" : "", what, ppto_error_text(NULL));
    failures++;
}

/* A context whose library is there, so that what is counted is the scenario's own. */
static ppto_context *warm(const scenario *s)
{
    if (s->own_context) return NULL;
    ppto_context *ctx = new_context();
    ppto_graph_destroy(ppto_graph_create(ctx));
    return ctx;
}

/* One try; how many allocations it made. */
static uint64_t try_once(const scenario *s, uint64_t at, bool all, bool must_work)
{
    int64_t live = pp_heap_count().live;
    ppto_context *ctx = warm(s);
    arm_at = at;
    arm_all = all;
    ppto_status status = s->body(ctx);
    uint64_t made = armed_allocations;
    if (must_work ? status != PPTO_OK : status != PPTO_OK && status != PPTO_E_NOMEM)
        complain(s, ppto_status_name(status));
    if (status == PPTO_E_NOMEM && *ppto_error_text(NULL) == 0) complain(s, "no text");
    arm_at = 0;
    if (status != PPTO_OK && s->body(ctx) != PPTO_OK)
        complain(s, "fails with memory, after it failed without");
    arm_at = at;
    ppto_context_destroy(ctx);
    if (pp_heap_count().live != live) complain(s, "blocks are left");
    return made;
}

static void sweep(const scenario *s, uint64_t dense)
{
    enum { MAPS = 8 }; /* blocks of the pool that come from mmap fail in the same row, but are not counted */
    uint64_t count = try_once(s, 0, false, true) + MAPS, tries = 0;
    for (int all = 0; all < 2 && failures < 20; all++)
        for (uint64_t n = 1; n <= count && failures < 20; n += n < dense ? 1 : 1 + n / WIDER, tries++)
            try_once(s, n, all != 0, false);
    printf("%s: %llu allocations, %llu tries\n", s->name, (unsigned long long)count,
           (unsigned long long)tries);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const char *dense = getenv("FAULT_DENSE");
    snprintf(path, sizeof path, "fault_heap_%ld.npy", (long)getpid());
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        if (argc < 2 || strcmp(argv[1], scenarios[i].name) == 0)
            sweep(&scenarios[i], dense ? strtoull(dense, NULL, 10) : DENSE);
    return failures ? 1 : 0;
}
