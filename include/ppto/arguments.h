/* SPDX-License-Identifier: Apache-2.0
 * What calls of the generated operator functions (ppto/ops.h) are written with: lists of integers, arguments
 * that are not given, and the counting of arguments that fills in defaults. */
#ifndef PPTO_ARGUMENTS_H
#define PPTO_ARGUMENTS_H

#include <math.h>

#include "ppto/graph.h"

/* axis: every axis. For several axes: ppto_op(g, "sum", "axis=[0, 1]", x). */
#define PPTO_ALL INT64_MIN
/* An integer that is not given; a number that is not given is NAN, a text NULL. */
#define PPTO_NONE INT64_MIN

/* PPTO_INTS(2, 3): a list for one call. In C it lives as long as its block, in C++ as long as its statement.
 */
#ifdef __cplusplus
template <typename... T>
struct ppto_list {
    int64_t at[sizeof...(T)];
    operator ppto_ints() const
    {
        ppto_ints ints = {sizeof...(T), at};
        return ints;
    }
};
template <typename... T>
inline ppto_list<T...> ppto_list_of(T... value)
{
    return ppto_list<T...>{{static_cast<int64_t>(value)...}};
}
inline ppto_ints ppto_no_ints()
{
    ppto_ints ints = {0, nullptr};
    return ints;
}
#define PPTO_INTS(...) ppto_list_of(__VA_ARGS__)
#define PPTO_NO_INTS ppto_no_ints()
#else
#define PPTO_INTS(...)                                                                                       \
    ((ppto_ints){sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]){__VA_ARGS__}})
#define PPTO_NO_INTS ((ppto_ints){0, NULL})
#endif

/* How many arguments, 1 to 20; "1" or "N" for one or more. */
#define PPTO_COUNT(...)                                                                                      \
    PPTO_PICK(__VA_ARGS__, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define PPTO_ONE_OR_N(...)                                                                                   \
    PPTO_PICK(__VA_ARGS__, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, 1, 0)
#define PPTO_PICK(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, count, ...) count
#define PPTO_JOIN(a, b) PPTO_JOIN_AS_IS(a, b)
#define PPTO_JOIN_AS_IS(a, b) a##b

#endif
