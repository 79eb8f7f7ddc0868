/* SPDX-License-Identifier: Apache-2.0
 * Data of random programs: a pure function of the input's seed and the variant, with the values that break
 * things (NaN, infinities, both zeros, subnormals, the least integer), laid out forwards, backwards, repeated
 * or scattered. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "generate.h"

uint64_t fz_next(fz_random *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int fz_below(fz_random *r, int n)
{
    return (int)(fz_next(r) % (uint64_t)n);
}

static double uniform(uint64_t bits)
{
    return (double)(bits >> 11) * 0x1p-53;
}

static double special(ppto_dtype dtype, uint64_t bits)
{
    bool single = dtype == PPTO_F32;
    const double list[] = {NAN,
                           0.0,
                           -0.0,
                           INFINITY,
                           -INFINITY,
                           single ? 0x1p-149 : 0x1p-1074,
                           single ? -0x1.8p-130 : -0x1.8p-1030,
                           single ? 0x1.fffffep127 : 0x1.fffffffffffffp1023,
                           1.0,
                           -1.0,
                           0.5,
                           1e10};
    return list[bits % (sizeof list / sizeof *list)];
}

static double real_value(const fz_node *n, uint64_t bits)
{
    double u = uniform(bits);
    switch (n->fill) {
    case FZ_ONES: return 1.0;
    case FZ_SMALL: return (double)(int64_t)(bits % 17) * 0.5 - 4.0;
    case FZ_UNIFORM: return u * 4.0 - 2.0;
    case FZ_WIDE_RANGE: return ldexp(u * 2.0 - 1.0, (int)(bits % 41) - 20);
    default: return bits % 4 == 0 ? special(n->type.dtype, bits >> 8) : u * 6.0 - 3.0;
    }
}

static uint64_t whole_value(const fz_node *n, uint64_t bits)
{
    unsigned width = (unsigned)(8 * ppto_dtype_size(n->type.dtype));
    bool is_signed = fz_is_signed(n->type.dtype);
    switch (n->fill) {
    case FZ_ONES: return 1;
    case FZ_SMALL: return is_signed ? bits % 14 - 4 : bits % 10;
    case FZ_UNIFORM: return is_signed ? bits % 200 - 100 : bits % 200;
    case FZ_WIDE_RANGE: return bits >> 3;
    default:
        if (bits % 4 == 0) return (uint64_t)1 << (width - 1); /* the least of the signed */
        if (bits % 4 == 1) return ((uint64_t)1 << (width - 1)) - 1;
        return bits % 4 == 2 ? UINT64_MAX : bits >> 8;
    }
}

static void put(const fz_node *n, uint64_t bits, void *at)
{
    if (n->type.dtype == PPTO_BOOL) {
        *(uint8_t *)at = (uint8_t)(n->fill == FZ_ONES || (bits >> 7 & 1));
    } else if (n->type.dtype == PPTO_F32) {
        float f = (float)real_value(n, bits);
        uint32_t payload = 0xff800001u | (uint32_t)(bits >> 40);
        memcpy(at, f == f ? (void *)&f : (void *)&payload, sizeof f); /* any NaN but the canonical one */
    } else if (n->type.dtype == PPTO_F64) {
        double d = real_value(n, bits);
        uint64_t payload = 0xfff0000000000001u | bits >> 20;
        memcpy(at, d == d ? (void *)&d : (void *)&payload, sizeof d);
    } else {
        uint64_t v = whole_value(n, bits);
        memcpy(at, &v, ppto_dtype_size(n->type.dtype)); /* little endian */
    }
}

/* Which axes of an input lie backwards, or stand still. */
static bool chosen(const fz_node *n, int axis)
{
    return axis == (int)(n->seed % 3) || (n->seed >> (8 + axis) & 1);
}

static bool repeated(const fz_node *n, int axis)
{
    return n->strides == FZ_REPEATED && chosen(n, axis);
}

/* The position behind a row-major one; false after the last. */
static bool step(const fz_type *t, int64_t *at)
{
    for (int i = t->rank - 1; i >= 0; i--) {
        if (++at[i] < t->size[i]) return true;
        at[i] = 0;
    }
    return false;
}

void *fz_data(const fz_node *input, int variant)
{
    size_t size = ppto_dtype_size(input->type.dtype);
    int64_t n = fz_elements(&input->type), at[FZ_RANK] = {0};
    char *data = calloc((size_t)n + 1, size);
    if (!data) abort();
    for (int64_t e = 0; e < n; e++, step(&input->type, at)) {
        int64_t source = 0; /* where repeated axes stand at 0 */
        for (int i = 0; i < input->type.rank; i++)
            source = source * input->type.size[i] + (repeated(input, i) ? 0 : at[i]);
        fz_random r = {input->seed + 0x632be59bd9b4e019u * (uint64_t)(variant + 1) + 31u * (uint64_t)source};
        put(input, fz_next(&r), data + (size_t)e * size);
    }
    return data;
}

double fz_number(const fz_node *number, int variant)
{
    return number->type.dtype == PPTO_I64 ? number->value + variant : number->value * (1 - 0.625 * variant);
}

static void release(void *arg, void *data)
{
    (void)data;
    free(arg);
}

/* Copies row-major data into memory laid out as the input asks and wraps it. */
static ppto_array *wrapped(ppto_context *ctx, const fz_node *n, const char *data)
{
    const fz_type *t = &n->type;
    int64_t size = (int64_t)ppto_dtype_size(t->dtype), stride[FZ_RANK] = {0}, span = size, base = 0;
    bool scattered = n->strides == FZ_SCATTERED;
    for (int k = 0; k < t->rank; k++) {
        int i = scattered && (n->seed >> 20 & 1) ? k : t->rank - 1 - k; /* first or last axis innermost */
        int64_t gap = scattered && chosen(n, i) ? 2 : 1;
        stride[i] = repeated(n, i) ? 0 : span * gap;
        if (t->size[i] > 1 && stride[i]) span = stride[i] * t->size[i];
    }
    if (n->strides != FZ_REPEATED)
        for (int i = 0; i < t->rank; i++)
            if (chosen(n, i) && t->size[i] > 0 && n->strides == FZ_REVERSED) {
                base += stride[i] * (t->size[i] - 1);
                stride[i] = -stride[i];
            }
    if (fz_elements(t) == 0) span = size, base = 0; /* whatever the other axes are */
    char *memory = malloc((size_t)(span + size));
    if (!memory) abort();
    memset(memory, 0x5a, (size_t)(span + size));
    int64_t at[FZ_RANK] = {0};
    for (int64_t e = 0, all = fz_elements(t); e < all; e++, step(t, at)) {
        int64_t offset = base;
        for (int i = 0; i < t->rank; i++) offset += at[i] * stride[i];
        memcpy(memory + offset, data + e * size, (size_t)size);
    }
    ppto_array *array =
        ppto_array_wrap(ctx, memory + base, t->dtype, t->rank, t->size, stride, release, memory);
    if (!array) free(memory);
    return array;
}

ppto_array *fz_array(ppto_context *ctx, const fz_node *node, int variant, bool plain)
{
    if (node->op == FZ_NUMBER) {
        double value = fz_number(node, variant);
        return node->type.dtype == PPTO_I64 ? ppto_integer(ctx, (int64_t)value) : ppto_number(ctx, value);
    }
    char *data = fz_data(node, variant);
    ppto_array *array =
        plain || node->strides == FZ_PLAIN
            ? ppto_array_copy_of(ctx, node->type.dtype, node->type.rank, node->type.size, data)
            : wrapped(ctx, node, data);
    free(data);
    return array;
}
