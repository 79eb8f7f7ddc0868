/* SPDX-License-Identifier: Apache-2.0
 * Definitions: recursion and names, elementwise ones as scalar functions (cold regions, tables, literals),
 * folds as monoids, arithmetic of record time. */
#include "graph/library_impl.h"
#include "graph_text.h"
#include "kernel/function_eval.h"

static void open_empty(void)
{
    cr_assert_eq(pp_library_create(NULL, &library), PPTO_OK);
    cr_assert_eq(pp_graph_create(library, &graph), PPTO_OK);
}

TestSuite(evaluate, .init = open_empty, .fini = close_graph);
TestSuite(evaluate_shipped, .init = open_graph, .fini = close_graph);

static void must_define(const char *text)
{
    pp_error err = {.code = PPTO_OK};
    cr_assert_eq(define(text, strlen(text), false, &err), PPTO_OK, "%s", err.text);
}

static void cannot_define(const char *text, ppto_status code, const char *message)
{
    pp_error err = {.code = PPTO_OK};
    cr_expect_eq(define(text, strlen(text), false, &err), code);
    cr_expect(strstr(err.text, message) != NULL, "%s", err.text);
}

/* The prims of the only result of a text, without its inputs. */
static void expand_text(const char *text, pp_flat *flat)
{
    pp_ref out[8];
    size_t n, ops;
    pp_error err = {.code = PPTO_OK};
    cr_assert_eq(record_text(text, out, &n), PPTO_OK, "%s: %s", text, pp_graph_error(graph)->text);
    cr_assert_eq(pp_graph_expand(graph, out, n, flat, &ops, &err), PPTO_OK, "%s", err.text);
    cr_assert_eq(pp_flat_verify(flat, &err), PPTO_OK, "%s", err.text);
}

static const pp_prim *last(const pp_flat *flat)
{
    return pp_flat_prim(flat, flat->outputs.at[0]);
}

static uint64_t f32_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static float f32_of(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float f;
    memcpy(&f, &low, sizeof f);
    return f;
}

Test(evaluate, names_and_recursion)
{
    must_define("op twice(x: num) = scalar.add(x, x)\nalias double = twice\n");
    cr_expect(find("double") == find("twice"));
    cannot_define("op twice(x: num) = x\n", PPTO_E_NAME, "is taken");
    cannot_define("alias y = nothing\n", PPTO_E_NAME, "no operator `nothing`");
    cannot_define("op f(x: num) = g(x)\nop g(x: num) = f(x)\n", PPTO_E_VALUE, "calls itself");
    cr_expect(find("f") == NULL, "a failed text leaves nothing behind");
    must_define("op f(x: num) = twice(x)\n");
    cr_expect_str_eq(pp_library_nearest(library, "twise"), "twice");
    pp_names names;
    cr_assert_eq(pp_library_names(library, &names), PPTO_OK);
    cr_expect_eq(names.n, 2);
    pp_vec_free(&names);
}

Test(evaluate, elementwise_is_seen_in_the_text)
{
    must_define("op a(x: num) = scalar.add(x, 1)\nop b(x: num) = tensor.reshape(a(x), [1])\n"
                "op c(x: num, k: int = 2) = a(x) if k == 2 else x\nop d(x: num) = scalar.index(x, 0)\n");
    cr_expect(pp_library_elementwise(library, find("a")));
    cr_expect_not(pp_library_elementwise(library, find("b")));
    cr_expect(pp_library_elementwise(library, find("c")));
    cr_expect_not(pp_library_elementwise(library, find("d")));
}

Test(evaluate, short_functions_are_inlined_long_ones_called)
{
    pp_flat flat;
    must_define("op short(x: num) = scalar.mul(scalar.add(x, 1), 2)\n"
                "op long(x: float) = scalar.sqrt(scalar.abs(scalar.mul(scalar.add(x, 1), scalar.neg(x))))\n");
    input("x", PPTO_F32, "N");
    expand_text("short(x)", &flat);
    cr_expect_eq(last(&flat)->op, PP_MUL);
    pp_flat_free(&flat);
    expand_text("long(x)", &flat);
    cr_expect_eq(last(&flat)->op, PP_CALL);
    cr_expect_eq(flat.prims.n, 2);
    pp_flat_free(&flat);
}

Test(evaluate, cold_values_become_functions)
{
    pp_flat flat;
    uint64_t x, y;
    must_define("op f(x: float) {\n  m = scalar.lt(2.0, x)\n  s = scalar.mul(scalar.add(x, 1.0), x)\n"
                "  slow = scalar.sqrt(scalar.add(scalar.div(s, x), 2.0))\n  scalar.cold(m, slow, "
                "scalar.sub(s, x))\n}\n");
    input("x", PPTO_F32, "N");
    expand_text("f(x)", &flat);
    const pp_function *f = last(&flat)->u.function;
    cr_assert_eq(last(&flat)->op, PP_CALL);
    cr_expect_eq(f->code[f->result[0]].op, PP_COLD);
    cr_expect_eq(f->callees[0]->n_params, 2, "s and x cross the border");
    cr_expect_eq(pp_function_verify(f, NULL), PPTO_OK);
    x = f32_bits(6);
    cr_expect_eq(pp_function_eval(f, &x, &y), PPTO_OK);
    cr_expect_eq(f32_of(y), 3.0f);
    x = f32_bits(1);
    cr_expect_eq(pp_function_eval(f, &x, &y), PPTO_OK);
    cr_expect_eq(f32_of(y), 1.0f);
    pp_flat_free(&flat);
}

Test(evaluate, tables_look_up)
{
    pp_flat flat;
    uint64_t i = 6, y;
    must_define("op t(i: int) = scalar.table([1, 2.5, 4, 8], scalar.add(i, 1), f64)\n");
    input("i", PPTO_U8, "N");
    expand_text("t(i)", &flat);
    const pp_function *f = last(&flat)->u.function;
    cr_expect_eq(pp_function_eval(f, &i, &y), PPTO_OK);
    double d;
    memcpy(&d, &y, sizeof d);
    cr_expect_eq(d, 8.0);
    pp_flat_free(&flat);
}

Test(evaluate, literals_adopt_the_dtype_of_the_function)
{
    pp_flat flat;
    must_define("op g(x: float, y: float) = scalar.sqrt(scalar.mul(scalar.add(x, y), "
                "scalar.add(scalar.mul(x, y), 0.1)))\n");
    input("x", PPTO_F32, "N");
    expand_text("g(x, 2)", &flat);
    const pp_function *f = last(&flat)->u.function;
    cr_expect(f->n_params == 2 && f->param[0] == PPTO_F32 && f->param[1] == PPTO_F32, "no f64 comes in");
    for (uint32_t i = 0; i < f->n_code; i++) cr_expect_eq(f->code[i].dtype, PPTO_F32);
    pp_flat_free(&flat);
}

Test(evaluate, bodies_choose_require_and_count)
{
    must_define(
        "op pick(x: any, k: int = 0) {\n  require k >= 0, \"k is not negative: {k} for {x}\"\n"
        "  if k == 0 {\n    y = x\n  } else {\n    y = tensor.reshape(x, [size(x, 0) // 2, 2])\n  }\n  y\n}\n"
        "op sizes(x: any[n, m]) = tensor.full([*[s for s in [n, m] if s != 3], rank(x), len([1, 2][1:])], "
        "0.5)\n"
        "op power(_x: any, param k: int) = tensor.full([2 ** k, -7 // 2 + 9, max(k, 5) % 3], k / 2)\n");
    input("x", PPTO_F32, "4");
    input("y", PPTO_F32, "3, N");
    expect_result("pick(x)", "f32[4]");
    expect_result("pick(x, 1)", "f32[2, 2]");
    expect_failure("pick(x, -1)", PPTO_E_SHAPE, "pick: k is not negative: -1 for f32[4]");
    expect_result("sizes(y)", "constant f64[N, 2, 1]");
    expect_result("power(x, 3)", "constant f64[8, 5, 2]");
    expect_failure("power(x, 70)", PPTO_E_SIZE, "`2 ** 70` is beyond i64");
}

Test(evaluate, folds_have_states_and_fields)
{
    pp_flat flat;
    uint64_t in[4] = {0}, out[4];
    must_define(
        "fold pair(x: num) -> (n: i64, s: acc) {\n  unit = (0, 0)\n  lift = (1, x)\n"
        "  step(q, x) = (scalar.add(q.n, 1), scalar.add(q.s, x))\n"
        "  join(a, b) = (scalar.add(a.n, b.n), scalar.add(a.s, b.s))\n  finish(q) = scalar.mul(q.s, q.n)\n}\n"
        "");
    input("x", PPTO_I8, "3, 4, 5");
    input("e", PPTO_I8, "0");
    expect_result("pair(x, [0, 2], true)", "i64[1, 4, 1]");
    expand_text("pair(x, [0, 2])", &flat);
    const pp_prim *rows = pp_flat_prim(&flat, pp_flat_operands(&flat, flat.outputs.at[0])[0]);
    const pp_monoid *m = rows->u.fold.monoid;
    cr_expect(rows->rows && m->joined && m->n_inputs == 2 && m->n_results == 1 && m->state[1] == PPTO_I64);
    in[0] = 3, in[1] = 5;
    cr_expect_eq(pp_function_eval(m->finish, in, out), PPTO_OK);
    cr_expect_eq(out[0], 15);
    pp_flat_free(&flat);
    expand_text("pair(e)", &flat);
    cr_expect_eq(last(&flat)->kind, PP_P_LITERAL, "the unit, finished");
    pp_flat_free(&flat);
    cannot_define("fold both(x: num) -> (n: i64, s) {\n  lift = (1, x)\n  join(a, b) = (a.n, b.m)\n}\n",
                  PPTO_E_NAME, "test.ppto:3:24: the fold `both` has no state `m`");
}

Test(evaluate_shipped, names_are_known_when_defined)
{
    static const struct {
        const char *text;
        ppto_status code;
        const char *message;
    } wrong[] = {
        {"op f(x: num) = sinn(x)\n", PPTO_E_NAME, "test.ppto:1:16: no operator `sinn`: did you mean `sin`?"},
        {"op f(x: num) {\n  if rank(x) == 1 {\n    gone(x)\n  } else {\n    x\n  }\n}\n", PPTO_E_NAME,
         "test.ppto:3:5: no operator `gone`"},
        {"op f(length: num) = lenght + 1\n", PPTO_E_NAME,
         "test.ppto:1:21: `lenght` is no parameter and no variable "
         "here: did you mean `length`?"},
        {"op f(x: num) = sum(x, axis=al)\n", PPTO_E_NAME, ":1:28: `al` is no parameter"},
        {"op f(x: num) = x + sum\n", PPTO_E_NAME, "`sum` is an operator, expected its arguments"},
        {"op f(x: num) {\n  y = z\n  z = x\n  y + z\n}\n", PPTO_E_NAME, ":2:7: `z` is no parameter"},
        {"op f(x: num) = [k for i in range(3)]\nop g(x: num) = x", PPTO_E_NAME, ":1:17: `k` is no parameter"},
        {"op f(x: num, k: int = n) = x * k\n", PPTO_E_NAME, ":1:23: `n` is no parameter"},
        {"op f(x: num) = pad(x, 1, mode=edge) if hoow == lo else x\n", PPTO_E_NAME, "`hoow` is no parameter"},
        {"op f(x: num) = add(x)\n", PPTO_E_VALUE, ":1:16: add: the argument `y` is missing"},
        {"op f(x: num) = exp(x, 1)\n", PPTO_E_VALUE, "exp takes at most 1 arguments"},
        {"op f(x: num) = sum(x, axes=1)\n", PPTO_E_NAME, "sum has no parameter `axes`: did you mean `axis`?"},
        {"op f(x: num) = softmax(x, dimension=1)\n", PPTO_E_NAME,
         "softmax has no parameter `dimension`; its parameters: `x`, `axis`"},
        {"op f(x: num) = sum(x, 1, axis=0)\n", PPTO_E_VALUE, "`axis` is given twice"},
        {"op f(x: num) = scalar.add(x)\n", PPTO_E_VALUE, "scalar.add() takes 2 arguments, not 1"},
        {"op f(x: num) = scalar.plus(x, x)\n", PPTO_E_NAME, "no primitive scalar.plus"},
        {"op f(x: num) = tensor.flop(x)\n", PPTO_E_NAME, "no primitive tensor.flop"},
        {"op f(x: num) = size(x, 0, 1)\n", PPTO_E_VALUE, "size() takes 1 to 2 arguments, not 3"},
        {"op f(x: num) = scan sum(x, 0)\n", PPTO_E_VALUE, "`scan` needs a fold, `sum` is none"},
        {"op f(x: num) = x.Q\n", PPTO_E_NAME, "no attribute `.Q`"},
        {"op f(x: num) = x + $0\n", PPTO_E_NAME, "`$0` stands in texts"},
        {"op f(x: num, y: num) = x\n", PPTO_E_NAME, ":1:14: the parameter `y` is never used"},
        {"op f(x: num[n], n: num) = x + n\n", PPTO_E_NAME, "`n` is a parameter and a named size"},
        {"op f(x: num, x: num) = x\n", PPTO_E_SYNTAX, "the parameter `x` is given twice"},
        {"op f(x: num) {\n  x = x + 1\n  x\n}\n", PPTO_E_NAME, ":2:3: `x` is assigned twice"},
        {"fold f(x: num) {\n  lift = x\n  join(a, b) = a + x\n}\n", PPTO_E_NAME,
         ":3:20: `x` is no parameter"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        pp_error err = {.code = PPTO_OK};
        ppto_status status = define(wrong[i].text, strlen(wrong[i].text), false, &err);
        cr_expect_eq(status, wrong[i].code, "%s: %s", wrong[i].text, err.text);
        cr_expect(strstr(err.text, wrong[i].message) != NULL, "%s: %s", wrong[i].text, err.text);
        cr_expect(strstr(err.text, "^") != NULL, "%s", err.text);
        cr_expect(find("f") == NULL);
    }
    must_define("op ahead(x: num) = behind(x, mode=edge)\n" /* later in the text, with a word */
                "op behind(x: num, mode: str, _spare: int = 0) {\n  k = 1\n  if mode == edge {\n    y = x + "
                "k\n  } else {\n"
                "    y = x\n  }\n  [i for i in range(2)][0] + y\n}\n"
                "op told(x: num, k: int = 1) {\n  require rank(x) > 0, \"{k}\"\n  x\n}\n"
                "op shaped(x: num[n], y: num[n]) = x / n\n"
                "fold count(x: num) -> i64 {\n  unit = 0\n  lift = 1\n  join(a, b) = a + b\n}\n");
}

Test(evaluate_shipped, positions_count_through_all_reduced_axes)
{
    pp_flat flat;
    input("x", PPTO_F32, "2, 3, 4");
    expand_text("argmax(x, [0, 2])", &flat);
    const pp_prim *rows = pp_flat_prim(&flat, pp_flat_operands(&flat, flat.outputs.at[0])[0]);
    const pp_prim *lanes =
        pp_flat_prim(&flat, pp_flat_operands(&flat, flat.operands.at[rows->first_operand])[0]);
    cr_expect(!lanes->u.fold.monoid->position && lanes->n_operands == 2);
    pp_flat_free(&flat);
}

Test(evaluate_shipped, contractions_take_their_form)
{
    pp_flat flat;
    input("x", PPTO_F32, "7, 70");
    input("v", PPTO_F32, "70");
    input("w", PPTO_F32, "70, 1");
    expand_text("x @ v", &flat);
    const pp_prim *p = pp_flat_prim(&flat, pp_flat_operands(&flat, flat.outputs.at[0])[0]);
    cr_expect(p->kind == PP_P_REDUCE && !p->rows && p->u.fold.monoid->lift->code[3].op == PP_FMA,
              "lanes with fma");
    pp_flat_free(&flat);
    expand_text("x @ w", &flat);
    cr_expect_eq(last(&flat)->kind, PP_P_CONTRACT, "a size of 1 does not matter");
    pp_flat_free(&flat);
    expand_text("v @ x.T", &flat);
    cr_expect_eq(last(&flat)->kind, PP_P_CONTRACT,
                 "the reduced axis is not the last of the other as recorded");
    pp_flat_free(&flat);
    expand_text("vecdot(x, x)", &flat);
    cr_expect_eq(last(&flat)->kind, PP_P_PART);
    pp_flat_free(&flat);
}

Test(evaluate_shipped, the_build_finds_its_functions)
{
    const pp_function *const *functions;
    const pp_monoid *const *monoids;
    size_t n_functions, n_monoids;
    pp_error err = {.code = PPTO_OK};
    bool exp_found = false, sum_found = false;
    cr_assert_eq(pp_library_precompile(library, &functions, &n_functions, &monoids, &n_monoids, &err),
                 PPTO_OK, "%s", err.text);
    for (size_t i = 0; i < n_functions; i++) {
        cr_expect_eq(pp_function_verify(functions[i], &err), PPTO_OK, "%s", err.text);
        exp_found = exp_found || strcmp(functions[i]->name, "exp_f32") == 0;
    }
    for (size_t i = 0; i < n_monoids; i++) sum_found = sum_found || strcmp(monoids[i]->name, "sum") == 0;
    cr_expect(exp_found && sum_found && n_functions > 100 && n_monoids > 20);
}
