/* SPDX-License-Identifier: Apache-2.0
 * Arguments of a call: put in order, checked against the specs of the parameters, filled up with defaults.
 * Named sizes of the specs must agree over all operands. */
#include <string.h>

#include "graph/library_impl.h"

static const pp_param fold_axis = {.name = "axis", .spec = PP_SPEC_P_AXES};
static const pp_param fold_keepdims = {.name = "keepdims", .spec = PP_SPEC_P_BOOL};

size_t pp_eval_params(const pp_definition *definition)
{
    return definition->n_params + (definition->is_fold ? 2 : 0);
}

const pp_param *pp_eval_param(const pp_definition *definition, size_t i)
{
    if (i < definition->n_params) return &definition->param[i];
    return i == definition->n_params ? &fold_axis : &fold_keepdims;
}

const pp_param *pp_eval_param_for(const pp_definition *definition, size_t position, const char *keyword)
{
    size_t n = pp_eval_params(definition);
    if (keyword == NULL) return position < n ? pp_eval_param(definition, position) : NULL;
    for (size_t i = 0; i < n; i++)
        if (strcmp(pp_eval_param(definition, i)->name, keyword) == 0) return pp_eval_param(definition, i);
    return NULL;
}

/* ---- checking arguments ------------------------------------------------------------------------------ */

static const char *spec_name(const pp_param *p)
{
    static const char *const names[] = {
        [PP_SPEC_ANY] = "a tensor",
        [PP_SPEC_NUM] = "numbers",
        [PP_SPEC_FLOAT] = "floats",
        [PP_SPEC_INT] = "integers",
        [PP_SPEC_BOOL] = "bool",
        [PP_SPEC_DTYPE_EXACT] = "another dtype",
        [PP_SPEC_TENSORS] = "a list of tensors",
        [PP_SPEC_P_INT] = "an integer",
        [PP_SPEC_P_FLOAT] = "a number",
        [PP_SPEC_P_NUM] = "a number",
        [PP_SPEC_P_BOOL] = "true or false",
        [PP_SPEC_P_INTS] = "a list of integers",
        [PP_SPEC_P_AXES] = "an axis, a list of axes or all",
        [PP_SPEC_P_STR] = "a word",
        [PP_SPEC_P_DTYPE] = "a dtype (bool, i8 to i64, u8 to u64, f32 or f64)",
        [PP_SPEC_P_ANY] = "a value",
    };
    return p->spec == PP_SPEC_DTYPE_EXACT ? ppto_dtype_name((ppto_dtype)p->dtype) : names[p->spec];
}

static ppto_status unexpected(pp_eval *ev, ppto_status code, const pp_param *p, const pp_value *value,
                              const char *hint)
{
    pp_text text = {0};
    if (ev->err == NULL) return code;
    pp_eval_print(ev, value, &text);
    ppto_status status = pp_eval_fail(ev, code, "%s: expected %s, got %s%s", p->name, spec_name(p),
                                      text.at != NULL ? text.at : "?", hint);
    pp_text_free(&text);
    return status;
}

static bool accepts_dtype(const pp_param *p, const pp_type *type)
{
    ppto_dtype dtype = (ppto_dtype)type->dtype;
    switch (p->spec) {
    case PP_SPEC_NUM: return dtype != PPTO_BOOL;
    case PP_SPEC_FLOAT: return pp_dtype_is_float(dtype) || (type->weak && dtype == PPTO_I64);
    case PP_SPEC_INT: return pp_dtype_is_integer(dtype);
    case PP_SPEC_BOOL: return dtype == PPTO_BOOL;
    case PP_SPEC_DTYPE_EXACT:
        return dtype == (ppto_dtype)p->dtype ||
               (type->weak &&
                (pp_dtype_is_float((ppto_dtype)p->dtype) || (dtype == PPTO_I64 && p->dtype != PPTO_BOOL)));
    default: return true;
    }
}

static const char *cast_hint(const pp_param *p, const pp_type *type)
{
    if (p->spec == PP_SPEC_FLOAT && pp_dtype_is_integer((ppto_dtype)type->dtype))
        return ": use astype(x, f32)";
    return p->spec == PP_SPEC_BOOL ? ": use x != 0" : type->dtype == PPTO_BOOL ? ": use astype" : "";
}

static const char *operand_hint(const pp_value *value)
{
    if (value->kind == PP_V_STR) return ", which is no parameter and no variable here";
    return value->kind == PP_V_LIST ? ": use stack to make a tensor of a list" : "";
}

static ppto_status check_tensor(pp_eval *ev, const pp_param *p, pp_value *value)
{
    const pp_type *type = pp_eval_type(ev, value);
    if (type == NULL) return unexpected(ev, PPTO_E_VALUE, p, value, operand_hint(value));
    if (!accepts_dtype(p, type)) return unexpected(ev, PPTO_E_DTYPE, p, value, cast_hint(p, type));
    int64_t known;
    if (p->spec == PP_SPEC_FLOAT && value->kind == PP_V_INT &&
        pp_size_known(ev->sizes, value->u.size, &known))
        *value = pp_value_float((double)known);
    return PPTO_OK;
}

static ppto_status check_list(pp_eval *ev, const pp_param *p, pp_value *value)
{
    if (value->kind == PP_V_TUPLE) value->kind = PP_V_LIST;
    if (value->kind != PP_V_LIST) return unexpected(ev, PPTO_E_VALUE, p, value, "");
    for (uint32_t i = 0; i < value->n; i++)
        if (pp_eval_type(ev, &value->u.items[i]) == NULL) return unexpected(ev, PPTO_E_VALUE, p, value, "");
    return PPTO_OK;
}

static bool all_ints(const pp_value *list)
{
    bool yes = pp_value_is_list(list);
    for (uint32_t i = 0; yes && i < list->n; i++) yes = list->u.items[i].kind == PP_V_INT;
    return yes;
}

static bool has_tensor(const pp_value *value)
{
    bool yes = pp_value_is_tensor(value);
    for (uint32_t i = 0; pp_value_is_list(value) && i < value->n && !yes; i++)
        yes = has_tensor(&value->u.items[i]);
    return yes;
}

static ppto_status one_int(pp_eval *ev, pp_value *value)
{
    pp_value *items;
    if (value->kind != PP_V_INT) return PPTO_OK;
    PP_TRY(pp_eval_items(ev, 1, &items));
    items[0] = *value;
    *value = (pp_value){.kind = PP_V_LIST, .n = 1, .u.items = items};
    return PPTO_OK;
}

/* A name that is no variable is a word, also where somebody binds a number to it. */
static const char *fixed_hint(const pp_value *value)
{
    bool bound = has_tensor(value) || value->kind == PP_V_STR;
    if (value->kind == PP_V_STR && strcmp(value->u.text, "all") == 0)
        return ": it stands for every axis, where several may be given";
    return bound
               ? ": a parameter is fixed when recorded, so no input can be one; write its value into the text"
               : "";
}

/* What is fixed when the node is recorded. */
static ppto_status check_fixed(pp_eval *ev, const pp_param *p, pp_value *value)
{
    bool ok = true;
    int64_t known;
    ppto_dtype dtype;
    bool none_allowed = p->fallback != NULL && p->fallback->kind == PP_E_NONE;
    none_allowed = none_allowed || (p->fallback != NULL && p->fallback->kind == PP_E_NAME &&
                                    strcmp(p->fallback->name, "none") == 0);
    if (value->kind == PP_V_NONE && none_allowed) return PPTO_OK;
    switch (p->spec) {
    case PP_SPEC_P_INT: ok = value->kind == PP_V_INT; break;
    case PP_SPEC_P_FLOAT:
        if (value->kind == PP_V_INT && pp_size_known(ev->sizes, value->u.size, &known))
            *value = pp_value_float((double)known);
        ok = value->kind == PP_V_FLOAT || value->kind == PP_V_INT;
        break;
    case PP_SPEC_P_NUM:
        ok = value->kind == PP_V_FLOAT || value->kind == PP_V_INT || pp_value_is_wide(value);
        break;
    case PP_SPEC_P_BOOL:
        if (value->kind == PP_V_INT && pp_size_known(ev->sizes, value->u.size, &known) &&
            (known == 0 || known == 1))
            *value = pp_value_bool(known != 0 ? PP_TRUE : PP_FALSE);
        ok = value->kind == PP_V_BOOL;
        break;
    case PP_SPEC_P_INTS:
        PP_TRY(one_int(ev, value));
        ok = all_ints(value);
        break;
    case PP_SPEC_P_AXES:
        ok = value->kind == PP_V_INT || all_ints(value) ||
             (value->kind == PP_V_STR && strcmp(value->u.text, "all") == 0);
        break;
    case PP_SPEC_P_STR: ok = value->kind == PP_V_STR; break;
    case PP_SPEC_P_DTYPE:
        if (value->kind == PP_V_STR && pp_dtype_parse(value->u.text, strlen(value->u.text), &dtype))
            *value = pp_value_of_dtype(dtype);
        ok = value->kind == PP_V_DTYPE;
        break;
    default: ok = !has_tensor(value); break;
    }
    if (ok) return PPTO_OK;
    return unexpected(ev, PPTO_E_VALUE, p, value, fixed_hint(value));
}

static ppto_status check_argument(pp_eval *ev, const pp_param *p, pp_value *value)
{
    if (p->spec == PP_SPEC_TENSORS) return check_list(ev, p, value);
    return pp_param_is_tensor(p) ? check_tensor(ev, p, value) : check_fixed(ev, p, value);
}

/* ---- shape specs ----------------------------------------------------------------------------------- */

typedef struct named_size {
    const char *name;
    pp_size size;
} named_size;

typedef struct named_sizes {
    named_size at[PPTO_MAX_RANK * 4];
    uint32_t n;
} named_sizes;

static void print_spec(const pp_eval *ev, const pp_param *p, const named_sizes *names, pp_text *out)
{
    pp_text_add(out, "[");
    for (unsigned i = 0; i < p->n_dims; i++) {
        const pp_spec_dim *dim = &p->dim[i];
        if (i != 0) pp_text_add(out, ", ");
        if (dim->rest)
            pp_text_add(out, "...");
        else if (dim->name != NULL)
            pp_text_add(out, "%s", dim->name);
        else
            pp_text_add(out, "%lld", (long long)dim->literal);
        for (uint32_t k = 0; dim->name != NULL && k < names->n; k++) {
            if (strcmp(names->at[k].name, dim->name) != 0) continue;
            pp_text_add(out, " = ");
            pp_size_print(ev->sizes, names->at[k].size, out);
        }
    }
    pp_text_add(out, "]");
}

static ppto_status wrong_shape(pp_eval *ev, const pp_param *p, const named_sizes *names,
                               const pp_value *value)
{
    pp_text text = {0};
    if (ev->err == NULL) return PPTO_E_SHAPE;
    pp_text_add(&text, "%s: expected shape ", p->name);
    print_spec(ev, p, names, &text);
    pp_text_add(&text, ", got ");
    pp_eval_print(ev, value, &text);
    ppto_status status = pp_eval_fail(ev, PPTO_E_SHAPE, "%s", text.at != NULL ? text.at : p->name);
    pp_text_free(&text);
    return status;
}

static bool same_size(const pp_eval *ev, const pp_spec_dim *dim, pp_size size, named_sizes *names)
{
    int64_t known;
    if (dim->name == NULL) return pp_size_known(ev->sizes, size, &known) && known == dim->literal;
    for (uint32_t k = 0; k < names->n; k++)
        if (strcmp(names->at[k].name, dim->name) == 0) return names->at[k].size == size;
    if (names->n < sizeof names->at / sizeof names->at[0])
        names->at[names->n++] = (named_size){dim->name, size};
    return true;
}

static ppto_status match_shape(pp_eval *ev, const pp_param *p, const pp_value *value, named_sizes *names)
{
    const pp_type *type = pp_eval_type(ev, value);
    unsigned rest = p->n_dims;
    for (unsigned i = 0; i < p->n_dims; i++)
        if (p->dim[i].rest) rest = i;
    bool open = rest < p->n_dims, fits = open ? type->rank + 1 >= p->n_dims : type->rank == p->n_dims;
    for (unsigned i = 0; fits && i < p->n_dims; i++) {
        if (i == rest) continue;
        unsigned axis = i < rest ? i : type->rank - (p->n_dims - i);
        fits = same_size(ev, &p->dim[i], type->dim[axis], names);
    }
    return fits ? PPTO_OK : wrong_shape(ev, p, names, value);
}

static ppto_status match_shapes(pp_eval *ev, const pp_definition *d, const pp_value *bound,
                                named_sizes *names)
{
    names->n = 0;
    for (size_t i = 0; i < d->n_params; i++)
        if (d->param[i].has_shape && pp_param_is_tensor(&d->param[i]))
            PP_TRY(match_shape(ev, &d->param[i], &bound[i], names));
    return PPTO_OK;
}

/* ---- binding --------------------------------------------------------------------------------------- */

void pp_eval_unknown_param(const pp_definition *d, const char *keyword, pp_text *out)
{
    size_t n = pp_eval_params(d);
    pp_nearest nearest = {.to = keyword};
    for (size_t i = 0; i < n; i++) pp_text_nearer(&nearest, pp_eval_param(d, i)->name);
    pp_text_add(out, "no parameter `%.60s`", keyword);
    if (nearest.name != NULL) pp_text_add(out, ": did you mean `%.60s`?", nearest.name);
    for (size_t i = 0; i < n && nearest.name == NULL; i++)
        pp_text_add(out, "%s`%.60s`", i > 0 ? ", " : "; its parameters: ", pp_eval_param(d, i)->name);
}

static ppto_status unknown_keyword(pp_eval *ev, const pp_definition *d, const char *keyword)
{
    pp_text text = {0};
    pp_eval_unknown_param(d, keyword, &text);
    ppto_status status = pp_eval_fail(ev, PPTO_E_NAME, "%.600s", text.at ? text.at : "no such parameter");
    pp_text_free(&text);
    return status;
}

static ppto_status place_arguments(pp_eval *ev, const pp_definition *d, const pp_given *given, size_t n,
                                   pp_value *bound, uint8_t *set)
{
    size_t n_params = pp_eval_params(d);
    for (size_t i = 0; i < n; i++) {
        size_t at = i;
        if (given[i].keyword != NULL)
            for (at = 0; at < n_params && strcmp(pp_eval_param(d, at)->name, given[i].keyword) != 0;) at++;
        if (at >= n_params) {
            if (given[i].keyword != NULL) return unknown_keyword(ev, d, given[i].keyword);
            return pp_eval_fail(ev, PPTO_E_VALUE, "%zu arguments, it takes at most %zu", n, n_params);
        }
        if (set[at])
            return pp_eval_fail(ev, PPTO_E_VALUE, "`%.60s` is given twice", pp_eval_param(d, at)->name);
        set[at] = 1;
        bound[at] = given[i].value;
    }
    return PPTO_OK;
}

static ppto_status fill_default(pp_eval *ev, const pp_definition *d, size_t i, pp_value *value)
{
    const pp_param *p = pp_eval_param(d, i);
    if (p == &fold_axis) {
        *value = pp_value_text("all");
        return PPTO_OK;
    }
    if (p == &fold_keepdims) {
        *value = pp_value_bool(PP_FALSE);
        return PPTO_OK;
    }
    if (p->fallback == NULL)
        return pp_eval_fail(ev, PPTO_E_VALUE, "the argument `%.60s` is missing", p->name);
    pp_eval alone = {.mode = PP_EVAL_TENSORS,
                     .library = ev->library,
                     .types = ev->types,
                     .sizes = ev->sizes,
                     .err = ev->err,
                     .arena = ev->arena,
                     .called_as = ev->called_as};
    ppto_status status = pp_eval_expr(&alone, p->fallback, value);
    pp_eval_free(&alone);
    return status;
}

ppto_status pp_eval_set_sizes(pp_eval *ev, const pp_definition *d, const pp_value *bound)
{
    named_sizes names;
    PP_TRY(match_shapes(ev, d, bound, &names));
    for (uint32_t i = 0; i < names.n; i++) {
        pp_value size = pp_value_int(names.at[i].size);
        PP_TRY(pp_eval_set(ev, names.at[i].name, &size));
    }
    return PPTO_OK;
}

ppto_status pp_eval_bind(pp_eval *ev, const pp_definition *d, const pp_given *given, size_t n,
                         pp_value *bound)
{
    uint8_t set[PP_MAX_BOUND] = {0};
    size_t n_params = pp_eval_params(d);
    bool shaped = false;
    if (n_params > PP_MAX_BOUND) return PPTO_E_LIMIT;
    PP_TRY(place_arguments(ev, d, given, n, bound, set));
    for (size_t i = 0; i < n_params; i++) {
        const pp_param *p = pp_eval_param(d, i);
        if (!set[i]) PP_TRY(fill_default(ev, d, i, &bound[i]));
        PP_TRY(check_argument(ev, p, &bound[i]));
        shaped = shaped || p->has_shape;
    }
    if (!shaped) return PPTO_OK;
    named_sizes names;
    return match_shapes(ev, d, bound, &names);
}
