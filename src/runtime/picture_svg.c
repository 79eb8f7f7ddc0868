/* SPDX-License-Identifier: Apache-2.0
 * A picture of a plan as SVG: kernels are boxes with their operators in them, inputs and results are pills,
 * lines go down with the type and bytes of what flows; a dashed line says why the two ends are not one
 * kernel, in a word that is explained below. Boxes have tooltips with the places where operators were
 * recorded. */
#include <stdio.h>
#include <string.h>

#include "base/svg.h"
#include "ppto/trace.h"
#include "runtime/picture.h"
#include "runtime/report.h"

enum { MARGIN = 24, HEAD = 64, PAD = 10, LINE = 15, MOST_LINES = 8, WRAP = 34, FOOT = 24, MOST_REASONS = 24 };

/* ---- texts in boxes ------------------------------------------------------------------------------------ */

/* The next line of a list "a, b, c": as many words as fit, at least one; 0: the end. */
static size_t take_line(const char *text, size_t *length)
{
    size_t n = strlen(text), cut = 0;
    if (n <= WRAP) {
        *length = n;
        return n;
    }
    for (size_t i = 0; i + 1 < n && (i <= WRAP || cut == 0); i++)
        if (text[i] == ',' && text[i + 1] == ' ') cut = i + 2;
    if (cut == 0) cut = n;
    *length = cut < n ? cut - 1 : cut; /* without the space */
    return cut;
}

typedef struct lines {
    uint32_t n;
    char at[MOST_LINES][160];
} lines;

static void split(const char *text, lines *out)
{
    size_t length, step;
    out->n = 0;
    for (; *text && (step = take_line(text, &length)) != 0; text += step) {
        if (out->n == MOST_LINES) {
            snprintf(out->at[MOST_LINES - 1], sizeof out->at[0], "\xe2\x80\xa6");
            return;
        }
        snprintf(out->at[out->n++], sizeof out->at[0], "%.*s", (int)(length < 150 ? length : 150), text);
    }
}

static double widest(const pp_picture_node *node, const lines *text)
{
    double width = pp_svg_text_width(PP_SVG_TITLE, node->title) * 1.06;
    double bytes = pp_svg_text_width(PP_SVG_SMALL, node->bytes);
    if (bytes > width) width = bytes;
    for (uint32_t i = 0; i < text->n; i++) {
        double w = pp_svg_text_width(PP_SVG_PLAIN, text->at[i]);
        if (w > width) width = w;
    }
    return width;
}

/* ---- sizes for the layout ------------------------------------------------------------------------------ */

static void size_node(const pp_picture_node *node, pp_layered_node *out)
{
    lines text;
    split(node->text, &text);
    uint32_t rows = 1 + text.n + (node->bytes[0] != '\0');
    *out = (pp_layered_node){.width = widest(node, &text) + 2 * PAD + (node->role == PP_NODE_KERNEL ? 4 : 12),
                             .height = rows * LINE + 12,
                             .late = node->role == PP_NODE_INPUT};
}

static void why_text(const pp_picture_edge *edge, char *room, size_t size)
{
    snprintf(room, size, "not fused: %s", edge->why ? edge->why : "");
}

static void size_edge(const pp_picture_edge *edge, pp_layered_edge *out)
{
    char why[64];
    double width = pp_svg_text_width(PP_SVG_SMALL, edge->label);
    why_text(edge, why, sizeof why);
    if (edge->why && pp_svg_text_width(PP_SVG_WARN, why) > width) width = pp_svg_text_width(PP_SVG_WARN, why);
    if (width > 320) width = 320;
    if (!edge->label[0]) width = -6;
    *out = (pp_layered_edge){
        .from = edge->from, .to = edge->to, .width = width + 6, .height = edge->why ? 2 * LINE : LINE};
}

/* ---- drawing ------------------------------------------------------------------------------------------- */

static void draw_node(const pp_picture_node *node, const pp_layered_node *at, pp_text *out)
{
    static const char *const fills[] = {"#cfe3f8", "#fbe3c0", "#e3e7ec", "#cdebc8"}; /* by pp_node_role */
    bool pill = node->role == PP_NODE_INPUT || node->role == PP_NODE_RESULT;
    double left = MARGIN + at->x - at->width / 2, top = HEAD + at->y - at->height / 2;
    double x = MARGIN + at->x, y = top + LINE + 3;
    lines text;
    split(node->text, &text);
    pp_svg_box(out, left, top, at->width, at->height, pill ? at->height / 2.2 : 5, fills[node->role],
               node->detail);
    pp_svg_text(out, x, y, PP_SVG_TITLE, PP_SVG_MIDDLE, node->title);
    for (uint32_t i = 0; i < text.n; i++)
        pp_svg_text(out, x, y += LINE, PP_SVG_INSIDE, PP_SVG_MIDDLE, text.at[i]);
    if (node->bytes[0]) pp_svg_text(out, x, y + LINE, PP_SVG_INSIDE, PP_SVG_MIDDLE, node->bytes);
}

/* From point to point, leaving and entering each straight down. */
static void draw_line(const pp_picture_edge *edge, const pp_layered *g, const pp_layered_edge *at,
                      pp_text *out)
{
    const pp_layered_point *p = g->points.at + at->first;
    pp_text_add(out, "<path class=\"%s\" marker-end=\"url(#a)\" d=\"M%.1f %.1f", edge->why ? "m" : "e",
                MARGIN + p[0].x, HEAD + p[0].y);
    for (uint32_t i = 1; i < at->n; i++) {
        double tip = i + 1 == at->n ? 4 : 0, y = HEAD + p[i].y - tip, before = HEAD + p[i - 1].y;
        double bend = (y - before) / 2;
        if (p[i].x == p[i - 1].x) {
            pp_text_add(out, "V%.1f", y);
            continue;
        }
        pp_text_add(out, "C%.1f %.1f %.1f %.1f %.1f %.1f", MARGIN + p[i - 1].x, before + bend,
                    MARGIN + p[i].x, y - bend, MARGIN + p[i].x, y);
    }
    pp_text_add(out, "\"/>\n");
}

static void draw_label(const pp_picture_edge *edge, const pp_layered_edge *at, pp_text *out)
{
    char why[64];
    if (!edge->label[0]) return;
    double x = MARGIN + at->x, top = HEAD + at->y - at->height / 2;
    why_text(edge, why, sizeof why);
    if (edge->detail) pp_text_add(out, "<g><title>");
    if (edge->detail) pp_text_xml(out, edge->detail);
    if (edge->detail) pp_text_add(out, "</title>\n");
    pp_svg_back(out, x - at->width / 2, top + 1, at->width, at->height - 1);
    pp_svg_text_in(out, x - at->width / 2 + 3, top + 11.5, at->width, PP_SVG_SMALL, edge->label);
    if (edge->why) pp_svg_text(out, x, top + 11.5 + LINE, PP_SVG_WARN, PP_SVG_MIDDLE, why);
    if (edge->detail) pp_text_add(out, "</g>\n");
}

/* The edges that first name a reason; how many. */
static size_t list_reasons(const pp_picture *picture, const pp_picture_edge **out, size_t most)
{
    size_t n = 0;
    for (size_t i = 0; i < picture->edges.n && n < most; i++) {
        const pp_picture_edge *edge = &picture->edges.at[i];
        bool again = !edge->why;
        for (size_t k = 0; k < n && !again; k++) again = strcmp(out[k]->why, edge->why) == 0;
        if (!again) out[n++] = edge;
    }
    return n;
}

static void reason_line(const pp_picture_edge *edge, char *room, size_t size)
{
    snprintf(room, size, "%s: %s", edge->why, edge->detail ? edge->detail : "");
}

static void draw_reasons(const pp_picture_edge *const *reasons, size_t n, double y, pp_text *out)
{
    char line[200];
    for (size_t i = 0; i < n; i++) {
        reason_line(reasons[i], line, sizeof line);
        pp_svg_text(out, MARGIN, y + (double)(i + 1) * LINE, PP_SVG_WARN, PP_SVG_START, line);
    }
}

static double widest_text(const pp_picture *picture, const pp_picture_edge *const *reasons, size_t n)
{
    double width = pp_svg_text_width(PP_SVG_PLAIN, picture->title);
    for (size_t i = 0; i < n; i++) {
        char line[200];
        reason_line(reasons[i], line, sizeof line);
        double w = pp_svg_text_width(PP_SVG_WARN, line);
        if (w > width) width = w;
    }
    return width;
}

static void draw(const pp_picture *picture, const pp_layered *g, pp_text *out)
{
    const pp_picture_edge *reasons[MOST_REASONS];
    size_t n = list_reasons(picture, reasons, MOST_REASONS);
    double text = widest_text(picture, reasons, n);
    double width = (g->width > text ? g->width : text) + 2 * MARGIN, bottom = HEAD + g->height + FOOT;
    pp_svg_begin(out, width, bottom + (n != 0 ? (double)n * LINE + FOOT : 0), "ppto graph");
    pp_text_add(out,
                "<defs><marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"4\" refY=\"4\" markerWidth=\"7\" "
                "markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#6b7682\"/></marker>"
                "</defs>\n");
    pp_svg_text(out, MARGIN, 26, PP_SVG_HEAD, PP_SVG_START, "What will run");
    pp_svg_text(out, MARGIN, 44, PP_SVG_SMALL, PP_SVG_START, picture->title);
    for (uint32_t i = 0; i < g->n_edges; i++) draw_line(&picture->edges.at[i], g, &g->edges[i], out);
    for (uint32_t i = 0; i < g->n_edges; i++) draw_label(&picture->edges.at[i], &g->edges[i], out);
    for (uint32_t i = 0; i < g->n_nodes; i++) draw_node(&picture->nodes.at[i], &g->nodes[i], out);
    draw_reasons(reasons, n, bottom, out);
    pp_svg_end(out);
}

ppto_status pp_picture_svg(const pp_picture *picture, pp_text *out)
{
    pp_layered g = {.n_nodes = (uint32_t)picture->nodes.n, .n_edges = (uint32_t)picture->edges.n};
    g.nodes = pp_calloc(picture->nodes.n + 1, sizeof *g.nodes);
    g.edges = pp_calloc(picture->edges.n + 1, sizeof *g.edges);
    ppto_status status = g.nodes && g.edges ? PPTO_OK : PPTO_E_NOMEM;
    for (size_t i = 0; status == PPTO_OK && i < picture->nodes.n; i++)
        size_node(&picture->nodes.at[i], &g.nodes[i]);
    for (size_t i = 0; status == PPTO_OK && i < picture->edges.n; i++)
        size_edge(&picture->edges.at[i], &g.edges[i]);
    if (status == PPTO_OK) status = pp_layered_place(&g);
    if (status == PPTO_OK) draw(picture, &g, out);
    pp_free(g.nodes);
    pp_free(g.edges);
    pp_vec_free(&g.points);
    return status;
}

ppto_status ppto_program_picture(ppto_program *program, ppto_picture_format format, char **text)
{
    pp_error err = {0};
    pp_picture picture;
    pp_text out = {0};
    if (!program || !text) return pp_report_new(PPTO_E_VALUE, "picture: an argument is NULL");
    *text = NULL;
    if (format != PPTO_PICTURE_SVG && format != PPTO_PICTURE_DOT)
        return pp_report_new(PPTO_E_VALUE, "picture: unknown format %d", (int)format);
    PP_TRY(pp_context_refuses(program->ctx));
    if (atomic_load_explicit(&program->running, memory_order_acquire))
        return pp_report_new(PPTO_E_BUSY, "picture: the program is running");
    ppto_status status = pp_picture_read(program, &picture, &err);
    if (status == PPTO_OK && format == PPTO_PICTURE_SVG) status = pp_picture_svg(&picture, &out);
    if (status == PPTO_OK && format == PPTO_PICTURE_DOT) pp_picture_dot(&picture, &out);
    pp_picture_free(&picture);
    if (status == PPTO_OK) return pp_report_give(&out, text);
    pp_text_free(&out);
    pp_fail(&err, status, "picture: %s", ppto_status_text(status));
    return pp_report(&err);
}
