/* SPDX-License-Identifier: Apache-2.0
 * Values of the evaluator: what is known when a node is recorded (sizes, numbers, words, dtypes, lists) and
 * tensors. A number stays a number until it meets a tensor, whose dtype it then adopts; so it serves as a
 * parameter, too. */
#ifndef PP_VALUE_H
#define PP_VALUE_H

#include "graph/graph.h"

typedef enum pp_value_kind {
    PP_V_NONE,
    PP_V_INT,    /* size: an integer, perhaps symbolic */
    PP_V_WIDE,   /* bits: an integer from 2**63 to 2**64 - 1 */
    PP_V_BEYOND, /* text: digits of an integer beyond these, perhaps with a sign */
    PP_V_FLOAT,  /* f */
    PP_V_BOOL,   /* truth, margin */
    PP_V_DTYPE,  /* dtype */
    PP_V_STR,    /* text */
    PP_V_LIST,   /* items, n */
    PP_V_TUPLE,  /* items, n: several results, or the states of a fold */
    PP_V_TENSOR, /* prim of the flat graph at hand */
    PP_V_REF     /* ref: a result of a recorded node */
} pp_value_kind;

/* PP_UNKNOWN: depends on sizes that are not known yet; the margin says how. */
typedef enum pp_truth { PP_FALSE, PP_TRUE, PP_UNKNOWN } pp_truth;

/* What a choice takes for an unknown condition: formulas that are not the same to differ (EQUAL does not
 * hold, UNEQUAL does), anything else to hold. */
typedef enum pp_guess { PP_GUESS_HOLDS, PP_GUESS_EQUAL, PP_GUESS_UNEQUAL } pp_guess;

typedef struct pp_value {
    uint8_t kind; /* pp_value_kind */
    uint32_t n;
    union {
        pp_size size;
        uint64_t bits;
        double f;
        struct {
            uint8_t truth;  /* pp_truth */
            uint8_t guess;  /* pp_guess, UNKNOWN */
            pp_size margin; /* UNKNOWN: true exactly when it is not negative */
        };
        uint8_t dtype;
        const char *text;
        const struct pp_value *items;
        uint32_t prim;
        pp_ref ref;
    } u;
} pp_value;

static inline bool pp_value_is_tensor(const pp_value *v)
{
    return v->kind == PP_V_TENSOR || v->kind == PP_V_REF;
}
/* A number or bool that may stand where a tensor is expected. */
static inline bool pp_value_is_number(const pp_value *v)
{
    return v->kind >= PP_V_INT && v->kind <= PP_V_BOOL;
}
/* An integer beyond i64. */
static inline bool pp_value_is_wide(const pp_value *v)
{
    return v->kind == PP_V_WIDE || v->kind == PP_V_BEYOND;
}
static inline bool pp_value_is_list(const pp_value *v)
{
    return v->kind == PP_V_LIST || v->kind == PP_V_TUPLE;
}
static inline pp_value pp_value_int(pp_size size)
{
    return (pp_value){.kind = PP_V_INT, .u.size = size};
}
static inline pp_value pp_value_bool(pp_truth truth)
{
    return (pp_value){.kind = PP_V_BOOL, .u.truth = (uint8_t)truth};
}
static inline pp_value pp_value_float(double f)
{
    return (pp_value){.kind = PP_V_FLOAT, .u.f = f};
}
static inline pp_value pp_value_tensor(uint32_t prim)
{
    return (pp_value){.kind = PP_V_TENSOR, .u.prim = prim};
}
static inline pp_value pp_value_text(const char *text)
{
    return (pp_value){.kind = PP_V_STR, .u.text = text};
}
static inline pp_value pp_value_of_dtype(ppto_dtype dtype)
{
    return (pp_value){.kind = PP_V_DTYPE, .u.dtype = (uint8_t)dtype};
}

/* As in the language: 3, [1, N], f32, edge. Tensors are not printed (pp_eval_print does). */
void pp_value_print(const pp_sizes *sizes, const pp_value *value, pp_text *out);

typedef PP_VEC(uint64_t) pp_key;
/* Appends words that decide the value. symbolic false: E_UNSUPPORTED for a size that is no constant or a
 * tensor. */
ppto_status pp_value_key(const pp_sizes *sizes, const pp_value *value, bool symbolic, pp_key *key);

#endif
