/* SPDX-License-Identifier: Apache-2.0
 * Values as text and as keys of memos. */
#include "graph/value.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "ops/scalar_inline.h"

static void print_float(double f, pp_text *out)
{
    if (isnan(f))
        pp_text_add(out, "nan");
    else if (isinf(f))
        pp_text_add(out, f < 0 ? "-inf" : "inf");
    else if (f == pp_op_rint_f64(f) && fabs(f) < 1e15)
        pp_text_add(out, "%.1f", f);
    else
        pp_text_add(out, "%.17g", f);
}

static void print_items(const pp_sizes *sizes, const pp_value *value, pp_text *out)
{
    pp_text_add(out, "[");
    for (uint32_t i = 0; i < value->n; i++) {
        if (i != 0) pp_text_add(out, ", ");
        pp_value_print(sizes, &value->u.items[i], out);
    }
    pp_text_add(out, "]");
}

void pp_value_print(const pp_sizes *sizes, const pp_value *value, pp_text *out)
{
    switch (value->kind) {
    case PP_V_NONE: pp_text_add(out, "none"); break;
    case PP_V_INT: pp_size_print(sizes, value->u.size, out); break;
    case PP_V_WIDE: pp_text_add(out, "%" PRIu64, value->u.bits); break;
    case PP_V_FLOAT: print_float(value->u.f, out); break;
    case PP_V_BOOL:
        if (value->u.truth == PP_UNKNOWN) pp_size_print(sizes, value->u.margin, out);
        pp_text_add(out, value->u.truth == PP_TRUE ? "true" : value->u.truth == PP_FALSE ? "false" : " >= 0");
        break;
    case PP_V_DTYPE: pp_text_add(out, "%s", ppto_dtype_name((ppto_dtype)value->u.dtype)); break;
    case PP_V_BEYOND:
    case PP_V_STR: pp_text_add(out, "%s", value->u.text); break;
    case PP_V_LIST:
    case PP_V_TUPLE: print_items(sizes, value, out); break;
    default: pp_text_add(out, "a tensor"); break;
    }
}

static ppto_status key_text(const char *text, pp_key *key)
{
    size_t n = strlen(text);
    PP_TRY(pp_vec_push(key, (uint64_t)n));
    for (size_t i = 0; i < n; i += 8) {
        uint64_t word = 0;
        memcpy(&word, text + i, n - i < 8 ? n - i : 8);
        PP_TRY(pp_vec_push(key, word));
    }
    return PPTO_OK;
}

ppto_status pp_value_key(const pp_sizes *sizes, const pp_value *value, bool symbolic, pp_key *key)
{
    uint64_t word = 0, tag = (uint64_t)value->kind << 32 | value->n;
    int64_t known;
    switch (value->kind) {
    case PP_V_INT:
        if (pp_size_known(sizes, value->u.size, &known))
            word = (uint64_t)known;
        else if (symbolic)
            word = (uint64_t)(uint32_t)value->u.size, tag |= UINT64_C(1) << 40;
        else
            return PPTO_E_UNSUPPORTED;
        break;
    case PP_V_WIDE: word = value->u.bits; break;
    case PP_V_FLOAT: memcpy(&word, &value->u.f, sizeof word); break;
    case PP_V_BOOL:
        word = value->u.truth;
        if (word != PP_UNKNOWN) break;
        if (!symbolic) return PPTO_E_UNSUPPORTED;
        word |= (uint64_t)value->u.guess << 4 | (uint64_t)(uint32_t)value->u.margin << 8;
        break;
    case PP_V_DTYPE: word = value->u.dtype; break;
    case PP_V_NONE: break;
    case PP_V_BEYOND:
    case PP_V_STR: PP_TRY(pp_vec_push(key, tag)); return key_text(value->u.text, key);
    case PP_V_LIST:
    case PP_V_TUPLE:
        PP_TRY(pp_vec_push(key, tag));
        for (uint32_t i = 0; i < value->n; i++)
            PP_TRY(pp_value_key(sizes, &value->u.items[i], symbolic, key));
        return PPTO_OK;
    default: return PPTO_E_UNSUPPORTED;
    }
    PP_TRY(pp_vec_push(key, tag));
    return pp_vec_push(key, word);
}
