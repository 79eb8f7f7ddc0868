/* SPDX-License-Identifier: Apache-2.0
 * The picture of a report with long, odd and many names: texts stay inside of it and do not lie on one
 * another, and what is no UTF-8 is replaced, in JSON too. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/svg.h"
#include "memory/memcheck.h"

enum { GROUPS = 12, MARKS = 40, MOST_TEXTS = 400 };
static char long_name[300], long_file[400];

static pp_memcheck report_of(const char *operator_name, const char *file)
{
    pp_memcheck r = {.level = 2, .at = "now", .has_ideal = true, .nodes = 100};
    r.peak_bytes = 3 << 20;
    r.ideal_peak_bytes = r.peak_bytes - 1; /* both lines at one height */
    for (uint32_t i = 0; i < GROUPS; i++) {
        pp_report_group g = {.operator_name = operator_name, .kind = "result", .verdict = PP_RETAINED};
        g.site = (ppto_site){file, operator_name, (int)i + 1, 0};
        g.peak_share_bytes = (uint64_t)(i + 1) << 14;
        g.retained_bytes = g.avoidable_bytes = g.peak_share_bytes / 2;
        g.retained_count = 1;
        g.first_holder = r.holders.n;
        g.n_holders = 1;
        cr_assert_eq(pp_vec_push(&r.groups, g), PPTO_OK);
        pp_report_holder h = {.kind = "user_handle", .count = 123456789, .site = g.site};
        cr_assert_eq(pp_vec_push(&r.holders, h), PPTO_OK);
        pp_report_buffer b = {
            .group = i, .id = i, .bytes = g.peak_share_bytes, .died = 100, .died_tick = 200};
        cr_assert_eq(pp_vec_push(&r.buffers, b), PPTO_OK);
    }
    for (uint32_t i = 0; i < MARKS; i++)
        cr_assert_eq(pp_vec_push(&r.marks, ((pp_report_mark){operator_name, i, 5u * i, 0})), PPTO_OK);
    return r;
}

typedef struct placed_text {
    double from, to, y;
} placed_text;

static double size_of_class(char style)
{
    return style == 'h' ? 16 : style == 's' || style == 'w' ? 10.5 : style == 'i' ? 11 : 12;
}

/* Where the texts lie, as wide as the picture's own guess of them. */
static size_t find_texts(const char *svg, placed_text *texts)
{
    size_t n = 0;
    for (const char *at = svg; (at = strstr(at, "<text ")) != NULL && n < MOST_TEXTS; at++) {
        char style;
        double x, y, characters = 0;
        cr_assert_eq(sscanf(at, "<text class=\"%c\" x=\"%lf\" y=\"%lf\"", &style, &x, &y), 3, "%.80s", at);
        const char *tag = strchr(at, '>') + 1;
        for (const char *c = tag; *c != '<'; c++) {
            if (*c == '&') c = strchr(c, ';');
            characters += ((unsigned char)*c & 0xc0) != 0x80;
        }
        double width = characters * size_of_class(style) * 0.56;
        const char *end = memchr(at, '>', (size_t)(tag - at));
        bool right = strstr(at, "text-anchor=\"end\"") != NULL && strstr(at, "text-anchor=\"end\"") < end;
        texts[n++] = (placed_text){right ? x - width : x, right ? x : x + width, y};
    }
    return n;
}

static void expect_room(const char *svg)
{
    static placed_text texts[MOST_TEXTS];
    size_t n = find_texts(svg, texts);
    cr_expect_gt(n, 3 * GROUPS / 2);
    for (size_t i = 0; i < n; i++) {
        cr_expect(texts[i].from >= 0 && texts[i].to <= 1000, "text %zu: %g to %g", i, texts[i].from,
                  texts[i].to);
        for (size_t k = 0; k < i; k++) {
            bool beside = texts[i].to <= texts[k].from || texts[k].to <= texts[i].from;
            double apart = texts[i].y - texts[k].y;
            cr_expect(beside || apart >= 9 || apart <= -9, "texts %zu and %zu at %g and %g", k, i, texts[k].y,
                      texts[i].y);
        }
    }
}

Test(memory_picture, texts_stay_inside_and_apart)
{
    memset(long_name, 'm', sizeof long_name - 1);
    memset(long_file, 'w', sizeof long_file - 1);
    static const char *const names[][2] = {{"exp", "model.c"}, {long_name, long_file}, {"exp", long_file}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        pp_memcheck r = report_of(names[i][0], names[i][1]);
        pp_text svg = {0};
        pp_memcheck_write_svg(&r, &svg);
        cr_assert(!svg.failed);
        expect_room(svg.at);
        pp_text_free(&svg);
        pp_memcheck_free(&r);
    }
}

/* Is it UTF-8? Enough of the rules for what is written here. */
static bool is_utf8(const char *text)
{
    for (const unsigned char *c = (const unsigned char *)text; *c != 0; c++) {
        int more = *c < 0x80                 ? 0
                   : *c >= 0xc2 && *c < 0xe0 ? 1
                   : (*c & 0xf0) == 0xe0     ? 2
                   : *c < 0xf5 && *c >= 0xf0 ? 3
                                             : -1;
        if (more < 0) return false;
        for (; more > 0; more--)
            if ((*++c & 0xc0) != 0x80) return false;
    }
    return true;
}

Test(memory_picture, what_is_no_utf8_is_replaced)
{
    static const char *const names[] = {"caf\xe9<&>\"", "\xff\xfe", "a\xc3", "\xed\xa0\x80 \x01",
                                        "\xf0\x9f\x92"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        pp_memcheck r = report_of(names[i], names[i]);
        pp_text svg = {0}, json = {0};
        pp_memcheck_write_svg(&r, &svg);
        pp_memcheck_write_json(&r, &json);
        cr_expect(is_utf8(svg.at) && strstr(svg.at, "\xef\xbf\xbd") != NULL, "name %zu", i);
        cr_expect(is_utf8(json.at) && strstr(json.at, "\\ufffd") != NULL, "name %zu", i);
        cr_expect(strchr(svg.at, '\x01') == NULL);
        if (pp_memcheck_reads()) {
            pp_memcheck again;
            pp_error err = {0};
            cr_expect_eq(pp_memcheck_read(json.at, json.n, &again, &err), PPTO_OK, "%s", err.text);
            pp_memcheck_free(&again);
        }
        pp_text_free(&svg);
        pp_text_free(&json);
        pp_memcheck_free(&r);
    }
}
