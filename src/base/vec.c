/* SPDX-License-Identifier: Apache-2.0
 * Growable arrays: the one function behind the PP_VEC macros.
 *
 * A vector is three plain fields, so its elements are reached as v.at[i] in a debugger and in the code.
 * Capacity grows by half, at least to eight; a failed growth leaves the vector as it was. */
#include <string.h>

#include "base/base.h"
#include "base/checked.h"

ppto_status pp_vec_reserve_raw(void **at, size_t *cap, size_t item, size_t want)
{
    if (want <= *cap) return PPTO_OK;
    size_t target, bytes;
    if (!pp_add_size(*cap, *cap / 2, &target) || target < want) target = want;
    if (target < 8) target = 8;
    if (!pp_mul_size(target, item, &bytes)) return PPTO_E_NOMEM;
    void *old;
    memcpy(&old, at, sizeof old); /* *at is a T *, read as bytes to stay within the aliasing rules */
    void *grown = pp_realloc(old, bytes);
    if (grown == NULL) return PPTO_E_NOMEM;
    memcpy(at, &grown, sizeof grown);
    *cap = target;
    return PPTO_OK;
}
