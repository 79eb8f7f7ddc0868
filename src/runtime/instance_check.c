/* SPDX-License-Identifier: Apache-2.0
 * What recording could not decide because a size was only a name: once the sizes are known and before
 * anything is laid out or run, the conditions of the graph must hold, every view must lie inside its operand
 * and no size may be negative. Without this a kernel would read beyond a buffer. A message says what the one
 * at the call would, then the values of the sizes and where it was recorded. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "runtime/runtime.h"

typedef struct shape {
    int64_t dim[PPTO_MAX_RANK];
} shape;

/* "; N = 3, M = 0" of the names the size depends on. */
static void add_values(const pp_plan *plan, const int64_t *names, pp_size size, const char **comma,
                       pp_text *out)
{
    const pp_sizes *sizes = pp_types_sizes(plan->types);
    for (size_t i = 0; i < pp_sizes_names(sizes); i++) {
        if (!pp_size_uses(sizes, size, i)) continue;
        pp_text_add(out, "%s%s = %lld", *comma, pp_sizes_name_at(sizes, i), (long long)names[i]);
        *comma = ", ";
    }
}

/* Does the text hold the name as a word? */
static bool names_it(const char *text, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = text; (at = strstr(at, name)) != NULL; at++) {
        bool begins = at == text || (!isalnum((unsigned char)at[-1]) && at[-1] != '_');
        if (begins && !isalnum((unsigned char)at[n]) && at[n] != '_') return true;
    }
    return false;
}

void pp_instance_add_values(const pp_plan *plan, const int64_t *names, const char *text, pp_text *out)
{
    const pp_sizes *sizes = pp_types_sizes(plan->types);
    const char *comma = "; ";
    for (size_t i = 0; i < pp_sizes_names(sizes); i++) {
        if (!names_it(text, pp_sizes_name_at(sizes, i))) continue;
        pp_text_add(out, "%s%s = %lld", comma, pp_sizes_name_at(sizes, i), (long long)names[i]);
        comma = ", ";
    }
}

static void add_place(const pp_origin *origin, pp_text *out)
{
    char place[PP_SITE_ROOM];
    if (origin != NULL && origin->site.file != NULL)
        pp_text_add(out, "\n  recorded at %s", pp_site_text(&origin->site, place, sizeof place));
}

/* The error of a prim: what is wrong with its operand's axis. */
static ppto_status refuse(const ppto_program *p, const int64_t *names, uint32_t id, ppto_status code,
                          pp_size size, const char *what, pp_error *err)
{
    const pp_plan *plan = p->plan;
    const pp_origin *origin = pp_program_origin(p, id);
    const char *comma = "; ";
    pp_text text = {0};
    pp_text_add(&text, "%s: %s", origin->operator_name, what);
    add_values(plan, names, size, &comma, &text);
    add_place(origin, &text);
    ppto_status status = pp_fail(err, code, "%s", text.at != NULL ? text.at : what);
    pp_text_free(&text);
    return status;
}

static ppto_status check_condition(const ppto_program *p, const int64_t *names, const pp_condition *c,
                                   pp_error *err)
{
    const pp_plan *plan = p->plan;
    int64_t margin;
    const char *comma = "; ";
    ppto_status status = pp_size_eval(pp_types_sizes(plan->types), c->margin, names, &margin);
    if (status == PPTO_E_NOMEM || (status == PPTO_OK && margin >= 0)) return status;
    pp_text text = {0};
    pp_text_add(&text, "%s", c->message);
    add_values(plan, names, c->margin, &comma, &text);
    add_place(c->origin < p->n_origins ? &p->origins[c->origin] : NULL, &text);
    status = pp_fail(err, c->code, "%s", text.at != NULL ? text.at : c->message);
    pp_text_free(&text);
    return status;
}

static ppto_status shape_of(const ppto_program *p, const int64_t *names, uint32_t prim, shape *out,
                            pp_error *err)
{
    const pp_plan *plan = p->plan;
    const pp_type *type = pp_flat_type(&plan->flat, prim);
    for (uint32_t i = 0; i < type->rank; i++) {
        ppto_status status = pp_size_eval(pp_types_sizes(plan->types), type->dim[i], names, &out->dim[i]);
        char what[80] = "a size overflows 64 bits";
        if (status == PPTO_OK && out->dim[i] < 0) {
            snprintf(what, sizeof what, "axis %u would have the size %lld", i, (long long)out->dim[i]);
            status = PPTO_E_SHAPE;
        } else if (status == PPTO_E_VALUE) {
            snprintf(what, sizeof what, "the size of axis %u is a division by zero", i);
        }
        if (status == PPTO_E_NOMEM) return status;
        if (status != PPTO_OK) return refuse(p, names, prim, status, type->dim[i], what, err);
    }
    return PPTO_OK;
}

static ppto_status outside(const ppto_program *p, const int64_t *names, uint32_t prim, int64_t at,
                           const shape *x, pp_error *err)
{
    const pp_plan *plan = p->plan;
    uint32_t axis = plan->flat.prims.at[prim].axis;
    const pp_type *type = pp_flat_type(&plan->flat, pp_flat_operands(&plan->flat, prim)[0]);
    char what[120];
    snprintf(what, sizeof what, "%lld is out of range for axis %u of size %lld", (long long)at, axis,
             (long long)x->dim[axis]);
    return refuse(p, names, prim, PPTO_E_VALUE, type->dim[axis], what, err);
}

static ppto_status check_slice(const ppto_program *program, const int64_t *names, uint32_t id, const shape *x,
                               const shape *y, pp_error *err)
{
    const pp_plan *plan = program->plan;
    const pp_prim *p = &plan->flat.prims.at[id];
    int64_t start, last;
    PP_TRY(pp_size_eval(pp_types_sizes(plan->types), p->u.slice.start, names, &start));
    if (!pp_mul_i64(y->dim[p->axis] - 1, p->u.slice.step, &last) || !pp_add_i64(start, last, &last))
        return pp_fail(err, PPTO_E_SIZE, "a size overflows 64 bits");
    if (start < 0 || start >= x->dim[p->axis]) return outside(program, names, id, start, x, err);
    return last < 0 || last >= x->dim[p->axis] ? outside(program, names, id, last, x, err) : PPTO_OK;
}

static ppto_status check_pad(const ppto_program *program, const int64_t *names, uint32_t id, const shape *x,
                             const shape *y, pp_error *err)
{
    const pp_plan *plan = program->plan;
    const pp_prim *p = &plan->flat.prims.at[id];
    int64_t before;
    PP_TRY(pp_size_eval(pp_types_sizes(plan->types), p->u.before, names, &before));
    if (before >= 0 && before <= y->dim[p->axis] - x->dim[p->axis]) return PPTO_OK;
    return refuse(program, names, id, PPTO_E_VALUE, p->u.before, "a width is negative", err);
}

ppto_status pp_instance_check(const ppto_program *program, const int64_t *names, pp_error *err)
{
    const pp_plan *plan = program->plan;
    for (size_t i = 0; i < plan->flat.conditions.n; i++)
        PP_TRY(check_condition(program, names, &plan->flat.conditions.at[i], err));
    for (uint32_t id = 0; id < plan->flat.prims.n; id++) {
        const pp_prim *p = &plan->flat.prims.at[id];
        shape x = {{0}}, y;
        PP_TRY(shape_of(program, names, id, &y, err));
        if (p->n_operands == 0) continue;
        PP_TRY(shape_of(program, names, pp_flat_operands(&plan->flat, id)[0], &x, err));
        if (p->kind == PP_P_SLICE && y.dim[p->axis] != 0)
            PP_TRY(check_slice(program, names, id, &x, &y, err));
        if (p->kind == PP_P_PAD) PP_TRY(check_pad(program, names, id, &x, &y, err));
    }
    return PPTO_OK;
}
