/* SPDX-License-Identifier: Apache-2.0
 * Numbers as text. Floats are written from their bits, never through printf: its hex floats differ between C
 * libraries (normalisation of subnormals) and its decimal point follows the locale, and either would change
 * what a compiler reads back. A subnormal is normalised; trailing zeros of the fraction are dropped. */
#include "kernel/number.h"

#include <inttypes.h>

struct float_format {
    unsigned fraction, exponent; /* bits */
    int bias;
};

static struct float_format format_of(ppto_dtype dtype)
{
    return dtype == PPTO_F32 ? (struct float_format){23, 8, 127} : (struct float_format){52, 11, 1023};
}

static bool is_special(ppto_dtype dtype, uint64_t bits)
{
    const struct float_format f = format_of(dtype);
    const uint64_t all = (UINT64_C(1) << f.exponent) - 1;
    return (bits >> f.fraction & all) == all;
}

static bool is_nan(ppto_dtype dtype, uint64_t bits)
{
    return is_special(dtype, bits) && (bits & ((UINT64_C(1) << format_of(dtype).fraction) - 1)) != 0;
}

static bool is_negative(ppto_dtype dtype, uint64_t bits)
{
    const struct float_format f = format_of(dtype);
    return (bits >> (f.fraction + f.exponent) & 1) != 0;
}

static void print_finite(ppto_dtype dtype, uint64_t bits, pp_text *out)
{
    const struct float_format f = format_of(dtype);
    const char *sign = is_negative(dtype, bits) ? "-" : "";
    uint64_t fraction = bits & ((UINT64_C(1) << f.fraction) - 1);
    int exponent = (int)(bits >> f.fraction & ((UINT64_C(1) << f.exponent) - 1));
    if (exponent == 0 && fraction == 0) {
        pp_text_add(out, "%s0x0p+0", sign);
        return;
    }
    if (exponent == 0)
        for (exponent = 1; (fraction >> f.fraction) == 0; exponent--) fraction <<= 1;
    fraction = (fraction & ((UINT64_C(1) << f.fraction) - 1)) << (52 - f.fraction);
    int digits = 13;
    while (digits > 0 && (fraction & 15) == 0) fraction >>= 4, digits--;
    pp_text_add(out, "%s0x1", sign);
    if (digits > 0) pp_text_add(out, ".%0*" PRIx64, digits, fraction);
    pp_text_add(out, "p%+d", exponent - f.bias);
}

static int64_t extended(ppto_dtype dtype, uint64_t bits)
{
    const unsigned shift = 64 - pp_dtype_width(dtype);
    return (int64_t)(bits << shift) >> shift;
}

void pp_number_print(ppto_dtype dtype, uint64_t bits, pp_text *out)
{
    switch (pp_dtype_kind(dtype)) {
    case PP_KIND_BOOL: pp_text_add(out, bits != 0 ? "true" : "false"); break;
    case PP_KIND_INT: pp_text_add(out, "%" PRId64, extended(dtype, bits)); break;
    case PP_KIND_UINT: pp_text_add(out, "%" PRIu64, bits); break;
    case PP_KIND_FLOAT:
        if (is_nan(dtype, bits))
            pp_text_add(out, "nan");
        else if (is_special(dtype, bits))
            pp_text_add(out, is_negative(dtype, bits) ? "-inf" : "inf");
        else
            print_finite(dtype, bits, out);
        break;
    }
}

static void float_c(ppto_dtype dtype, uint64_t bits, pp_text *out)
{
    const char *suffix = dtype == PPTO_F32 ? "f" : "";
    if (is_nan(dtype, bits)) {
        pp_text_add(out, "__builtin_nan%s(\"\")", suffix);
    } else if (is_special(dtype, bits)) {
        pp_text_add(out, "%s__builtin_inf%s()", is_negative(dtype, bits) ? "-" : "", suffix);
    } else {
        print_finite(dtype, bits, out);
        pp_text_add(out, "%s", suffix);
    }
}

static void signed_c(ppto_dtype dtype, uint64_t bits, pp_text *out)
{
    const int64_t value = extended(dtype, bits);
    const unsigned width = pp_dtype_width(dtype);
    const bool least = value == INT64_MIN >> (64 - width);
    if (least && width >= 32)
        pp_text_add(out, "INT%u_MIN", width);
    else if (width == 64)
        pp_text_add(out, "INT64_C(%" PRId64 ")", value);
    else
        pp_text_add(out, "%" PRId64, value);
}

void pp_number_c(ppto_dtype dtype, uint64_t bits, pp_text *out)
{
    switch (pp_dtype_kind(dtype)) {
    case PP_KIND_BOOL: pp_text_add(out, bits != 0 ? "1" : "0"); break;
    case PP_KIND_INT: signed_c(dtype, bits, out); break;
    case PP_KIND_UINT:
        if (pp_dtype_width(dtype) == 64)
            pp_text_add(out, "UINT64_C(%" PRIu64 ")", bits);
        else
            pp_text_add(out, "%" PRIu64 "%s", bits, pp_dtype_width(dtype) == 32 ? "u" : "");
        break;
    case PP_KIND_FLOAT: float_c(dtype, bits, out); break;
    }
}
