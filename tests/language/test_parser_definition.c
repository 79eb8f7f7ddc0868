/* SPDX-License-Identifier: Apache-2.0
 * src/lang: operators and folds as written, and the errors in them. */
#include "parser_common.h"

/* ---- definitions
 * ---------------------------------------------------------------------------------------------- */

static void expect_definition_body(const char *text, const char *tree)
{
    pp_unit *unit = parse(text, PP_PARSE_LIBRARY);
    pp_text out = {0};
    show_stmts(unit->definitions->body, &out);
    cr_expect_str_eq(out.at, tree, "%s gives %s", text, out.at);
    pp_text_free(&out);
    pp_unit_destroy(unit);
}

Test(language_op, reads_bodies)
{
    expect_definition_body("op gelu(x: float) = 0.5 * x * (1 + erf(x * 0.7))",
                           "(* (* 0.5 x) (+ 1 erf((* x 0.7))))");
    expect_definition_body("op split2(x: any) = x, -x", "x (- x)");
    expect_definition_body("op f(x: any)\n{\n a = x; b = a\n\n a, b }", "a =x; b =a; a b");
    expect_definition_body("op f(x: any) {\n if x.dtype == f32 { g(x) } else { h(x) }\n}",
                           "if (== x.dtype f32) {g(x)} {h(x)}");
    expect_definition_body("op f(x: any) { require size(x, 0) > 0, \"{x}\"\n x }",
                           "require (> size(x 0) 0) \"{x}\"; x");
}

Test(language_op, reads_parameters)
{
    pp_unit *unit =
        parse("op f(x: float[..., n, 3], s: f64[], l: tensors, y: int, param k: int, axis: int = -1,\n"
              "     eps: float = 1e-5, b: bool = false, axes: axes = all, shape: ints, mode: str = none,\n"
              "     dtype: dtype = none, param value: any, n: num = 1) = x",
              PP_PARSE_LIBRARY);
    static const uint8_t specs[] = {PP_SPEC_FLOAT,  PP_SPEC_DTYPE_EXACT, PP_SPEC_TENSORS, PP_SPEC_INT,
                                    PP_SPEC_P_INT,  PP_SPEC_P_INT,       PP_SPEC_P_FLOAT, PP_SPEC_P_BOOL,
                                    PP_SPEC_P_AXES, PP_SPEC_P_INTS,      PP_SPEC_P_STR,   PP_SPEC_P_DTYPE,
                                    PP_SPEC_P_ANY,  PP_SPEC_P_NUM};
    const pp_definition *f = unit->definitions;
    cr_assert_eq(f->n_params, sizeof specs);
    for (size_t i = 0; i < sizeof specs; i++) cr_expect_eq(f->param[i].spec, specs[i], "parameter %zu", i);
    const pp_param *x = &f->param[0];
    cr_expect(x->has_shape && x->n_dims == 3 && x->dim[0].rest && !x->dim[1].rest && x->dim[2].literal == 3);
    cr_expect_str_eq(x->dim[1].name, "n");
    cr_expect(f->param[1].has_shape && f->param[1].n_dims == 0 && f->param[1].dtype == PPTO_F64);
    cr_expect(!f->param[3].has_shape && f->param[4].fallback == NULL);
    cr_expect_eq(f->param[5].fallback->op, PP_I_NEG);
    cr_expect_eq(f->param[11].fallback->kind, PP_E_NONE);
    cr_expect_eq(f->owner, unit);
    pp_unit_destroy(unit);
}

Test(language_op, keeps_the_documentation)
{
    pp_unit *unit =
        parse("## A heading.\n\n## One,\r\n  ##  two.\n# a note\n##\nop f(x: any) = x ## not this\n"
              "op g() = 1\nalias h = g, k = f\n### nor this\nfold sum(x: num) -> acc {\n"
              " lift = x\n join(a, b) = a + b; unit = 0 }",
              PP_PARSE_LIBRARY);
    const pp_definition *f = unit->definitions, *g = f->next;
    cr_expect_str_eq(f->doc, "One,\n two.\n");
    cr_expect_str_eq(g->doc, "");
    cr_expect_str_eq(g->next->doc, "");
    cr_expect_str_eq(unit->aliases->name, "h");
    cr_expect_str_eq(unit->aliases->target, "g");
    cr_expect_str_eq(unit->aliases->next->name, "k");
    cr_expect_null(unit->body);
    pp_unit_destroy(unit);
}

Test(language_op, reports_errors)
{
    expect_error("op f(x) = x", "t:1:7: found `)`, expected `: spec`");
    expect_error("op f(x: foo) = x", "t:1:9: found `foo`, expected a spec");
    expect_error("op f(x: any, x: any) = x", "t:1:14: the parameter `x` is given twice");
    expect_error("op f(x: float[n] = 1) = x", "t:1:6: `x` is a tensor and cannot be fixed");
    expect_error("op f(param x: f32) = x", "t:1:12: `x` is a tensor and cannot be fixed");
    expect_error("op f(x: ints[n]) = x", "t:1:13: found `[`, expected `,` or `)`; only tensors");
    expect_error("op f(x: any[..., ...]) = x", "t:1:18: found `...`");
    expect_error("op f(x: any[n) = x", "t:1:14: found `)`, expected `,` or `]`");
    expect_error("op f x", "t:1:6: found `x`, expected `(`");
    expect_error("op f32(x: any) = x", "t:1:4: `f32` is a word of the language");
    expect_error("op f(x: any) x", "t:1:14: found `x`, expected `=` or `{`");
    expect_error("op f(x: any) { y = x }", "t:1:4: the operator has no result");
    expect_error("op f(x: any) = x y", "t:1:18: found `y`");
    expect_error_of("x + 1", 5, PP_PARSE_LIBRARY, PPTO_E_SYNTAX,
                    "t:1:1: found `x`, expected `op`, `fold` or `alias`");
    expect_error_of("input x: f32[]", 14, PP_PARSE_LIBRARY, PPTO_E_SYNTAX, "t:1:1: `input` in a library");
}

static const char moments[] =
    "## Count, mean and squared deviation.\n"
    "fold moments(x: float) -> (n: i64, mu, m2) {   # untyped states take x's dtype\n"
    "    lift = (1, x, 0)\n"
    "    step(s, x) { n = s.n + 1; d = x - s.mu; (n, d, s.m2) }\n"
    "    join(a, b) = (a.n + b.n, a.mu, a.m2 +\n b.m2); finish(s) = s.mu\n"
    "    unit = (0, 0, 0)\n"
    "}";

Test(language_fold, reads_parts)
{
    pp_unit *unit = parse(moments, PP_PARSE_LIBRARY);
    const pp_definition *f = unit->definitions;
    cr_expect(f->is_fold && !f->ordered && f->n_states == 3 && f->n_params == 1);
    cr_expect(f->state[0].type == 2 && f->state[0].dtype == PPTO_I64 && f->state[1].type == 0);
    cr_expect_str_eq(f->state[2].name, "m2");
    cr_expect(f->lift.n_args == 0 && f->lift.body->value->kind == PP_E_TUPLE);
    cr_expect(f->step.n_args == 2 && strcmp(f->step.arg[1], "x") == 0 && f->step.body->kind == PP_S_ASSIGN);
    cr_expect(f->join.n_args == 2 && f->finish.n_args == 1 && f->unit->kind == PP_E_TUPLE);
    cr_expect_str_eq(f->doc, "Count, mean and squared deviation.");
    pp_unit_destroy(unit);
}

Test(language_fold, reads_states)
{
    pp_unit *unit = parse("fold ordered a(x: num) { lift(i) = i; join(a, b) = a }\n"
                          "fold b(x: num, y: num) -> acc { lift = x\n join(a, b) { a } }\n"
                          "fold ordered(x: any) -> (v: acc, i: i64) { lift = (x, 0); join(a, b) = a }",
                          PP_PARSE_LIBRARY);
    const pp_definition *a = unit->definitions, *b = a->next, *c = b->next;
    cr_expect(a->ordered && a->n_states == 1 && a->state[0].type == 0 && a->lift.n_args == 1);
    cr_expect_null(a->unit);
    cr_expect(b->n_states == 1 && b->state[0].type == 1 && b->state[0].name == NULL && b->n_params == 2);
    cr_expect(!c->ordered && c->n_states == 2 && c->state[0].type == 1 && c->state[1].dtype == PPTO_I64);
    pp_unit_destroy(unit);
}

Test(language_fold, reports_errors)
{
    expect_error("fold f(x: num) { join(a, b) = a }", "t:1:6: the fold has no `lift`");
    expect_error("fold f(x: num) { lift = x }", "t:1:6: the fold has no `join`");
    expect_error("fold f(x: num) { lift = x; lift = x }", "t:1:28: found `lift`, expected each part once");
    expect_error("fold f(x: num) { join(a) = x }", "t:1:18: 1 names in brackets, expected `join(a, b) = …`");
    expect_error("fold f(x: num) { foo = x }", "t:1:18: found `foo`, expected `lift`");
    expect_error("fold f(x: num) -> { }", "t:1:19: found `{`, expected `acc` or a dtype");
    expect_error("fold f(x: num) -> (a: foo) { }", "t:1:23: found `foo`, expected `acc` or a dtype");
    expect_error("fold f(x: num) { lift { y = x } }", "t:1:18: this part has no result");
    expect_error("fold f(x: num) { lift { if x { a } else { b } } }",
                 "t:1:25: `if` and `require` cannot stand");
    expect_error("fold f(x: num) { lift = x", "t:1:26: the text ends here, expected an operator");
}
