/* SPDX-License-Identifier: Apache-2.0
 * Maximum and minimum of sizes. One atom serves both: max(d, 0), where the leading coefficient of d is
 * positive (max(d, 0) = d + max(-d, 0) turns the sign). So N - max(N - 1, 0) is min(N, 1) however it came
 * about, and a maximum and the minimum of the same pair add up to the pair. Nested clamps, as slices of
 * slices make them, are one: max(k * max(u, 0) + r, 0) is max(k * u + r, 0) for k > 0 and r <= 0. */
#include "ops/size_impl.h"

static bool leads_negative(const pp_sizes *t, pp_size d)
{
    const pp_poly_row *row = &t->polys.at[d];
    return row->n > 0 && t->terms.at[row->first].coef < 0;
}

/* d = k * max(u, 0) + r with k > 0 and r <= 0: *out is k * u + r. */
static bool without_clamp(pp_sizes *t, pp_size d, pp_size *out)
{
    for (uint32_t i = 0; i < t->polys.at[d].n; i++) {
        pp_term term = t->terms.at[t->polys.at[d].first + i];
        const pp_atom *found = pp_mono_atom(t, term.mono);
        if (found == NULL || found->kind != PP_ATOM_MAX || term.coef < 0) continue;
        pp_size u = found->a, zero = found->b, k = pp_size_const(t, term.coef);
        pp_size rest = pp_size_sub(t, d, pp_size_mul(t, k, pp_atom_intern(t, PP_ATOM_MAX, u, zero)));
        if (t->status != PPTO_OK || pp_size_is_le(t, rest, PP_SIZE_0) != 1) continue;
        *out = pp_size_add(t, pp_size_mul(t, k, u), rest);
        return t->status == PPTO_OK;
    }
    return false;
}

/* max(d, 0) where the order is open. Every turn of the loop replaces an atom by older ones. */
static pp_size open_part(pp_sizes *t, pp_size d)
{
    pp_size sum = PP_SIZE_0, simpler;
    for (;;) {
        if (leads_negative(t, d)) {
            sum = pp_size_add(t, sum, d);
            d = pp_size_sub(t, PP_SIZE_0, d);
        }
        if (t->status != PPTO_OK) return PP_SIZE_0;
        if (!without_clamp(t, d, &simpler))
            return pp_size_add(t, sum, pp_atom_intern(t, PP_ATOM_MAX, d, PP_SIZE_0));
        if (pp_size_is_le(t, simpler, PP_SIZE_0) == 1) return sum;
        if (pp_size_is_le(t, PP_SIZE_0, simpler) == 1) return pp_size_add(t, sum, simpler);
        d = simpler;
    }
}

pp_size pp_size_max(pp_sizes *table, pp_size a, pp_size b)
{
    if (table->status != PPTO_OK) return PP_SIZE_0;
    if (pp_size_is_le(table, a, b) == 1) return b; /* also where the difference overflows */
    if (pp_size_is_le(table, b, a) == 1) return a;
    return pp_size_add(table, b, open_part(table, pp_size_sub(table, a, b)));
}

pp_size pp_size_min(pp_sizes *table, pp_size a, pp_size b)
{
    if (table->status != PPTO_OK) return PP_SIZE_0;
    if (pp_size_is_le(table, a, b) == 1) return a;
    if (pp_size_is_le(table, b, a) == 1) return b;
    return pp_size_sub(table, a, open_part(table, pp_size_sub(table, a, b)));
}
