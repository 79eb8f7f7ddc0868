/* SPDX-License-Identifier: Apache-2.0
 * The planner: buffers become units (in place where the last reader allows), units are packed by several
 * greedy orders, the best is kept. The search stops as soon as a packing reaches the bound below which none
 * can go. Rejected: one linear order of the steps as the only truth, which is wrong as soon as two steps run
 * at once. */
#include "base/fault.h"
#include "memory/layout_parts.h"

enum { ALIGNMENT = 64 };
#define NO_BUFFER UINT32_MAX
#define LARGEST ((uint64_t)1 << 62)

bool pp_unit_before(const pp_units *units, uint32_t a, uint32_t b)
{
    const pp_unit *first = &units->at[a];
    uint32_t step = units->at[b].defined;
    if (first->last >= step) return false;
    if (units->order->serial) return true;
    for (uint32_t i = 0; i < first->n_ends; i++)
        if (!pp_order_before(units->order, units->ends[first->first_end + i], step)) return false;
    return true;
}

/* ---- units ------------------------------------------------------------------------------------- */

/* heir[j]: the buffer that takes over the bytes of j; is_heir: it takes over another's; unit_of: its unit. */
typedef struct chains {
    uint32_t *heir, *unit_of;
    bool *is_heir;
    uint32_t count; /* of heirs */
} chains;

static uint64_t rounded(uint64_t bytes)
{
    return (bytes + (ALIGNMENT - 1)) & ~(uint64_t)(ALIGNMENT - 1);
}

/* A much smaller buffer would keep bytes alive that nobody needs. */
static bool may_take_over(const pp_layout_problem *problem, const pp_order *order, uint32_t heir, uint32_t of)
{
    const pp_layout_buffer *to = &problem->buffers[heir], *from = &problem->buffers[of];
    if (to->bytes == 0 || rounded(to->bytes) > rounded(from->bytes) || rounded(to->bytes) < from->bytes / 2)
        return false;
    if (!pp_order_before(order, from->defined, to->defined)) return false;
    for (uint32_t i = 0; i < from->n_uses; i++)
        if (from->uses[i] != to->defined && !pp_order_before(order, from->uses[i], to->defined)) return false;
    return true;
}

static void find_heirs(const pp_layout_problem *problem, const pp_order *order, chains *out)
{
    for (uint32_t i = 0; i < problem->n_buffers; i++) out->heir[i] = out->unit_of[i] = NO_BUFFER;
    for (uint32_t i = 0; i < problem->n_buffers; i++) {
        uint32_t of = problem->buffers[i].in_place_of;
        if (of == NO_BUFFER || out->heir[of] != NO_BUFFER || !may_take_over(problem, order, i, of)) continue;
        out->heir[of] = i;
        out->is_heir[i] = true;
        out->count++;
    }
}

/* The ends of a unit whose last buffer this is: those that precede the greatest are implied by it. */
static void add_ends(const pp_layout_buffer *buffer, const pp_order *order, pp_unit *unit, uint32_t *ends,
                     uint32_t *n_ends)
{
    unit->first_end = *n_ends;
    unit->last = buffer->defined;
    for (uint32_t i = 0; i < buffer->n_uses; i++)
        if (buffer->uses[i] > unit->last) unit->last = buffer->uses[i];
    ends[(*n_ends)++] = unit->last;
    for (uint32_t i = 0; i <= buffer->n_uses; i++) {
        uint32_t end = i < buffer->n_uses ? buffer->uses[i] : buffer->defined;
        if (end != unit->last && !pp_order_before(order, end, unit->last)) ends[(*n_ends)++] = end;
    }
    unit->n_ends = *n_ends - unit->first_end;
}

static void make_units(const pp_layout_problem *problem, chains *chain, pp_units *units)
{
    uint32_t n_ends = 0;
    for (uint32_t i = 0; i < problem->n_buffers; i++) {
        if (problem->buffers[i].bytes == 0 || chain->is_heir[i]) continue;
        uint32_t tail = i;
        chain->unit_of[i] = units->n;
        while (chain->heir[tail] != NO_BUFFER) {
            tail = chain->heir[tail];
            chain->unit_of[tail] = units->n;
        }
        pp_unit *unit = &units->at[units->n++];
        unit->bytes = rounded(problem->buffers[i].bytes);
        unit->defined = problem->buffers[i].defined;
        add_ends(&problem->buffers[tail], units->order, unit, units->ends, &n_ends);
        if (pp_fault(PP_FAULT_EARLY_REUSE) && unit->last > unit->defined) {
            units->ends[unit->first_end] = --unit->last;
            unit->n_ends = 1;
        }
    }
}

/* ---- planning ---------------------------------------------------------------------------------- */

typedef struct plan {
    pp_units units;
    chains chain;
    uint64_t *offset, *trial; /* of units: the best packing so far, and the next */
    uint64_t bytes;
} plan;

static ppto_status check(const pp_layout_problem *problem, size_t *n_ends)
{
    uint32_t n = problem->n_buffers, steps = problem->n_steps;
    *n_ends = n;
    for (uint32_t i = 0; i < n; i++) {
        const pp_layout_buffer *buffer = &problem->buffers[i];
        if (buffer->bytes > LARGEST) return PPTO_E_SIZE;
        if (buffer->defined >= steps || (buffer->in_place_of != NO_BUFFER && buffer->in_place_of >= n))
            return PPTO_E_INTERNAL;
        for (uint32_t k = 0; k < buffer->n_uses; k++)
            if (buffer->uses[k] >= steps) return PPTO_E_INTERNAL;
        *n_ends += buffer->n_uses;
    }
    for (uint32_t s = 0; !problem->serial && s < steps; s++)
        for (uint32_t k = problem->first_need[s]; k < problem->first_need[s + 1]; k++)
            if (problem->needs[k] >= s) return PPTO_E_INTERNAL;
    return *n_ends <= UINT32_MAX ? PPTO_OK : PPTO_E_SIZE;
}

static ppto_status allocate(plan *of, uint32_t n, size_t n_ends)
{
    of->units.at = pp_calloc(n, sizeof *of->units.at);
    of->units.ends = pp_calloc(n_ends, sizeof *of->units.ends);
    of->chain.heir = pp_calloc(n, sizeof *of->chain.heir);
    of->chain.unit_of = pp_calloc(n, sizeof *of->chain.unit_of);
    of->chain.is_heir = pp_calloc(n, sizeof *of->chain.is_heir);
    of->offset = pp_calloc(n, sizeof *of->offset);
    of->trial = pp_calloc(n, sizeof *of->trial);
    return of->units.at != NULL && of->units.ends != NULL && of->chain.heir != NULL &&
                   of->chain.unit_of != NULL && of->chain.is_heir != NULL && of->offset != NULL &&
                   of->trial != NULL
               ? PPTO_OK
               : PPTO_E_NOMEM;
}

static void discard(plan *of)
{
    void *const parts[] = {of->units.at,      of->units.ends, of->chain.heir, of->chain.unit_of,
                           of->chain.is_heir, of->offset,     of->trial};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) pp_free(parts[i]);
}

/* Keeps the trial when it is the better one. A packing that does not fit 64 bits is no candidate. */
static ppto_status keep_better(plan *of, ppto_status status, uint64_t bytes)
{
    if (status == PPTO_E_SIZE) return PPTO_OK;
    if (status != PPTO_OK || bytes >= of->bytes) return status;
    uint64_t *worse = of->offset;
    of->offset = of->trial;
    of->trial = worse;
    of->bytes = bytes;
    return PPTO_OK;
}

static ppto_status pack(plan *of, uint64_t bound)
{
    uint64_t bytes = 0;
    bool few = of->units.n <= PP_PACK_UNITS, serial = of->units.order->serial;
    of->bytes = UINT64_MAX;
    for (pp_pack_key key = PP_PACK_CEILING; key < PP_PACK_KEYS; key++) {
        if (!few && !(serial && key == PP_PACK_CEILING)) continue;
        ppto_status status = pp_pack_greedy(&of->units, key, bound, of->trial, &bytes);
        PP_TRY(keep_better(of, status, bytes));
        if (of->bytes <= bound) return PPTO_OK;
    }
    ppto_status status = pp_pack_online(&of->units, of->trial, &bytes);
    PP_TRY(keep_better(of, status, bytes));
    return of->bytes != UINT64_MAX ? PPTO_OK : PPTO_E_SIZE;
}

/* serial_bound <= lower_bound <= bytes: when the ends meet, the middle is known. */
static ppto_status bound_and_pack(const pp_layout_problem *problem, plan *of, pp_layout *layout)
{
    PP_TRY(pp_bound_serial(&of->units, problem->n_steps, &layout->serial_bound));
    PP_TRY(pack(of, layout->serial_bound));
    layout->bytes = of->bytes;
    layout->lower_bound = layout->serial_bound;
    if (problem->serial || of->bytes == layout->serial_bound || of->units.n > PP_BOUND_UNITS) return PPTO_OK;
    return pp_bound_antichain(&of->units, &layout->lower_bound);
}

static ppto_status plan_all(const pp_layout_problem *problem, plan *of, size_t n_ends, pp_layout *layout)
{
    uint32_t n = problem->n_buffers;
    PP_TRY(allocate(of, n, n_ends));
    layout->offset = pp_calloc(n, sizeof *layout->offset);
    if (layout->offset == NULL) return PPTO_E_NOMEM;
    find_heirs(problem, of->units.order, &of->chain);
    make_units(problem, &of->chain, &of->units);
    PP_TRY(bound_and_pack(problem, of, layout));
    for (uint32_t i = 0; i < n; i++)
        if (of->chain.unit_of[i] != PP_NO_UNIT) layout->offset[i] = of->offset[of->chain.unit_of[i]];
    layout->in_place = of->chain.count;
    return PPTO_OK;
}

ppto_status pp_layout_plan(const pp_layout_problem *problem, pp_layout *layout)
{
    size_t n_ends;
    pp_order order;
    *layout = (pp_layout){0};
    PP_TRY(check(problem, &n_ends));
    PP_TRY(pp_order_make(problem, &order));
    plan work = {.units = {.order = &order}};
    ppto_status status = plan_all(problem, &work, n_ends, layout);
    discard(&work);
    pp_order_free(&order);
    if (status != PPTO_OK) pp_layout_free(layout);
    return status;
}

void pp_layout_free(pp_layout *layout)
{
    pp_free(layout->offset);
    *layout = (pp_layout){0};
}
