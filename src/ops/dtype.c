/* SPDX-License-Identifier: Apache-2.0
 * Dtypes: one table made of dtypes.def, and promotion.
 * Promotion is written as rules, not as a table of pairs: bool stands below everything, an integer gives way
 * to a float, two floats or two integers of one signedness to the wider, a signed with an unsigned integer to
 * the next wider signed one. u64 with a signed integer has no such type and is an error: the caller casts
 * first. */
#include "ops/scalar.h"

#include <inttypes.h>
#include <string.h>

typedef struct dtype_row {
    const char *name, *numpy;
    pp_kind kind;
    uint8_t width; /* bits */
    uint64_t nan;
} dtype_row;

static const dtype_row rows[PP_DTYPE_COUNT] = {
#define PP_DTYPE(E, suffix, name, numpy, kind, width, type, nan)                                             \
    [PPTO_##E] = {name, numpy, PP_KIND_##kind, width, nan},
#include "ops/dtypes.def"
};

static bool valid(ppto_dtype dtype)
{
    return (unsigned)dtype < PP_DTYPE_COUNT;
}

const char *ppto_dtype_name(ppto_dtype dtype)
{
    return valid(dtype) ? rows[dtype].name : "?";
}

size_t ppto_dtype_size(ppto_dtype dtype)
{
    return valid(dtype) ? rows[dtype].width / 8u : 0;
}

pp_kind pp_dtype_kind(ppto_dtype dtype)
{
    return rows[dtype].kind;
}

unsigned pp_dtype_width(ppto_dtype dtype)
{
    return rows[dtype].width;
}

bool pp_dtype_is_integer(ppto_dtype dtype)
{
    return rows[dtype].kind == PP_KIND_INT || rows[dtype].kind == PP_KIND_UINT;
}

bool pp_dtype_is_float(ppto_dtype dtype)
{
    return rows[dtype].kind == PP_KIND_FLOAT;
}

uint64_t pp_dtype_canonical_nan(ppto_dtype dtype)
{
    return rows[dtype].nan;
}

bool pp_dtype_holds(ppto_dtype dtype, int64_t i)
{
    unsigned width = rows[dtype].width;
    if (rows[dtype].kind == PP_KIND_UINT) return i >= 0 && (width == 64 || (uint64_t)i >> width == 0);
    if (rows[dtype].kind != PP_KIND_INT) return rows[dtype].kind == PP_KIND_FLOAT || i == 0 || i == 1;
    return width == 64 || (i >= -(INT64_C(1) << (width - 1)) && i < INT64_C(1) << (width - 1));
}

void pp_dtype_range(ppto_dtype dtype, pp_text *out)
{
    unsigned width = rows[dtype].width;
    uint64_t most = UINT64_MAX >> (64 - width);
    pp_text_add(out, "%s", rows[dtype].name);
    if (rows[dtype].kind == PP_KIND_UINT)
        pp_text_add(out, " (0 to %" PRIu64 ")", most);
    else if (rows[dtype].kind == PP_KIND_INT)
        pp_text_add(out, " (-%" PRIu64 " to %" PRIu64 ")", most / 2 + 1, most / 2);
}

static bool same_word(const char *word, const char *name, size_t n)
{
    return strlen(word) == n && memcmp(word, name, n) == 0;
}

bool pp_dtype_parse(const char *name, size_t n, ppto_dtype *out)
{
    for (int i = 0; i < PP_DTYPE_COUNT; i++) {
        if (!same_word(rows[i].name, name, n) && !same_word(rows[i].numpy, name, n)) continue;
        *out = (ppto_dtype)i;
        return true;
    }
    *out = PPTO_BOOL;
    return false;
}

static bool find_signed(unsigned width, ppto_dtype *out)
{
    for (int i = 0; i < PP_DTYPE_COUNT; i++) {
        if (rows[i].kind != PP_KIND_INT || rows[i].width != width) continue;
        *out = (ppto_dtype)i;
        return true;
    }
    return false;
}

ppto_status pp_dtype_promote(ppto_dtype a, ppto_dtype b, ppto_dtype *out)
{
    const dtype_row *x = &rows[a], *y = &rows[b];
    bool a_wins = x->kind > y->kind; /* floats over integers over bool */
    if (x->kind == y->kind) a_wins = x->width >= y->width;
    *out = a_wins ? a : b;
    if (x->kind == y->kind || !pp_dtype_is_integer(a) || !pp_dtype_is_integer(b)) return PPTO_OK;

    const dtype_row *s = x->kind == PP_KIND_INT ? x : y, *u = x->kind == PP_KIND_INT ? y : x;
    unsigned width = s->width > u->width ? s->width : 2u * u->width;
    if (find_signed(width, out)) return PPTO_OK;
    *out = PPTO_BOOL;
    return PPTO_E_DTYPE;
}
