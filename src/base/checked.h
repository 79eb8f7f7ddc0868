/* SPDX-License-Identifier: Apache-2.0
 * Checked size arithmetic: the one place where sizes are multiplied and added. Each returns false on
 * overflow. */
#ifndef PP_CHECKED_H
#define PP_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool pp_add_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}
static inline bool pp_mul_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool pp_add_i64(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}
static inline bool pp_sub_i64(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_sub_overflow(a, b, out);
}
static inline bool pp_mul_i64(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}
/* Rounds up to a multiple of a power of two. */
static inline bool pp_align_size(size_t a, size_t alignment, size_t *out)
{
    if (!pp_add_size(a, alignment - 1, out)) return false;
    *out &= ~(alignment - 1);
    return true;
}

#endif
