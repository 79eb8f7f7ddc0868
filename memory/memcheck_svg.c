/* SPDX-License-Identifier: Apache-2.0
 * A report as a picture (base/svg.h): one SVG, written as text that can be compared line by line. Three
 * panels:
 *
 *   A  time: buffers as rectangles, as wide as they lived; hatched where their last use was over. Across lies
 *      the order in which memory was taken and given (numbered by completed nodes), upwards the lowest place
 *      that was free, as a pool of just that height would give it. Needs the history of level 2.
 *   B  the fifteen largest groups of the peak: needed, retained and avoidable bytes
 *   C  who holds what: operators of the worst groups, and their holders
 *
 * Labels are measured and cut to the room they have; one that would lie on another is left out, since what it
 * names has a tooltip. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/svg.h"
#include "memory/memcheck.h"

enum {
    WIDTH = 1000,
    LEFT = 84,
    RIGHT = 20,
    NAMES = 380, /* names of groups end there, */
    BARS = 390,  /* and their bars begin */
    HOLDERS = 530,
    TIME_TOP = 70,
    TIME_HEIGHT = 260,
    BAR = 18,
    MOST_BARS = 15,
    MOST_HELD = 8,
    MOST_RECTANGLES = 2000,
};
#define RESTS "url(#rest)" /* hatched: the last use is over */

static const char *known(const char *text, const char *other)
{
    return text != NULL ? text : other;
}

static const char *bytes_text(uint64_t bytes, char *room, size_t size)
{
    pp_text t = {0};
    pp_text_bytes(&t, bytes);
    snprintf(room, size, "%s", known(t.at, ""));
    pp_text_free(&t);
    return room;
}

/* The end of a path says more than its beginning. */
static const char *short_file(const char *file)
{
    const char *slash = strrchr(file, '/');
    return slash != NULL && slash[1] != '\0' && strlen(file) > 32 ? slash + 1 : file;
}

static const char *name_of(const pp_report_group *g, char *room, size_t size)
{
    bool slab =
        g->kind != NULL && strcmp(g->kind, "slab") == 0 && strcmp(known(g->operator_name, ""), "slab") != 0;
    int n = snprintf(room, size, "%s%.60s", slab ? "slab of " : "", known(g->operator_name, "unknown"));
    if (g->site.file == NULL || n < 0 || (size_t)n >= size) return room;
    const char *file = short_file(g->site.file);
    if (g->site.line > 0)
        snprintf(room + n, size - (size_t)n, ", %.80s:%d", file, (int)g->site.line);
    else
        snprintf(room + n, size - (size_t)n, ", %.80s", file);
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
    const pp_report_buffer *b = row->buffer;
    char name[200], size[32];
    pp_text tip = {0};
    double x = x_of(s, b->born_tick), end = x_of(s, b->died_tick), rest = x_of(s, b->used_tick);
    double y = y_of(s, row->at + b->bytes), h = y_of(s, row->at) - y;
    pp_text_add(&tip, "b%u.%u %s\n%s, nodes %llu to %llu", (unsigned)b->id, (unsigned)b->generation,
                name_of(&r->groups.at[b->group], name, sizeof name), bytes_text(b->bytes, size, sizeof size),
                (unsigned long long)b->born, (unsigned long long)b->died);
    pp_svg_box(t, x, y, end - x, h, 0, pp_svg_colour(b->group), tip.at);
    if (b->used_tick < b->died_tick) pp_svg_box(t, rest, y, end - rest, h, 0, RESTS, tip.at);
    if (tip.failed) t->failed = true;
    pp_text_free(&tip);
}

/* A mark has its name below, where the one before leaves room. */
static void draw_marks(const pp_memcheck *r, const scale *s, pp_text *t)
{
    double free_from = LEFT;
    for (size_t i = 0; i < r->marks.n; i++) {
        const pp_report_mark *mark = &r->marks.at[i];
        double x = x_of(s, mark->tick < s->first ? s->first : mark->tick);
        const char *name = known(mark->name, "");
        pp_svg_mark(t, x, TIME_TOP, x, TIME_TOP + TIME_HEIGHT, name);
        if (name[0] == '\0' || x + 2 < free_from) continue;
        pp_svg_text_in(t, x + 2, TIME_TOP + TIME_HEIGHT + 27, WIDTH - RIGHT - x - 2, PP_SVG_WARN, name);
        free_from = x + 2 + pp_svg_text_width(PP_SVG_WARN, name) + 6;
    }
}

/* above: the label stands over the line, else below: the two levels may be the same. */
static void draw_level(const scale *s, uint64_t bytes, const char *name, bool above, pp_text *t)
{
    char size[32], label[64];
    if (bytes > s->height) return;
    double y = y_of(s, bytes);
    snprintf(label, sizeof label, "%s %s", name, bytes_text(bytes, size, sizeof size));
    double width = pp_svg_text_width(PP_SVG_SMALL, label);
    pp_text_add(t, "<path class=\"e\"%s d=\"M%d %.1fH%d\"/>\n", above ? "" : " stroke-dasharray=\"6 4\"",
                LEFT, y, WIDTH - RIGHT);
    pp_svg_back(t, WIDTH - RIGHT - width, above ? y - 14 : y + 2, width, 12);
    pp_svg_text(t, WIDTH - RIGHT, above ? y - 4 : y + 11, PP_SVG_SMALL, PP_SVG_END, label);
}

static void draw_axes(const pp_memcheck *r, const scale *s, pp_text *t)
{
    char room[64];
    pp_svg_rule(t, LEFT, TIME_TOP, LEFT, TIME_TOP + TIME_HEIGHT);
    pp_svg_rule(t, LEFT, TIME_TOP + TIME_HEIGHT, WIDTH - RIGHT, TIME_TOP + TIME_HEIGHT);
    pp_svg_text(t, LEFT - 6, TIME_TOP + 10, PP_SVG_SMALL, PP_SVG_END,
                bytes_text(s->height, room, sizeof room));
    pp_svg_text(t, LEFT - 6, TIME_TOP + TIME_HEIGHT, PP_SVG_SMALL, PP_SVG_END, "0");
    pp_svg_text(t, LEFT, TIME_TOP + TIME_HEIGHT + 14, PP_SVG_SMALL, PP_SVG_START, "node 0");
    snprintf(room, sizeof room, "node %llu", (unsigned long long)r->nodes);
    pp_svg_text(t, WIDTH - RIGHT, TIME_TOP + TIME_HEIGHT + 14, PP_SVG_SMALL, PP_SVG_END, room);
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
    if (s.height < r->peak_bytes) s.height = r->peak_bytes;
    for (size_t i = 0; i < n; i++) draw_buffer(r, &s, &rows[i], t);
    if (n == 0) {
        pp_svg_text(t, LEFT, TIME_TOP + 20, PP_SVG_PLAIN, PP_SVG_START,
                    "no history: PPTO_MEMCHECK_LEVEL=2 keeps one");
    } else {
        draw_marks(r, &s, t);
        draw_axes(r, &s, t);
        draw_level(&s, r->ideal_peak_bytes, "ideal", false, t);
        draw_level(&s, r->peak_bytes, "peak", true, t);
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

static void draw_name(const pp_report_group *g, double y, pp_text *t)
{
    char name[200];
    name_of(g, name, sizeof name);
    if (pp_svg_text_width(PP_SVG_PLAIN, name) <= NAMES - 16)
        pp_svg_text(t, NAMES, y + 12, PP_SVG_PLAIN, PP_SVG_END, name);
    else
        pp_svg_text_in(t, 16, y + 12, NAMES - 16, PP_SVG_PLAIN, name);
}

/* The number stands behind the bar: room is kept for it. */
static void draw_bar(const pp_memcheck *r, const pp_report_group *g, double y, uint64_t most, pp_text *t)
{
    char size[32], tip[64];
    double per = (double)(WIDTH - BARS - RIGHT - 80) / (double)(most > 0 ? most : 1);
    double share = (double)g->peak_share_bytes * per, held = (double)g->retained_bytes * per;
    draw_name(g, y, t);
    snprintf(tip, sizeof tip, "%s of the peak", bytes_text(g->peak_share_bytes, size, sizeof size));
    if (share > 0) pp_svg_box(t, BARS, y, share, BAR / 2 - 1, 0, "#8fb3d9", tip);
    snprintf(tip, sizeof tip, "%s retained", bytes_text(g->retained_bytes, size, sizeof size));
    if (held > 0) pp_svg_box(t, BARS, y + BAR / 2 - 1, held, BAR / 2 - 1, 0, "#d0605e", tip);
    snprintf(tip, sizeof tip, "%s avoidable", bytes_text(g->avoidable_bytes, size, sizeof size));
    if (r->has_ideal && g->avoidable_bytes != 0)
        pp_svg_box(t, BARS, y + BAR / 2 - 1, (double)g->avoidable_bytes * per, BAR / 4, 0, RESTS, tip);
    bytes_text(g->peak_share_bytes != 0 ? g->peak_share_bytes : g->retained_bytes, size, sizeof size);
    pp_svg_text(t, BARS + 4 + (share > held ? share : held), y + 12, PP_SVG_SMALL, PP_SVG_START, size);
}

static double draw_bars(const pp_memcheck *r, double y, pp_text *t)
{
    const pp_report_group **rows = pp_calloc(r->groups.n + 1, sizeof(pp_report_group *));
    size_t n = rows != NULL ? r->groups.n : 0;
    uint64_t most = 0;
    if (rows == NULL) t->failed = true;
    pp_svg_text(t, 16, y, PP_SVG_BOLD, PP_SVG_START,
                "Largest groups: share of the peak (blue), retained (red), avoidable (hatched)");
    for (size_t i = 0; i < n; i++) {
        rows[i] = &r->groups.at[i];
        if (rows[i]->peak_share_bytes > most) most = rows[i]->peak_share_bytes;
        if (rows[i]->retained_bytes > most) most = rows[i]->retained_bytes;
    }
    if (n > 1) qsort(rows, n, sizeof *rows, by_share);
    y += 10;
    for (size_t i = 0; i < n && i < MOST_BARS; i++, y += BAR) {
        if (rows[i]->peak_share_bytes + rows[i]->retained_bytes == 0) break;
        draw_bar(r, rows[i], y, most, t);
    }
    pp_free(rows);
    return y;
}

/* ---- C: holders -------------------------------------------------------------------------------- */

static const char *holder_text(const pp_report_holder *h, char *room, size_t size)
{
    const char *function = known(h->site.function, "");
    bool given = strcmp(h->kind, pp_hold_name(PP_HOLD_GIVEN)) == 0;
    const char *which = !given ? "x" : h->of.file == NULL ? "of these were" : "more were";
    int n = snprintf(room, size, "%llu %s %.30s", (unsigned long long)h->count, which,
                     given ? "given back" : h->kind);
    if (h->site.file == NULL || n < 0 || (size_t)n >= size) return room;
    snprintf(room + n, size - (size_t)n, ", %.80s:%d %.40s%s", short_file(h->site.file), (int)h->site.line,
             function, function[0] != '\0' ? "()" : "");
    return room;
}

static double draw_group_holders(const pp_memcheck *r, const pp_report_group *g, double y, pp_text *t)
{
    char room[200];
    double from = y;
    draw_name(g, y, t);
    for (size_t i = 0; i < g->n_holders && i < MOST_HELD; i++, y += BAR) {
        const pp_report_holder *h = &r->holders.at[g->first_holder + i];
        pp_text_add(t, "<path class=\"e\" d=\"M%d %.1fL%d %.1f\"/>\n", HOLDERS, y + 8, BARS + 4, from + 8);
        pp_svg_text_in(t, HOLDERS + 6, y + 12, WIDTH - RIGHT - HOLDERS - 6, PP_SVG_PLAIN,
                       holder_text(h, room, sizeof room));
    }
    return y > from ? y : from + BAR;
}

static double draw_holders(const pp_memcheck *r, double y, pp_text *t)
{
    pp_svg_text(t, 16, y, PP_SVG_BOLD, PP_SVG_START, "Who holds what");
    y += 10;
    size_t drawn = 0;
    for (size_t i = 0; i < r->groups.n && drawn < MOST_HELD; i++) {
        if (r->groups.at[i].retained_count == 0) continue;
        y = draw_group_holders(r, &r->groups.at[i], y, t);
        drawn++;
    }
    if (drawn == 0) pp_svg_text(t, BARS + 4, y + 12, PP_SVG_PLAIN, PP_SVG_START, "nothing is retained");
    return drawn == 0 ? y + BAR : y;
}

/* ---- the whole --------------------------------------------------------------------------------- */

static void draw_head(const pp_memcheck *r, pp_text *t)
{
    char size[32];
    pp_text line = {0};
    pp_text_add(t, "<defs><pattern id=\"rest\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
                   "patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" fill=\"#f3d6d5\"/>"
                   "<path d=\"M0 0V6\" stroke=\"#c0392b\" stroke-width=\"3\"/></pattern></defs>\n");
    pp_svg_text(t, 16, 28, PP_SVG_HEAD, PP_SVG_START, "Who holds the memory");
    pp_text_add(&line, "level %d, run %llu, at %.20s: peak %s", r->level, (unsigned long long)r->runs,
                known(r->at, "now"), bytes_text(r->peak_bytes, size, sizeof size));
    if (r->has_ideal) pp_text_add(&line, ", avoidable %s", bytes_text(r->avoidable_bytes, size, sizeof size));
    pp_text_add(&line, ". Buffers over time; hatched: the last use is over");
    pp_svg_text_in(t, 16, 46, WIDTH - 32, PP_SVG_SMALL, known(line.at, ""));
    if (line.failed) t->failed = true;
    pp_text_free(&line);
}

void pp_memcheck_write_svg(const pp_memcheck *r, pp_text *t)
{
    pp_text body = {0};
    draw_head(r, &body);
    draw_time(r, &body);
    double y = draw_bars(r, TIME_TOP + TIME_HEIGHT + 50, &body);
    y = draw_holders(r, y + 36, &body);
    pp_svg_begin(t, WIDTH, y + 24, "ppto memcheck");
    if (body.n != 0) pp_text_raw(t, body.at, body.n);
    pp_svg_end(t);
    if (body.failed) t->failed = true;
    pp_text_free(&body);
}
