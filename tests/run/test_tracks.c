/* SPDX-License-Identifier: Apache-2.0
 * Graphs recorded like one before (src/runtime/track.h): they take the program of that one, and nothing else
 * about them may show it. Values, errors and places are compared with those of a context that never saw such
 * a graph; counts say whether the track was kept, never the clock. */
#include <criterion/criterion.h>
#include <string.h>

#include "ppto/ops.h"
#include "runtime/runtime.h"
#include "tests/support/context.h"

enum { N = 24 };

TestSuite(tracks, .init = open_context, .fini = close_context);

static ppto_context *fresh(void)
{
    ppto_options o = PPTO_OPTIONS_INIT;
    ppto_context *other = NULL;
    o.executor = "serial";
    cr_assert_eq(ppto_context_create(&other, &o), PPTO_OK);
    return other;
}

static ppto_array *data(ppto_context *in, ppto_dtype dtype, const char *name)
{
    const int64_t shape[] = {N};
    ppto_array *a =
        ppto_array_fill(in, dtype, 1, shape, dtype <= PPTO_U64 ? "integers(1,9)" : "uniform(0.5,2)", name);
    cr_assert_not_null(a, "%s", ppto_error_text(NULL));
    return a;
}

/* ---- graphs that differ in one thing ------------------------------------------------------------------- */

typedef struct shape_of_graph {
    ppto_dtype dtype;
    const char *dims, *name; /* of the first input */
    double constant;
    int64_t power, axis;
    bool swapped, both; /* operands of the difference; two outputs */
} shape_of_graph;

static const shape_of_graph plain = {PPTO_F32, "N", "x", 1.5, 2, 0, false, false};

static size_t record(ppto_graph *g, const shape_of_graph *s, ppto_tensor **outputs)
{
    ppto_tensor *x = ppto_input(g, s->name, s->dtype, s->dims), *y = ppto_input(g, "y", s->dtype, s->dims);
    ppto_tensor *z = ppto_mul(ppto_add(x, y), s->dtype == PPTO_I32 ? ppto_int(g, (int64_t)s->constant)
                                                                   : ppto_float(g, s->constant));
    z = s->swapped ? ppto_sub(y, z) : ppto_sub(z, y);
    z = ppto_pow(z, ppto_int(g, s->power));
    outputs[0] = ppto_sum(z, s->axis, true);
    outputs[1] = z;
    return s->both ? 2 : 1;
}

/* Records and runs it; on_track: whether it was on one to the end. */
static void run(ppto_context *in, const shape_of_graph *s, ppto_array **results, bool *on_track)
{
    ppto_graph *g = ppto_graph_create(in);
    ppto_tensor *outputs[2];
    const char *names[] = {s->name, "y"};
    ppto_array *arrays[] = {data(in, s->dtype, "x"), data(in, s->dtype, "y")};
    const size_t n = record(g, s, outputs);
    results[0] = results[1] = NULL;
    cr_assert_eq(ppto_graph_error(g), PPTO_OK, "%s", ppto_graph_error_text(g));
    cr_assert_eq(ppto_evaln(n, outputs, results, 2, names, arrays), PPTO_OK, "%s", ppto_error_text(NULL));
    *on_track = g->track.on;
    ppto_array_release(arrays[0]);
    ppto_array_release(arrays[1]);
    ppto_graph_destroy(g);
}

static void expect_same(const ppto_array *a, const ppto_array *b)
{
    ppto_comparison c;
    cr_assert_eq(a == NULL, b == NULL);
    if (!a) return;
    cr_assert_eq(ppto_compare(a, b, 0, 0, &c), PPTO_OK);
    cr_expect(c.equal, "%lld elements differ", (long long)c.different);
}

/* Against a context that sees it for the first time. */
static bool run_and_compare(const shape_of_graph *s)
{
    bool on_track, other;
    ppto_array *got[2], *want[2];
    ppto_context *reference = fresh();
    run(ctx, s, got, &on_track);
    run(reference, s, want, &other);
    cr_expect(!other, "nothing was recorded before");
    for (int i = 0; i < 2; i++) {
        expect_same(got[i], want[i]);
        ppto_array_release(got[i]);
        ppto_array_release(want[i]);
    }
    ppto_context_destroy(reference);
    return on_track;
}

Test(tracks, a_graph_like_one_before_stays_on_its_track)
{
    cr_expect(!run_and_compare(&plain));
    cr_expect(run_and_compare(&plain));
    cr_expect(run_and_compare(&plain));
    cr_expect_eq(ctx->plans_made, 1);
}

Test(tracks, a_changed_constant_is_seen)
{
    shape_of_graph s = plain;
    run_and_compare(&plain);
    for (int i = 0; i < 5; i++) {
        s.constant = 0.25 * i;
        cr_expect(run_and_compare(&s), "the constant is an argument of the kernel");
    }
    cr_expect_eq(ctx->plans_made, 1);
}

Test(tracks, what_differs_is_no_hit)
{
    shape_of_graph s[9];
    for (size_t i = 0; i < 9; i++) s[i] = plain;
    s[1].dtype = PPTO_F64;
    s[2].dims = "24";
    s[3].name = "w";
    s[4].power = 3;
    s[5].axis = PPTO_ALL;
    s[6].swapped = true;
    s[7].both = true;
    s[8].dtype = PPTO_I32;
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < 9; i++)
            cr_expect_eq(run_and_compare(&s[i]), round != 0, "round %d, graph %zu", round, i);
}

Test(tracks, a_literal_that_the_call_looks_at_is_part_of_it)
{
    shape_of_graph s = plain;
    for (int round = 0; round < 2; round++)
        for (s.power = -2; s.power <= 5; s.power++)
            cr_expect_eq(run_and_compare(&s), round != 0, "power %lld", (long long)s.power);
}

/* ---- leaving ------------------------------------------------------------------------------------------- */

/* x + 1 and then a call that fails; gives what is said. */
static void fail(ppto_context *in, int64_t literal, char *text, size_t room)
{
    ppto_graph *g = ppto_graph_create(in);
    ppto_tensor *x = ppto_input(g, "x", PPTO_I8, "N"), *w = ppto_input(g, "w", PPTO_I8, "4, 5");
    ppto_tensor *y = ppto_add(x, ppto_int(g, literal));
    if (literal < 100) y = ppto_matmul(ppto_reshape(y, 3, 3), w);
    cr_expect_null(y);
    snprintf(text, room, "%s", ppto_graph_error_text(g));
    cr_expect_neq(ppto_graph_error(g), PPTO_OK);
    ppto_graph_destroy(g);
}

static void succeed(void)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *x = ppto_input(g, "x", PPTO_I8, "N"), *w = ppto_input(g, "w", PPTO_I8, "4, 5");
    ppto_tensor *y = ppto_add(x, ppto_int(g, 1));
    ppto_program *p = NULL;
    (void)w;
    cr_assert_eq(ppto_compile(1, &y, &p), PPTO_OK);
    ppto_program_destroy(p);
    ppto_graph_destroy(g);
}

Test(tracks, errors_are_those_of_a_first_recording)
{
    static const int64_t literals[] = {1, 1000};
    char got[4096], want[4096];
    succeed();
    for (int i = 0; i < 2; i++) {
        ppto_context *other = fresh();
        fail(ctx, literals[i], got, sizeof got);
        fail(other, literals[i], want, sizeof want);
        cr_expect_str_eq(got, want);
        ppto_context_destroy(other);
    }
}

Test(tracks, a_graph_that_failed_on_its_track_is_not_compiled_and_not_used_again)
{
    succeed();
    for (int round = 0; round < 2; round++) {
        ppto_graph *g = ppto_graph_create(ctx);
        ppto_program *p = NULL;
        cr_assert_eq(ppto_graph_error(g), PPTO_OK);
        ppto_tensor *x = ppto_input(g, "x", PPTO_I8, "N");
        ppto_input(g, "w", PPTO_I8, "4, 5");
        ppto_tensor *y = ppto_add(x, ppto_int(g, 1));
        cr_assert(g->track.on);
        cr_expect_null(ppto_add(y, NULL));
        EXPECT_ERROR(ppto_compile(1, &y, &p), PPTO_E_VALUE, "add: an operand is NULL");
        ppto_graph_destroy(g);
    }
    succeed();
}

Test(tracks, a_graph_that_leaves_its_track_has_all_that_was_recorded)
{
    bool on_track;
    ppto_array *results[2];
    run(ctx, &plain, results, &on_track);
    ppto_array_release(results[0]);
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *outputs[2];
    record(g, &plain, outputs);
    cr_assert(g->track.on);
    const size_t size = ppto_graph_size(g);
    cr_expect_eq(ppto_tensor_dtype(outputs[1]), PPTO_F32);
    cr_expect_eq(ppto_tensor_rank(outputs[1]), 1);
    cr_expect_str_eq(ppto_tensor_type(outputs[1]), "f32[N]");
    cr_expect(!g->track.on);
    cr_expect_eq(ppto_graph_size(g), size);
    cr_expect_not_null(ppto_expr(g, "exp(x) + y"));
    cr_expect_eq(ppto_graph_size(g), size + 2);
    ppto_graph_destroy(g);
}

/* ---- programs ------------------------------------------------------------------------------------------ */

Test(tracks, two_programs_of_one_track_are_apart)
{
    ppto_program *p[3];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 3; i++) {
            ppto_graph *g = ppto_graph_create(ctx);
            ppto_tensor *outputs[2];
            ppto_stats stats = {.size = sizeof stats};
            shape_of_graph s = plain;
            s.constant = i;
            record(g, &s, outputs);
            cr_assert_eq(ppto_compile(1, outputs, &p[i]), PPTO_OK);
            cr_assert_eq(ppto_program_stats(p[i], &stats), PPTO_OK);
            cr_expect_eq(stats.plan_hit, round + i != 0);
            cr_expect_eq(p[i]->literals[0] == 0, i == 0);
            ppto_graph_destroy(g);
        }
        cr_expect(p[0] != p[1] && p[1] != p[2] && p[0] != p[2]);
        for (int i = 0; i < 3; i++) ppto_program_destroy(p[i]);
    }
}

Test(tracks, a_program_that_is_taken_has_nothing_of_the_one_before)
{
    ppto_array *x = data(ctx, PPTO_F32, "x"), *out = NULL;
    for (int round = 0; round < 3; round++) {
        ppto_graph *g = ppto_graph_create(ctx);
        ppto_tensor *outputs[2];
        ppto_program *p;
        record(g, &plain, outputs);
        cr_assert_eq(ppto_compile(1, outputs, &p), PPTO_OK);
        ppto_graph_destroy(g);
        EXPECT_ERROR(ppto_program_run(p, &out), PPTO_E_NAME, "is not bound");
        cr_assert_eq(ppto_program_bind(p, 0, x), PPTO_OK);
        cr_assert_eq(ppto_program_donate(p, 0, false), PPTO_OK);
        EXPECT_ERROR(ppto_program_run(p, &out), PPTO_E_NAME, "input y is not bound");
        EXPECT_ERROR(ppto_program_bind_name(p, "z", x), PPTO_E_NAME, "no input named \"z\"");
        if (round == 1) cr_assert_eq(ppto_program_name_output(p, 0, "total"), PPTO_OK);
        ppto_program_destroy(p);
    }
    cr_expect_eq(atomic_load(&x->refs), 1);
    ppto_array_release(x);
}

/* ---- many ---------------------------------------------------------------------------------------------- */

/* The digits of the number choose the operators. */
static ppto_tensor *chain(ppto_graph *g, unsigned number, int length)
{
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "N"), *y = ppto_input(g, "y", PPTO_F32, "N"), *z = x;
    for (int i = 0; i < length; i++, number = number * 1103515245u + 12345u) switch (number >> 16 & 7) {
        case 0: z = ppto_add(z, y); break;
        case 1: z = ppto_mul(z, ppto_float(g, 0.5 + number % 7)); break;
        case 2: z = ppto_sub(x, z); break;
        case 3: z = ppto_maximum(z, y); break;
        case 4: z = ppto_mean(ppto_concat(2, ((ppto_tensor *[]){z, y}), 0), 0, true); break;
        case 5: z = ppto_clip(z, ppto_float(g, 0.25), ppto_int(g, 1 + number % 3)); break;
        case 6: z = ppto_flip(z, 0); break;
        default: z = ppto_abs(ppto_neg(z));
        }
    return z;
}

static ppto_array *evaluate(ppto_context *in, unsigned number, int length)
{
    ppto_graph *g = ppto_graph_create(in);
    ppto_array *x = data(in, PPTO_F32, "x"), *y = data(in, PPTO_F32, "y"), *out = NULL;
    cr_assert_eq(ppto_eval(chain(g, number, length), &out, "x", x, "y", y, NULL), PPTO_OK, "%u: %s", number,
                 ppto_error_text(NULL));
    ppto_array_release(x);
    ppto_array_release(y);
    ppto_graph_destroy(g);
    return out;
}

Test(tracks, random_chains_have_the_values_of_a_fresh_context)
{
    for (unsigned number = 1; number <= 60; number++) {
        ppto_context *other = fresh();
        ppto_array *want = evaluate(other, number, 8);
        for (int i = 0; i < 2; i++) {
            ppto_array *got = evaluate(ctx, number, 8);
            expect_same(got, want);
            ppto_array_release(got);
        }
        ppto_array_release(want);
        ppto_context_destroy(other);
    }
}

Test(tracks, there_are_only_so_many)
{
    for (unsigned number = 1; number <= 700; number++) ppto_array_release(evaluate(ctx, number, 6));
    cr_expect_leq(ctx->tracks->n_programs, 512);
    bool on_track;
    ppto_array *results[2];
    run(ctx, &plain, results, &on_track);
    ppto_array_release(results[0]);
    run(ctx, &plain, results, &on_track);
    ppto_array_release(results[0]);
    cr_expect(on_track);
}

Test(tracks, recording_anew_takes_no_more_blocks)
{
    for (int i = 0; i < 3; i++) ppto_array_release(evaluate(ctx, 3, 8));
    const int64_t before = pp_heap_count().live;
    for (int i = 0; i < 100; i++) ppto_array_release(evaluate(ctx, 3, 8));
    cr_expect_eq(pp_heap_count().live, before);
}
