/* SPDX-License-Identifier: Apache-2.0
 * Recording: types of results, messages, memoised calls, signatures and literals, deep and long texts, failed
 * allocations. */
#include <pthread.h>
#include <stdlib.h>

#include "graph/library_scan.h"
#include "graph_text.h"

TestSuite(record, .init = open_graph, .fini = close_graph);

Test(record, results_have_types)
{
    input("x", PPTO_F32, "N, 512");
    input("w", PPTO_F32, "512, K");
    input("i", PPTO_I32, "7");
    input("u", PPTO_U8, "7");
    input("b", PPTO_BOOL, "N");
    expect_result("softmax(x @ w)", "f32[N, K]");
    expect_result("sum(x, axis=1)", "f32[N]");
    expect_result("sum(x, axis=0, keepdims=true)", "f32[1, 512]");
    expect_result("sum(i)", "i64[]");
    expect_result("sum(b) + u", "i64[7]");
    expect_result("i / 2", "f32[7]");
    expect_result("i + u", "i32[7]");
    expect_result("u * 2", "u8[7]");
    expect_result("i * 0.5", "f32[7]");
    expect_result("arange(3) * 0.5", "constant f64[3]");
    expect_result("where(b, 1, 0)", "constant i64[N]");
    expect_result("x > 0", "bool[N, 512]");
    expect_result("argmax(x, axis=-1)", "i64[N]");
    expect_result("moments(x, 1)", "i64[N] f32[N] f32[N]");
    expect_result("split(i, [2, 3])", "i32[2] i32[1] i32[4]");
    expect_result("sum(x) / N", "f32[]");
    expect_result("x.T", "f32[512, N]");
    expect_result("scan moments(x, 0)", "i64[N, 512] f32[N, 512] f32[N, 512]");
}

Test(record, subscripts_are_numpys)
{
    input("x", PPTO_F32, "N, 6");
    input("i", PPTO_I64, "2, 3");
    expect_result("x[1:] - x[:-1]", "f32[max(N - 1, 0), 6]");
    expect_result("x[:, ::-2]", "f32[N, 3]");
    expect_result("x[:, 10:]", "f32[N, 0]");
    expect_result("x[:, -100:4]", "f32[N, 4]");
    expect_result("x[..., -1]", "f32[N]");
    expect_result("x[None, 0]", "f32[1, 6]");
    expect_result("x[:, i]", "f32[N, 2, 3]");
    expect_failure("x[:, 6]", PPTO_E_VALUE, "subscript: 6 is out of range for axis 1 of size 6");
    expect_failure("x[x > 0]", PPTO_E_DTYPE, "where");
    expect_failure("x[0, 0, 0]", PPTO_E_VALUE, "3 subscripts for rank 2");
}

Test(record, a_list_of_one_is_a_list)
{
    input("x", PPTO_F32, "1, 6");
    expect_result("split(x, 1)", "f32[1, 6]");
    expect_result("split(x, 1)[0]", "f32[1, 6]");
    expect_result("unstack(x)[0]", "f32[6]");
    expect_result("unstack(x)[-1][2:]", "f32[4]");
    expect_result("meshgrid([x[0]])[0]", "f32[6]");
    expect_result("p = split(x, 1)\noutput a = p[0]", "f32[1, 6]");
    expect_result("p = split(x, 3, axis=1)\noutput a = p[2], b = concat(p, axis=0)", "f32[1, 2] f32[3, 2]");
    expect_result("a, b = split(x, 2, axis=1)\noutput a", "f32[1, 3]");
    expect_result("sum(x, axis=0)[0]", "f32[]");
    expect_failure("split(x, 1)[1]", PPTO_E_VALUE, "a list of 1 has no item 1");
    expect_failure("a, b = split(x, 1)\noutput a", PPTO_E_VALUE, "2 names for 1 results");
    expect_failure("x + split(x, 1)", PPTO_E_VALUE, "use stack to make a tensor of a list");
    expect_failure("p = moments(x, 0)", PPTO_E_VALUE, "assign them to names");
}

Test(record, messages_name_the_rule)
{
    input("x", PPTO_F32, "N, 512");
    input("i", PPTO_I32, "3");
    input("u", PPTO_U64, "3");
    input("c", PPTO_U8, "3");
    input("b", PPTO_BOOL, "3");
    expect_failure("sum(x, 1) * x", PPTO_E_SHAPE,
                   "multiply: cannot broadcast f32[N] with f32[N, 512] (axis -1: N against 512)");
    expect_failure("c + 300", PPTO_E_VALUE, "add: the number 300 does not fit u8");
    expect_failure("c * -1", PPTO_E_VALUE, "-1 does not fit u8");
    expect_failure("i + u", PPTO_E_DTYPE, "no common dtype");
    expect_failure("-b", PPTO_E_DTYPE, "negative: x: expected numbers, got bool[3]");
    expect_failure("exp(i)", PPTO_E_DTYPE, "astype");
    expect_failure("sinn(x)", PPTO_E_NAME, "did you mean `sin`?");
    expect_failure("sum(x, axes=1)", PPTO_E_NAME, "did you mean `axis`?");
    expect_failure("sum(x, 2)", PPTO_E_VALUE, "axis 2 is out of range for rank 2");
    expect_failure("x @ x", PPTO_E_SHAPE, "cannot multiply f32[N, 512] and f32[N, 512]");
    expect_failure("layer_norm(x, i * 1.0, i * 1.0)", PPTO_E_SHAPE, "expected shape [n = 512], got f32[3]");
    expect_failure("max(x[:0], 0)", PPTO_E_SHAPE, "size 0");
    expect_failure("x if x > 0 else 1", PPTO_E_VALUE, "where");
    expect_failure("y + x", PPTO_E_NAME, "`y` is no input");
    expect_failure("sum = x", PPTO_E_NAME, "`sum` is an operator");
    expect_failure("a = x; a = x; a", PPTO_E_NAME, "assigned twice");
    expect_failure("1 // 0", PPTO_E_VALUE, "division by zero");
    expect_failure("unstack(x)", PPTO_E_UNSUPPORTED, "not N");
    expect_failure("x + sinn(x)", PPTO_E_NAME, "x + sinn(x)\n    ^");
}

Test(record, numbers_fit_or_are_errors)
{
    input("x", PPTO_F32, "4");
    input("i", PPTO_I64, "4");
    input("u", PPTO_U64, "4");
    input("c", PPTO_U8, "4");
    input("b", PPTO_BOOL, "4");
    expect_failure("c + 300", PPTO_E_VALUE, "add: the number 300 does not fit u8 (0 to 255)");
    expect_failure("where(c > 300, c, 300)", PPTO_E_VALUE, "300 does not fit u8 (0 to 255)");
    expect_failure("astype(300, u8)", PPTO_E_VALUE, "astype: the number 300 does not fit u8 (0 to 255)");
    expect_failure("cast(-1, u64)", PPTO_E_VALUE,
                   "cast: the number -1 does not fit u64 (0 to 18446744073709551615)");
    expect_failure("full([2], 2.5, u8)", PPTO_E_VALUE, "the number 2.5 does not fit u8 (0 to 255)");
    expect_failure("i + 9223372036854775808", PPTO_E_VALUE,
                   "9223372036854775808 does not fit i64 (-9223372036854775808");
    expect_failure("u - 18446744073709551616", PPTO_E_VALUE, "18446744073709551616 does not fit u64");
    expect_failure("i + 99999999999999999999", PPTO_E_VALUE, "99999999999999999999 does not fit i64");
    expect_failure("u + -18446744073709551615", PPTO_E_VALUE, "-18446744073709551615 does not fit u64");
    expect_failure("18446744073709551615", PPTO_E_VALUE, "does not fit i64");
    expect_failure("9223372036854775807 + 1", PPTO_E_SIZE, "`9223372036854775807 + 1` is beyond i64");
    expect_failure("18446744073709551615 + 1", PPTO_E_SIZE, "`18446744073709551615 + 1` is beyond i64");
    expect_failure("i * -(-9223372036854775807 - 1)", PPTO_E_SIZE, "`-(-9223372036854775808)` is beyond i64");
    expect_result("u + -(-18446744073709551615)", "u64[4]"); /* as without both signs */
    expect_failure("-(-18446744073709551615)", PPTO_E_VALUE,
                   "the number 18446744073709551615 does not fit i64");
    expect_failure("~18446744073709551615", PPTO_E_SIZE, "beyond i64");
    expect_result("u + 18446744073709551615", "u64[4]");
    expect_result("astype(18446744073709551615, u64)", "u64[]");
    expect_result("x * 99999999999999999999", "f32[4]");
    expect_result("x ** 18446744073709551615", "f32[4]");
    expect_result("astype(c, i8) + astype(i, i8)", "i8[4]"); /* tensors wrap */
    expect_result("astype(2.7, u8)", "u8[]");
    expect_result("c > 300", "bool[4]");
    expect_result("i > 9223372036854775808", "bool[4]");
    expect_result("u > 18446744073709551614", "bool[4]");
    expect_result("b != -99999999999999999999", "bool[4]");
    expect_result("x <= 99999999999999999999", "bool[4]");
    expect_result("5 + (0 if 18446744073709551615 > 18446744073709551614 else x)", "constant i64[]");
    expect_result("5 + (x if 18446744073709551615 == 18446744073709551614 else 0)", "constant i64[]");
    expect_result("5 + (x if -99999999999999999999 > 0 else 0)", "constant i64[]");
}

Test(record, the_shipped_texts_name_what_there_is)
{
    pp_names names;
    cr_assert_eq(pp_library_names(library, &names), PPTO_OK);
    for (size_t i = 0; i < names.n; i++) {
        pp_error err = {.code = PPTO_OK};
        ppto_status status = pp_library_check_names(library, find(names.at[i]), &err);
        cr_expect_eq(status, PPTO_OK, "%s", err.text);
    }
    cr_expect(names.n > 400);
    pp_vec_free(&names);
}

static pp_ref call(const char *name, const pp_arg *args, size_t n, int32_t line)
{
    pp_ref out[8] = {{PP_NONE, 0}}, *results = out;
    size_t n_results;
    const pp_definition *d = find(name);
    ppto_site site = {"chain.c", "main", line, 0};
    cr_assert(d != NULL);
    if (pp_graph_call(graph, d, name, args, n, site, &results, &n_results) != PPTO_OK)
        return (pp_ref){PP_NONE, 0};
    return results[0];
}

#define TENSOR(x)                                                                                            \
    {                                                                                                        \
        .kind = PP_ARG_TENSOR, .tensor = (x)                                                                 \
    }

Test(record, calls_from_c_say_where)
{
    pp_ref x, y;
    const int64_t order[] = {1, 0};
    cr_assert_eq(
        pp_graph_input(graph, "x", PPTO_F32, false, "N, 512", (ppto_site){"chain.c", "main", 9, 0}, &x),
        PPTO_OK);
    cr_assert_eq(
        pp_graph_input(graph, "y", PPTO_F32, false, "512, N", (ppto_site){"chain.c", "main", 10, 0}, &y),
        PPTO_OK);
    pp_ref s = call("sum", (pp_arg[]){TENSOR(x), {.kind = PP_ARG_INT, .i = 1}}, 2, 12);
    pp_ref left = call("sin", (pp_arg[]){TENSOR(s)}, 1, 12);
    pp_ref t = call("transpose", (pp_arg[]){TENSOR(y), {.kind = PP_ARG_INTS, .ints = order, .n = 2}}, 2, 12);
    pp_ref right = call("exp", (pp_arg[]){TENSOR(t)}, 1, 12);
    pp_ref bad = call("mul", (pp_arg[]){TENSOR(left), TENSOR(right)}, 2, 12);
    cr_expect_eq(bad.node, PP_NONE);
    cr_expect_eq(pp_graph_error(graph)->code, PPTO_E_SHAPE);
    cr_expect_eq(pp_graph_error(graph)->site.line, 12);
    cr_expect_str_eq(
        pp_graph_error(graph)->text,
        "mul: cannot broadcast f32[N] with f32[N, 512] (axis -1: N against 512)\n"
        "  recorded at chain.c:12; left: sin at chain.c:12; right: exp at chain.c:12, from y: f32[512, N] "
        "at chain.c:10");
    call("exp", (pp_arg[]){TENSOR(bad)}, 1, 13);
    cr_expect_eq(pp_graph_error(graph)->site.line, 12, "the first error stays");
}

Test(record, equal_calls_share_an_expansion)
{
    pp_ref x = input("x", PPTO_F32, "N");
    pp_ref a = call("exp", (pp_arg[]){TENSOR(x)}, 1, 1);
    uint64_t before = pp_heap_count().allocations;
    for (int i = 0; i < 3; i++) a = call("exp", (pp_arg[]){TENSOR(a)}, 1, 1);
    cr_expect_leq(pp_heap_count().allocations - before, 3, "a call seen before allocates for its node only");
}

Test(record, literal_values_are_no_part_of_the_signature)
{
    pp_ref out[8];
    size_t n, count;
    uint64_t values[4], hash;
    pp_text one = {0}, two = {0}, three = {0};
    double f;
    input("x", PPTO_F32, "N");
    cr_assert_eq(record_text("x * 2.5 + 3", out, &n), PPTO_OK);
    hash = pp_graph_hash(graph, out, 1);
    cr_assert_eq(pp_graph_signature(graph, out, 1, &one), PPTO_OK);
    cr_assert_eq(pp_graph_literals(graph, out, 1, values, 4, &count), PPTO_OK);
    memcpy(&f, &values[0], sizeof f);
    cr_expect(count == 2 && f == 2.5 && values[1] == 3);
    cr_assert_eq(record_text("x * 0.125 + 7", out, &n), PPTO_OK);
    cr_assert_eq(pp_graph_signature(graph, out, 1, &two), PPTO_OK);
    cr_expect_str_eq(one.at, two.at);
    cr_expect_eq(hash, pp_graph_hash(graph, out, 1));
    cr_assert_eq(record_text("x * 1 + 7", out, &n), PPTO_OK);
    cr_assert_eq(pp_graph_signature(graph, out, 1, &three), PPTO_OK);
    cr_expect_str_neq(one.at, three.at, "the kind of a literal is part of it");
    cr_expect_neq(hash, pp_graph_hash(graph, out, 1));
    pp_text_free(&one);
    pp_text_free(&two);
    pp_text_free(&three);
}

Test(record, a_literal_exponent_decides)
{
    pp_ref out[8];
    size_t n, count, ops;
    uint64_t values[4];
    pp_flat flat;
    input("x", PPTO_F32, "N");
    cr_assert_eq(record_text("x ** 2", out, &n), PPTO_OK);
    cr_assert_eq(pp_graph_literals(graph, out, 1, values, 4, &count), PPTO_OK);
    cr_expect_eq(count, 0, "its value is part of the call");
    cr_assert_eq(pp_graph_expand(graph, out, 1, &flat, &ops, NULL), PPTO_OK);
    cr_expect_eq(flat.prims.n, 2);
    cr_expect_eq(flat.prims.at[1].op, PP_MUL);
    pp_flat_free(&flat);
}

Test(record, weak_outputs_become_tensors)
{
    pp_ref out[8];
    size_t n, ops;
    pp_flat flat;
    cr_assert_eq(record_text("arange(3) * 0.5, arange(2)", out, &n), PPTO_OK, "%s",
                 pp_graph_error(graph)->text);
    cr_assert_eq(pp_graph_expand(graph, out, n, &flat, &ops, NULL), PPTO_OK);
    const pp_type *a = pp_flat_type(&flat, flat.outputs.at[0]), *b = pp_flat_type(&flat, flat.outputs.at[1]);
    cr_expect(a->dtype == PPTO_F32 && !a->weak && b->dtype == PPTO_I64 && !b->weak);
    pp_flat_free(&flat);
}

Test(record, programs_have_inputs_and_outputs)
{
    pp_unit *unit;
    pp_error err = {.code = PPTO_OK};
    const char **names;
    pp_ref *results;
    size_t n;
    const char *text = "input x: f32[N, 512]\ninput w: f32[512, K]\nh = relu(x @ w)\n"
                       "output y = softmax(h), top = argmax(h, axis=-1)\n";
    cr_assert_eq(pp_parse(text, strlen(text), "p.ppto", PP_PARSE_PROGRAM, &unit, &err), PPTO_OK, "%s",
                 err.text);
    cr_assert_eq(pp_graph_text(graph, unit, NULL, 0, NULL, NULL, (ppto_site){0}, &names, &results, &n),
                 PPTO_OK, "%s", pp_graph_error(graph)->text);
    cr_assert_eq(n, 2);
    cr_expect_str_eq(names[0], "y");
    cr_expect_str_eq(names[1], "top");
    pp_unit_destroy(unit);
    expect_failure("input x: f32[N]\nx", PPTO_E_SHAPE, "it is bound as f32[N, 512]");
}

/* ---- long and deep ----------------------------------------------------------------------------------- */

static void *long_and_deep(void *unused)
{
    enum { TERMS = 100000, DEPTH = 900 };
    pp_ref out[8];
    size_t n, ops;
    pp_flat flat;
    char *text = malloc(TERMS * 2 + 16), *p = text;
    *p++ = 'x';
    for (int i = 0; i < TERMS; i++) *p++ = '+', *p++ = 'x';
    *p = '\0';
    cr_assert_eq(record_text(text, out, &n), PPTO_OK, "%s", pp_graph_error(graph)->text);
    cr_assert_eq(pp_graph_expand(graph, out, 1, &flat, &ops, NULL), PPTO_OK);
    cr_expect_eq(ops, TERMS);
    cr_expect_eq(flat.prims.n, TERMS + 1);
    pp_flat_free(&flat);
    p = text;
    for (int i = 0; i < DEPTH; i++) p = strcpy(p, "abs(") + 4;
    *p++ = 'x';
    for (int i = 0; i < DEPTH; i++) *p++ = ')';
    *p = '\0';
    cr_expect_eq(record_text(text, out, &n), PPTO_OK, "%s", pp_graph_error(graph)->text);
    free(text);
    return unused;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SMALL_STACK = 8 << 20 }; /* their frames are larger */
#elif defined(__OPTIMIZE__)
enum { SMALL_STACK = 256 << 10 };
#else
enum { SMALL_STACK = 1 << 20 };
#endif

Test(record, long_and_deep_texts_need_little_stack)
{
    pthread_t thread;
    pthread_attr_t attributes;
    input("x", PPTO_F32, "N");
    pthread_attr_init(&attributes);
    cr_assert_eq(pthread_attr_setstacksize(&attributes, SMALL_STACK), 0);
    cr_assert_eq(pthread_create(&thread, &attributes, long_and_deep, NULL), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
}

/* ---- failed allocations ------------------------------------------------------------------------------ */

Test(record, failed_allocations_are_errors)
{
    const char *text = "softmax(gelu(x[1:] * 0.5), axis=0) @ transpose(x) + sum(x ** 2.5)";
    ppto_status status = PPTO_E_NOMEM;
    uint64_t n = 0;
    while (status != PPTO_OK && n < 100000) {
        pp_heap_fail_at(++n, false);
        status = record_and_expand(library, text, NULL, NULL);
        pp_heap_fail_at(0, false);
        cr_assert(status == PPTO_OK || status == PPTO_E_NOMEM, "allocation %llu: %s", (unsigned long long)n,
                  ppto_status_name(status));
    }
    cr_expect_eq(status, PPTO_OK);
    cr_expect_gt(n, 50);
}

/* The place of the node called `name`, as messages have it. */
static const char *place_of(const char *name)
{
    static char place[PP_SITE_ROOM];
    place[0] = '\0';
    for (uint32_t i = 0; i < pp_graph_size(graph); i++) {
        pp_node_info info = pp_graph_node(graph, i);
        if (strcmp(info.operator_name, name) == 0) pp_site_text(&info.site, place, sizeof place);
    }
    return place;
}

Test(record, nodes_of_a_text_have_their_place_in_it)
{
    pp_ref out[8];
    size_t n;
    pp_text text = {0};
    input("x", PPTO_F32, "N");
    cr_assert_eq(record_text("sin(x) + cos(x)", out, &n), PPTO_OK);
    cr_expect_str_eq(place_of("sin"), "<text>:1:1");
    cr_expect_str_eq(place_of("add"), "<text>:1:8");
    cr_expect_str_eq(place_of("cos"), "<text>:1:10");
    cr_assert_eq(
        record_text("# \xc3\xa4\xc3\xb6\xc3\xbc\ny = exp(x); z = exp2(x) # \xc3\xa4\n  log(y) * z", out, &n),
        PPTO_OK);
    cr_expect_str_eq(place_of("exp2"), "<text>:2:17");
    cr_expect_str_eq(place_of("log"), "<text>:3:3");
    cr_expect_str_eq(place_of("multiply"), "<text>:3:10");
    for (int i = 0; i < 100; i++) pp_text_add(&text, "y%d = abs(x) # \xc3\xa4\n", i);
    pp_text_add(&text, "tan(y1) + [");
    for (int i = 0; i < 300; i++) pp_text_add(&text, "1, ");
    pp_text_add(&text, "sqrt(y2)][300]");
    cr_assert_eq(record_text(text.at, out, &n), PPTO_OK, "%s", pp_graph_error(graph)->text);
    cr_expect_str_eq(place_of("abs"), "<text>:100:7");
    cr_expect_str_eq(place_of("tan"), "<text>:101:1");
    cr_expect_str_eq(place_of("sqrt"), "<text>:101:912");
    pp_text_free(&text);
}

static void expect_condition(const char *text, const char *condition)
{
    pp_ref out[8];
    size_t n, ops;
    pp_flat flat;
    pp_text shown = {0};
    pp_error err = {.code = PPTO_OK};
    cr_assert_eq(record_text(text, out, &n), PPTO_OK, "%s: %s", text, pp_graph_error(graph)->text);
    cr_assert_eq(pp_graph_expand(graph, out, n, &flat, &ops, &err), PPTO_OK, "%s", err.text);
    for (size_t i = 0; i < flat.conditions.n; i++) {
        pp_size_print(pp_types_sizes(pp_graph_types(graph)), flat.conditions.at[i].margin, &shown);
        pp_text_add(&shown, " >= 0");
    }
    cr_expect_str_eq(shown.at != NULL ? shown.at : "", condition, "%s: %s", text, shown.at);
    pp_text_free(&shown);
    pp_flat_free(&flat);
}

Test(record, equality_of_open_sizes_is_checked_at_the_run)
{
    static const struct {
        const char *text, *condition;
    } cases[] = {
        {"x * 2 if N == N else x * 3", ""},
        {"x * 2 if N == N + 1 else x * 3", ""},
        {"require N == 4, \"four\"; x * 2", "min(N - 4, 4 - N) >= 0"},
        {"x * 2 if N == 4 else x * 3", "max(N - 5, 3 - N) >= 0"}, /* a choice takes them to differ */
        {"x * 2 if N != 4 else x * 3", "max(N - 5, 3 - N) >= 0"},
        {"x * 2 if not (N == 4) else x * 3", "max(N - 5, 3 - N) >= 0"},
        {"x * 2 if N == 4 and rank(x) == 1 else x * 3", "max(-1, max(N - 5, 3 - N)) >= 0"},
        {"x * 2 if N == 4 or rank(x) == 1 else x * 3", ""},
        {"x * 2 if [1, N] == [1, 4] else x * 3", "max(-1, max(N - 5, 3 - N)) >= 0"},
        {"x * 2 if [1, N] == [2, 4] else x * 3", ""},
        {"x * 2 if contains([4, 4], N) else x * 3", "-max(min(N - 3, 5 - N), 0) >= 0"},
        {"x * 2 if not (N > 4) else x * 3", "4 - N >= 0"}, /* an order is taken to hold as it is written */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pp_graph_destroy(graph);
        cr_assert_eq(pp_graph_create(library, &graph), PPTO_OK);
        input("x", PPTO_F32, "N");
        expect_condition(cases[i].text, cases[i].condition);
    }
    expect_failure("x + x[:4]", PPTO_E_SHAPE, "cannot broadcast"); /* shapes agree by name */
}
