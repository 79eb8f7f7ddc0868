/* SPDX-License-Identifier: Apache-2.0
 * Subscripts and attributes. Slices follow NumPy: bounds are clamped, negative ones count from the end, an
 * integer drops its axis, None adds one, `...` fills. An integer tensor on one axis is take. Bounds that
 * depend on named sizes become sizes with max and min.
 *
 * In a program the subscripts are first written down as a list of entries, the parameter of the hidden
 * operator _subscript: ["slice", start, stop, step], ["at", i], ["new"], ["rest"]. */
#include <string.h>

#include "graph/evaluate.h"

/* ---- entries --------------------------------------------------------------------------------------- */

static ppto_status part(pp_eval *ev, const pp_expr *e, pp_value *out)
{
    *out = (pp_value){.kind = PP_V_NONE};
    if (e == NULL) return PPTO_OK;
    PP_TRY(pp_eval_expr(ev, e, out));
    if (out->kind == PP_V_NONE || out->kind == PP_V_INT) return PPTO_OK;
    if (pp_value_is_tensor(out) && e->kind == PP_E_NAME)
        return pp_eval_fail(ev, PPTO_E_VALUE,
                            "the bounds of a slice are fixed when recorded, and %s is an input, whatever is "
                            "bound to it: write its value into the text, or use take",
                            e->name);
    return pp_eval_fail(ev, PPTO_E_VALUE, "the bounds of a slice are integers%s",
                        pp_value_is_tensor(out) ? " that are fixed when recorded, not the values of an input"
                                                : "");
}

static ppto_status new_entry(pp_eval *ev, const char *word, uint32_t n, pp_value **items, pp_value *out)
{
    PP_TRY(pp_eval_items(ev, n, items));
    (*items)[0] = pp_value_text(word);
    *out = (pp_value){.kind = PP_V_LIST, .n = n, .u.items = *items};
    return PPTO_OK;
}

static ppto_status entry_of(pp_eval *ev, const pp_expr *e, pp_value *out, pp_value *tensor)
{
    pp_value *items, value = {0};
    switch (e->kind) {
    case PP_E_SLICE:
        PP_TRY(new_entry(ev, "slice", 4, &items, out));
        PP_TRY(part(ev, e->a, &items[1]));
        PP_TRY(part(ev, e->b, &items[2]));
        return part(ev, e->c, &items[3]);
    case PP_E_ELLIPSIS: return new_entry(ev, "rest", 1, &items, out);
    default: break;
    }
    PP_TRY(pp_eval_expr(ev, e, &value));
    PP_TRY(pp_eval_single(ev, &value));
    if (value.kind == PP_V_NONE) return new_entry(ev, "new", 1, &items, out);
    if (value.kind == PP_V_INT) {
        PP_TRY(new_entry(ev, "at", 2, &items, out));
        items[1] = value;
        return PPTO_OK;
    }
    if (!pp_value_is_tensor(&value))
        return pp_eval_fail(ev, PPTO_E_VALUE, "a subscript is an integer, a slice or a tensor%s",
                            value.kind == PP_V_LIST ? ": use stack to make a tensor of a list" : "");
    if (pp_eval_type(ev, &value)->dtype == PPTO_BOOL)
        return pp_eval_fail(ev, PPTO_E_DTYPE, "a mask cannot be a subscript, expected `where(mask, x, 0)`");
    if (tensor->kind != PP_V_NONE)
        return pp_eval_fail(ev, PPTO_E_UNSUPPORTED, "integer tensors on two axes, expected one and `take`");
    *tensor = value;
    PP_TRY(new_entry(ev, "slice", 4, &items, out));
    return PPTO_OK;
}

static bool is_word(const pp_value *entry, const char *word)
{
    return strcmp(entry->u.items[0].u.text, word) == 0;
}

/* Axes of the result before entry `at`, which stands for a tensor. */
static uint32_t result_axis(const pp_value *entries, uint32_t at, uint32_t rank)
{
    uint32_t axis = 0, used = 0;
    for (uint32_t i = 0; i < entries->n; i++)
        used += is_word(&entries->u.items[i], "slice") || is_word(&entries->u.items[i], "at");
    for (uint32_t i = 0; i < at; i++) {
        const pp_value *entry = &entries->u.items[i];
        if (is_word(entry, "slice") || is_word(entry, "new")) axis++;
        if (is_word(entry, "rest")) axis += rank > used ? rank - used : 0;
    }
    return axis;
}

static ppto_status list_item(pp_eval *ev, const pp_expr *e, const pp_value *list, pp_value *out)
{
    pp_value a = {0}, b = {0};
    int64_t i = 0, j = list->n;
    if (e->next != NULL) return pp_eval_fail(ev, PPTO_E_VALUE, "a list has one axis");
    if (e->kind != PP_E_SLICE) {
        PP_TRY(pp_eval_expr(ev, e, &a));
        PP_TRY(pp_eval_int(ev, &a, "the index of a list", &i));
        if (i < 0) i += list->n;
        if (i < 0 || i >= (int64_t)list->n)
            return pp_eval_fail(ev, PPTO_E_VALUE, "a list of %u has no item %lld", list->n, (long long)i);
        *out = list->u.items[i];
        return PPTO_OK;
    }
    if (e->a != NULL) PP_TRY(pp_eval_expr(ev, e->a, &a));
    if (e->a != NULL) PP_TRY(pp_eval_int(ev, &a, "the bound of a slice", &i));
    if (e->b != NULL) PP_TRY(pp_eval_expr(ev, e->b, &b));
    if (e->b != NULL) PP_TRY(pp_eval_int(ev, &b, "the bound of a slice", &j));
    if (e->c != NULL) return pp_eval_fail(ev, PPTO_E_UNSUPPORTED, "slices of lists have no step");
    if (i < 0) i = i + list->n < 0 ? 0 : i + list->n;
    if (j < 0) j += list->n;
    if (j > (int64_t)list->n) j = list->n;
    if (i > j) i = j;
    *out = (pp_value){.kind = PP_V_LIST, .n = (uint32_t)(j - i), .u.items = list->u.items + i};
    return PPTO_OK;
}

static ppto_status apply_entries(pp_eval *ev, uint32_t at, const pp_value *base, const pp_value *entries,
                                 pp_value *out)
{
    if (ev->mode != PP_EVAL_GRAPH) return pp_eval_view(ev, base->u.prim, entries, out);
    const pp_definition *d;
    PP_TRY(pp_library_find(ev->library, "_subscript", &d, ev->err));
    if (d == NULL) return pp_eval_fail(ev, PPTO_E_NAME, "no operator `_subscript`");
    pp_given given[2] = {{NULL, at, *base}, {NULL, at, *entries}};
    return pp_eval_call(ev, d, "subscript", at, given, 2, false, out);
}

ppto_status pp_eval_subscript(pp_eval *ev, const pp_expr *e, const pp_value *base, pp_value *out)
{
    pp_value *items, tensor = {.kind = PP_V_NONE};
    uint32_t n = 0, i = 0, tensor_at = 0;
    if (pp_value_is_list(base)) return list_item(ev, e->b, base, out);
    if (!pp_value_is_tensor(base))
        return pp_eval_fail(ev, PPTO_E_VALUE, "only tensors and lists have subscripts");
    for (const pp_expr *s = e->b; s != NULL; s = s->next) n++;
    PP_TRY(pp_eval_items(ev, n, &items));
    for (const pp_expr *s = e->b; s != NULL; s = s->next, i++) {
        bool had = tensor.kind != PP_V_NONE;
        PP_TRY(entry_of(ev, s, &items[i], &tensor));
        if (!had && tensor.kind != PP_V_NONE) tensor_at = i;
    }
    pp_value entries = {.kind = PP_V_LIST, .n = n, .u.items = items};
    PP_TRY(apply_entries(ev, e->at, base, &entries, out));
    if (tensor.kind == PP_V_NONE) return PPTO_OK;
    uint32_t axis = result_axis(&entries, tensor_at, pp_eval_type(ev, base)->rank);
    const pp_definition *take;
    PP_TRY(pp_library_find(ev->library, "take", &take, ev->err));
    if (take == NULL) return pp_eval_fail(ev, PPTO_E_NAME, "no operator `take`");
    pp_given given[3] = {{NULL, e->at, *out}, {NULL, e->at, tensor}, {NULL, e->at, pp_eval_number(ev, axis)}};
    return pp_eval_call(ev, take, "take", e->at, given, 3, false, out);
}

/* ---- views ----------------------------------------------------------------------------------------- */

/* A bound as NumPy takes it: a negative one counts from the end. */
static pp_size from_end(pp_eval *ev, pp_size bound, pp_size size)
{
    int64_t known;
    bool negative =
        pp_size_known(ev->sizes, bound, &known) ? known < 0 : pp_size_is_le(ev->sizes, PP_SIZE_0, bound) == 0;
    return negative ? pp_size_add(ev->sizes, bound, size) : bound;
}

/* ceil((stop - start) / step), at least 0; step > 0. */
static pp_size slice_length(pp_eval *ev, pp_size start, pp_size stop, int64_t step)
{
    pp_size span = pp_size_max(ev->sizes, pp_size_sub(ev->sizes, stop, start), PP_SIZE_0);
    if (step == 1) return span;
    span = pp_size_add(ev->sizes, span, pp_size_const(ev->sizes, step - 1));
    return pp_size_floordiv(ev->sizes, span, pp_size_const(ev->sizes, step));
}

static ppto_status view_slice(pp_eval *ev, const pp_value *entry, uint32_t axis, uint32_t *x)
{
    const pp_value *a = &entry->u.items[1], *b = &entry->u.items[2], *c = &entry->u.items[3];
    pp_size size = pp_flat_type(ev->flat, *x)->dim[axis], start, stop, length;
    pp_size last = pp_size_sub(ev->sizes, size, PP_SIZE_1), before = pp_size_const(ev->sizes, -1);
    int64_t step = 1;
    if (c->kind != PP_V_NONE) PP_TRY(pp_eval_int(ev, c, "the step of a slice", &step));
    if (step == 0) return pp_eval_fail(ev, PPTO_E_VALUE, "a slice needs a step other than 0");
    start = step < 0 ? last : PP_SIZE_0;
    stop = step < 0 ? before : size;
    /* Each bound is clamped where it would reach too far; on its other side the length is 0 anyway. */
    if (a->kind != PP_V_NONE) {
        start = from_end(ev, a->u.size, size);
        start = step < 0 ? pp_size_min(ev->sizes, start, last) : pp_size_max(ev->sizes, start, PP_SIZE_0);
    }
    if (b->kind != PP_V_NONE) {
        stop = from_end(ev, b->u.size, size);
        stop = step < 0 ? pp_size_max(ev->sizes, stop, before) : pp_size_min(ev->sizes, stop, size);
    }
    length = step > 0 ? slice_length(ev, start, stop, step) : slice_length(ev, stop, start, -step);
    if (length == PP_SIZE_0) start = PP_SIZE_0;
    return pp_flat_slice(ev->flat, *x, axis, start, length, step, x);
}

static ppto_status view_at(pp_eval *ev, const pp_value *entry, uint32_t axis, uint32_t *x)
{
    const pp_type *type = pp_flat_type(ev->flat, *x);
    pp_size dims[PPTO_MAX_RANK], at = entry->u.items[1].u.size;
    int64_t i, size;
    uint32_t n = 0;
    if (pp_size_known(ev->sizes, at, &i)) {
        bool known = pp_size_known(ev->sizes, type->dim[axis], &size);
        if (known && (i < -size || i >= size))
            return pp_eval_fail(ev, PPTO_E_VALUE, "%lld is out of range for axis %u of size %lld",
                                (long long)i, axis, (long long)size);
        if (i < 0) at = pp_size_add(ev->sizes, at, type->dim[axis]);
    }
    PP_TRY(pp_flat_slice(ev->flat, *x, axis, at, PP_SIZE_1, 1, x));
    type = pp_flat_type(ev->flat, *x);
    for (uint32_t d = 0; d < type->rank; d++)
        if (d != axis) dims[n++] = type->dim[d];
    return pp_flat_reshape(ev->flat, *x, n, dims, x);
}

static ppto_status view_new(pp_eval *ev, uint32_t axis, uint32_t *x)
{
    const pp_type *type = pp_flat_type(ev->flat, *x);
    pp_size dims[PPTO_MAX_RANK + 1];
    if (type->rank == PPTO_MAX_RANK)
        return pp_eval_fail(ev, PPTO_E_SHAPE, "the rank is above %d", PPTO_MAX_RANK);
    for (uint32_t d = 0, k = 0; d <= type->rank; d++) dims[d] = d == axis ? PP_SIZE_1 : type->dim[k++];
    return pp_flat_reshape(ev->flat, *x, type->rank + 1u, dims, x);
}

ppto_status pp_eval_view(pp_eval *ev, uint32_t x, const pp_value *entries, pp_value *out)
{
    uint32_t used = 0, rests = 0, axis = 0, rank = pp_flat_type(ev->flat, x)->rank;
    for (uint32_t i = 0; i < entries->n; i++) {
        const pp_value *entry = &entries->u.items[i];
        if (entry->kind != PP_V_LIST || entry->n == 0 || entry->u.items[0].kind != PP_V_STR)
            return pp_eval_fail(ev, PPTO_E_VALUE, "these are no subscripts");
        used += is_word(entry, "slice") || is_word(entry, "at");
        rests += is_word(entry, "rest");
    }
    if (rests > 1) return pp_eval_fail(ev, PPTO_E_VALUE, "`...` stands twice in the subscripts");
    if (used > rank) return pp_eval_fail(ev, PPTO_E_VALUE, "%u subscripts for rank %u", used, rank);
    for (uint32_t i = 0; i < entries->n; i++) {
        const pp_value *entry = &entries->u.items[i];
        if (is_word(entry, "slice"))
            PP_TRY(view_slice(ev, entry, axis++, &x));
        else if (is_word(entry, "at"))
            PP_TRY(view_at(ev, entry, axis, &x));
        else if (is_word(entry, "new"))
            PP_TRY(view_new(ev, axis++, &x));
        else
            axis += rank - used;
    }
    *out = pp_value_tensor(x);
    return PPTO_OK;
}

/* ---- attributes ------------------------------------------------------------------------------------ */

ppto_status pp_eval_attribute(pp_eval *ev, const char *name, const pp_value *base, pp_value *out)
{
    const pp_type *type = pp_eval_type(ev, base);
    bool transpose = strcmp(name, "T") == 0;
    if (type == NULL) return pp_eval_fail(ev, PPTO_E_VALUE, "`.%.40s` needs a tensor before it", name);
    if (strcmp(name, "dtype") == 0) {
        *out = pp_value_of_dtype((ppto_dtype)type->dtype);
        return PPTO_OK;
    }
    if (!transpose && strcmp(name, "mT") != 0)
        return pp_eval_fail(ev, PPTO_E_NAME, "no attribute `.%.40s`, expected `.T`, `.mT` or `.dtype`", name);
    if (transpose && type->rank > 2)
        return pp_eval_fail(ev, PPTO_E_SHAPE, "`.T` of rank %u, expected `.mT` (or permute_dims)",
                            type->rank);
    return pp_eval_call_name(ev, transpose ? "transpose" : "matrix_transpose", ev->at, base, NULL, out);
}
