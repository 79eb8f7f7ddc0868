/* SPDX-License-Identifier: Apache-2.0
 * Arrays: from the context's pool, or wrapping the caller's memory. Both ends of what a wrapped array touches
 * are computed once, with overflow checks, when it is made. */
#include <string.h>

#include "base/checked.h"
#include "files/sink.h"
#include "runtime/file_around.h"

static bool count_elements(int rank, const int64_t *shape, int64_t *out)
{
    *out = 1;
    for (int i = 0; i < rank; i++)
        if (shape[i] < 0 || !pp_mul_i64(*out, shape[i] > 0 ? shape[i] : 1, out)) return false;
    for (int i = 0; i < rank; i++)
        if (shape[i] == 0) *out = 0;
    return true;
}

static ppto_status check_shape(ppto_dtype dtype, int rank, const int64_t *shape, size_t *bytes, pp_error *err)
{
    int64_t n;
    if ((unsigned)dtype >= PP_DTYPE_COUNT) return pp_fail(err, PPTO_E_DTYPE, "unknown dtype %d", (int)dtype);
    if (rank < 0 || rank > PPTO_MAX_RANK)
        return pp_fail(err, PPTO_E_SHAPE, "rank %d is not from 0 to %d", rank, PPTO_MAX_RANK);
    if (rank > 0 && !shape) return pp_fail(err, PPTO_E_VALUE, "the shape is NULL");
    for (int i = 0; i < rank; i++)
        if (shape[i] < 0)
            return pp_fail(err, PPTO_E_SHAPE, "axis %d has the negative size %lld", i, (long long)shape[i]);
    if (!count_elements(rank, shape, &n) || !pp_mul_size((size_t)n, ppto_dtype_size(dtype), bytes) ||
        *bytes > INT64_MAX)
        return pp_fail(err, PPTO_E_SIZE, "the size of the array overflows 64 bits");
    return PPTO_OK;
}

static ppto_array *new_record(ppto_context *ctx, ppto_dtype dtype, int rank, const int64_t *shape)
{
    ppto_array *a = pp_calloc(1, sizeof *a);
    if (!a) return NULL;
    a->ctx = ctx;
    a->dtype = dtype;
    a->rank = rank;
    atomic_store_explicit(&a->refs, 1, memory_order_relaxed);
    int64_t stride = (int64_t)ppto_dtype_size(dtype);
    for (int i = rank; i-- > 0;) {
        a->shape[i] = shape[i];
        a->stride[i] = stride;
        stride *= shape[i] > 0 ? shape[i] : 1;
    }
    return a;
}

ppto_status pp_array_new(ppto_context *ctx, const pp_tag *tag, ppto_dtype dtype, int rank,
                         const int64_t *shape, ppto_array **out, pp_error *err)
{
    return pp_array_new_led(ctx, tag, dtype, rank, shape, SIZE_MAX, out, err);
}

ppto_status pp_array_new_led(ppto_context *ctx, const pp_tag *tag, ppto_dtype dtype, int rank,
                             const int64_t *shape, size_t lead, ppto_array **out, pp_error *err)
{
    size_t bytes;
    *out = NULL;
    PP_TRY(pp_context_check(ctx, err));
    PP_TRY(check_shape(dtype, rank, shape, &bytes, err));
    ppto_array *a = new_record(ctx, dtype, rank, shape);
    if (!a) return pp_fail(err, PPTO_E_NOMEM, "out of memory");
    ppto_status status = lead == SIZE_MAX ? pp_pool_take_as(ctx->pool, bytes, tag, &a->data, err)
                                          : pp_pool_take_led(ctx->pool, bytes, lead, tag, &a->data, err);
    if (status != PPTO_OK) {
        pp_free(a);
        pp_fail(err, status, "%s for an array of %zu bytes", ppto_status_text(status), bytes);
        pp_memcheck_blame(ctx, err);
        return status;
    }
    a->bytes = bytes;
    a->owned = true;
    *out = a;
    return PPTO_OK;
}

ppto_status pp_array_over(ppto_context *ctx, void *data, ppto_dtype dtype, int rank, const int64_t *shape,
                          ppto_array **out)
{
    *out = new_record(ctx, dtype, rank, shape);
    if (!*out) return PPTO_E_NOMEM;
    (*out)->data = data;
    return PPTO_OK;
}

ppto_array *ppto_array_create_at(ppto_site site, ppto_context *ctx, ppto_dtype dtype, int rank,
                                 const int64_t *shape)
{
    pp_error err;
    ppto_array *a;
    const pp_tag tag = pp_tag_of_user("array_create", site, dtype);
    pp_error_clear(&err);
    if (pp_array_new(ctx, &tag, dtype, rank, shape, &a, &err) != PPTO_OK)
        pp_report(&err);
    else
        memset(a->data, 0, a->bytes);
    return a;
}

/* Kernels take it for granted that a bool is 0 or 1; what the caller has may be any byte. */
static void put_right(ppto_array *a)
{
    if (a->dtype != PPTO_BOOL) return;
    unsigned char *at = a->data;
    for (size_t i = 0; i < a->bytes; i++) at[i] = at[i] != 0;
}

static ppto_array *copy_of(const char *what, ppto_site site, ppto_context *ctx, ppto_dtype dtype, int rank,
                           const int64_t *shape, const void *data)
{
    pp_error err;
    ppto_array *a = NULL;
    const pp_tag tag = pp_tag_of_user(what, site, dtype);
    pp_error_clear(&err);
    if (!data)
        pp_fail(&err, PPTO_E_VALUE, "the data is NULL");
    else if (pp_array_new(ctx, &tag, dtype, rank, shape, &a, &err) == PPTO_OK) {
        memcpy(a->data, data, a->bytes);
        put_right(a);
    }
    pp_report(&err);
    return a;
}

ppto_array *ppto_array_copy_of_at(ppto_site site, ppto_context *ctx, ppto_dtype dtype, int rank,
                                  const int64_t *shape, const void *data)
{
    return copy_of("array_copy_of", site, ctx, dtype, rank, shape, data);
}

ppto_array *ppto_array_wrap(ppto_context *ctx, void *data, ppto_dtype dtype, int rank, const int64_t *shape,
                            const int64_t *strides, void (*release)(void *, void *), void *arg)
{
    pp_error err;
    size_t bytes;
    int64_t lo = 0, hi = (int64_t)ppto_dtype_size(dtype), span;
    pp_error_clear(&err);
    ppto_status status = pp_context_check(ctx, &err);
    if (status == PPTO_OK) status = check_shape(dtype, rank, shape, &bytes, &err);
    if (status == PPTO_OK && !data && bytes > 0) status = pp_fail(&err, PPTO_E_VALUE, "the data is NULL");
    for (int i = 0; status == PPTO_OK && strides && bytes > 0 && i < rank; i++) {
        if (!pp_mul_i64(shape[i] - 1, strides[i], &span) ||
            !pp_add_i64(span < 0 ? lo : hi, span, span < 0 ? &lo : &hi))
            status = pp_fail(&err, PPTO_E_SIZE, "the strides reach further than 64 bits");
        if (strides[i] % (int64_t)ppto_dtype_size(dtype))
            status = pp_fail(&err, PPTO_E_VALUE, "stride %lld of axis %d is no multiple of the element size",
                             (long long)strides[i], i);
    }
    ppto_array *a = status == PPTO_OK ? new_record(ctx, dtype, rank, shape) : NULL;
    if (status == PPTO_OK && !a) pp_fail(&err, PPTO_E_NOMEM, "out of memory");
    if (a) {
        a->data = data;
        a->release = release;
        a->release_arg = arg;
        for (int i = 0; strides && i < rank; i++) a->stride[i] = strides[i];
    }
    pp_report(&err);
    return a;
}

static ppto_array *new_number(ppto_site site, ppto_context *ctx, ppto_dtype dtype, uint64_t bits)
{
    ppto_array *a = copy_of("number", site, ctx, dtype, 0, NULL, &bits);
    if (!a) return NULL;
    a->number = true;
    a->number_bits = bits;
    return a;
}

ppto_array *ppto_number_at(ppto_site site, ppto_context *ctx, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return new_number(site, ctx, PPTO_F64, bits);
}

ppto_array *ppto_integer_at(ppto_site site, ppto_context *ctx, int64_t value)
{
    return new_number(site, ctx, PPTO_I64, (uint64_t)value);
}

/* ---- references ---- */

void pp_array_note(const ppto_array *a, pp_hold hold, ppto_site site)
{
    if (!a || !a->owned || !a->ctx->ledger) return;
    bool outside = hold == PP_HOLD_USER || hold == PP_HOLD_RUN_OBJECT || hold == PP_HOLD_BINDING;
    if (!outside && hold != PP_HOLD_SYNC) site = (ppto_site){.file = NULL}; /* it is the library's own */
    pp_ledger_hold(a->ctx->ledger, a->data, hold, site, outside ? pp_stacks_here(a->ctx->stacks, 1) : 0);
}

void pp_array_forget(const ppto_array *a, pp_hold hold, ppto_site site)
{
    if (!a || !a->owned || !a->ctx->ledger) return;
    /* which of several it is does not matter for the last */
    bool several = hold == PP_HOLD_USER && atomic_load_explicit(&a->refs, memory_order_relaxed) > 1;
    pp_ledger_drop(a->ctx->ledger, a->data, hold, site, several ? pp_stacks_here(a->ctx->stacks, 1) : 0);
}

ppto_array *pp_array_hold(ppto_array *a, pp_hold hold, ppto_site site)
{
    pp_array_note(a, hold, site);
    if (a) atomic_fetch_add_explicit(&a->refs, 1, memory_order_relaxed);
    return a;
}

void pp_array_drop(ppto_array *a, pp_hold hold, ppto_site site)
{
    if (!a || pp_context_forked(a->ctx)) return;
    pp_array_forget(a, hold, site);
    /* acq_rel: the last user sees all writes of the others before the memory goes back */
    if (atomic_fetch_sub_explicit(&a->refs, 1, memory_order_acq_rel) != 1) return;
    if (a->release)
        a->release(a->release_arg, a->data);
    else if (a->owned)
        pp_pool_give(a->ctx->pool, a->data, a->bytes);
    pp_array_file_close(a->file);
    pp_free(a);
}

ppto_array *ppto_array_retain_at(ppto_site site, ppto_array *a)
{
    if (a && pp_context_refuses(a->ctx) != PPTO_OK) return a;
    return pp_array_hold(a, PP_HOLD_USER, site);
}

void ppto_array_release_at(ppto_site site, ppto_array *a)
{
    pp_array_drop(a, PP_HOLD_USER, site);
}

ppto_dtype ppto_array_dtype(const ppto_array *a)
{
    return a ? a->dtype : PPTO_BOOL;
}
int ppto_array_rank(const ppto_array *a)
{
    return a ? a->rank : 0;
}
const int64_t *ppto_array_shape(const ppto_array *a)
{
    return a ? a->shape : NULL;
}
const int64_t *ppto_array_strides(const ppto_array *a)
{
    return a ? a->stride : NULL;
}
void *ppto_array_data(const ppto_array *a)
{
    return a ? a->data : NULL;
}
bool ppto_array_is_number(const ppto_array *a)
{
    return a && a->number;
}
int64_t ppto_array_elements(const ppto_array *a)
{
    int64_t n = 0;
    if (a) count_elements(a->rank, a->shape, &n);
    return n;
}

bool pp_array_contiguous(const ppto_array *a)
{
    int64_t stride = (int64_t)ppto_dtype_size(a->dtype);
    for (int i = a->rank; i-- > 0;) {
        if (a->shape[i] == 0) return true;
        if (a->shape[i] != 1 && a->stride[i] != stride) return false;
        stride *= a->shape[i];
    }
    return true;
}

void pp_array_extent(const ppto_array *a, const char **lo, const char **hi)
{
    *lo = *hi = NULL;
    if (ppto_array_elements(a) == 0) return;
    *lo = a->data;
    *hi = (const char *)a->data + ppto_dtype_size(a->dtype);
    for (int i = 0; i < a->rank; i++) {
        int64_t span = (a->shape[i] - 1) * a->stride[i];
        if (span < 0)
            *lo += span;
        else
            *hi += span;
    }
}

void pp_array_pack(const ppto_array *a, void *out)
{
    size_t size = ppto_dtype_size(a->dtype);
    int64_t n = ppto_array_elements(a), at[PPTO_MAX_RANK] = {0};
    const char *from = a->data;
    char *to = out;
    if (pp_array_contiguous(a)) {
        memcpy(out, a->data, (size_t)n * size);
        return;
    }
    for (int64_t k = 0; k < n; k++, to += size) {
        memcpy(to, from, size);
        for (int i = a->rank; i-- > 0;) {
            from += a->stride[i];
            if (++at[i] < a->shape[i]) break;
            from -= a->shape[i] * a->stride[i];
            at[i] = 0;
        }
    }
}

/* ---- files
 * --------------------------------------------------------------------------------------------------------------
 */
