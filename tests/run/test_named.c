/* SPDX-License-Identifier: Apache-2.0
 * What only a run knows: axes whose sizes are names when a graph is recorded. Rules that recording cannot
 * decide fail the run with the words of the call, the values of the sizes and the place of recording; empty
 * axes give what they give when the size is written as 0. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "ppto/ppto.h"

static ppto_context *ctx;
static int64_t live;

static void setup(void)
{
    ppto_options o = PPTO_OPTIONS_INIT;
    o.executor = "serial";
    live = pp_heap_count().live;
    cr_assert_eq(ppto_context_create(&ctx, &o), PPTO_OK, "%s", ppto_error_text(NULL));
}
static void teardown(void)
{
    ppto_context_destroy(ctx);
    cr_expect_eq(pp_heap_count().live, live, "blocks are left");
}
TestSuite(named, .init = setup, .fini = teardown);

enum { RESULTS = 4 };
typedef struct outcome {
    ppto_status status;
    char text[2048];
    size_t n;
    ppto_array *at[RESULTS];
} outcome;

/* Runs an expression over x: f32 and b: bool of the sizes n, m; by name where `names`. */
static outcome run(ppto_context *c, const char *text, bool names, int64_t n, int64_t m)
{
    outcome r = {0};
    char dims[64];
    const int64_t shape[] = {n, m};
    size_t count = 0;
    ppto_tensor **outputs = NULL;
    char **words = NULL;
    ppto_program *p = NULL;
    ppto_graph *g = ppto_graph_create(c);
    snprintf(dims, sizeof dims, names ? "N, M" : "%d, %d", (int)n, (int)m);
    ppto_input(g, "x", PPTO_F32, dims);
    ppto_input(g, "b", PPTO_BOOL, dims);
    r.status = ppto_parse_program(g, text, strlen(text), NULL, NULL, NULL, &count, &outputs, &words);
    if (r.status == PPTO_OK) r.status = ppto_compile(count, outputs, &p);
    for (size_t i = 0; p && i < ppto_program_inputs(p); i++) {
        bool is_x = strcmp(ppto_program_input_name(p, i), "x") == 0;
        ppto_array *a = ppto_array_fill(c, is_x ? PPTO_F32 : PPTO_BOOL, 2, shape, "random(3)", "x");
        ppto_program_bind(p, i, a);
        ppto_array_release(a);
    }
    if (r.status == PPTO_OK && count > RESULTS) r.status = PPTO_E_LIMIT;
    if (r.status == PPTO_OK) r.status = ppto_program_run(p, r.at);
    if (r.status != PPTO_OK) snprintf(r.text, sizeof r.text, "%s", ppto_error_text(NULL));
    r.n = r.status == PPTO_OK ? count : 0;
    ppto_outputs_free(count, outputs, words);
    ppto_program_destroy(p);
    ppto_graph_destroy(g);
    return r;
}

static void release(outcome *r)
{
    for (size_t i = 0; i < r->n; i++) ppto_array_release(r->at[i]);
}

static const char definitions[] =
    "fold off(x: num) -> (n: i64, m) {\n"
    "    unit = (3, 5)\n"
    "    lift = (1, x)\n"
    "    join(a, b) = (a.n + b.n, a.m + b.m / a.n)\n"
    "    finish(s) = (s.n + 1, exp(s.m))\n"
    "}\n"
    "fold placed(x: num) -> (v, i: i64) {\n"
    "    unit = (7, 0)\n"
    "    lift(i) = (x, i)\n"
    "    join(a, b) = (a.v + b.v, a.i + b.i)\n"
    "    finish(s) = s.v + 1\n"
    "}\n"
    "fold ordered last(x: num) {\n    unit = 4\n    lift = x\n    join(a, b) = b\n}\n"
    "op few(x: any) {\n"
    "    require size(x, 0) <= 2 or size(x, 1) > 3, \"few: {x} is too much\"\n"
    "    x\n"
    "}\n"
    "op chosen(x: num) {\n    if size(x, 0) > 2 {\n        x + 1\n    } else {\n"
    "        x\n    }\n}\n";

/* What an empty axis gives may not depend on when its size is known, nor on the device. */
Test(named, an_empty_axis_is_one_whenever_it_is_known)
{
    static const char *const texts[] = {"sum(x)",
                                        "sum(x, axis=0)",
                                        "prod(x, axis=1)",
                                        "prod(x)",
                                        "prod(x > 0.5, axis=[0, 1])",
                                        "all(b, axis=0)",
                                        "any(b, axis=1)",
                                        "max(x, axis=0)",
                                        "min(x, axis=1)",
                                        "max(b, axis=1)",
                                        "min(b)",
                                        "argmax(x, axis=0)",
                                        "argmin(x)",
                                        "mean(x, axis=1)",
                                        "mean(x)",
                                        "var(x, axis=0)",
                                        "std(x)",
                                        "moments(x, axis=1)",
                                        "nanmax(x)",
                                        "nanmean(x, axis=0)",
                                        "ptp(x, axis=1)",
                                        "count_nonzero(b, axis=0)",
                                        "off(x, axis=0)",
                                        "off(x)",
                                        "off(stack([x, x]), axis=[0, 2])",
                                        "off(stack([x, x], 1), axis=[0, 2], keepdims=true)",
                                        "last(x, axis=1)",
                                        "placed(stack([x, x], 1), axis=[0, 2])",
                                        "placed(x)",
                                        "last(x, axis=0)",
                                        "cumulative_sum(x, axis=0)",
                                        "cumulative_prod(x, axis=1, include_initial=true)",
                                        "cumulative_max(x, axis=1)",
                                        "softmax(x)",
                                        "log_softmax(x, axis=0)",
                                        "logsumexp(x, axis=1)",
                                        "normalize(x)",
                                        "x @ x.T",
                                        "x.T @ x",
                                        "x[0] @ x[0]",
                                        "vecdot(x, x)",
                                        "tensordot(x, x, 2)",
                                        "outer(x, x)",
                                        "concat([x, x], axis=0)",
                                        "concat([x, x[:, :0]], axis=1)",
                                        "stack([x, x], axis=2)",
                                        "x[1:]",
                                        "x[::-1, ::2]",
                                        "x[:, :1]",
                                        "flip(x)",
                                        "roll(x, 2)",
                                        "roll(x, -1, axis=1)",
                                        "diff(x)",
                                        "diff(x, n=3, axis=0)",
                                        "gradient(x, axis=0)",
                                        "pad(x, 1)",
                                        "pad(x, [0, 2], mode=edge)",
                                        "pad(x, 1, mode=wrap)",
                                        "pad(x, 1, mode=reflect)",
                                        "pad(x, 1, mode=symmetric)",
                                        "repeat(x, 2, axis=0)",
                                        "tile(x, [2, 3])",
                                        "tril(x)",
                                        "split(x, 2)",
                                        "split(x, [1, 3], axis=1)",
                                        "take(x, argmax(x, axis=0), axis=0)",
                                        "take(x, astype(x[:, 0], i32), axis=0)",
                                        "take_along_axis(x, astype(x, i64), axis=1)",
                                        "x[0]",
                                        "x[:, -1]",
                                        "few(x)",
                                        "chosen(x)",
                                        "l2_norm(x)",
                                        "norm(x, ord=inf)",
                                        "kron(x, x)",
                                        "expand_dims(x, 1)",
                                        "x + x[0]",
                                        "sum(softmax(x + 1, axis=1) * x, axis=0)",
                                        "prod(sum(x, axis=1))",
                                        "all(prod(x, axis=0) == 1)"};
    static const int64_t sizes[][2] = {{0, 0}, {0, 1}, {0, 3}, {1, 0}, {2, 0}, {1, 1}, {2, 3}, {4, 5}};
    ppto_options o = PPTO_OPTIONS_INIT;
    ppto_context *reference = NULL;
    o.device = "reference";
    cr_assert_eq(ppto_context_create(&reference, &o), PPTO_OK);
    cr_assert_eq(ppto_define(ctx, definitions), PPTO_OK, "%s", ppto_error_text(NULL));
    cr_assert_eq(ppto_define(reference, definitions), PPTO_OK);
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            int64_t n = sizes[s][0], m = sizes[s][1];
            outcome known = run(reference, texts[t], false, n, m),
                    slow = run(reference, texts[t], true, n, m), got = run(ctx, texts[t], true, n, m);
            bool chosen = slow.status == PPTO_E_UNSUPPORTED && strstr(slow.text, "a choice was made");
            cr_expect(chosen || slow.status == known.status, "%s of [%d, %d]: %s %s, by name %s %s", texts[t],
                      (int)n, (int)m, ppto_status_name(known.status), known.text,
                      ppto_status_name(slow.status), slow.text);
            cr_expect_eq(got.status, slow.status, "%s: %s", texts[t], got.text);
            for (size_t i = 0; i < known.n && slow.status == PPTO_OK && got.status == PPTO_OK; i++) {
                ppto_comparison a = {0}, b = {0};
                ppto_compare(slow.at[i], known.at[i], 0, 0, &a);
                ppto_compare(got.at[i], known.at[i], 0, 0, &b);
                cr_expect(a.equal && b.equal, "%s of [%d, %d]: result %zu differs", texts[t], (int)n, (int)m,
                          i);
            }
            release(&known);
            release(&slow);
            release(&got);
        }
    ppto_context_destroy(reference);
}

typedef struct broken {
    const char *text;
    int64_t n, m;
    ppto_status code;
    const char *words[5];
} broken;

static const broken rules[] = {
    {"mean(x, axis=0)",
     0,
     3,
     PPTO_E_SHAPE,
     {"mean needs at least one element along axis 0 of f32[N, M]", "N = 0"}},
    {"exp(mean(x[1:], axis=0))", 1, 3, PPTO_E_SHAPE, {"mean needs", "f32[max(N - 1, 0), M]", "N = 1"}},
    {"max(x, axis=1)", 2, 0, PPTO_E_SHAPE, {"max: axis 1 of f32[N, M] has size 0", "; M = 0"}},
    {"argmin(x)", 0, 2, PPTO_E_SHAPE, {"argmin: axis 0 of f32[N, M] has size 0", "N = 0"}},
    {"softmax(x)", 1, 0, PPTO_E_SHAPE, {"softmax: axis 1 of f32[N, M]", "M = 0"}},
    {"gradient(x)", 3, 1, PPTO_E_SHAPE, {"gradient needs at least two elements", "f32[N, M]; M = 1"}},
    {"pad(x, 2, mode=reflect)", 2, 5, PPTO_E_SHAPE, {"pad: mode reflect needs widths below", "N = 2"}},
    {"split(x, 3)", 4, 2, PPTO_E_SHAPE, {"split: 3 parts do not divide axis 0 of f32[N, M]", "N = 4"}},
    {"x[3]", 2, 1, PPTO_E_VALUE, {"3 is out of range for axis 0 of size 2", "N = 2"}},
    {"few(x)", 3, 3, PPTO_E_SHAPE, {"few: f32[N, M] is too much", "N = 3", "M = 3"}},
    {"chosen(x)", 1, 1, PPTO_E_UNSUPPORTED, {"chosen: a choice was made for N - 3 >= 0", "N = 1"}},
    {"y = x + 1\nrequire N > M, \"N must be above M\"\noutput y",
     2,
     3,
     PPTO_E_VALUE,
     {"N must be above M", ":2:", "N = 2, M = 3"}},
};

Test(named, a_rule_left_open_is_checked_at_the_run)
{
    cr_assert_eq(ppto_define(ctx, definitions), PPTO_OK, "%s", ppto_error_text(NULL));
    for (size_t k = 0; k < sizeof rules / sizeof *rules; k++) {
        const broken *b = &rules[k];
        outcome bad = run(ctx, b->text, true, b->n, b->m), good = run(ctx, b->text, true, 6, 5);
        cr_expect_eq(bad.status, b->code, "%s: %s: %s", b->text, ppto_status_name(bad.status), bad.text);
        for (int w = 0; w < 5 && b->words[w]; w++)
            cr_expect(strstr(bad.text, b->words[w]) != NULL, "\"%s\" is not in: %s", b->words[w], bad.text);
        cr_expect_eq(good.status, PPTO_OK, "%s: %s", b->text, good.text);
        release(&bad);
        release(&good);
    }
}

/* The place of recording, from C; the same program runs again once the sizes are right. */
Test(named, the_message_says_where_it_was_recorded)
{
    static const int64_t none[] = {0}, three[] = {3};
    char place[64];
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "N");
    snprintf(place, sizeof place, "test_named.c:%d", __LINE__ + 1);
    ppto_tensor *y = ppto_op(g, "mean", NULL, x);
    ppto_program *p = NULL;
    ppto_array *out = NULL, *empty = ppto_array_fill(ctx, PPTO_F32, 1, none, "ones", "x");
    ppto_array *full = ppto_array_fill(ctx, PPTO_F32, 1, three, "ones", "x");
    cr_assert_eq(ppto_compile(1, &y, &p), PPTO_OK, "%s", ppto_error_text(NULL));
    ppto_graph_destroy(g);
    for (int round = 0; round < 2; round++) {
        cr_expect_eq(ppto_program_bind(p, 0, empty), PPTO_OK);
        cr_expect_eq(ppto_program_run(p, &out), PPTO_E_SHAPE);
        cr_expect(strstr(ppto_error_text(NULL), place) != NULL, "%s", ppto_error_text(NULL));
        cr_expect_eq(ppto_program_bind(p, 0, full), PPTO_OK);
        cr_expect_eq(ppto_program_run(p, &out), PPTO_OK, "%s", ppto_error_text(NULL));
        cr_expect_eq(*(float *)ppto_array_data(out), 1.0f);
        ppto_array_release(out);
    }
    ppto_array_release(empty);
    ppto_array_release(full);
    ppto_program_destroy(p);
}
