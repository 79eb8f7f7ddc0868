/* SPDX-License-Identifier: Apache-2.0
 * src/lang: every form of expressions and programs as a tree, every error as its line and caret. */
#include "parser_common.h"

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
    expect_error("x.sum(1)", "t:1:3: tensors have no methods: operators are called by name, `sum(x, …)`");
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
