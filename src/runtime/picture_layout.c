/* SPDX-License-Identifier: Apache-2.0
 * A layered layout. Nodes lie in even layers, and every edge passes each layer between its ends through an
 * item of its own: so lines and labels (in the first odd layer below the edge's begin) get room exactly as
 * nodes do, and nothing can overlap.
 *
 * Layers: as far down as the longest way from a source asks; sources that want it sink to those they lead to.
 * Order in a layer: barycentres of the neighbours, down and up, keeping the order with the fewest crossings.
 * Places: every item is drawn to the middle of its neighbours and pushed by those beside it; for one layer
 * that is a least-squares problem with ordered variables, which pooling adjacent violators solves exactly. */
#include <stdlib.h>
#include <string.h>

#include "runtime/picture.h"

enum { SWEEPS = 12, PULLS = 48, MANY_PAIRS = 4000000 };
static const double GAP_X = 22, GAP_Y = 24, SHORT = 16;

typedef struct item { /* a node, or where an edge passes a layer */
    uint32_t node;    /* PP_NONE: of an edge */
    uint32_t edge;
    uint32_t layer;
    double width, x, key, weight;
    uint32_t place; /* in its layer */
} item;

typedef struct link { /* between items of neighbouring layers */
    uint32_t up, down;
} link;

typedef struct work {
    pp_layered *g;
    uint32_t layers;
    uint32_t *layer_of; /* per node: even */
    PP_VEC(item) items;
    PP_VEC(link) links;    /* by layer of `up` */
    uint32_t *first_link;  /* per layer */
    uint32_t *first, *row; /* CSR: items of a layer, in order */
    uint32_t *best;        /* a row that crossed least */
    double *a, *b, *c;     /* room for one layer or all items */
    uint32_t *count;
} work;

/* ---- layers ---------------------------------------------------------------------------------------- */

static void find_layers(work *w)
{
    const pp_layered *g = w->g;
    for (uint32_t i = 0; i < g->n_edges; i++) { /* edges by ascending `to`: see pp_layered_place */
        const pp_layered_edge *e = &g->edges[i];
        if (w->layer_of[e->to] < w->layer_of[e->from] + 2) w->layer_of[e->to] = w->layer_of[e->from] + 2;
    }
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        uint32_t least = UINT32_MAX;
        for (uint32_t i = 0; g->nodes[n].late && i < g->n_edges; i++)
            if (g->edges[i].from == n && w->layer_of[g->edges[i].to] < least)
                least = w->layer_of[g->edges[i].to];
        if (least != UINT32_MAX) w->layer_of[n] = least - 2;
        if (w->layer_of[n] + 1 > w->layers) w->layers = w->layer_of[n] + 1;
    }
}

static ppto_status add_items(work *w)
{
    const pp_layered *g = w->g;
    for (uint32_t n = 0; n < g->n_nodes; n++)
        PP_TRY(pp_vec_push(
            &w->items,
            ((item){.node = n, .edge = PP_NONE, .layer = w->layer_of[n], .width = g->nodes[n].width})));
    for (uint32_t i = 0; i < g->n_edges; i++) {
        const pp_layered_edge *e = &g->edges[i];
        uint32_t above = e->from;
        for (uint32_t layer = w->layer_of[e->from] + 1; layer < w->layer_of[e->to]; layer++) {
            bool label = layer == w->layer_of[e->from] + 1;
            uint32_t here = (uint32_t)w->items.n;
            PP_TRY(pp_vec_push(
                &w->items,
                ((item){.node = PP_NONE, .edge = i, .layer = layer, .width = label ? e->width : 0})));
            PP_TRY(pp_vec_push(&w->links, ((link){above, here})));
            above = here;
        }
        PP_TRY(pp_vec_push(&w->links, ((link){above, e->to})));
    }
    return PPTO_OK;
}

/* Sorts the links by layer and lists the items of every layer. */
static ppto_status index_items(work *w)
{
    uint32_t n = (uint32_t)w->items.n;
    link *sorted = pp_calloc(w->links.n + 1, sizeof *sorted);
    w->first_link = pp_calloc(w->layers + 2, sizeof *w->first_link);
    w->first = pp_calloc(w->layers + 2, sizeof *w->first);
    w->row = pp_calloc(n + 1, sizeof *w->row);
    w->best = pp_calloc(n + 1, sizeof *w->best);
    w->a = pp_calloc(n + 1, sizeof *w->a);
    w->b = pp_calloc(n + 1, sizeof *w->b);
    w->c = pp_calloc(n + 1, sizeof *w->c);
    w->count = pp_calloc(n + w->layers + 2, sizeof *w->count);
    if (!sorted || !w->first_link || !w->first || !w->row || !w->best || !w->a || !w->b || !w->c ||
        !w->count) {
        pp_free(sorted);
        return PPTO_E_NOMEM;
    }
    for (size_t i = 0; i < w->links.n; i++) w->first_link[w->items.at[w->links.at[i].up].layer + 1]++;
    for (uint32_t i = 0; i < n; i++) w->first[w->items.at[i].layer + 1]++;
    for (uint32_t l = 0; l < w->layers; l++) {
        w->first_link[l + 1] += w->first_link[l];
        w->first[l + 1] += w->first[l];
    }
    for (size_t i = 0; i < w->links.n; i++) {
        uint32_t layer = w->items.at[w->links.at[i].up].layer;
        sorted[w->first_link[layer] + w->count[layer]++] = w->links.at[i];
    }
    memset(w->count, 0, (n + w->layers + 2) * sizeof *w->count);
    for (uint32_t i = 0; i < n; i++) {
        item *it = &w->items.at[i];
        it->place = w->count[it->layer]++;
        w->row[w->first[it->layer] + it->place] = i;
    }
    if (w->links.n) memcpy(w->links.at, sorted, w->links.n * sizeof *sorted);
    pp_free(sorted);
    return PPTO_OK;
}

/* ---- order ------------------------------------------------------------------------------------------- */

static uint64_t crossings(const work *w)
{
    uint64_t n = 0;
    for (uint32_t l = 0; l + 1 < w->layers; l++)
        for (uint32_t i = w->first_link[l]; i < w->first_link[l + 1]; i++)
            for (uint32_t k = i + 1; k < w->first_link[l + 1]; k++) {
                const item *at = w->items.at;
                const link *a = &w->links.at[i], *b = &w->links.at[k];
                int64_t up = (int64_t)at[a->up].place - (int64_t)at[b->up].place;
                int64_t down = (int64_t)at[a->down].place - (int64_t)at[b->down].place;
                n += (up < 0 && down > 0) || (up > 0 && down < 0);
            }
    return n;
}

static void sort_layer(work *w, uint32_t layer)
{
    uint32_t *row = w->row + w->first[layer], n = w->first[layer + 1] - w->first[layer];
    for (uint32_t i = 1; i < n; i++) /* by insertion: stable, and a sweep changes little */
        for (uint32_t k = i; k > 0 && w->items.at[row[k]].key < w->items.at[row[k - 1]].key; k--) {
            uint32_t swap = row[k];
            row[k] = row[k - 1];
            row[k - 1] = swap;
        }
    for (uint32_t i = 0; i < n; i++) w->items.at[row[i]].place = i;
}

/* Keys of a layer: the mean place of the neighbours in the layer above or below; without one, its own. */
static void key_by_neighbours(work *w, uint32_t layer, bool above)
{
    uint32_t links = above ? layer - 1 : layer;
    for (uint32_t i = w->first[layer]; i < w->first[layer + 1]; i++) {
        w->count[w->row[i]] = 0;
        w->items.at[w->row[i]].key = 0;
    }
    for (uint32_t i = w->first_link[links]; i < w->first_link[links + 1]; i++) {
        const link *k = &w->links.at[i];
        uint32_t mine = above ? k->down : k->up, other = above ? k->up : k->down;
        w->items.at[mine].key += w->items.at[other].place;
        w->count[mine]++;
    }
    for (uint32_t i = w->first[layer]; i < w->first[layer + 1]; i++) {
        item *it = &w->items.at[w->row[i]];
        it->key = w->count[w->row[i]] ? it->key / w->count[w->row[i]] : it->place;
    }
}

/* What counting crossings costs; a huge picture is ordered less well. */
static uint64_t pairs(const work *w)
{
    uint64_t n = 0;
    for (uint32_t l = 0; l + 1 < w->layers; l++) {
        uint64_t links = w->first_link[l + 1] - w->first_link[l];
        n += links * links / 2;
    }
    return n;
}

static void order_items(work *w)
{
    size_t bytes = w->items.n * sizeof *w->row;
    int sweeps = pairs(w) < MANY_PAIRS ? SWEEPS : 2;
    uint64_t least = crossings(w);
    memcpy(w->best, w->row, bytes);
    for (int sweep = 0; sweep < sweeps && least != 0; sweep++) {
        for (uint32_t l = 1; l < w->layers; l++) {
            uint32_t layer = sweep % 2 == 0 ? l : w->layers - 1 - l;
            key_by_neighbours(w, layer, sweep % 2 == 0);
            sort_layer(w, layer);
        }
        uint64_t now = crossings(w);
        if (now >= least) continue;
        least = now;
        memcpy(w->best, w->row, bytes);
    }
    memcpy(w->row, w->best, bytes);
    for (uint32_t l = 0; l < w->layers; l++)
        for (uint32_t i = w->first[l]; i < w->first[l + 1]; i++)
            w->items.at[w->row[i]].place = i - w->first[l];
}

/* ---- places ------------------------------------------------------------------------------------------ */

static double apart(const work *w, uint32_t left, uint32_t right)
{
    return (w->items.at[left].width + w->items.at[right].width) / 2 + GAP_X;
}

/* Where items of a layer want to be (key) becomes where they may be: in order and apart, with the least sum
 * of weighted squares. Blocks of items pushed together share the mean of what they want. */
static void settle_layer(work *w, uint32_t layer)
{
    const uint32_t *row = w->row + w->first[layer];
    uint32_t n = w->first[layer + 1] - w->first[layer], blocks = 0;
    double offset = 0;
    for (uint32_t i = 0; i < n; i++) { /* of a block: a: wishes times weights, c: weights, count: items */
        const item *it = &w->items.at[row[i]];
        if (i > 0) offset += apart(w, row[i - 1], row[i]);
        w->b[i] = offset;
        w->a[blocks] = (it->key - offset) * it->weight;
        w->c[blocks] = it->weight;
        w->count[blocks++] = 1;
        while (blocks > 1 && w->a[blocks - 2] / w->c[blocks - 2] > w->a[blocks - 1] / w->c[blocks - 1]) {
            w->a[blocks - 2] += w->a[blocks - 1];
            w->c[blocks - 2] += w->c[blocks - 1];
            w->count[blocks - 2] += w->count[blocks - 1];
            blocks--;
        }
    }
    for (uint32_t block = 0, i = 0; block < blocks; block++)
        for (uint32_t k = 0; k < w->count[block]; k++, i++)
            w->items.at[row[i]].x = w->a[block] / w->c[block] + w->b[i];
}

/* Long lines are to be straight: what only passes pulls hardest at what only passes. */
static double weight_of(const work *w, const link *k)
{
    int nodes = (w->items.at[k->up].node != PP_NONE) + (w->items.at[k->down].node != PP_NONE);
    return nodes == 2 ? 1 : nodes == 1 ? 2 : 8;
}

static void wish_for(item *it, const item *other, double weight)
{
    it->key += other->x * weight;
    it->weight += weight;
}

static void wish_for_neighbours(work *w, bool above, bool below)
{
    for (size_t i = 0; i < w->items.n; i++) w->items.at[i].key = w->items.at[i].weight = 0;
    for (size_t i = 0; i < w->links.n; i++) {
        const link *k = &w->links.at[i];
        item *up = &w->items.at[k->up], *down = &w->items.at[k->down];
        if (above) wish_for(down, up, weight_of(w, k));
        if (below) wish_for(up, down, weight_of(w, k));
    }
    for (size_t i = 0; i < w->items.n; i++) {
        item *it = &w->items.at[i];
        it->key = it->weight > 0 ? it->key / it->weight : it->x;
        if (!(it->weight > 0)) it->weight = 0.1; /* it may stay, and is easily pushed */
    }
}

static void place_items(work *w)
{
    for (size_t i = 0; i < w->items.n; i++) {
        w->items.at[i].key = w->items.at[i].place;
        w->items.at[i].weight = 1;
    }
    for (uint32_t l = 0; l < w->layers; l++) settle_layer(w, l);
    for (int pull = 0; pull < PULLS; pull++) {
        bool last = pull + 12 >= PULLS;
        for (uint32_t l = 0; l < w->layers; l++) {
            uint32_t layer = pull % 2 == 0 ? l : w->layers - 1 - l;
            wish_for_neighbours(w, last || pull % 2 == 0, last || pull % 2 != 0);
            settle_layer(w, layer);
        }
    }
}

/* ---- results ------------------------------------------------------------------------------------------ */

/* Heights of layers, and so their middles in a; moves everything to begin at 0. */
static void measure(work *w)
{
    pp_layered *g = w->g;
    double left = w->items.n != 0 ? 1e300 : 0, right = -left, y = 0;
    for (uint32_t l = 0; l < w->layers; l++) {
        double height = 0;
        for (uint32_t i = w->first[l]; i < w->first[l + 1]; i++) {
            const item *it = &w->items.at[w->row[i]];
            double h = it->node != PP_NONE ? g->nodes[it->node].height
                       : it->width > 0     ? g->edges[it->edge].height
                                           : 0;
            if (h > height) height = h;
            if (it->x - it->width / 2 < left) left = it->x - it->width / 2;
            if (it->x + it->width / 2 > right) right = it->x + it->width / 2;
        }
        w->a[l] = y + height / 2;
        w->b[l] = height;
        y += height + GAP_Y;
    }
    for (size_t i = 0; i < w->items.n; i++) w->items.at[i].x -= left;
    g->width = right - left;
    g->height = y > GAP_Y ? y - GAP_Y : 0;
}

static ppto_status add_point(work *w, double x, double y)
{
    return pp_vec_push(&w->g->points, ((pp_layered_point){x, y}));
}

/* Straight down through every layer, so that it only wanders where nothing lies: between layers. */
static ppto_status trace_edge(work *w, uint32_t number, uint32_t first_item)
{
    pp_layered *g = w->g;
    pp_layered_edge *e = &g->edges[number];
    const pp_layered_node *from = &g->nodes[e->from], *to = &g->nodes[e->to];
    uint32_t begin = w->layer_of[e->from], end = w->layer_of[e->to];
    e->first = (uint32_t)g->points.n;
    PP_TRY(add_point(w, from->x, from->y + from->height / 2));
    if (w->b[begin] > from->height + SHORT) PP_TRY(add_point(w, from->x, w->a[begin] + w->b[begin] / 2));
    for (uint32_t layer = begin + 1; layer < end; layer++) {
        double x = w->items.at[first_item + layer - begin - 1].x;
        PP_TRY(add_point(w, x, w->a[layer] - w->b[layer] / 2));
        PP_TRY(add_point(w, x, w->a[layer] + w->b[layer] / 2));
    }
    if (w->b[end] > to->height + SHORT) PP_TRY(add_point(w, to->x, w->a[end] - w->b[end] / 2));
    PP_TRY(add_point(w, to->x, to->y - to->height / 2));
    e->x = w->items.at[first_item].x;
    e->y = w->a[begin + 1];
    e->n = (uint32_t)g->points.n - e->first;
    return PPTO_OK;
}

static ppto_status give_places(work *w)
{
    pp_layered *g = w->g;
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        g->nodes[n].x = w->items.at[n].x;
        g->nodes[n].y = w->a[w->layer_of[n]];
    }
    uint32_t at = g->n_nodes;
    for (uint32_t i = 0; i < g->n_edges; i++) {
        PP_TRY(trace_edge(w, i, at));
        at += w->layer_of[g->edges[i].to] - w->layer_of[g->edges[i].from] - 1;
    }
    return PPTO_OK;
}

static int by_end(const void *left, const void *right)
{
    const pp_layered_edge *a = left, *b = right;
    if (a->to != b->to) return a->to < b->to ? -1 : 1;
    return a->from < b->from ? -1 : a->from > b->from;
}

ppto_status pp_layered_place(pp_layered *g)
{
    work w = {.g = g};
    if (g->n_edges) qsort(g->edges, g->n_edges, sizeof *g->edges, by_end);
    w.layer_of = pp_calloc(g->n_nodes + 1, sizeof *w.layer_of);
    ppto_status status = w.layer_of ? PPTO_OK : PPTO_E_NOMEM;
    if (status == PPTO_OK) {
        find_layers(&w);
        status = add_items(&w);
    }
    if (status == PPTO_OK) status = index_items(&w);
    if (status == PPTO_OK) {
        order_items(&w);
        place_items(&w);
        measure(&w);
        status = give_places(&w);
    }
    pp_free(w.layer_of);
    pp_vec_free(&w.items);
    pp_vec_free(&w.links);
    pp_free(w.first_link);
    pp_free(w.first);
    pp_free(w.row);
    pp_free(w.best);
    pp_free(w.a);
    pp_free(w.b);
    pp_free(w.c);
    pp_free(w.count);
    return status;
}
