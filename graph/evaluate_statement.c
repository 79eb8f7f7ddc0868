/* SPDX-License-Identifier: Apache-2.0
 * Statements: assignments, `if` on what is known at record time, `require` with its message, values. */
#include <string.h>

#include "graph/evaluate.h"

static ppto_status eval_single(pp_eval *ev, const pp_expr *e, pp_value *out)
{
    PP_TRY(pp_eval_expr(ev, e, out));
    return pp_eval_single(ev, out);
}

/* The values of a statement, several as one tuple: an operator of several results gives all of them. */
static ppto_status eval_values(pp_eval *ev, const pp_expr *e, pp_value *out)
{
    PP_VEC(pp_value) items = {0};
    ppto_status status = PPTO_OK;
    if (e->next == NULL) return pp_eval_expr(ev, e, out);
    for (; e != NULL && status == PPTO_OK; e = e->next) {
        pp_value value = {0};
        status = pp_eval_expr(ev, e, &value);
        if (status != PPTO_OK) break;
        if (!pp_value_is_list(&value)) status = pp_vec_push(&items, value);
        for (uint32_t i = 0; pp_value_is_list(&value) && i < value.n && status == PPTO_OK; i++)
            status = pp_vec_push(&items, value.u.items[i]);
    }
    pp_value *own = NULL;
    if (status == PPTO_OK) status = pp_eval_items(ev, items.n, &own);
    if (status == PPTO_OK) memcpy(own, items.at, items.n * sizeof *own);
    *out = (pp_value){.kind = PP_V_TUPLE, .n = (uint32_t)items.n, .u.items = own};
    pp_vec_free(&items);
    return status;
}

static ppto_status assign(pp_eval *ev, const pp_stmt *stmt)
{
    pp_value value = {0};
    uint32_t n = 0, i = 0;
    PP_TRY(pp_eval_expr(ev, stmt->value, &value));
    for (const pp_name *name = stmt->names; name != NULL; name = name->next) n++;
    if (n == 1) {
        PP_TRY(pp_eval_single(ev, &value));
        return pp_eval_set(ev, stmt->names->text, &value);
    }
    if (!pp_value_is_list(&value) || value.n != n)
        return pp_eval_fail(ev, PPTO_E_VALUE, "%u names for %u results", n,
                            pp_value_is_list(&value) ? value.n : 1);
    for (const pp_name *name = stmt->names; name != NULL; name = name->next)
        PP_TRY(pp_eval_set(ev, name->text, &value.u.items[i++]));
    return PPTO_OK;
}

void pp_eval_message(pp_eval *ev, const char *message, pp_text *out, bool *tensors)
{
    bool any = false;
    for (const char *p = message; *p != '\0'; p++) {
        const char *end = *p == '{' ? strchr(p, '}') : NULL;
        char name[64];
        size_t n = end != NULL ? (size_t)(end - p - 1) : 0;
        const pp_value *value = NULL;
        if (end != NULL && n < sizeof name) {
            memcpy(name, p + 1, n);
            name[n] = '\0';
            value = pp_eval_variable(ev, name);
        }
        if (value == NULL) {
            pp_text_add(out, "%c", *p);
            continue;
        }
        pp_eval_print(ev, value, out);
        any = any || pp_value_is_tensor(value);
        p = end;
    }
    if (tensors != NULL) *tensors = any;
}

/* A message of the shipped library begins with the name of an operator or with what is wrong. What follows
 * that name, separator first: the user may have called it by an alias or through another shipped operator. */
static const char *behind_name(const pp_eval *ev, const char *text)
{
    char name[64];
    size_t n = strcspn(text, " :");
    if (ev->definition == NULL || !ev->definition->builtin || n >= sizeof name) return NULL;
    memcpy(name, text, n);
    name[n] = '\0';
    if (pp_library_owner(ev->library, ev->called_as) != PP_NAME_SHIPPED) return NULL;
    return text[n] != '\0' && pp_library_owner(ev->library, name) != PP_NAME_FREE ? text + n : NULL;
}

/* Whether a condition asks for dtypes. */
static bool asks_dtype(const pp_expr *e)
{
    static const char *const words[] = {"dtype", "width", "is_float", "is_int", "is_signed", "is_bool"};
    if (e == NULL) return false;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if ((e->kind == PP_E_CALL || e->kind == PP_E_ATTR) && strcmp(e->name, words[i]) == 0) return true;
    return asks_dtype(e->a) || asks_dtype(e->b) || asks_dtype(e->c);
}

static ppto_status require(pp_eval *ev, const pp_stmt *stmt)
{
    pp_value value = {0};
    pp_truth truth;
    char place[256] = "";
    PP_TRY(eval_single(ev, stmt->value, &value));
    PP_TRY(pp_eval_truth(ev, &value, &truth));
    if (truth == PP_TRUE) return PPTO_OK;
    if (truth == PP_FALSE && ev->err == NULL) return PPTO_E_VALUE;
    pp_text what = {0}, text = {0};
    bool tensors;
    pp_eval_message(ev, stmt->message, &what, &tensors);
    ppto_status code = asks_dtype(stmt->value) ? PPTO_E_DTYPE : tensors ? PPTO_E_SHAPE : PPTO_E_VALUE, status;
    const char *said = what.at != NULL ? what.at : stmt->message;
    const char *rest = ev->called_as != NULL ? behind_name(ev, said) : NULL;
    if (truth == PP_FALSE) {
        status = rest != NULL ? pp_fail(ev->err, code, "%s%s", ev->called_as, rest)
                              : pp_eval_fail(ev, code, "%s", said);
    } else {
        bool plain = rest == NULL && ev->called_as == NULL;
        if (ev->definition == NULL) pp_eval_place(ev, place, sizeof place);
        pp_text_add(&text, "%s%s%s%s", plain ? "" : ev->called_as, plain || rest != NULL ? "" : ": ",
                    rest != NULL ? rest : said, place);
        status = text.at == NULL ? pp_eval_nomem(ev) : pp_eval_hold(ev, value.u.margin, code, text.at);
    }
    pp_text_free(&what);
    pp_text_free(&text);
    return status;
}

ppto_status pp_eval_block(pp_eval *ev, const pp_stmt *stmt, bool *valued, pp_value *out)
{
    *valued = false;
    for (; stmt != NULL && !*valued; stmt = stmt->next) {
        bool yes;
        pp_value value = {0};
        switch (stmt->kind) {
        case PP_S_ASSIGN: PP_TRY(assign(ev, stmt)); break;
        case PP_S_REQUIRE: PP_TRY(require(ev, stmt)); break;
        case PP_S_IF:
            PP_TRY(eval_single(ev, stmt->value, &value));
            PP_TRY(pp_eval_choose(ev, &value, &yes));
            PP_TRY(pp_eval_block(ev, yes ? stmt->then : stmt->otherwise, valued, out));
            break;
        case PP_S_VALUE:
            PP_TRY(eval_values(ev, stmt->value, out));
            *valued = true;
            break;
        default: return pp_eval_fail(ev, PPTO_E_SYNTAX, "`output` stands in programs only");
        }
    }
    return PPTO_OK;
}
