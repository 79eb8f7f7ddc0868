/* SPDX-License-Identifier: Apache-2.0
 * A report as a picture: one SVG, written as text that can be compared line by line. Three panels:
 *
 *   A  time: buffers as rectangles, as wide as they lived; hatched where their last use was over. Across lies
 *      the order in which memory was taken and given (numbered by completed nodes), upwards the lowest place
 *      that was free, as a pool of just that height would give it. Needs the history of level 2.
 *   B  the fifteen largest groups of the peak: needed, retained and avoidable bytes
 *   C  who holds what: operators of the worst groups, and their holders */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory/memcheck.h"

enum {
    WIDTH = 1000,
    LEFT = 60,
    RIGHT = 20,
    TIME_TOP = 60,
    TIME_HEIGHT = 260,
    BAR = 18,
    MOST_BARS = 15,
    MOST_HELD = 8,
    MOST_RECTANGLES = 2000,
};

static const char *known(const char *text, const char *other)
{
    return text != NULL ? text : other;
}

/* Text between tags. */
static void add_escaped(pp_text *t, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '<')
            pp_text_add(t, "&lt;");
        else if (*text == '&')
            pp_text_add(t, "&amp;");
        else if (*text == '"')
            pp_text_add(t, "&quot;");
        else if ((unsigned char)*text >= ' ')
            pp_text_add(t, "%c", *text);
    }
}

static void add_label(pp_text *t, double x, double y, const char *anchor, const char *text)
{
    pp_text_add(t, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    add_escaped(t, text);
    pp_text_add(t, "</text>\n");
}

static void add_rectangle(pp_text *t, double x, double y, double w, double h, const char *fill)
{
    pp_text_add(t, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n", x, y, w, h,
                fill);
}

static double mib(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}

static const char *name_of(const pp_report_group *g, char *room, size_t size)
{
    if (g->site.file != NULL)
        snprintf(room, size, "%.60s  %.80s:%d", known(g->operator_name, "?"), g->site.file,
                 (int)g->site.line);
    else
        snprintf(room, size, "%.60s", known(g->operator_name, "?"));
    return room;
}

/* ---- A: time ----------------------------------------------------------------------------------- */

typedef struct placed {
    const pp_report_buffer *buffer;
    uint64_t at; /* lowest byte */
} placed;

static int by_bytes(const void *a, const void *b)
{
    const pp_report_buffer *x = ((const placed *)a)->buffer, *y = ((const placed *)b)->buffer;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return x->born_tick < y->born_tick ? -1 : x->born_tick > y->born_tick;
}

static int by_birth(const void *a, const void *b)
{
    const pp_report_buffer *x = ((const placed *)a)->buffer, *y = ((const placed *)b)->buffer;
    if (x->born_tick != y->born_tick) return x->born_tick < y->born_tick ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* The lowest place for row i among those that live at its birth. live: their indices by place. */
static uint64_t find_place(const placed *rows, size_t i, size_t *live, size_t *n_live)
{
    uint64_t at = 0, born = rows[i].buffer->born_tick;
    size_t kept = 0, where;
    for (size_t k = 0; k < *n_live; k++)
        if (rows[live[k]].buffer->died_tick > born) live[kept++] = live[k];
    for (where = 0; where < kept; where++) {
        const placed *other = &rows[live[where]];
        if (at + rows[i].buffer->bytes <= other->at) break;
        at = other->at + other->buffer->bytes;
    }
    memmove(live + where + 1, live + where, (kept - where) * sizeof *live);
    live[where] = i;
    *n_live = kept + 1;
    return at;
}

/* The largest rows, each in its place; how many. */
static size_t place_all(const pp_memcheck *r, placed *rows, size_t *live, uint64_t *height)
{
    size_t n = r->buffers.n, n_live = 0;
    for (size_t i = 0; i < n; i++) rows[i].buffer = &r->buffers.at[i];
    if (n > 1) qsort(rows, n, sizeof *rows, by_bytes);
    if (n > MOST_RECTANGLES) n = MOST_RECTANGLES;
    if (n > 1) qsort(rows, n, sizeof *rows, by_birth);
    *height = 1;
    for (size_t i = 0; i < n; i++) {
        rows[i].at = find_place(rows, i, live, &n_live);
        if (rows[i].at + rows[i].buffer->bytes > *height) *height = rows[i].at + rows[i].buffer->bytes;
    }
    return n;
}

typedef struct scale { /* ticks and bytes to the picture */
    uint64_t first, last, height;
} scale;

static double x_of(const scale *s, uint64_t tick)
{
    if (tick > s->last) tick = s->last;
    uint64_t wide = s->last > s->first ? s->last - s->first : 1;
    return LEFT + (double)(tick - s->first) / (double)wide * (WIDTH - LEFT - RIGHT);
}

static double y_of(const scale *s, uint64_t bytes)
{
    return TIME_TOP + TIME_HEIGHT * (1 - (double)bytes / (double)s->height);
}

static void draw_buffer(const pp_memcheck *r, const scale *s, const placed *row, pp_text *t)
{
    static const char *const colours[] = {"#8fb3d9", "#a8cfa0", "#e3c48f", "#c5b0d8", "#9fd0d0", "#d8b0b8"};
    const pp_report_buffer *b = row->buffer;
    char room[200];
    double x = x_of(s, b->born_tick), end = x_of(s, b->died_tick), rest = x_of(s, b->used_tick);
    double y = y_of(s, row->at + b->bytes), h = y_of(s, row->at) - y;
    pp_text_add(t, "<g><title>b%u.%u ", (unsigned)b->id, (unsigned)b->generation);
    add_escaped(t, name_of(&r->groups.at[b->group], room, sizeof room));
    pp_text_add(t, " %.3f MiB, nodes %llu to %llu</title>\n", mib(b->bytes), (unsigned long long)b->born,
                (unsigned long long)b->died);
    add_rectangle(t, x, y, end - x, h, colours[b->group % 6]);
    if (b->used_tick < b->died_tick) add_rectangle(t, rest, y, end - rest, h, "url(#rest)");
    pp_text_add(t, "</g>\n");
}

static void draw_marks(const pp_memcheck *r, const scale *s, pp_text *t)
{
    for (size_t i = 0; i < r->marks.n; i++) {
        double x = x_of(s, r->marks.at[i].tick < s->first ? s->first : r->marks.at[i].tick);
        pp_text_add(t, "<line class=\"mark\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>\n", x, x, TIME_TOP,
                    TIME_TOP + TIME_HEIGHT);
        if (r->marks.at[i].name != NULL) add_label(t, x + 2, TIME_TOP + 10, "start", r->marks.at[i].name);
    }
}

static void draw_level(const scale *s, uint64_t bytes, const char *name, const char *style, pp_text *t)
{
    if (bytes > s->height) return;
    pp_text_add(t, "<line class=\"%s\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>\n", style, LEFT,
                WIDTH - RIGHT, y_of(s, bytes), y_of(s, bytes));
    add_label(t, WIDTH - RIGHT, y_of(s, bytes) - 3, "end", name);
}

static void draw_axes(const pp_memcheck *r, const scale *s, pp_text *t)
{
    char room[64];
    snprintf(room, sizeof room, "%.1f MiB", mib(s->height));
    add_label(t, LEFT - 4, TIME_TOP + 10, "end", room);
    add_label(t, LEFT - 4, TIME_TOP + TIME_HEIGHT, "end", "0");
    add_label(t, LEFT, TIME_TOP + TIME_HEIGHT + 14, "start", "node 0");
    snprintf(room, sizeof room, "node %llu", (unsigned long long)r->nodes);
    add_label(t, WIDTH - RIGHT, TIME_TOP + TIME_HEIGHT + 14, "end", room);
}

static void draw_time(const pp_memcheck *r, pp_text *t)
{
    placed *rows = pp_calloc(r->buffers.n + 1, sizeof *rows);
    size_t *live = pp_calloc(r->buffers.n + 2, sizeof *live);
    scale s = {.first = UINT64_MAX, .last = 0};
    size_t n = rows != NULL && live != NULL ? place_all(r, rows, live, &s.height) : 0;
    for (size_t i = 0; i < n; i++) {
        if (rows[i].buffer->born_tick < s.first) s.first = rows[i].buffer->born_tick;
        if (rows[i].buffer->died_tick > s.last) s.last = rows[i].buffer->died_tick;
    }
    if (rows == NULL || live == NULL) t->failed = true;
    for (size_t i = 0; i < n; i++) draw_buffer(r, &s, &rows[i], t);
    if (n == 0) {
        add_label(t, LEFT, TIME_TOP + 20, "start", "no history: PPTO_MEMCHECK_LEVEL=2 keeps one");
    } else {
        if (s.height < r->peak_bytes) s.height = r->peak_bytes;
        draw_level(&s, r->peak_bytes, "peak", "peak", t);
        draw_level(&s, r->ideal_peak_bytes, "ideal", "ideal", t);
        draw_marks(r, &s, t);
        draw_axes(r, &s, t);
    }
    pp_free(rows);
    pp_free(live);
}

/* ---- B: the largest groups --------------------------------------------------------------------- */

static int by_share(const void *a, const void *b)
{
    const pp_report_group *x = *(const pp_report_group *const *)a, *y = *(const pp_report_group *const *)b;
    uint64_t p = x->peak_share_bytes + x->retained_bytes, q = y->peak_share_bytes + y->retained_bytes;
    if (p != q) return p > q ? -1 : 1;
    return x < y ? -1 : x > y;
}

static void draw_bar(const pp_memcheck *r, const pp_report_group *g, double y, uint64_t most, pp_text *t)
{
    char room[200], size[64];
    double per = (double)(WIDTH - 400 - RIGHT) / (double)(most > 0 ? most : 1);
    double share = (double)g->peak_share_bytes * per, held = (double)g->retained_bytes * per;
    add_label(t, 380, y + 12, "end", name_of(g, room, sizeof room));
    add_rectangle(t, 390, y, share, BAR / 2 - 1, "#8fb3d9");
    add_rectangle(t, 390, y + BAR / 2 - 1, held, BAR / 2 - 1, "#d0605e");
    if (r->has_ideal)
        add_rectangle(t, 390, y + BAR / 2 - 1, (double)g->avoidable_bytes * per, BAR / 4, "url(#rest)");
    snprintf(size, sizeof size, "%.2f MiB", mib(g->peak_share_bytes));
    add_label(t, 394 + (share > held ? share : held), y + 12, "start", size);
}

static double draw_bars(const pp_memcheck *r, double y, pp_text *t)
{
    const pp_report_group **rows = pp_calloc(r->groups.n + 1, sizeof(pp_report_group *));
    size_t n = rows != NULL ? r->groups.n : 0;
    if (rows == NULL) t->failed = true;
    add_label(t, LEFT, y, "start", "share of the peak (blue), retained (red), avoidable (hatched)");
    for (size_t i = 0; i < n; i++) rows[i] = &r->groups.at[i];
    if (n > 1) qsort(rows, n, sizeof *rows, by_share);
    uint64_t most = n > 0 ? rows[0]->peak_share_bytes + rows[0]->retained_bytes : 0;
    y += 8;
    for (size_t i = 0; i < n && i < MOST_BARS; i++, y += BAR) {
        if (rows[i]->peak_share_bytes + rows[i]->retained_bytes == 0) break;
        draw_bar(r, rows[i], y, most, t);
    }
    pp_free(rows);
    return y;
}

/* ---- C: holders -------------------------------------------------------------------------------- */

static double draw_group_holders(const pp_memcheck *r, const pp_report_group *g, double y, pp_text *t)
{
    char room[200];
    double from = y;
    add_label(t, 380, y + 12, "end", name_of(g, room, sizeof room));
    for (size_t i = 0; i < g->n_holders && i < MOST_HELD; i++, y += BAR) {
        const pp_report_holder *h = &r->holders.at[g->first_holder + i];
        pp_text_add(t, "<path class=\"holds\" d=\"M 530 %.1f L 394 %.1f\"/>\n", y + 8, from + 8);
        snprintf(room, sizeof room, "%llu x %.30s  %.80s:%d  %.40s", (unsigned long long)h->count, h->kind,
                 known(h->site.file, "-"), (int)h->site.line, known(h->site.function, ""));
        add_label(t, 536, y + 12, "start", room);
    }
    return y > from ? y : from + BAR;
}

static double draw_holders(const pp_memcheck *r, double y, pp_text *t)
{
    add_label(t, LEFT, y, "start", "who holds what");
    y += 8;
    size_t drawn = 0;
    for (size_t i = 0; i < r->groups.n && drawn < MOST_HELD; i++) {
        if (r->groups.at[i].retained_count == 0) continue;
        y = draw_group_holders(r, &r->groups.at[i], y, t);
        drawn++;
    }
    if (drawn == 0) add_label(t, 394, y + 12, "start", "nothing is retained");
    return drawn == 0 ? y + BAR : y;
}

/* ---- the whole --------------------------------------------------------------------------------- */

static void draw_head(const pp_memcheck *r, pp_text *t)
{
    pp_text_add(t, "<style>text{font:11px sans-serif}rect{stroke:#fff;stroke-width:.3}"
                   ".peak{stroke:#222}.ideal{stroke:#222;stroke-dasharray:6 4}"
                   ".mark{stroke:#888;stroke-dasharray:2 3}.holds{stroke:#d0605e;fill:none}</style>\n"
                   "<defs><pattern id=\"rest\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
                   "patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" fill=\"#f3d6d5\"/>"
                   "<line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"6\" stroke=\"#c0392b\" stroke-width=\"3\"/>"
                   "</pattern></defs>\n");
    pp_text_add(t,
                "<text x=\"%d\" y=\"24\" style=\"font:16px sans-serif\">ppto memcheck, level %d, run %llu, "
                "at %s: peak %.2f MiB",
                LEFT, r->level, (unsigned long long)r->runs, known(r->at, "now"), mib(r->peak_bytes));
    if (r->has_ideal) pp_text_add(t, ", avoidable %.2f MiB", mib(r->avoidable_bytes));
    pp_text_add(t, "</text>\n");
    add_label(t, LEFT, 44, "start", "buffers over time; hatched: the last use is over");
}

void pp_memcheck_write_svg(const pp_memcheck *r, pp_text *t)
{
    pp_text body = {0};
    draw_head(r, &body);
    draw_time(r, &body);
    double y = draw_bars(r, TIME_TOP + TIME_HEIGHT + 50, &body);
    y = draw_holders(r, y + 40, &body);
    pp_text_add(t,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" viewBox=\"0 0 %d "
                "%.0f\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
                WIDTH, y + 30, WIDTH, y + 30);
    pp_text_add(t, "%s</svg>\n", known(body.at, ""));
    if (body.failed) t->failed = true;
    pp_text_free(&body);
}
