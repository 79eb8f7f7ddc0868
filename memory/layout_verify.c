/* SPDX-License-Identifier: Apache-2.0
 * Proof that a layout is right, by another way than it was made: buffers are taken in program order, and a
 * map of the slab says which buffer had each byte last. A new buffer needs that all uses of the one before it
 * precede it in every order; those before that one need no look, for precedence is transitive. No units, no
 * packing order, no bounds. */
#include <stdlib.h>
#include <string.h>

#include "memory/layout_parts.h"

enum { ALIGNMENT = 64 };

/* Bytes [from, to) belonged to `owner` last. */
typedef struct range {
    uint64_t from, to;
    uint32_t owner;
} range;

typedef PP_VEC(range) range_map; /* by address, disjoint */

typedef struct verifier {
    const pp_layout_problem *problem;
    const pp_layout *layout;
    const pp_order *order;
    range_map map;
} verifier;

/* s waits for u itself. Very long plans know the precedence of some steps only from some step on. */
static bool is_need(const pp_layout_problem *problem, uint32_t u, uint32_t s)
{
    if (problem->serial) return false;
    for (uint32_t k = problem->first_need[s]; k < problem->first_need[s + 1]; k++)
        if (problem->needs[k] == u) return true;
    return false;
}

static ppto_status check_place(const verifier *of, uint32_t i, pp_error *err)
{
    const pp_layout_buffer *buffer = &of->problem->buffers[i];
    uint64_t offset = of->layout->offset[i], end;
    if (offset % ALIGNMENT != 0) return pp_fail(err, PPTO_E_INTERNAL, "layout: buffer %u is not aligned", i);
    if (__builtin_add_overflow(offset, buffer->bytes, &end) || end > of->layout->bytes)
        return pp_fail(err, PPTO_E_INTERNAL, "layout: buffer %u reaches outside the slab", i);
    for (uint32_t k = 0; k < buffer->n_uses; k++)
        if (!pp_order_before(of->order, buffer->defined, buffer->uses[k]) &&
            !is_need(of->problem, buffer->defined, buffer->uses[k]))
            return pp_fail(err, PPTO_E_INTERNAL,
                           "layout: step %u may read buffer %u before step %u writes it", buffer->uses[k], i,
                           buffer->defined);
    return PPTO_OK;
}

/* True when `next` may have bytes of `owner` in every order. */
static bool may_follow(const verifier *of, uint32_t owner, uint32_t next)
{
    const pp_layout_buffer *before = &of->problem->buffers[owner], *after = &of->problem->buffers[next];
    bool in_place = after->in_place_of == owner && of->layout->offset[owner] == of->layout->offset[next];
    if (!pp_order_before(of->order, before->defined, after->defined)) return false;
    for (uint32_t k = 0; k < before->n_uses; k++) {
        if (in_place && before->uses[k] == after->defined) continue;
        if (!pp_order_before(of->order, before->uses[k], after->defined)) return false;
    }
    return true;
}

/* The first range that ends above the address. */
static size_t find(const range_map *map, uint64_t address)
{
    size_t low = 0, high = map->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (map->at[middle].to <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Puts the new range in the place of ranges [first, last), whose parts outside of it stay. */
static ppto_status replace(range_map *map, size_t first, size_t last, range new_range)
{
    range parts[3];
    size_t n = 0;
    if (first < last && map->at[first].from < new_range.from)
        parts[n++] = (range){map->at[first].from, new_range.from, map->at[first].owner};
    parts[n++] = new_range;
    if (first < last && map->at[last - 1].to > new_range.to)
        parts[n++] = (range){new_range.to, map->at[last - 1].to, map->at[last - 1].owner};
    PP_TRY(pp_vec_reserve(map, map->n + n));
    if (map->n != last) memmove(map->at + first + n, map->at + last, (map->n - last) * sizeof *map->at);
    memcpy(map->at + first, parts, n * sizeof *parts);
    map->n = map->n - (last - first) + n;
    return PPTO_OK;
}

static ppto_status add_buffer(verifier *of, uint32_t i, pp_error *err)
{
    uint64_t bytes = of->problem->buffers[i].bytes;
    range new_range = {of->layout->offset[i], of->layout->offset[i] + bytes, i};
    if (bytes == 0) return PPTO_OK;
    size_t first = find(&of->map, new_range.from), last = first;
    for (; last < of->map.n && of->map.at[last].from < new_range.to; last++)
        if (!may_follow(of, of->map.at[last].owner, i))
            return pp_fail(err, PPTO_E_INTERNAL,
                           "layout: buffers %u and %u may live at once in the same bytes",
                           of->map.at[last].owner, i);
    if (replace(&of->map, first, last, new_range) != PPTO_OK)
        return pp_fail(err, PPTO_E_NOMEM, "no memory to verify a layout");
    return PPTO_OK;
}

typedef struct definition {
    uint32_t step, buffer;
} definition;

static int by_step(const void *a, const void *b)
{
    const definition *x = a, *y = b;
    if (x->step != y->step) return x->step < y->step ? -1 : 1;
    return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

static ppto_status verify_all(verifier *of, definition *order, pp_error *err)
{
    uint32_t n = of->problem->n_buffers;
    for (uint32_t i = 0; i < n; i++) order[i] = (definition){of->problem->buffers[i].defined, i};
    qsort(order, n, sizeof *order, by_step);
    for (uint32_t i = 0; i < n; i++) {
        PP_TRY(check_place(of, order[i].buffer, err));
        PP_TRY(add_buffer(of, order[i].buffer, err));
    }
    return PPTO_OK;
}

ppto_status pp_layout_verify(const pp_layout_problem *problem, const pp_layout *layout, pp_error *err)
{
    pp_order order;
    ppto_status status = pp_order_make(problem, &order);
    if (status != PPTO_OK) return pp_fail(err, status, "no memory to verify a layout");
    verifier work = {.problem = problem, .layout = layout, .order = &order};
    definition *by_definition = pp_calloc(problem->n_buffers, sizeof *by_definition);
    if (by_definition == NULL)
        status = pp_fail(err, PPTO_E_NOMEM, "no memory to verify a layout");
    else
        status = verify_all(&work, by_definition, err);
    pp_vec_free(&work.map);
    pp_free(by_definition);
    pp_order_free(&order);
    return status;
}
