/* SPDX-License-Identifier: Apache-2.0
 * src/lang: limits on a small stack, hostile and cut texts, failed allocations. */
#include <pthread.h>
#include <time.h>

#include "parser_common.h"

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
