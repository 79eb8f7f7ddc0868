/* SPDX-License-Identifier: Apache-2.0
 * Scalar functions over arrays. A function of the library has a generated loop and is called as it is; any
 * other one is compiled here to steps, one block loop each, over registers of PP_FUNCTION_CHUNK elements.
 *
 * A value is a parameter (read where the caller has it), one constant element, or a register. Loops of two
 * and three operands take single elements as they are; where a loop needs a vector the constant is spread
 * into a register of its own once per task (`fills`). Registers are handed out by last use, one free list per
 * element size. Results are copied out when a chunk is done, so that an out array may be an in array. */
#include <string.h>

#include "base/checked.h"
#include "devices/cpu/interp.h"
#include "kernel/walk.h"

enum { MAX_PARAMS = 12, MAX_RESULTS = 4, MAX_DEPTH = 64, SIZE_CLASSES = 4 };

typedef enum ref_mode { REF_PARAM, REF_ONE, REF_REGISTER } ref_mode;
typedef struct ref {
    uint8_t mode;
    uint8_t size;
    uint32_t index;  /* parameter, or offset in the function's area */
    const void *one; /* the constant element */
} ref;

typedef enum fstep_kind { STEP_ROW, STEP_COPY, STEP_TABLE, STEP_CALL, STEP_COLD } fstep_kind;
typedef struct fstep {
    uint8_t kind, size; /* of a result element */
    uint32_t out;       /* offset of the register */
    uint32_t aside;     /* COLD: register of the cold values */
    ref a, b, c;
    uint32_t n_list;
    ref *list;
    pp_block_fn fn;
    const void *table;
    uint32_t length;
    const pp_fcode *callee;
} fstep;

typedef struct fill {
    uint32_t offset;
    uint8_t size;
    const void *one;
} fill;

struct pp_fcode {
    const pp_function *function;
    pp_function_loop loop; /* then nothing below is used */
    PP_VEC(fstep) steps;
    PP_VEC(fill) fills;
    ref result[MAX_RESULTS];
    size_t area, bytes; /* of the registers, in the list's area */
    pp_arena arena;
};

/* ---- compiling ------------------------------------------------------------------------------- */

typedef struct builder {
    pp_fcode *code;
    const pp_function *f;
    pp_pools pools;
    const pp_block_set *set;
    pp_fcode_list *list;
    ref *value;         /* per instruction */
    uint32_t *last_use; /* per instruction */
    PP_VEC(uint32_t) spare[SIZE_CLASSES];
    unsigned depth;
} builder;

static unsigned size_class(size_t size)
{
    return size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3;
}

static ppto_status get(pp_fcode_list *list, const pp_block_set *set, const pp_function *function,
                       pp_fcode **out, unsigned depth, pp_error *err);

static ppto_status take_register(builder *b, size_t size, uint32_t *offset)
{
    unsigned k = size_class(size);
    if (b->spare[k].n > 0) {
        *offset = b->spare[k].at[--b->spare[k].n];
        return PPTO_OK;
    }
    *offset = (uint32_t)b->code->bytes;
    b->code->bytes += size * PP_FUNCTION_CHUNK;
    return b->code->bytes < UINT32_MAX / 2 ? PPTO_OK : PPTO_E_UNSUPPORTED;
}

static ppto_status release(builder *b, uint32_t value, uint32_t at)
{
    const ref *r = &b->value[value];
    if (r->mode != REF_REGISTER || b->last_use[value] != at) return PPTO_OK;
    b->last_use[value] = PP_NONE; /* once, also when it is an operand twice */
    return pp_vec_push(&b->spare[size_class(r->size)], r->index);
}

/* A constant as a vector. */
static ppto_status as_vector(builder *b, uint32_t value, ref *out)
{
    *out = b->value[value];
    if (out->mode != REF_ONE) return PPTO_OK;
    pp_fcode *code = b->code;
    for (size_t i = 0; i < code->fills.n; i++)
        if (code->fills.at[i].one == out->one) {
            *out = (ref){REF_REGISTER, out->size, code->fills.at[i].offset, NULL};
            return PPTO_OK;
        }
    const fill spread = {(uint32_t)code->bytes, out->size, out->one};
    code->bytes += (size_t)out->size * PP_FUNCTION_CHUNK;
    PP_TRY(pp_vec_push(&code->fills, spread));
    *out = (ref){REF_REGISTER, out->size, spread.offset, NULL};
    return PPTO_OK;
}

static pp_block_fn row_loop(const builder *b, const pp_instr *instr, unsigned shape)
{
    const pp_instr *code = b->f->code;
    unsigned from = code[instr->a].dtype;
    if (instr->op == PP_CAST) return b->set->cast[from][instr->dtype];
    if (instr->op == PP_BITCAST) return b->set->bitcast[from][instr->dtype];
    if (instr->op == PP_SELECT) from = code[instr->b].dtype;
    return b->set->scalar[instr->op][from][shape];
}

static ppto_status build_row(builder *b, const pp_instr *instr, fstep *step)
{
    const unsigned n = pp_instr_direct((pp_op)instr->op);
    unsigned shape = PP_VV;
    step->kind = STEP_ROW;
    step->a = b->value[instr->a];
    if (n > 1) step->b = b->value[instr->b];
    if (n > 2) step->c = b->value[instr->c];
    if (n == 2 && step->b.mode == REF_ONE)
        shape = PP_VS;
    else if (n == 2 && step->a.mode == REF_ONE)
        shape = PP_SV;
    else if (n == 3 && step->c.mode == REF_ONE)
        shape = PP_VS;
    else if (n == 3 && step->b.mode == REF_ONE)
        shape = PP_SV;
    if (shape != PP_SV || n == 3) PP_TRY(as_vector(b, instr->a, &step->a));
    if (n == 3 && shape != PP_SV) PP_TRY(as_vector(b, instr->b, &step->b));
    step->fn = row_loop(b, instr, shape);
    return step->fn != NULL ? PPTO_OK : PPTO_E_UNSUPPORTED;
}

static ppto_status build_list(builder *b, uint32_t first, uint32_t n, fstep *step)
{
    step->n_list = n;
    step->list = pp_arena_alloc(&b->code->arena, n * sizeof *step->list);
    if (step->list == NULL) return PPTO_E_NOMEM;
    for (uint32_t i = 0; i < n; i++) PP_TRY(as_vector(b, b->f->operands[first + i], &step->list[i]));
    return PPTO_OK;
}

static ppto_status build_table(builder *b, const pp_instr *instr, fstep *step)
{
    const pp_table *table = &b->f->tables[instr->imm];
    char *packed = pp_arena_alloc(&b->code->arena, (size_t)table->length * step->size);
    if (packed == NULL) return PPTO_E_NOMEM;
    for (uint32_t i = 0; i < table->length; i++)
        memcpy(packed + (size_t)i * step->size, &table->bits[i], step->size);
    step->kind = STEP_TABLE;
    step->table = packed;
    step->length = table->length;
    step->fn = b->set->cast[b->f->code[instr->a].dtype][PPTO_U32];
    PP_TRY(as_vector(b, instr->a, &step->a));
    PP_TRY(take_register(b, sizeof(uint32_t), &step->aside));
    return pp_vec_push(&b->spare[size_class(sizeof(uint32_t))], step->aside);
}

static ppto_status build_call(builder *b, const pp_instr *instr, fstep *step, pp_error *err)
{
    const bool cold = instr->op == PP_COLD;
    const pp_function *callee = b->f->callees[instr->imm];
    pp_fcode *code;
    PP_TRY(get(b->list, b->set, callee, &code, b->depth + 1, err));
    step->callee = code;
    step->kind = cold ? STEP_COLD : STEP_CALL;
    if (!cold) return build_list(b, instr->a, instr->b, step);
    PP_TRY(as_vector(b, instr->a, &step->a));
    PP_TRY(as_vector(b, instr->b, &step->b));
    step->fn = b->set->scalar[PP_SELECT][instr->dtype][PP_VV];
    PP_TRY(build_list(b, instr->c, callee->n_params, step));
    PP_TRY(take_register(b, step->size, &step->aside));
    return pp_vec_push(&b->spare[size_class(step->size)], step->aside);
}

static ppto_status build_instr(builder *b, uint32_t at, pp_error *err)
{
    const pp_instr *instr = &b->f->code[at];
    const uint8_t size = (uint8_t)ppto_dtype_size((ppto_dtype)instr->dtype);
    const ref none = {.mode = REF_ONE};
    fstep step = {.size = size, .a = none, .b = none, .c = none};
    uint32_t operand[PP_MAX_OPERANDS];
    switch (instr->op) {
    case PP_PARAM: b->value[at] = (ref){REF_PARAM, size, instr->imm, NULL}; return PPTO_OK;
    case PP_CONST: {
        uint64_t *cell = pp_arena_alloc(&b->code->arena, sizeof *cell);
        if (cell == NULL) return PPTO_E_NOMEM;
        *cell = b->f->consts[instr->imm];
        b->value[at] = (ref){REF_ONE, size, 0, cell};
        return PPTO_OK;
    }
    case PP_TABLE: PP_TRY(build_table(b, instr, &step)); break;
    case PP_CALL:
    case PP_COLD: PP_TRY(build_call(b, instr, &step, err)); break;
    default:
        if (instr->op >= PP_SCALAR_COUNT)
            return pp_fail(err, PPTO_E_INTERNAL, "function %s: instruction %u has no place there",
                           b->f->name != NULL ? b->f->name : "?", at);
        PP_TRY(build_row(b, instr, &step));
    }
    /* A row may write over an operand of its own element size; calls may not. */
    const bool row = step.kind == STEP_ROW;
    const unsigned n = pp_instr_operands(&b->pools, instr, operand);
    if (!row) PP_TRY(take_register(b, size, &step.out));
    for (unsigned i = 0; i < n; i++) PP_TRY(release(b, operand[i], at));
    if (row) PP_TRY(take_register(b, size, &step.out));
    b->value[at] = (ref){REF_REGISTER, size, step.out, NULL};
    if (b->last_use[at] == at) PP_TRY(release(b, at, at));
    return pp_vec_push(&b->code->steps, step);
}

static ppto_status build_results(builder *b)
{
    for (unsigned r = 0; r < b->f->n_results; r++) {
        const ref *value = &b->value[b->f->result[r]];
        if (value->mode != REF_PARAM) {
            PP_TRY(as_vector(b, b->f->result[r], &b->code->result[r]));
            continue;
        }
        const ref none = {.mode = REF_ONE};
        fstep copy = {.kind = STEP_COPY, .size = value->size, .a = *value, .b = none, .c = none};
        PP_TRY(take_register(b, value->size, &copy.out));
        b->code->result[r] = (ref){REF_REGISTER, value->size, copy.out, NULL};
        PP_TRY(pp_vec_push(&b->code->steps, copy));
    }
    return PPTO_OK;
}

static void find_last_uses(builder *b)
{
    const pp_function *f = b->f;
    uint32_t operand[PP_MAX_OPERANDS];
    for (uint32_t i = 0; i < f->n_code; i++) {
        b->last_use[i] = i;
        unsigned n = pp_instr_operands(&b->pools, &f->code[i], operand);
        for (unsigned k = 0; k < n; k++) b->last_use[operand[k]] = i;
    }
    for (unsigned r = 0; r < f->n_results; r++) b->last_use[f->result[r]] = PP_NONE - 1; /* never */
}

static ppto_status build(builder *b, pp_error *err)
{
    const size_t n = b->f->n_code + 1u;
    b->value = pp_calloc(n, sizeof *b->value);
    b->last_use = pp_calloc(n, sizeof *b->last_use);
    ppto_status status = b->value != NULL && b->last_use != NULL ? PPTO_OK : PPTO_E_NOMEM;
    if (status == PPTO_OK) find_last_uses(b);
    for (uint32_t i = 0; status == PPTO_OK && i < b->f->n_code; i++) status = build_instr(b, i, err);
    if (status == PPTO_OK) status = build_results(b);
    pp_free(b->value);
    pp_free(b->last_use);
    for (unsigned k = 0; k < SIZE_CLASSES; k++) pp_vec_free(&b->spare[k]);
    return status;
}

static void code_destroy(pp_fcode *code)
{
    if (code == NULL) return;
    pp_vec_free(&code->steps);
    pp_vec_free(&code->fills);
    pp_arena_free(&code->arena);
    pp_free(code);
}

static ppto_status get(pp_fcode_list *list, const pp_block_set *set, const pp_function *function,
                       pp_fcode **out, unsigned depth, pp_error *err)
{
    *out = NULL;
    if (function == NULL) return PPTO_OK;
    for (size_t i = 0; i < list->codes.n; i++)
        if (list->codes.at[i]->function->hash == function->hash) {
            *out = list->codes.at[i];
            return PPTO_OK;
        }
    if (depth > MAX_DEPTH) return pp_fail(err, PPTO_E_UNSUPPORTED, "functions call each other too deeply");
    pp_fcode *code = pp_calloc(1, sizeof *code);
    if (code == NULL) return pp_fail(err, PPTO_E_NOMEM, "out of memory");
    code->function = function;
    code->loop = pp_blocks_function(set, function->hash);
    ppto_status status = PPTO_OK;
    if (code->loop == NULL) {
        builder b = {.code = code,
                     .f = function,
                     .pools = pp_function_pools(function),
                     .set = set,
                     .list = list,
                     .depth = depth};
        status = build(&b, err);
    }
    size_t bytes;
    if (status == PPTO_OK && !pp_align_size(code->bytes, 64, &bytes)) status = PPTO_E_NOMEM;
    if (status == PPTO_OK) {
        code->area = list->bytes;
        list->bytes += bytes;
        status = pp_vec_push(&list->codes, code);
    }
    if (status != PPTO_OK) {
        code_destroy(code);
        return pp_fail(err, status, "function %s cannot be compiled",
                       function->name != NULL ? function->name : "?");
    }
    *out = code;
    return PPTO_OK;
}

ppto_status pp_fcode_get(pp_fcode_list *list, const pp_block_set *set, const pp_function *function,
                         pp_fcode **out, pp_error *err)
{
    return get(list, set, function, out, 0, err);
}

void pp_fcode_list_free(pp_fcode_list *list)
{
    for (size_t i = 0; i < list->codes.n; i++) code_destroy(list->codes.at[i]);
    pp_vec_free(&list->codes);
}

/* ---- questions ------------------------------------------------------------------------------- */

const pp_function *pp_fcode_function(const pp_fcode *code)
{
    return code->function;
}

static bool is_param(const pp_function *f, uint32_t value, uint32_t number)
{
    return f->code[value].op == PP_PARAM && f->code[value].imm == number;
}

pp_op pp_fcode_as_row(const pp_fcode *code)
{
    const pp_function *f = code->function;
    if (f->n_results != 1 || f->n_params != 2) return PP_OP_COUNT;
    const pp_instr *instr = &f->code[f->result[0]];
    if (instr->op >= PP_SCALAR_COUNT || pp_instr_direct((pp_op)instr->op) != 2) return PP_OP_COUNT;
    return is_param(f, instr->a, 0) && is_param(f, instr->b, 1) ? (pp_op)instr->op : PP_OP_COUNT;
}

bool pp_fcode_is_identity(const pp_fcode *code)
{
    const pp_function *f = code->function;
    return f->n_results == 1 && is_param(f, f->result[0], 0);
}

/* ---- running --------------------------------------------------------------------------------- */

void pp_fcode_list_start(const pp_fcode_list *list, const pp_block_set *set, char *area)
{
    for (size_t i = 0; i < list->codes.n; i++) {
        const pp_fcode *code = list->codes.at[i];
        for (size_t k = 0; k < code->fills.n; k++) {
            const fill *f = &code->fills.at[k];
            set->fill(PP_FUNCTION_CHUNK, area + code->area + f->offset, f->one, f->size);
        }
    }
}

typedef struct frame {
    char *area;
    const void *const *in;
    size_t at; /* first element of the chunk */
} frame;

static const void *operand(const frame *f, const ref *r)
{
    if (r->mode == REF_PARAM) return (const char *)f->in[r->index] + f->at * r->size;
    if (r->mode == REF_ONE) return r->one;
    return f->area + r->index;
}

static void run_call(const fstep *step, const pp_block_set *set, char *list_area, const frame *f, size_t n,
                     void *out)
{
    const void *in[MAX_PARAMS];
    void *const outs[1] = {out};
    for (uint32_t i = 0; i < step->n_list; i++) in[i] = operand(f, &step->list[i]);
    pp_fcode_run(step->callee, set, list_area, n, outs, in);
}

static void run_step(const fstep *step, const pp_block_set *set, char *list_area, const frame *f, size_t n)
{
    char *out = f->area + step->out, *aside = f->area + step->aside;
    const void *a = operand(f, &step->a);
    switch ((fstep_kind)step->kind) {
    case STEP_ROW: step->fn(n, out, a, operand(f, &step->b), operand(f, &step->c)); break;
    case STEP_COPY: memcpy(out, a, n * step->size); break;
    case STEP_TABLE:
        step->fn(n, aside, a, NULL, NULL);
        if (step->size >= 4)
            set->table(n, out, step->table, step->length, (const uint32_t *)(const void *)aside, step->size);
        else
            for (size_t i = 0; i < n; i++) {
                uint32_t index;
                memcpy(&index, aside + i * sizeof index, sizeof index);
                memcpy(out + i * step->size,
                       (const char *)step->table + (index & (step->length - 1)) * step->size, step->size);
            }
        break;
    case STEP_CALL: run_call(step, set, list_area, f, n, out); break;
    case STEP_COLD: {
        const void *hot = operand(f, &step->b);
        if (!set->any(n, a)) {
            memcpy(out, hot, n * step->size);
            break;
        }
        run_call(step, set, list_area, f, n, aside);
        step->fn(n, out, a, aside, hot);
        break;
    }
    }
}

void pp_fcode_run(const pp_fcode *code, const pp_block_set *set, char *area, size_t n, void *const *out,
                  const void *const *in)
{
    if (code->loop != NULL) {
        code->loop(n, out, in);
        return;
    }
    frame f = {area + code->area, in, 0};
    for (; f.at < n; f.at += PP_FUNCTION_CHUNK) {
        size_t m = n - f.at < PP_FUNCTION_CHUNK ? n - f.at : PP_FUNCTION_CHUNK;
        for (size_t i = 0; i < code->steps.n; i++) run_step(&code->steps.at[i], set, area, &f, m);
        for (unsigned r = 0; r < code->function->n_results; r++) {
            const ref *result = &code->result[r];
            memcpy((char *)out[r] + f.at * result->size, operand(&f, result), m * result->size);
        }
    }
}
