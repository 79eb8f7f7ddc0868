/* SPDX-License-Identifier: Apache-2.0
 * No operator is special by name: the shipped library, defined again under other names, gives the same kernel
 * counts and the same bits. The copy is made from the library's own text: every name of a definition, where
 * it is defined or called, gets a prefix. */
#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "ppto/array.h"
#include "ppto/context.h"
#include "ppto/graph.h"
#include "ppto/run.h"

extern const char pp_library_text[], pp_functions_text[];

#define PREFIX "my_"

static bool in_name(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Is the word defined (after op, fold, fold ordered) somewhere in the text? */
static bool is_defined(const char *text, const char *word, size_t n)
{
    for (const char *p = text; (p = strstr(p, word)) != NULL; p++) {
        if (strncmp(p, word, n) != 0 || p[n] != '(' || p == text) continue;
        const char *line = p;
        while (line > text && line[-1] != '\n') line--;
        if ((p == line + 3 && strncmp(line, "op ", 3) == 0) ||
            (p == line + 5 && strncmp(line, "fold ", 5) == 0) ||
            (p == line + 13 && strncmp(line, "fold ordered ", 13) == 0))
            return true;
    }
    return false;
}

/* The definitions of both texts, renamed; comments and aliases are left out. */
static void rename_all(pp_text *out)
{
    pp_text all = {0};
    pp_text_add(&all, "%s\n%s", pp_functions_text, pp_library_text);
    for (const char *p = all.at; *p;) {
        if (p == all.at || p[-1] == '\n') {
            while (*p == '#' || strncmp(p, "alias ", 6) == 0) p += strcspn(p, "\n") + 1;
            if (!*p) break;
        }
        if (*p == '#') p += strcspn(p, "\n");
        if (!in_name(*p) || (p > all.at && (in_name(p[-1]) || p[-1] == '.'))) {
            pp_text_add(out, "%c", *p++);
            continue;
        }
        size_t n = 0;
        char word[64] = "";
        while (in_name(p[n])) n++;
        if (n < sizeof word) memcpy(word, p, n);
        bool part = strcmp(word, "step") == 0 && strncmp(p - 3, "op ", 3) != 0; /* also a part of folds */
        bool ours = !part && n < sizeof word && p[n] == '(' && is_defined(all.at, word, n);
        pp_text_add(out, "%s%.*s", ours ? PREFIX : "", (int)n, p);
        p += n;
    }
    pp_text_free(&all);
}

static ppto_context *ctx;

static void setup(void)
{
    ppto_options o = PPTO_OPTIONS_INIT;
    pp_text copy = {0};
    o.executor = "serial";
    cr_assert_eq(ppto_context_create(&ctx, &o), PPTO_OK);
    rename_all(&copy);
    cr_assert_not(copy.failed);
    cr_assert_eq(ppto_define(ctx, copy.at), PPTO_OK, "%s", ppto_error_text(ctx));
    pp_text_free(&copy);
}

static void teardown(void)
{
    ppto_context_destroy(ctx);
}

TestSuite(generality, .init = setup, .fini = teardown);

static ppto_array *run(const char *text, ppto_dtype dtype, size_t *kernels)
{
    int64_t shape[2] = {37, 530};
    ppto_array *x = ppto_array_fill(ctx, dtype, 2, shape, "uniform(-4,4,11)", "x"), *out = NULL;
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_program *p = NULL;
    ppto_stats stats = {.size = sizeof stats};
    ppto_input(g, "x", dtype, "N, C");
    ppto_tensor *y = ppto_expr(g, text);
    cr_assert_eq(ppto_compile(1, &y, &p), PPTO_OK, "%s: %s", text, ppto_error_text(ctx));
    cr_assert_eq(ppto_program_bind_name(p, "x", x), PPTO_OK);
    cr_assert_eq(ppto_program_run(p, &out), PPTO_OK, "%s: %s", text, ppto_error_text(ctx));
    ppto_program_stats(p, &stats);
    *kernels = stats.kernels;
    ppto_program_destroy(p);
    ppto_graph_destroy(g);
    ppto_array_release(x);
    return out;
}

Test(generality, a_copy_under_another_name_is_the_same)
{
    static const char *const calls[] = {
        "softmax(x)",
        "softmax(x, axis=0)",
        "log_softmax(x)",
        "logsumexp(x, axis=0)",
        "gelu(x)",
        "exp(x)",
        "sin(x)",
        "tanh(x)",
        "erf(x)",
        "var(x, axis=1)",
        "std(x, axis=0)",
        "mean(x)",
        "argmax(x, axis=1)",
        "cumulative_sum(x, axis=1)",
        "rms_norm(x, x[0])",
        "layer_norm(x, x[0], x[1])",
        "sum(x, axis=0)",
        "silu(x)",
        "log1p(exp(x))",
        "pow(abs(x), x)",
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (int d = 0; d < 2; d++) {
            char copy[128];
            size_t kernels, copied;
            ppto_comparison c;
            snprintf(copy, sizeof copy, PREFIX "%s", calls[i]);
            ppto_array *a = run(calls[i], d ? PPTO_F64 : PPTO_F32, &kernels);
            ppto_array *b = run(copy, d ? PPTO_F64 : PPTO_F32, &copied);
            cr_expect_eq(ppto_compare(a, b, 0, 0, &c), PPTO_OK);
            cr_expect(c.equal, "%s: %lld elements differ", calls[i], (long long)c.different);
            cr_expect_eq(kernels, copied, "%s: %zu kernels, the copy %zu", calls[i], kernels, copied);
            ppto_array_release(a);
            ppto_array_release(b);
        }
}
