/* SPDX-License-Identifier: Apache-2.0
 * Every operator of the library, called wrongly: for each of its parameters values of another kind, rank,
 * dtype, length, nesting or range, and too few, too many, unknown and repeated arguments. Some are legal for
 * some operators; where a call fails, the message must begin with the name the user wrote, tell the type of
 * every tensor given, name no part of the library and not speak of what happens inside. */
#include <stdio.h>

#include "graph_text.h"

enum { ROOM = 512 };

static void open_wrong(void)
{
    open_graph();
    input("f", PPTO_F32, "2, 3");
    input("g", PPTO_F32, "4, 5");
    input("h", PPTO_F32, "2, 3, 4");
    input("v", PPTO_F32, "3");
    input("s", PPTO_F32, "");
    input("i", PPTO_I32, "3");
    input("u", PPTO_U64, "3");
    input("j", PPTO_I64, "3");
    input("b", PPTO_BOOL, "3");
    input("n", PPTO_F32, "N, M");
}

TestSuite(wrong_calls, .init = open_wrong, .fini = close_graph);

static const char *const tensors[] = {"none", "[1, 2]", "f32", "true", "b",   "i",   "u",  "s", "g",
                                      "v",    "h",      "n",   "2",    "2.5", "300", "-1", NULL};
static const char *const lists[] = {"none",  "f", "[]",     "[f, 1]", "[f, g]", "[f, b]", "[f, v]", "[j, u]",
                                    "[[f]]", "2", "[s, s]", "[1, 2]", "[h, h]", "[none]", NULL};
static const char *const fixed[] = {"none",
                                    "word",
                                    "f",
                                    "f32",
                                    "true",
                                    "2",
                                    "-3",
                                    "99",
                                    "1.5",
                                    "1000000000000",
                                    "18446744073709551615",
                                    "[]",
                                    "[0]",
                                    "[1]",
                                    "[0, 0]",
                                    "[0, 1]",
                                    "[0, 7]",
                                    "[1, 2, 3]",
                                    "[1.5]",
                                    "[f]",
                                    "[f32]",
                                    "[true]",
                                    "[-7]",
                                    "[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]",
                                    "[[]]",
                                    "[[1]]",
                                    "[[1, 2, 3]]",
                                    "[[1], [2]]",
                                    "[[1, 2], [3]]",
                                    "[1, [2, 3]]",
                                    "[[0, 0], [0, 0]]",
                                    "[[0], [0], [1]]",
                                    "[[[1, 2]]]",
                                    "[[f, f]]",
                                    "[[1.5, 1]]",
                                    "'f99'",
                                    NULL};

/* An argument that fits the parameter. */
static const char *good(const pp_param *p)
{
    switch (p->spec) {
    case PP_SPEC_INT: return "i";
    case PP_SPEC_BOOL: return "b";
    case PP_SPEC_TENSORS: return "[f, f]";
    case PP_SPEC_P_INT:
    case PP_SPEC_P_NUM: return "1";
    case PP_SPEC_P_FLOAT: return "1.0";
    case PP_SPEC_P_BOOL: return "true";
    case PP_SPEC_P_INTS: return "[3, 2]";
    case PP_SPEC_P_DTYPE: return "f32";
    case PP_SPEC_P_AXES:
    case PP_SPEC_P_STR:
    case PP_SPEC_P_ANY: return "1";
    default: return p->has_shape ? "v" : "f";
    }
}

static const char *const *bad(const pp_param *p)
{
    return p->spec == PP_SPEC_TENSORS ? lists : pp_param_is_tensor(p) ? tensors : fixed;
}

/* The call with `value` for parameter k (n_params: with good arguments only); *given: its arguments. */
static void write_call(const char *name, const pp_definition *d, size_t k, const char *value, char *out,
                       const char **given)
{
    int at = snprintf(out, ROOM, "%s(", name);
    const char *comma = "";
    for (size_t i = 0; i < d->n_params; i++) {
        const pp_param *p = &d->param[i];
        if (i != k && p->fallback != NULL) continue;
        const char *argument = i == k ? value : good(p);
        bool named = p->fallback != NULL;
        at += snprintf(out + at, (size_t)(ROOM - at), "%s%s%s%s", comma, named ? p->name : "",
                       named ? "=" : "", argument);
        comma = ", ";
    }
    *given = strchr(out, '(');
    snprintf(out + at, (size_t)(ROOM - at), ")");
}

/* Whether the text tells the types of all inputs the call names. */
static bool tells_types(const char *call, const char *text)
{
    static const char *const types[][2] = {
        {"f", "f32[2, 3]"}, {"g", "f32[4, 5]"}, {"h", "f32[2, 3, 4]"}, {"v", "f32[3]"},  {"s", "f32[]"},
        {"i", "i32[3]"},    {"u", "u64[3]"},    {"j", "i64[3]"},       {"b", "bool[3]"}, {"n", "f32[N, M]"}};
    bool told = true;
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
        for (const char *p = call; (p = strstr(p, types[t][0])) != NULL; p++)
            if (strchr("(, [", p[-1]) != NULL && strchr("), ]", p[1]) != NULL)
                told = told && strstr(text, types[t][1]) != NULL;
    return told;
}

/* A word where a parameter takes one stays a word, also `f`. */
static void judge(const char *name, const char *call, const char *given, unsigned *failures)
{
    pp_ref out[8];
    size_t n;
    char line[1024], head[96];
    if (record_text(call, out, &n) == PPTO_OK) return;
    ++*failures;
    const pp_error *err = pp_graph_error(graph);
    snprintf(line, sizeof line, "%.*s", (int)strcspn(err->text, "\n"), err->text);
    snprintf(head, sizeof head, "<text>:1:1: %s", name);
    cr_expect(strncmp(line, head, strlen(head)) == 0 && strchr(" :", line[strlen(head)]) != NULL, "%s: %s",
              call, line);
    cr_expect(strstr(err->text, "\n^") != NULL, "%s: no caret: %s", call, err->text);
    cr_expect(strstr(line, " _") == NULL && strstr(line, "has no meaning") == NULL &&
                  strstr(line, "has no item") == NULL && strstr(line, "expected a list\n") == NULL &&
                  strstr(line, "weak") == NULL && strstr(line, "internal") == NULL,
              "%s: %s", call, line);
    cr_expect(tells_types(given, line), "%s: %s", call, line);
}

static void try_all(const char *name, const pp_definition *d, unsigned *failures)
{
    char call[ROOM], more[ROOM + 64];
    const char *given;
    for (size_t k = 0; k < d->n_params; k++) {
        for (const char *const *value = bad(&d->param[k]); *value != NULL; value++) {
            write_call(name, d, k, *value, call, &given);
            judge(name, call, given, failures);
        }
    }
    write_call(name, d, d->n_params, NULL, call, &given);
    size_t length = strlen(call) - 1;
    const char *comma = call[length - 1] == '(' ? "" : ", ";
    snprintf(more, sizeof more, "%.*s%snonsense=1)", (int)length, call, comma);
    judge(name, more, strchr(more, '('), failures);
    snprintf(more, sizeof more, "%.*s%s%s=1)", (int)length, call, comma, d->param[0].name);
    judge(name, more, strchr(more, '('), failures);
    snprintf(more, sizeof more, "%.*s%s%s)", (int)length, call, comma, "1, 1, 1, 1, 1, 1, 1, 1");
    judge(name, more, strchr(more, '('), failures);
    snprintf(more, sizeof more, "%s()", name);
    if (d->param[0].fallback == NULL) judge(name, more, strchr(more, '('), failures);
}

Test(wrong_calls, every_message_names_operator_operands_and_rule)
{
    unsigned failures = 0, operators = 0;
    pp_names names;
    cr_assert_eq(pp_library_names(library, &names), PPTO_OK);
    for (size_t i = 0; i < names.n; i++) {
        const pp_definition *d = find(names.at[i]);
        const char *aliases[8];
        if (d->name[0] == '_' || d->n_params == 0) continue;
        operators++;
        try_all(d->name, d, &failures);
        size_t n = pp_library_aliases(library, d->name, aliases, 8);
        if (n != 0) try_all(aliases[0], d, &failures);
    }
    pp_vec_free(&names);
    cr_expect(operators > 190 && failures > 6000, "%u operators, %u failures", operators, failures);
}

Test(wrong_calls, lists_have_the_right_form)
{
    expect_failure("pad(f, [[1, 2, 3]])", PPTO_E_SHAPE, "pad: widths is a count, [before, after] or");
    expect_failure("pad(f, [1])", PPTO_E_SHAPE, "not [1]");
    expect_failure("pad(f, [[1, -2], [0, 0]])", PPTO_E_VALUE, "a width of [1, -2] is negative");
    expect_failure("rot90(f, axes=[0, 0])", PPTO_E_VALUE, "given twice");
    expect_failure("tensordot(f, f, axes=[[0], [0], [1]])", PPTO_E_VALUE, "axes is a count or [of x, of y]");
    expect_failure("tensordot(f, f, axes=[[0, 0], [0, 1]])", PPTO_E_VALUE, "given twice");
    expect_failure("moveaxis(f, [0, 1], [0, 0])", PPTO_E_VALUE, "given twice");
    expect_failure("split(f, [1.5])", PPTO_E_VALUE, "sections is a count or a list of positions, not [1.5]");
    expect_failure("tile(f, [2, -1])", PPTO_E_VALUE, "the count -1 is negative");
    expect_failure("one_hot(i, -1)", PPTO_E_VALUE, "one_hot: classes is a count, not -1");
    expect_failure("stack([f, g])", PPTO_E_VALUE, "stack([f32[2, 3], f32[4, 5]])");
    expect_failure("trace(v)", PPTO_E_SHAPE, "trace needs at least rank 2, not f32[3]");
    expect_failure("cumsum(f)", PPTO_E_SHAPE, "cumsum needs an axis for f32[2, 3]");
    expect_failure("transpose(f, [0, 0])", PPTO_E_SHAPE, "transpose: [0, 0] is no order");
    expect_result("pad(f, [[1, 0]])", "f32[3, 4]");
    expect_result("pad(f, [1, 0])", "f32[3, 4]");
    expect_result("pad(n, [[N, 0], [0, 2]])", "f32[N*2, M + 2]");
    expect_result("tensordot(f, f, axes=[0, 0])", "f32[3, 3]");
    expect_result("moveaxis(h, [0, 1], [-1, 0])", "f32[3, 4, 2]");
}
