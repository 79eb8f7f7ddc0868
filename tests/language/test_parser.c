/* SPDX-License-Identifier: Apache-2.0
 * src/lang: every form of the language as a tree, every error as its line and caret, the limits on a small
 * stack. Trees are compared as text in prefix form: (+ a (* b c)), sum[x axis=1], {x[1:2:_]}. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "lang/parser.h"

static void show(const pp_expr *e, pp_text *out);

static void show_all(const pp_expr *e, pp_text *out)
{
    for (; e != NULL; e = e->next) {
        if (e->keyword != NULL) pp_text_add(out, "%s=", e->keyword);
        show(e, out);
        if (e->next != NULL) pp_text_add(out, " ");
    }
}

static void show_node(const char *head, const pp_expr *a, const pp_expr *b, const pp_expr *c, pp_text *out)
{
    const pp_expr *part[] = {a, b, c};
    pp_text_add(out, "(%s", head);
    for (int i = 0; i < 3; i++) {
        if (part[i] == NULL) continue;
        pp_text_add(out, " ");
        show(part[i], out);
    }
    pp_text_add(out, ")");
}

static void show(const pp_expr *e, pp_text *out)
{
    if (e == NULL) {
        pp_text_add(out, "_");
        return;
    }
    switch ((pp_expr_kind)e->kind) {
    case PP_E_INT:
    case PP_E_NAME:
    case PP_E_FLOAT: pp_text_add(out, "%s", e->name); break;
    case PP_E_BOOL: pp_text_add(out, "%s", e->i ? "true" : "false"); break;
    case PP_E_STRING: pp_text_add(out, "\"%s\"", e->name); break;
    case PP_E_NONE: pp_text_add(out, "none"); break;
    case PP_E_ELLIPSIS: pp_text_add(out, "..."); break;
    case PP_E_LIST:
    case PP_E_TUPLE:
        pp_text_add(out, e->kind == PP_E_LIST ? "[" : "<");
        show_all(e->a, out);
        pp_text_add(out, e->kind == PP_E_LIST ? "]" : ">");
        break;
    case PP_E_CALL:
        pp_text_add(out, "%s%s(", e->scan ? "scan " : "", e->name);
        show_all(e->a, out);
        pp_text_add(out, ")");
        break;
    case PP_E_ATTR:
        show(e->a, out);
        pp_text_add(out, ".%s", e->name);
        break;
    case PP_E_UNARY:
    case PP_E_BINARY: show_node(pp_infix_sign((pp_infix)e->op), e->a, e->b, NULL, out); break;
    case PP_E_NOT: show_node("not", e->a, NULL, NULL, out); break;
    case PP_E_AND: show_node("and", e->a, e->b, NULL, out); break;
    case PP_E_OR: show_node("or", e->a, e->b, NULL, out); break;
    case PP_E_IF: show_node("if", e->c, e->a, e->b, out); break;
    case PP_E_INDEX:
        show(e->a, out);
        pp_text_add(out, "{");
        show_all(e->b, out);
        pp_text_add(out, "}");
        break;
    case PP_E_SLICE:
        show(e->a, out);
        pp_text_add(out, ":");
        show(e->b, out);
        pp_text_add(out, ":");
        show(e->c, out);
        break;
    case PP_E_COMPREHENSION:
        pp_text_add(out, "[for %s", e->name);
        show_node("", e->a, e->b, e->c, out);
        pp_text_add(out, "]");
        break;
    case PP_E_STAR: show_node("splice", e->a, NULL, NULL, out); break;
    }
}

static void show_stmts(const pp_stmt *s, pp_text *out)
{
    static const char *const kinds[] = {"=", "", "require ", "if ", "output "};
    for (; s != NULL; s = s->next) {
        for (const pp_name *n = s->names; n != NULL; n = n->next) pp_text_add(out, "%s ", n->text);
        pp_text_add(out, "%s", kinds[s->kind]);
        show_all(s->value, out);
        if (s->message != NULL) pp_text_add(out, " \"%s\"", s->message);
        if (s->kind == PP_S_IF) {
            pp_text_add(out, " {");
            show_stmts(s->then, out);
            pp_text_add(out, "} {");
            show_stmts(s->otherwise, out);
            pp_text_add(out, "}");
        }
        if (s->next != NULL) pp_text_add(out, "; ");
    }
}

static pp_unit *parse(const char *text, pp_parse_mode mode)
{
    pp_error err = {0};
    pp_unit *unit = NULL;
    ppto_status status = pp_parse(text, strlen(text), "t", mode, &unit, &err);
    cr_assert_eq(status, PPTO_OK, "%s", err.text);
    return unit;
}

static void expect_body(const char *text, const char *tree)
{
    pp_unit *unit = parse(text, PP_PARSE_PROGRAM);
    pp_text out = {0};
    pp_text_add(&out, "%s", "");
    show_stmts(unit->body, &out);
    cr_expect_str_eq(out.at, tree, "%s\n  gives    %s\n  expected %s", text, out.at, tree);
    pp_text_free(&out);
    pp_unit_destroy(unit);
}

static void expect_error_of(const char *text, size_t n, pp_parse_mode mode, ppto_status code,
                            const char *begin)
{
    pp_error err = {0};
    pp_unit *unit = NULL;
    ppto_status status = pp_parse(text, n, "t", mode, &unit, &err);
    cr_expect_eq(status, code, "%.80s: %s %s", text, ppto_status_name(status), err.text);
    cr_expect_eq(strncmp(err.text, begin, strlen(begin)), 0, "%.80s\n  says     %s\n  expected %s", text,
                 err.text, begin);
    cr_expect_null(unit);
}

static void expect_error(const char *text, const char *begin)
{
    expect_error_of(text, strlen(text), PP_PARSE_PROGRAM, PPTO_E_SYNTAX, begin);
}

static void expect_unsupported(const char *text, const char *begin)
{
    expect_error_of(text, strlen(text), PP_PARSE_PROGRAM, PPTO_E_UNSUPPORTED, begin);
}

/* ---- expressions
 * ---------------------------------------------------------------------------------------------- */

static const char *const expressions[][2] = {
    {"sin(sum(x, axis=1)) * exp(transpose(y, [1, 0]))", "(* sin(sum(x axis=1)) exp(transpose(y [1 0])))"},
    {"softmax(q @ k.mT / sqrt(64)) @ v", "(@ softmax((/ (@ q k.mT) sqrt(64))) v)"},
    {"where(x > 0, x, 0.01 * x)", "where((> x 0) x (* 0.01 x))"},
    {"x[1:, ::-1] - x[:-1, ::-1]", "(- x{1:_:_ _:_:(- 1)} x{_:(- 1):_ _:_:(- 1)})"},
    {"a + b * c ** d", "(+ a (* b (** c d)))"},
    {"-a ** b", "(- (** a b))"},
    {"2 ** -1", "(** 2 (- 1))"},
    {"2 ** -1 ** 2", "(** 2 (- (** 1 2)))"},
    {"2 ** -1 * 3", "(* (** 2 (- 1)) 3)"},
    {"a ** b ** c", "(** a (** b c))"},
    {"a - b - c", "(- (- a b) c)"},
    {"- ~ -a.T[0]", "(- (~ (- a.T{0})))"},
    {"a * -b + c", "(+ (* a (- b)) c)"},
    {"a // b % c @ d", "(@ (% (// a b) c) d)"},
    {"a | b ^ c & d << e + f", "(| a (^ b (& c (<< d (+ e f)))))"},
    {"a & b == c | d", "(== (& a b) (| c d))"},
    {"(a < b) & (b <= c)", "(& (< a b) (<= b c))"},
    {"a != b", "(!= a b)"},
    {"not a == b and c or d", "(or (and (not (== a b)) c) d)"},
    {"a if c else b if d else e", "(if c a (if d b e))"},
    {"a + 1 if c or d else b + 1", "(if (or c d) (+ a 1) (+ b 1))"},
    {"f(a if c else b, k = not d)", "f((if c a b) k=(not d))"},
    {"f()", "f()"},
    {"f(x,)", "f(x)"},
    {"pad(x, [[1, 1], []], mode=edge)", "pad(x [[1 1] []] mode=edge)"},
    {"(a, b)", "<a b>"},
    {"(a,)", "<a>"},
    {"((a))", "a"},
    {"v, i", "v i"},
    {"x[..., None, newaxis, i]", "x{... none none i}"},
    {"x[a:b:c, :, ::]", "x{a:b:c _:_:_ _:_:_}"},
    {"x[1:,]", "x{1:_:_}"},
    {"l[a if c else b:]", "l{(if c a b):_:_}"},
    {"x.dtype == f32", "(== x.dtype f32)"},
    {"[*a, b, *c[1:]]", "[(splice a) b (splice c{1:_:_})]"},
    {"[i * 2 for i in range(n)]", "[for i( (* i 2) range(n))]"},
    {"[i for i in l if i > 0 and c]", "[for i( i l (and (> i 0) c))]"},
    {"[a if c else b for i in l + m]", "[for i( (if c a b) (+ l m))]"},
    {"scan moments(x, 0)", "scan moments(x 0)"},
    {"scan + 1", "(+ scan 1)"},
    {"scalar.select(c, tensor.reshape(x, [n]), b)", "scalar.select(c tensor.reshape(x [n]) b)"},
    {"$0 + $12", "(+ $0 $12)"},
    {"none", "none"},
    {"astype(x, \"f32\")", "astype(x \"f32\")"},
    {"f('a\\n\\'')", "f(\"a\n'\")"},
    {"op + input * fold - alias / loop", "(- (+ op (* input fold)) (/ alias loop))"},
    {"f(\n  a, # one\n\n  b\n)", "f(a b)"},
    {"\xef\xbb\xbfx", "x"},
    {"# only\n\nx # \xc3\xa4\r\n", "x"},
};

Test(language_expr, gives_the_tree)
{
    for (size_t i = 0; i < sizeof expressions / sizeof expressions[0]; i++)
        expect_body(expressions[i][0], expressions[i][1]);
}

static pp_expr number_of(const char *text)
{
    pp_unit *unit = parse(text, PP_PARSE_PROGRAM);
    pp_expr e = *unit->body->value;
    pp_unit_destroy(unit);
    return e;
}

Test(language_expr, reads_numbers)
{
    static const struct {
        const char *text;
        double value;
    } floats[] = {
        {"1.5", 1.5},
        {".5", .5},
        {"5.", 5.},
        {"1e-5", 1e-5},
        {"1.5E+3", 1500},
        {"0.1", 0.1},
        {"0x1.8p23", 0x1.8p23},
        {"0xAp-1", 5},
        {"123456789.123456789e-10", 123456789.123456789e-10},
        {"4.9406564584124654e-324", 4.9406564584124654e-324},
        {"1e-99999999999999999999", 0},
        {"pi", 0x1.921fb54442d18p1},
    };
    for (size_t i = 0; i < sizeof floats / sizeof floats[0]; i++) {
        pp_expr e = number_of(floats[i].text);
        cr_expect(e.kind == PP_E_FLOAT && e.f == floats[i].value, "%s", floats[i].text);
    }
    cr_expect(number_of("inf").f > 1e308);
    cr_expect(number_of("1.7976931348623157e308").f > 1e308);
    expect_error_of("x + 1e400", 9, PP_PARSE_PROGRAM, PPTO_E_VALUE, "t:1:5: the number 1e400 is beyond f64");
    expect_error_of("0x1p1024", 8, PP_PARSE_PROGRAM, PPTO_E_VALUE, "t:1:1: the number 0x1p1024 is");
    cr_expect(number_of("nan").f != number_of("nan").f);
    cr_expect_eq(number_of("9223372036854775807").i, INT64_MAX);
    cr_expect_eq(number_of("0x3f3504f3").i, 0x3f3504f3);
    pp_expr wide = number_of("0xffffffffffffffff");
    cr_expect(wide.kind == PP_E_INT && wide.wide && wide.f == 0x1p64);
    cr_expect(number_of("9223372036854775808").wide);
}

Test(language_expr, reports_errors_where_they_are)
{
    expect_error("a +", "t:1:4: the text ends here, expected a value\na +\n   ^");
    expect_error("\n  f(x, , y)\n", "t:2:8: found `,`, expected a value\n  f(x, , y)\n       ^");
    expect_error("a +\nb", "t:1:4: the line ends here, expected a value\n");
    expect_error("(a", "t:1:3: the text ends here, expected an operator, `,` or `)`");
    expect_error("(a; b)", "t:1:3: found `;` inside brackets");
    expect_error("(a]", "t:1:3: found `]`, expected `)`");
    expect_error("a)", "t:1:2: found `)`, expected an operator or the end of the line");
    expect_error("a b", "t:1:3: found `b`, expected an operator or the end of the line");
    expect_error("()", "t:1:2: found `)`, expected a value");
    expect_error("[,]", "t:1:2: found `,`, expected a value");
    expect_error("x[]", "t:1:3: empty subscripts");
    expect_error("x[a:b:c:d]", "t:1:8: found `:`, expected `,` or `]`");
    expect_error("x[... + 1]", "t:1:7: found `+`, expected `,` or `]`");
    expect_error("f(...)", "t:1:3: found `...`, expected a value");
    expect_error("f(a:b)", "t:1:4: found `:`, expected `,` or a closing bracket");
    expect_error("a < b < c", "t:1:7: comparisons do not chain, expected (a < b) & (b < c)");
    expect_error("a if b", "t:1:3: `if` without `else`");
    expect_error("a else b", "t:1:3: `else` without `if`");
    expect_error("a if b if c else d else e", "t:1:8: `if` within a condition");
    expect_error("a if b else c else d", "t:1:15: `else` without `if`");
    expect_error("2 * not a", "t:1:5: `not` binds less");
    expect_error("[*]", "t:1:3: found `]`, expected a value");
    expect_error("f(*a)", "t:1:3: found `*`, expected a value");
    expect_error("[*a for i in l]", "t:1:5: found `for`");
    expect_error("[a, b for i in l]", "t:1:7: found `for`");
    expect_error("f(a for i in l)", "t:1:5: found `for`");
    expect_error("[a for i in l, b]", "t:1:14: found `,`, expected `]`");
    expect_error("[a for i in l if b if c]", "t:1:20: found `if`");
    expect_error("[a for i in ]", "t:1:13: found `]`, expected a value");
    expect_error("[a for pi in l]", "t:1:8: `pi` is a word of the language");
    expect_error("f(a=1, b)", "t:1:8: found `b`, expected a named argument");
    expect_error("f(a=)", "t:1:5: found `)`, expected a value");
    expect_error("f(a=b=c)", "t:1:6: found `=`");
    expect_error("f(pi=1)", "t:1:3: found `pi`, expected the name of a parameter");
    expect_error("2(3)", "t:1:2: this cannot be called");
    expect_error("(f)(x)", "t:1:4: this cannot be called");
    expect_error("x.sum(1)", "t:1:3: tensors have no methods, expected `sum(x, …)`");
    expect_error("x.1", "t:1:2: found `.1`");
    expect_error("x. + 1", "t:1:4: found `+`, expected a name");
    expect_error("scan f + 1", "t:1:8: found `+`, expected `(`");
    expect_error("True", "t:1:1: `True` and `False` are written in small letters");
    expect_error("a && b", "t:1:3: `&&` is not an operator, use `&`");
    expect_error("a || b", "t:1:3: `||` is not an operator");
    expect_error("!a", "t:1:1: `!` is not an operator");
    expect_error("a ? b", "t:1:3: `?` is not an operator");
    expect_error("a \\ b", "t:1:3: unexpected character");
    expect_error("\xc3\xa4 + $", "t:1:1: unexpected character");
    expect_error("a # \xc3\xa4\n+ b", "t:2:1: a line begins with an operator, expected brackets");
    expect_error("f('\xc3\xa4\xc3\xa4', $)",
                 "t:1:9: unexpected character, expected a name, a number or an operator\n"
                 "f('\xc3\xa4\xc3\xa4', $)\n        ^");
    expect_error("1.2.3", "t:1:1: malformed number");
    expect_error("1e", "t:1:1: malformed number");
    expect_error("12ab", "t:1:1: malformed number");
    expect_error("0x", "t:1:1: malformed number");
    expect_error("0x1.8", "t:1:1: malformed number");
    expect_error("f(\"abc", "t:1:3: the string does not end on its line");
    expect_error("\"a\\q\"", "t:1:3: unknown escape");
    expect_error("", "t:1:1: the text ends here, expected an expression or a program");
    expect_error(" # nothing\n", "t:2:1: the text ends here");
    expect_error_of("a\0b", 3, PP_PARSE_PROGRAM, PPTO_E_SYNTAX, "t:1:2: the byte 0x00 is not text");
    expect_error("a\xff", "t:1:2: the byte 0xff is not text");
    expect_error("\xed\xa0\x80", "t:1:1: the byte 0xed is not text, expected UTF-8\n???\n^");
    expect_error("\xe0\x80\x80", "t:1:1: the byte 0xe0 is not text");
    expect_error("\xf4\x90\x80\x80", "t:1:1: the byte 0xf4 is not text");
    expect_error("\xf0\x80\x80\x80", "t:1:1: the byte 0xf0 is not text");
    expect_error("\xe2\x82", "t:1:1: the byte 0xe2 is not text");
}

Test(language_expr, cuts_long_lines_around_the_caret)
{
    char text[1000];
    pp_error err = {0};
    pp_unit *unit = NULL;
    memset(text, ' ', sizeof text);
    text[500] = ')';
    text[501] = '\t';
    cr_expect_eq(pp_parse(text, sizeof text, NULL, PP_PARSE_PROGRAM, &unit, &err), PPTO_E_SYNTAX);
    const char *line = strchr(err.text, '\n') + 1, *caret = strchr(line, '\n') + 1;
    cr_expect_eq(strncmp(err.text, "<text>:1:501: ", 14), 0, "%s", err.text);
    cr_expect_eq(caret - line - 1, 100);
    cr_expect_eq(strcspn(caret, "^"), 60);
    cr_expect_eq(line[60], ')');
    cr_expect_eq(line[61], ' ');
}

Test(language_expr, shows_malformed_bytes_as_marks)
{
    char text[3000];
    memset(text, '\x85', sizeof text);
    expect_error_of(text, sizeof text, PP_PARSE_PROGRAM, PPTO_E_SYNTAX, "t:1:1: the byte 0x85 is not text");
    memset(text, 'a', 1500);
    expect_error_of(text, sizeof text, PP_PARSE_PROGRAM, PPTO_E_SYNTAX,
                    "t:1:1501: the byte 0x85 is not text");
}

/* ---- programs
 * ------------------------------------------------------------------------------------------------- */

Test(language_program, reads_statements)
{
    expect_body("h = relu(x @ w)\r\ny = h + 1; y * 2", "h =relu((@ x w)); y =(+ h 1); (* y 2)");
    expect_body("output y = softmax(h), top = argmax(h, axis=-1)",
                "y output softmax(h); top output argmax(h axis=(- 1))");
    expect_body("y = x\noutput y, 2 * y;;\n", "y =x; output y; output (* 2 y)");
    expect_body("a, b = split(x, 2)\na - b", "a b =split(x 2); (- a b)");
    expect_body("require rank(x) == 2, \"rank of {x}\"; x", "require (== rank(x) 2) \"rank of {x}\"; x");
    expect_body("if c { y = x } else { y = -x }\ny", "if c {y =x} {y =(- x)}; y");
    expect_body("if a { x }\nelse if b { y\n} else\t{ z }", "if a {x} {if b {y} {z}}");
    expect_body("if a { y = 1 } else if b { y = 2; if c { z = 1 } } \n y",
                "if a {y =1} {if b {y =2; if c {z =1} {}} {}}; y");
}

Test(language_program, reads_inputs)
{
    pp_unit *unit = parse("input x: f32[N, 512], s : i64[]\ninput m: bool[4,]\nx", PP_PARSE_PROGRAM);
    const pp_input_decl *x = unit->inputs, *s = x->next, *m = s->next;
    cr_expect(strcmp(x->name, "x") == 0 && x->dtype == PPTO_F32 && x->rank == 2 && x->at == 6);
    cr_expect_str_eq(x->dims, "N, 512");
    cr_expect(s->dtype == PPTO_I64 && s->rank == 0 && strcmp(s->dims, "") == 0);
    cr_expect(m->dtype == PPTO_BOOL && m->rank == 1 && m->next == NULL);
    pp_unit_destroy(unit);
}

Test(language_program, reports_errors)
{
    expect_error("x\ny = 1", "t:2:1: a statement after the program's value");
    expect_error("x = y = 1", "t:1:7: found `=`, expected the end of the line; a line assigns once");
    expect_error("1 = x", "t:1:1: only a name can be assigned to");
    expect_error("$0 = x", "t:1:1: only a name can be assigned to");
    expect_error("f32 = x", "t:1:1: this is a word of the language");
    expect_error("nan = x", "t:1:1: this is a word of the language");
    expect_error("output = x", "t:1:8: found `=`, expected a value");
    expect_error("output f32 = x", "t:1:8: `f32` is a word of the language");
    expect_error("y = x\noutput y = 2 z", "t:2:14: found `z`");
    expect_error("input x: foo[]", "t:1:10: found `foo`, expected a dtype");
    expect_error("input x: f32", "t:1:13: the text ends here, expected `[sizes]`");
    expect_error("input x: f32[-1]", "t:1:14: found `-`, expected a named size or a number");
    expect_error("input x: f32[9223372036854775808]",
                 "t:1:14: found `9223372036854775808`, expected a size below");
    expect_error("require c", "t:1:10: the text ends here, expected `, \"message\"`");
    expect_error("require c, m", "t:1:12: found `m`, expected the message in quotes");
    expect_error("alias a = b", "t:1:1: `alias` in a program");
    expect_error("if c { x } else { y = 1 }", "t:1:1: one side of the `if` ends in a value");
    expect_error("if c { x }", "t:1:1: the `if` ends in a value and has no `else`");
    expect_error("if a { x } else if b { y }", "t:1:17: the `if` ends in a value and has no `else`");
    expect_error("if a { x } else if b { y = 1 }", "t:1:1: one side of the `if`");
    expect_error("if a { x; y }", "t:1:11: a statement after the block's value");
    expect_error("if a { x = 1 } else y", "t:1:21: found `y`, expected `{` or `if` after `else`");
    expect_error("if a { x = 1\n", "t:2:1: the text ends here, expected `}`");
    expect_error("if a { x = 1 y = 2 }",
                 "t:1:14: found `y`, expected an operator, the end of the line or `}`");
    expect_error("if a x", "t:1:6: found `x`, expected `{`");
    expect_error("x }", "t:1:3: found `}`");
}

Test(language_program, names_what_is_not_yet_supported)
{
    expect_unsupported("loop 200 { u = u + 1 }", "t:1:1: a loop is not yet supported\nloop");
    expect_unsupported("loop t in 0..n { u = u }", "t:1:1: a loop is not yet supported");
    expect_unsupported("t[r] = max(x)", "t:1:2: index notation on the left of `=` is not yet supported");
    expect_unsupported("sum[k](a[m, k] * b[k, n])", "t:1:4: index notation is not yet supported");
    expect_unsupported("op f(a: num[m, k])\n : y[m] = a", "t:2:2: index notation is not yet supported");
    expect_unsupported("op f(a: float[n]) edge=clamp : y[i] = a[i]", "t:1:19: index notation is not yet");
    expect_unsupported("op f(x: float) { x } grad { x: dy }", "t:1:22: a gradient of one's own");
    expect_unsupported("op f(x: float) = x\ngrad {\n x: dy }", "t:2:1: a gradient of one's own");
    expect_unsupported("op f(x: float) { loop 3 { x = x }\n x }", "t:1:18: a loop is not yet supported");
}

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

/* ---- limits, hostile text, memory
 * ------------------------------------------------------------------------------ */

static char *repeated(const char *unit, size_t times, const char *last, const char *closing, size_t closings)
{
    size_t n = strlen(unit), m = strlen(closing), length = n * times + strlen(last) + m * closings;
    char *text = pp_alloc(length + 1);
    cr_assert_not_null(text);
    for (size_t i = 0; i < times; i++) memcpy(text + i * n, unit, n);
    memcpy(text + n * times, last, strlen(last));
    for (size_t i = 0; i < closings; i++) memcpy(text + n * times + strlen(last) + i * m, closing, m);
    text[length] = '\0';
    return text;
}

static void expect_repeated(const char *unit, size_t times, const char *last, const char *closing,
                            ppto_status code)
{
    struct timespec a, b;
    char *text = repeated(unit, times, last, closing, *closing != '\0' ? times : 0);
    pp_error err = {0};
    pp_unit *out = NULL;
    timespec_get(&a, TIME_UTC);
    ppto_status status = pp_parse(text, strlen(text), "t", PP_PARSE_PROGRAM, &out, &err);
    timespec_get(&b, TIME_UTC);
    double seconds = (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
    cr_expect_eq(status, code, "%zu times %s: %s", times, unit, err.text);
    cr_expect_lt(seconds, 5.0, "%zu times %s", times, unit);
    pp_unit_destroy(out);
    pp_free(text);
}

static void *check_limits(void *unused)
{
    static const char *const nests[][3] = {
        {"(", "x", ")"},
        {"[", "x", "]"},
        {"f(", "x", ")"},
        {"x[", "0", "]"},
        {"-", "x", ""},
        {"not ", "x", ""},
        {"2**", "x", ""},
        {"a if c else ", "x", ""},
        {"f(1+", "x", ")"},
        {"if c {", "x=1", "}"},
        {"if c {x=1} else ", "if c {x=1}", ""},
    };
    for (size_t i = 0; i < sizeof nests / sizeof nests[0]; i++) {
        expect_repeated(nests[i][0], 990, nests[i][1], nests[i][2], PPTO_OK);
        expect_repeated(nests[i][0], 1001, nests[i][1], nests[i][2], PPTO_E_LIMIT);
        expect_repeated(nests[i][0], 100000, nests[i][1], nests[i][2], PPTO_E_LIMIT);
    }
    expect_repeated("1+", 100000, "1", "", PPTO_OK);
    expect_repeated("1+", 5000000, "1", "", PPTO_E_LIMIT);
    expect_repeated("f(x)+", 400000, "1", "", PPTO_E_LIMIT);
    expect_repeated("x=1;", 4000000, "x", "", PPTO_E_LIMIT);
    expect_repeated(";", 16000000, "x", "", PPTO_OK);
    expect_repeated("#\n", 8000000, "x", "", PPTO_OK);
    expect_repeated("## d\n", 3000000, "op f(x: any) = x", "", PPTO_OK);
    expect_repeated("a", 16000000, "", "", PPTO_OK);
    expect_repeated("a", 16000000, " b", "", PPTO_E_SYNTAX);
    expect_repeated("1", 1000, "", "", PPTO_OK);
    expect_repeated("1", 1001, "", "", PPTO_E_LIMIT);
    expect_repeated("x", 16777217, "", "", PPTO_E_LIMIT);
    expect_repeated("(x.T.T.T.T.T", 900, "", ").T", PPTO_E_SYNTAX);
    expect_repeated("((x).T.T.T.T.T.T.T.T.T.T", 900, "", "", PPTO_E_SYNTAX);
    char *chain = repeated("x", 1, "", ".T", 5000);
    expect_error_of(chain, strlen(chain), PP_PARSE_PROGRAM, PPTO_E_LIMIT, "t:1:");
    pp_free(chain);
    return unused;
}

Test(language_limits, hold_on_a_small_stack, .timeout = 120)
{
    pthread_attr_t attr;
    pthread_t thread;
    cr_assert_eq(pthread_attr_init(&attr), 0);
    cr_assert_eq(pthread_attr_setstacksize(&attr, 256 * 1024), 0);
    cr_assert_eq(pthread_create(&thread, &attr, check_limits, NULL), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
}

Test(language_limits, of_small_lists)
{
    static const char *const texts[] = {
        "op f(x: any[a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q]) = x",
        "input x: f32[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]",
        "fold f(x: num) -> (a, b, c, d, e) { }",
        "fold f(x: num) { step(a, b, c, d, e) = a }",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        expect_error_of(texts[i], strlen(texts[i]), PP_PARSE_PROGRAM, PPTO_E_LIMIT, "t:1:");
    pp_text text = {0};
    pp_text_add(&text, "op f(");
    for (int i = 0; i < 65; i++) pp_text_add(&text, "x%d: any, ", i);
    pp_text_add(&text, ") = 1");
    expect_error_of(text.at, text.n, PP_PARSE_PROGRAM, PPTO_E_LIMIT, "t:1:");
    pp_text_free(&text);
}

static const char everything[] =
    "## Doc.\nop f(x: float[..., n], k: int = 1, m: dtype = none) {\n a, b = split(x, 2)\n"
    " require k > 0, \"k {k}\"\n if k == 1 { [*l, 1][0] } else if m { -a ** 2 } else { b if not k or m else "
    "g.T }\n}\n"
    "fold ordered s(x: num) -> (v: acc, i: i64) { lift(i) = (x, i); step(s, x) { d = s.v + x; (d, s.i) }\n"
    " join(a, b) = (a.v, b.i); finish(s) = s.v; unit = (0, 0x1p3) }\n"
    "input x: f32[N, 4], y: i8[]\nz = scan s(x, axis=0)[..., ::-1, None] # note\n"
    "output z, w = [i for i in range(3) if i & 1] < $0; output scalar.add(x, 'q\\n')\r\n";

Test(language_limits, every_prefix_is_handled)
{
    for (size_t n = 0; n <= strlen(everything); n++) {
        pp_error err = {0};
        pp_unit *unit = NULL;
        ppto_status status = pp_parse(everything, n, "t", PP_PARSE_PROGRAM, &unit, &err);
        cr_expect((status == PPTO_OK) == (unit != NULL));
        cr_expect((status == PPTO_OK) == (err.text[0] == '\0'));
        pp_unit_destroy(unit);
    }
    pp_unit_destroy(parse(everything, PP_PARSE_PROGRAM));
}

Test(language_limits, failed_allocations_are_reported)
{
    ppto_status status = PPTO_E_NOMEM;
    int64_t live = pp_heap_count().live;
    for (uint64_t n = 1; status != PPTO_OK && n < 10000; n++) {
        pp_error err = {0};
        pp_unit *unit = NULL;
        pp_heap_fail_at(n, false);
        status = pp_parse(everything, strlen(everything), "t", PP_PARSE_PROGRAM, &unit, &err);
        pp_heap_fail_at(0, false);
        cr_expect(status == PPTO_OK || (status == PPTO_E_NOMEM && unit == NULL && err.code == PPTO_E_NOMEM));
        pp_unit_destroy(unit);
        cr_expect_eq(pp_heap_count().live, live);
    }
    cr_expect_eq(status, PPTO_OK);
}

Test(language_infix, names_and_signs_of_all)
{
    for (unsigned op = 0; op < PP_INFIX_COUNT; op++) {
        cr_expect_not_null(pp_infix_operator((pp_infix)op));
        cr_expect_not_null(pp_infix_sign((pp_infix)op));
    }
    cr_expect_str_eq(pp_infix_operator(PP_I_FLOORDIV), "floor_divide");
    cr_expect_str_eq(pp_infix_sign(PP_I_INVERT), "~");
    cr_expect_str_eq(pp_infix_operator(PP_INFIX_COUNT), "?");
}
