/* SPDX-License-Identifier: Apache-2.0
 * Tensor types: interned by dtype, weakness and dims. Each interned type lives in an arena, so a pointer to
 * it stays valid while the table lives. Broadcasting compares ids of sizes, which is exact because sizes are
 * in normal form: a named size goes with itself and with the literal 1 only, also when its value should turn
 * out to be 1. */
#include "ops/type.h"

#include <string.h>

#include "base/checked.h"

struct pp_types {
    pp_sizes *sizes;
    PP_VEC(const pp_type *) rows; /* in the arena; index: pp_type_id */
    pp_map map;
    pp_arena arena;
};

ppto_status pp_types_create(pp_types **out)
{
    *out = NULL;
    pp_types *types = pp_calloc(1, sizeof *types);
    if (types == NULL) return PPTO_E_NOMEM;
    ppto_status status = pp_sizes_create(&types->sizes);
    if (status != PPTO_OK) {
        pp_types_destroy(types);
        return status;
    }
    *out = types;
    return PPTO_OK;
}

void pp_types_destroy(pp_types *types)
{
    if (types == NULL) return;
    pp_sizes_destroy(types->sizes);
    pp_vec_free(&types->rows);
    pp_map_free(&types->map);
    pp_arena_free(&types->arena);
    pp_free(types);
}

pp_sizes *pp_types_sizes(pp_types *types)
{
    return types->sizes;
}

/* ---- interning ------------------------------------------------------------------------------- */

typedef struct type_key {
    const pp_types *types;
    const pp_type *type;
} type_key;

static bool same_type(const void *context, uint32_t value)
{
    const type_key *key = context;
    const pp_type *x = key->types->rows.at[value], *y = key->type;
    bool same = x->dtype == y->dtype && x->rank == y->rank && x->weak == y->weak;
    for (int i = 0; i < x->rank && same; i++) same = x->dim[i] == y->dim[i];
    return same;
}

static uint64_t hash_type(const pp_type *type)
{
    uint64_t hash =
        pp_hash_mix(5, (uint64_t)type->dtype << 16 | (uint64_t)type->rank << 8 | (uint64_t)type->weak);
    for (int i = 0; i < type->rank; i++) hash = pp_hash_mix(hash, (uint64_t)type->dim[i]);
    return hash;
}

ppto_status pp_type_intern(pp_types *types, const pp_type *type, pp_type_id *out)
{
    *out = 0;
    uint64_t hash = hash_type(type);
    type_key key = {types, type};
    if (type->rank > PPTO_MAX_RANK || type->dtype >= PP_DTYPE_COUNT) return PPTO_E_INTERNAL;
    if (pp_map_find(&types->map, hash, same_type, &key, out)) return PPTO_OK;
    pp_type *copy = pp_arena_alloc(&types->arena, sizeof *copy); /* zeroed: so are the dims beyond the rank */
    if (copy == NULL) return PPTO_E_NOMEM;
    copy->dtype = type->dtype;
    copy->rank = type->rank;
    copy->weak = type->weak;
    memcpy(copy->dim, type->dim, type->rank * sizeof copy->dim[0]);
    PP_TRY(pp_vec_push(&types->rows, copy));
    PP_TRY(pp_map_insert(&types->map, hash, (uint32_t)types->rows.n - 1));
    *out = (pp_type_id)(types->rows.n - 1);
    return PPTO_OK;
}

const pp_type *pp_type_get(const pp_types *types, pp_type_id id)
{
    return types->rows.at[id];
}

/* ---- text ------------------------------------------------------------------------------------ */

void pp_type_print(const pp_types *types, const pp_type *type, pp_text *out)
{
    pp_text_add(out, "%s%s[", type->weak ? "constant " : "", ppto_dtype_name((ppto_dtype)type->dtype));
    for (int i = 0; i < type->rank; i++) {
        if (i > 0) pp_text_add(out, ", ");
        pp_size_print(types->sizes, type->dim[i], out);
    }
    pp_text_add(out, "]");
}

static const char *skip_space(const char *p)
{
    while (*p == ' ' || *p == '\t') p++;
    return p;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static ppto_status parse_number(pp_sizes *sizes, const char **p, pp_size *out, pp_error *err)
{
    const char *start = *p;
    int64_t value = 0;
    for (; is_digit(**p); (*p)++) {
        if (pp_mul_i64(value, 10, &value) && pp_add_i64(value, **p - '0', &value)) continue;
        return pp_fail(err, PPTO_E_SIZE, "size %.40s does not fit 64 bits", start);
    }
    *out = pp_size_const(sizes, value);
    return PPTO_OK;
}

/* One dim: a name or a number. */
static ppto_status parse_dim(pp_sizes *sizes, const char *text, const char **p, pp_size *out, pp_error *err)
{
    const char *start = *p;
    if (is_digit(*start)) {
        PP_TRY(parse_number(sizes, p, out, err));
    } else {
        while (is_letter(**p) || (*p > start && is_digit(**p))) (*p)++;
        if (*p > start) *out = pp_size_name(sizes, start, (size_t)(*p - start));
    }
    bool ends = **p == '\0' || **p == ',' || **p == ' ' || **p == '\t';
    if (*p == start || !ends) {
        return pp_fail(err, PPTO_E_SYNTAX,
                       "'%.80s' is not a list of sizes: at '%.20s' a name or a number is expected", text,
                       start);
    }
    return PPTO_OK;
}

ppto_status pp_type_parse_dims(pp_types *types, const char *text, pp_type *type, pp_error *err)
{
    const char *p = skip_space(text);
    type->rank = 0;
    memset(type->dim, 0, sizeof type->dim);
    while (*p != '\0') {
        if (type->rank == PPTO_MAX_RANK) {
            return pp_fail(err, PPTO_E_SHAPE, "'%.80s' has more than %d sizes", text, PPTO_MAX_RANK);
        }
        PP_TRY(parse_dim(types->sizes, text, &p, &type->dim[type->rank], err));
        type->rank++;
        p = skip_space(p);
        if (*p == '\0') break;
        const char *comma = p;
        if (*p == ',') p = skip_space(p + 1);
        if (*comma != ',' || *p == '\0') {
            return pp_fail(err, PPTO_E_SYNTAX, "'%.80s' is not a list of sizes: wrong at '%.20s'", text,
                           comma);
        }
    }
    ppto_status status = pp_sizes_status(types->sizes);
    return status == PPTO_OK ? PPTO_OK : pp_fail(err, status, "no room for the sizes of '%.80s'", text);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

ppto_status pp_type_broadcast(pp_types *types, const pp_type *const *shapes, size_t n, pp_type *out,
                              int *axis, pp_size *left, pp_size *right)
{
    pp_size dim[PPTO_MAX_RANK] = {0};
    int rank = 0;
    (void)types; /* sizes are interned: equal ids are equal sizes */
    *axis = 0;
    *left = *right = PP_SIZE_0;
    for (size_t s = 0; s < n; s++) rank = shapes[s]->rank > rank ? shapes[s]->rank : rank;
    for (int i = 1; i <= rank; i++) { /* from the last axis on */
        pp_size size = PP_SIZE_1;
        for (size_t s = 0; s < n; s++) {
            pp_size own = i <= shapes[s]->rank ? shapes[s]->dim[shapes[s]->rank - i] : PP_SIZE_1;
            if (own == PP_SIZE_1 || own == size) continue;
            if (size != PP_SIZE_1) {
                *axis = -i;
                *left = size;
                *right = own;
                return PPTO_E_SHAPE;
            }
            size = own;
        }
        dim[rank - i] = size;
    }
    out->rank = (uint8_t)rank;
    memcpy(out->dim, dim, sizeof dim);
    return PPTO_OK;
}

pp_size pp_type_elements(pp_types *types, const pp_type *type)
{
    pp_size product = PP_SIZE_1;
    for (int i = 0; i < type->rank; i++) product = pp_size_mul(types->sizes, product, type->dim[i]);
    return product;
}
