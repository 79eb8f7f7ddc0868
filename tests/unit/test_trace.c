/* SPDX-License-Identifier: Apache-2.0
 * Rings of notes, the pool's listeners, and what pictures and tables are written with. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/svg.h"
#include "memory/pool.h"
#include "scheduler/trace_ring.h"

static pp_trace_ring ring_of(uint64_t room, uint64_t notes)
{
    pp_trace_ring ring;
    cr_assert_eq(pp_trace_ring_make(&ring, room), PPTO_OK);
    for (uint64_t i = 0; i < notes; i++) pp_trace_note(&ring, &(pp_trace_event){.bytes = i});
    return ring;
}

Test(scheduler_trace, a_ring_keeps_the_newest_and_counts_the_rest)
{
    static const uint64_t rows[][4] = {/* room, notes, kept, dropped */
                                       {0, 0, 0, 0},    {1, 3, 3, 0},        {16, 16, 16, 0}, {16, 17, 16, 1},
                                       {17, 40, 32, 8}, {32, 1000, 32, 968}, {64, 64, 64, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pp_trace_ring ring = ring_of(rows[i][0], rows[i][1]);
        cr_expect_eq(pp_trace_ring_kept(&ring), rows[i][2], "row %zu", i);
        cr_expect_eq(pp_trace_ring_dropped(&ring), rows[i][3], "row %zu", i);
        for (uint64_t k = 0; k < rows[i][2]; k++)
            cr_expect_eq(pp_trace_ring_get(&ring, k)->bytes, rows[i][3] + k, "row %zu, note %zu", i,
                         (size_t)k);
        pp_trace_ring_free(&ring);
    }
}

static void remember(void *arg, const pp_pool_counters *counters)
{
    uint64_t *seen = arg;
    seen[0]++;
    seen[1] = counters->current_bytes;
}

Test(scheduler_trace, a_pool_tells_every_listener_until_it_leaves)
{
    pp_pool *pool;
    void *block;
    uint64_t a[2] = {0}, b[2] = {0};
    pp_pool_listener first = {.changed = remember, .arg = a}, second = {.changed = remember, .arg = b};
    cr_assert_eq(pp_pool_create(&pool), PPTO_OK);
    pp_pool_listen(pool, &first);
    pp_pool_listen(pool, &second);
    cr_assert_eq(pp_pool_take(pool, 1000, &block, NULL), PPTO_OK);
    cr_expect(a[0] == 1 && b[0] == 1 && a[1] == 1000 && b[1] == 1000);
    pp_pool_unlisten(pool, &first);
    pp_pool_unlisten(pool, &first);
    pp_pool_give(pool, block, 1000);
    cr_expect(a[0] == 1 && b[0] == 2 && b[1] == 0);
    pp_pool_unlisten(pool, &second);
    pp_pool_destroy(pool);
}

Test(base_text, numbers_are_written_for_people)
{
    static const struct {
        bool time;
        int64_t value;
        const char *text;
    } rows[] = {{false, 0, "0 B"},
                {false, 1023, "1023 B"},
                {false, 1536, "1.50 KiB"},
                {false, (int64_t)64 << 20, "64.0 MiB"},
                {false, (int64_t)300 << 30, "300 GiB"},
                {false, INT64_MAX, "8.00 EiB"},
                {true, 999, "999 ns"},
                {true, 1250, "1.25 \xc2\xb5s"},
                {true, 12500000, "12.5 ms"},
                {true, 7200000000000, "7200 s"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pp_text text = {0};
        if (rows[i].time)
            pp_text_time(&text, rows[i].value);
        else
            pp_text_bytes(&text, (uint64_t)rows[i].value);
        cr_expect_str_eq(text.at, rows[i].text);
        pp_text_free(&text);
    }
}

Test(base_text, what_xml_does_not_allow_is_replaced)
{
    static const char *const rows[][2] = {{"a<b>&\"c\"", "a&lt;b&gt;&amp;&quot;c&quot;"},
                                          {"caf\xc3\xa9\n", "caf\xc3\xa9\n"},
                                          {"caf\xe9", "caf\xef\xbf\xbd"},
                                          {"\x01 \xef\xbf\xbf", "\xef\xbf\xbd \xef\xbf\xbd"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pp_text text = {0};
        pp_text_xml(&text, rows[i][0]);
        cr_expect_str_eq(text.at, rows[i][1]);
        pp_text_free(&text);
    }
}

Test(base_svg, labels_are_cut_to_their_room)
{
    pp_text text = {0};
    pp_svg_text_in(&text, 0, 0, 1000, PP_SVG_PLAIN, "softmax");
    cr_expect(strstr(text.at, ">softmax<") != NULL);
    text.n = 0;
    pp_svg_text_in(&text, 0, 0, 40, PP_SVG_PLAIN, "a long name");
    cr_expect(strstr(text.at, ">a lo\xe2\x80\xa6<") != NULL, "%s", text.at);
    text.n = 0;
    pp_svg_text_in(&text, 0, 0, 10, PP_SVG_PLAIN, "a long name");
    pp_svg_text_in(&text, 0, 0, -10, PP_SVG_PLAIN, "");
    cr_expect_eq(text.n, 0);
    pp_text_free(&text);
}

Test(base_svg, ticks_are_round_and_not_too_many)
{
    static const double ranges[] = {1, 3, 7, 10, 99, 12345, 1e9, 0.003, 0, -1};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        double tick = pp_svg_tick(ranges[i], 10);
        cr_expect(tick > 0 && ranges[i] / tick <= 10.0001, "%g: %g", ranges[i], tick);
        cr_expect(ranges[i] <= 0 || ranges[i] / tick >= 3.9, "%g: %g", ranges[i], tick);
    }
}
