/* SPDX-License-Identifier: Apache-2.0
 * For tests: scalar functions built by hand, evaluated one instruction at a time, and C text compiled and
 * loaded. */
#ifndef PP_KERNEL_BUILD_H
#define PP_KERNEL_BUILD_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernel/program.h"

/* ---- functions ----------------------------------------------------------------------------------------- */

typedef struct builder {
    pp_function f;
    pp_instr code[256];
    uint64_t consts[256];
    uint32_t operands[64];
    pp_table tables[16];
    const pp_function *callees[8];
} builder;

static inline void build_start(builder *b, const char *name)
{
    memset(b, 0, sizeof *b);
    b->f.name = name;
    b->f.code = b->code, b->f.consts = b->consts, b->f.operands = b->operands;
    b->f.tables = b->tables, b->f.callees = b->callees;
}

static inline uint32_t build_op(builder *b, pp_op op, ppto_dtype dtype, uint32_t x, uint32_t y, uint32_t z)
{
    b->code[b->f.n_code] = (pp_instr){.op = (uint8_t)op, .dtype = (uint8_t)dtype, .a = x, .b = y, .c = z};
    return b->f.n_code++;
}

static inline uint32_t build_param(builder *b, ppto_dtype dtype)
{
    const uint32_t at = build_op(b, PP_PARAM, dtype, 0, 0, 0);
    b->code[at].imm = b->f.n_params;
    b->f.param[b->f.n_params++] = (uint8_t)dtype;
    return at;
}

static inline uint32_t build_bits(builder *b, ppto_dtype dtype, uint64_t bits)
{
    const uint32_t at = build_op(b, PP_CONST, dtype, 0, 0, 0);
    b->code[at].imm = b->f.n_consts;
    b->consts[b->f.n_consts++] = bits;
    return at;
}

static inline uint64_t bits_of_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline uint32_t build_f32(builder *b, float value)
{
    return build_bits(b, PPTO_F32, bits_of_f32(value));
}

static inline uint32_t build_call(builder *b, const pp_function *callee, const uint32_t *operand)
{
    const uint32_t at = build_op(b, PP_CALL, (ppto_dtype)callee->code[callee->result[0]].dtype,
                                 b->f.n_operands, callee->n_params, 0);
    for (unsigned i = 0; i < callee->n_params; i++) b->operands[b->f.n_operands++] = operand[i];
    b->code[at].imm = b->f.n_callees;
    b->callees[b->f.n_callees++] = callee;
    return at;
}

static inline uint32_t build_cold(builder *b, const pp_function *callee, uint32_t mask, uint32_t hot,
                                  const uint32_t *operand)
{
    const uint32_t at = build_call(b, callee, operand);
    b->code[at] = (pp_instr){.op = PP_COLD,
                             .dtype = b->code[at].dtype,
                             .a = mask,
                             .b = hot,
                             .c = b->code[at].a,
                             .imm = b->code[at].imm};
    return at;
}

static inline uint32_t build_table(builder *b, ppto_dtype dtype, const uint64_t *bits, uint32_t length,
                                   uint32_t index)
{
    const uint32_t at = build_op(b, PP_TABLE, dtype, index, 0, 0);
    b->code[at].imm = b->f.n_tables;
    b->tables[b->f.n_tables++] = (pp_table){(uint8_t)dtype, length, bits};
    return at;
}

static inline void build_result(builder *b, uint32_t at)
{
    b->f.result[b->f.n_results++] = at;
    b->f.hash = pp_function_hash(&b->f);
}

/* One binary row as a function of two parameters. */
static inline void build_binary(builder *b, const char *name, pp_op op, ppto_dtype dtype)
{
    build_start(b, name);
    const uint32_t x = build_param(b, dtype), y = build_param(b, dtype);
    build_result(b, build_op(b, op, dtype, x, y, 0));
}

static inline void build_identity(builder *b, const char *name, ppto_dtype dtype)
{
    build_start(b, name);
    build_result(b, build_param(b, dtype));
}

/* ---- evaluation ---------------------------------------------------------------------------------------- */

static inline void evaluate(const pp_function *f, const uint64_t *param, uint64_t *result)
{
    uint64_t *value = calloc(f->n_code + 1u, sizeof *value);
    for (uint32_t i = 0; i < f->n_code; i++) {
        const pp_instr *in = &f->code[i];
        const uint32_t first = in->op == PP_COLD ? in->c : in->a;
        uint64_t args[12], out[4];
        switch (in->op) {
        case PP_CONST: value[i] = f->consts[in->imm]; break;
        case PP_PARAM: value[i] = param[in->imm]; break;
        case PP_TABLE:
            value[i] = f->tables[in->imm].bits[value[in->a] & (f->tables[in->imm].length - 1)];
            break;
        case PP_CALL:
        case PP_COLD:
            for (unsigned k = 0; k < f->callees[in->imm]->n_params; k++)
                args[k] = value[f->operands[first + k]];
            evaluate(f->callees[in->imm], args, out);
            value[i] = in->op == PP_CALL || value[in->a] ? out[0] : value[in->b];
            break;
        default: {
            const unsigned arity = pp_scalar_find((pp_op)in->op)->arity;
            const ppto_dtype from = pp_instr_operand_dtype(f->code, in, in->op == PP_SELECT ? 1 : 0);
            value[i] = pp_scalar_eval((pp_op)in->op, from, (ppto_dtype)in->dtype, value[in->a],
                                      arity > 1 ? value[in->b] : 0, arity > 2 ? value[in->c] : 0);
        }
        }
    }
    for (unsigned r = 0; r < f->n_results; r++) result[r] = value[f->result[r]];
    free(value);
}

/* ---- compiling ----------------------------------------------------------------------------------------- */

/* Compiles the text with the system's compiler and loads it. NULL when there is no compiler or it refuses. */
static inline void *compile_text(const char *text, const char *flags)
{
    char folder[] = P_tmpdir "/ppto-test-XXXXXX", path[128], command[2048];
    if (mkdtemp(folder) == NULL) return NULL;
    snprintf(path, sizeof path, "%s/text.c", folder);
    FILE *file = fopen(path, "w");
    if (file == NULL) return NULL;
    fputs(text, file);
    fclose(file);
    snprintf(command, sizeof command, "cc %s -shared -fPIC -o %s/text.so %s -lm", flags, folder, path);
    void *loaded = NULL;
    if (system(command) == 0) {
        snprintf(path, sizeof path, "%s/text.so", folder);
        loaded = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    snprintf(command, sizeof command, "rm -r %s", folder);
    if (system(command) != 0) fprintf(stderr, "left behind: %s\n", folder);
    return loaded;
}

static inline bool has_compiler(void)
{
    return system("cc --version >/dev/null 2>&1") == 0;
}

#endif
