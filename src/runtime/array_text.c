/* SPDX-License-Identifier: Apache-2.0
 * Arrays as text, and where two arrays differ. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

static double as_double(ppto_dtype dtype, const void *p)
{
    uint64_t bits = 0, out;
    memcpy(&bits, p, ppto_dtype_size(dtype));
    out = pp_scalar_eval(PP_CAST, dtype, PPTO_F64, bits, 0, 0);
    double value;
    memcpy(&value, &out, sizeof value);
    return value;
}

/* The shortest text that reads back as the same bits. */
static void float_text(pp_text *out, double value, bool single, bool json)
{
    char text[40];
    if (value != value || value - value != 0) {
        pp_text_add(out, "%s", json ? "null" : value != value ? "nan" : value > 0 ? "inf" : "-inf");
        return;
    }
    for (int digits = single ? 6 : 15; digits <= 17; digits++) {
        pp_snprintf(text, sizeof text, "%.*g", digits, value);
        if (single ? pp_read_f32(text, NULL) == (float)value : pp_read_f64(text, NULL) == value) break;
    }
    pp_text_add(out, "%s%s", text, strpbrk(text, ".eni") || json ? "" : ".");
}

static void element_text(pp_text *out, ppto_dtype dtype, const void *p, bool json)
{
    int64_t i = 0;
    uint64_t u = 0;
    switch (pp_dtype_kind(dtype)) {
    case PP_KIND_BOOL: pp_text_add(out, "%s", *(const uint8_t *)p ? "true" : "false"); return;
    case PP_KIND_FLOAT: float_text(out, as_double(dtype, p), dtype == PPTO_F32, json); return;
    case PP_KIND_INT:
        memcpy(&u, p, ppto_dtype_size(dtype));
        i = (int64_t)pp_scalar_eval(PP_CAST, dtype, PPTO_I64, u, 0, 0);
        pp_text_add(out, "%lld", (long long)i);
        return;
    default: memcpy(&u, p, ppto_dtype_size(dtype)); pp_text_add(out, "%llu", (unsigned long long)u);
    }
}

/* rank is at most PPTO_MAX_RANK: the recursion is shallow. */
static void axis_text(pp_text *out, const ppto_array *a, int axis, const char *at, bool json)
{
    if (axis == a->rank) {
        element_text(out, a->dtype, at, json);
        return;
    }
    pp_text_add(out, "[");
    for (int64_t i = 0; i < a->shape[axis]; i++) {
        if (i > 0 && (json || axis == a->rank - 1)) pp_text_add(out, ", ");
        if (i > 0 && !json && axis < a->rank - 1) pp_text_add(out, ",\n%*s", axis + 1, "");
        axis_text(out, a, axis + 1, at + i * a->stride[axis], json);
    }
    pp_text_add(out, "]");
}

ppto_status ppto_array_text(const ppto_array *array, bool json, char **text)
{
    pp_text out = {0};
    if (!array || !text) return pp_report_new(PPTO_E_VALUE, "ppto_array_text: an argument is NULL");
    *text = NULL;
    PP_TRY(pp_context_refuses(array->ctx));
    pp_error err = {0};
    ppto_array *loaded = NULL;
    if (array->file && pp_array_in_memory(array, &loaded, NULL, &err) != PPTO_OK) return pp_report(&err);
    if (loaded) array = loaded;
    axis_text(&out, array, 0, array->data, json);
    ppto_array_release(loaded);
    if (out.failed) {
        pp_text_free(&out);
        return pp_report_new(PPTO_E_NOMEM, "out of memory");
    }
    *text = out.at;
    return PPTO_OK;
}

/* ---- comparison
 * ------------------------------------------------------------------------------------------------------------
 */

static bool same_element(ppto_dtype dtype, const void *a, const void *b, double rtol, double atol,
                         double *difference)
{
    double x = as_double(dtype, a), y = as_double(dtype, b);
    bool both_nan = x != x && y != y;
    *difference = x == y ? 0 : both_nan ? 0 : x > y ? x - y : y - x;
    if (both_nan) return true;
    if (rtol == 0 && atol == 0) return memcmp(a, b, ppto_dtype_size(dtype)) == 0;
    if (x == y) return true;
    double magnitude = y < 0 ? -y : y;
    return *difference <= atol + rtol * magnitude && magnitude - magnitude == 0;
}

static const char *element_at(const ppto_array *a, int64_t k)
{
    const char *at = a->data;
    for (int i = a->rank; i-- > 0;) {
        at += k % a->shape[i] * a->stride[i];
        k /= a->shape[i];
    }
    return at;
}

/* The same bytes are equal under any tolerance: nothing is looked at one by one. */
static bool same_bytes(const ppto_array *a, const ppto_array *b, int64_t n)
{
    return pp_array_contiguous(a) && pp_array_contiguous(b) &&
           memcmp(a->data, b->data, (size_t)n * ppto_dtype_size(a->dtype)) == 0;
}

static void compare_elements(const ppto_array *a, const ppto_array *b, double rtol, double atol,
                             ppto_comparison *out)
{
    int64_t n = ppto_array_elements(a);
    out->equal = n == 0 || same_bytes(a, b, n);
    if (out->equal) return;
    for (int64_t k = 0; k < n; k++) {
        const char *x = element_at(a, k), *y = element_at(b, k);
        double difference;
        if (same_element(a->dtype, x, y, rtol, atol, &difference)) continue;
        if (out->different++ == 0) {
            out->first = k;
            out->first_a = as_double(a->dtype, x);
            out->first_b = as_double(b->dtype, y);
        }
        if (difference != difference) difference = HUGE_VAL;
        if (out->worst < 0 || difference > out->worst_difference) {
            out->worst = k;
            out->worst_difference = difference;
            out->worst_a = as_double(a->dtype, x);
            out->worst_b = as_double(b->dtype, y);
        }
    }
    out->equal = out->different == 0;
}

ppto_status ppto_compare(const ppto_array *a, const ppto_array *b, double rtol, double atol,
                         ppto_comparison *out)
{
    if (!a || !b || !out) return pp_report_new(PPTO_E_VALUE, "ppto_compare: an argument is NULL");
    PP_TRY(pp_context_refuses(a->ctx));
    if (!(rtol >= 0) || !(atol >= 0))
        return pp_report_new(PPTO_E_VALUE, "ppto_compare: a tolerance is negative or NaN");
    *out = (ppto_comparison){.first = -1, .worst = -1};
    out->same_dtype = a->dtype == b->dtype;
    out->same_shape =
        a->rank == b->rank && memcmp(a->shape, b->shape, sizeof a->shape[0] * (size_t)a->rank) == 0;
    if (!out->same_dtype || !out->same_shape) return PPTO_OK;
    pp_error err = {0};
    ppto_array *x = NULL, *y = NULL;
    ppto_status status = a->file ? pp_array_in_memory(a, &x, NULL, &err) : PPTO_OK;
    if (status == PPTO_OK && b->file) status = pp_array_in_memory(b, &y, NULL, &err);
    if (status == PPTO_OK) compare_elements(x ? x : a, y ? y : b, rtol, atol, out);
    ppto_array_release(x);
    ppto_array_release(y);
    return status == PPTO_OK ? status : pp_report(&err);
}
