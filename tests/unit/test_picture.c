/* SPDX-License-Identifier: Apache-2.0
 * The layered layout on drawn graphs: nothing overlaps, edges go down, all lies inside, and simple graphs
 * look as one would draw them. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "runtime/picture.h"

static uint64_t state;

static uint32_t draw(uint32_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % below;
}

static pp_layered graph_of(uint32_t nodes, uint32_t edges)
{
    pp_layered g = {.n_nodes = nodes, .n_edges = edges};
    g.nodes = pp_calloc(nodes + 1, sizeof *g.nodes);
    g.edges = pp_calloc(edges + 1, sizeof *g.edges);
    cr_assert(g.nodes && g.edges);
    for (uint32_t i = 0; i < nodes; i++) g.nodes[i] = (pp_layered_node){.width = 100, .height = 40};
    return g;
}

static void place(pp_layered *g)
{
    cr_assert_eq(pp_layered_place(g), PPTO_OK);
}

static void drop(pp_layered *g)
{
    pp_free(g->nodes);
    pp_free(g->edges);
    pp_vec_free(&g->points);
}

typedef struct box {
    double x, y, width, height;
} box;

static bool apart(box a, box b)
{
    return fabs(a.x - b.x) >= (a.width + b.width) / 2 - 1e-6 ||
           fabs(a.y - b.y) >= (a.height + b.height) / 2 - 1e-6;
}

static box node_box(const pp_layered *g, uint32_t i)
{
    return (box){g->nodes[i].x, g->nodes[i].y, g->nodes[i].width, g->nodes[i].height};
}

static box label_box(const pp_layered *g, uint32_t i)
{
    return (box){g->edges[i].x, g->edges[i].y, g->edges[i].width, g->edges[i].height};
}

static void expect_no_overlap(const pp_layered *g, uint64_t seed)
{
    for (uint32_t i = 0; i < g->n_nodes; i++)
        for (uint32_t k = 0; k < i; k++)
            cr_expect(apart(node_box(g, i), node_box(g, k)), "seed %d: nodes %u, %u", (int)seed, i, k);
    for (uint32_t i = 0; i < g->n_edges; i++) {
        if (g->edges[i].width <= 0) continue;
        for (uint32_t k = 0; k < g->n_nodes; k++)
            cr_expect(apart(label_box(g, i), node_box(g, k)), "seed %d: label %u, node %u", (int)seed, i, k);
        for (uint32_t k = 0; k < i; k++)
            cr_expect(g->edges[k].width <= 0 || apart(label_box(g, i), label_box(g, k)),
                      "seed %d: labels %u, %u", (int)seed, i, k);
    }
}

static void expect_inside_and_down(const pp_layered *g, uint64_t seed)
{
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        box b = node_box(g, i);
        cr_expect(b.x - b.width / 2 >= -1e-6 && b.x + b.width / 2 <= g->width + 1e-6, "seed %d", (int)seed);
        cr_expect(b.y - b.height / 2 >= -1e-6 && b.y + b.height / 2 <= g->height + 1e-6, "seed %d",
                  (int)seed);
    }
    for (uint32_t i = 0; i < g->n_edges; i++) {
        const pp_layered_edge *e = &g->edges[i];
        const pp_layered_point *p = g->points.at + e->first;
        cr_assert(e->n >= 2);
        cr_expect(p[0].x == g->nodes[e->from].x && p[e->n - 1].x == g->nodes[e->to].x, "seed %d", (int)seed);
        for (uint32_t k = 1; k < e->n; k++)
            cr_expect(p[k].y >= p[k - 1].y - 1e-6, "seed %d: edge %u", (int)seed, i);
        /* an edge that only passes a node's height stands beside it */
        for (uint32_t k = 2; k + 2 < e->n; k++)
            for (uint32_t n = 0; n < g->n_nodes; n++)
                cr_expect(apart(node_box(g, n), (box){p[k].x, p[k].y, 0, 0}), "seed %d: edge %u, node %u",
                          (int)seed, i, n);
    }
}

static pp_layered drawn(uint64_t seed)
{
    state = seed * 0x9e3779b97f4a7c15u + 1;
    uint32_t nodes = 1 + draw(110), edges = 0, most = 2 * nodes;
    pp_layered g = graph_of(nodes, most);
    for (uint32_t i = 0; i < nodes; i++) {
        g.nodes[i].width = 40 + draw(200);
        g.nodes[i].height = 20 + draw(80);
        g.nodes[i].late = i < nodes / 4;
    }
    for (uint32_t to = 1; to < nodes; to++)
        for (uint32_t k = draw(3); k > 0 && edges < most && to >= nodes / 4; k--) {
            uint32_t from = draw(to);
            bool again = false;
            for (uint32_t i = 0; i < edges; i++) again |= g.edges[i].to == to && g.edges[i].from == from;
            if (again) continue;
            g.edges[edges++] = (pp_layered_edge){
                .from = from, .to = to, .width = draw(2) ? 30 + draw(120) : 0, .height = 15};
        }
    g.n_edges = edges;
    return g;
}

Test(picture_layout, nothing_overlaps_in_drawn_graphs)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        pp_layered g = drawn(seed);
        place(&g);
        expect_no_overlap(&g, seed);
        expect_inside_and_down(&g, seed);
        drop(&g);
    }
}

Test(picture_layout, a_chain_is_a_straight_line)
{
    pp_layered g = graph_of(5, 4);
    for (uint32_t i = 0; i < 4; i++) g.edges[i] = (pp_layered_edge){.from = i, .to = i + 1};
    place(&g);
    for (uint32_t i = 1; i < 5; i++)
        cr_expect(fabs(g.nodes[i].x - g.nodes[0].x) < 0.01 && g.nodes[i].y > g.nodes[i - 1].y);
    cr_expect_float_eq(g.width, 100, 0.01);
    drop(&g);
}

Test(picture_layout, a_pair_is_not_crossed_without_need)
{
    static const uint32_t ends[][2] = {{0, 3}, {1, 2}}; /* in the order given they would cross */
    pp_layered g = graph_of(4, 2);
    for (uint32_t i = 0; i < 2; i++) g.edges[i] = (pp_layered_edge){.from = ends[i][0], .to = ends[i][1]};
    place(&g);
    cr_expect((g.nodes[0].x < g.nodes[1].x) == (g.nodes[3].x < g.nodes[2].x));
    drop(&g);
}

Test(picture_layout, a_late_source_stands_above_its_reader)
{
    pp_layered g = graph_of(5, 4); /* 0, 1 sources; 2 -> 3 -> 4; 1 is read by 4 alone */
    static const uint32_t ends[][2] = {{0, 2}, {2, 3}, {3, 4}, {1, 4}};
    for (uint32_t i = 0; i < 4; i++) g.edges[i] = (pp_layered_edge){.from = ends[i][0], .to = ends[i][1]};
    g.nodes[0].late = g.nodes[1].late = 1;
    place(&g);
    cr_expect_float_eq(g.nodes[1].y, g.nodes[3].y, 0.01);
    drop(&g);
}

Test(picture_layout, an_empty_graph_has_no_extent)
{
    pp_layered g = graph_of(0, 0);
    place(&g);
    cr_expect(g.width <= 0 && g.height <= 0);
    drop(&g);
}
