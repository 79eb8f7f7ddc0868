/* SPDX-License-Identifier: Apache-2.0
 * For tests of executors: kernel programs built by hand, run on the block interpreter in many ways
 * (instruction sets, grains, workers, order of tasks) and on the reference device, and compared byte by byte.
 */
#ifndef PP_INTERP_BUILD_H
#define PP_INTERP_BUILD_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/device.h"
#include "kernel/program.h"

enum { MAX_T = 8, MAX_D = 6 };

typedef struct program_builder {
    pp_program p;
    pp_axis axes[12];
    pp_tensor_slot tensors[MAX_T];
    pp_term terms[512];
    pp_affine affines[256];
    pp_guard guards[32];
    pp_access accesses[64];
    pp_instr code[256];
    uint32_t operands[64];
    uint64_t consts[64];
    pp_table tables[4];
    const pp_function *callees[8];
    pp_fold folds[8];
    pp_buffer buffers[4];
    pp_check checks[4];
    pp_stage stages[8];
    int64_t slots[256];
    uint64_t args[8];
    pp_tensor_ref refs[MAX_T];
    int64_t shape[MAX_T][MAX_D], stride[MAX_T][MAX_D];
    void *owned[MAX_T]; /* whole allocations */
    size_t bytes[MAX_T];
} program_builder;

static inline void prog_start(program_builder *b, pp_frame frame)
{
    memset(b, 0, sizeof *b);
    b->p.frame = frame;
    b->slots[1] = 1, b->slots[2] = -1;
    b->p.n_slots = PP_SLOT_FIRST;
    b->p.axes = b->axes, b->p.tensors = b->tensors, b->p.terms = b->terms, b->p.affines = b->affines;
    b->p.guards = b->guards, b->p.accesses = b->accesses, b->p.code = b->code, b->p.operands = b->operands;
    b->p.consts = b->consts, b->p.tables = b->tables, b->p.callees = b->callees, b->p.folds = b->folds;
    b->p.buffers = b->buffers, b->p.checks = b->checks, b->p.stages = b->stages;
}

static inline void prog_free(program_builder *b)
{
    for (uint32_t i = 0; i < b->p.n_tensors; i++) free(b->owned[i]);
}

static inline pp_slot prog_slot(program_builder *b, int64_t value)
{
    b->slots[b->p.n_slots] = value;
    return (pp_slot)b->p.n_slots++;
}

static inline uint8_t prog_axis(program_builder *b, pp_axis_role role, int64_t n)
{
    b->axes[b->p.n_axes] = (pp_axis){.size = prog_slot(b, n), .role = (uint8_t)role};
    return (uint8_t)b->p.n_axes++;
}

/* order: the axis of the tensor that varies slowest first, e.g. "10" for a transposed matrix; NULL: dense,
 * row-major. A '-' before a digit reverses that axis. */
static inline uint32_t prog_tensor(program_builder *b, ppto_dtype dtype, bool output, const char *order,
                                   uint32_t rank, const int64_t *shape)
{
    const uint32_t t = b->p.n_tensors++;
    int64_t stride = (int64_t)ppto_dtype_size(dtype), start = 0;
    uint32_t axis[MAX_D];
    bool back[MAX_D] = {false};
    for (uint32_t i = 0; i < rank; i++) axis[i] = i;
    for (uint32_t i = 0; order != NULL && *order != '\0'; order++) {
        if (*order == '-')
            back[i] = true;
        else
            axis[i++] = (uint32_t)(*order - '0');
    }
    for (uint32_t i = rank; i-- > 0;) {
        b->stride[t][axis[i]] = back[i] ? -stride : stride;
        if (back[i] && shape[axis[i]] > 0) start += stride * (shape[axis[i]] - 1);
        stride *= shape[axis[i]];
    }
    for (uint32_t i = 0; i < rank; i++) b->shape[t][i] = shape[i];
    b->tensors[t] =
        (pp_tensor_slot){.dtype = (uint8_t)dtype, .rank = (uint8_t)rank, .output = output, .result = output};
    b->bytes[t] = (size_t)stride;
    b->owned[t] = calloc(1, b->bytes[t] + 64);
    b->refs[t] = (pp_tensor_ref){(char *)b->owned[t] + start, rank, b->shape[t], b->stride[t]};
    return t;
}

static inline uint32_t prog_affine(program_builder *b, int64_t base, uint32_t value)
{
    b->affines[b->p.n_affines] = (pp_affine){
        .base = base == 0 ? PP_SLOT_0 : prog_slot(b, base), .value = value, .first_term = b->p.n_terms};
    return b->p.n_affines++;
}

/* To the affine added last. */
static inline void prog_term(program_builder *b, uint8_t axis, int64_t coef)
{
    b->terms[b->p.n_terms++] = (pp_term){axis, coef == 1 ? PP_SLOT_1 : prog_slot(b, coef)};
    b->affines[b->p.n_affines - 1].n_terms++;
}

/* An access by a text: one character per dimension, an axis number or '.' for index 0. */
static inline uint32_t prog_access(program_builder *b, uint32_t tensor, const char *dims)
{
    pp_access *a = &b->accesses[b->p.n_accesses];
    *a = (pp_access){.tensor = tensor, .first_affine = b->p.n_affines, .first_guard = b->p.n_guards};
    for (; *dims != '\0'; dims++) {
        prog_affine(b, 0, PP_NONE);
        if (*dims != '.') prog_term(b, (uint8_t)(*dims - '0'), 1);
    }
    return b->p.n_accesses++;
}

static inline uint32_t prog_op(program_builder *b, pp_op op, ppto_dtype dtype, uint32_t x, uint32_t y,
                               uint32_t z, uint32_t imm)
{
    b->code[b->p.n_code] =
        (pp_instr){.op = (uint8_t)op, .dtype = (uint8_t)dtype, .a = x, .b = y, .c = z, .imm = imm};
    return b->p.n_code++;
}

static inline uint32_t prog_load(program_builder *b, uint32_t tensor, const char *dims)
{
    const uint32_t access = prog_access(b, tensor, dims);
    return prog_op(b, PP_LOAD, (ppto_dtype)b->tensors[tensor].dtype, 0, 0, 0, access);
}

static inline void prog_store(program_builder *b, uint32_t tensor, const char *dims, uint32_t value)
{
    const uint32_t access = prog_access(b, tensor, dims);
    prog_op(b, PP_STORE, (ppto_dtype)b->tensors[tensor].dtype, value, 0, 0, access);
}

static inline uint32_t prog_const(program_builder *b, ppto_dtype dtype, uint64_t bits)
{
    b->consts[b->p.n_consts] = bits;
    return prog_op(b, PP_CONST, dtype, 0, 0, 0, b->p.n_consts++);
}

static inline uint32_t prog_f32(program_builder *b, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return prog_const(b, PPTO_F32, bits);
}

static inline uint32_t prog_call(program_builder *b, const pp_function *f, uint32_t n,
                                 const uint32_t *operand)
{
    const uint32_t first = b->p.n_operands;
    for (uint32_t i = 0; i < n; i++) b->operands[b->p.n_operands++] = operand[i];
    b->callees[b->p.n_callees] = f;
    return prog_op(b, PP_CALL, (ppto_dtype)f->code[f->result[0]].dtype, first, n, 0, b->p.n_callees++);
}

static inline void prog_stage(program_builder *b, bool inner)
{
    b->stages[b->p.n_stages++] = (pp_stage){.first = b->p.n_code, .inner = inner, .first_fold = b->p.n_folds};
}

static inline uint32_t prog_fold(program_builder *b, pp_fold fold)
{
    b->folds[b->p.n_folds] = fold;
    b->stages[b->p.n_stages - 1].n_folds++;
    return b->p.n_folds++;
}

static inline void prog_stage_end(program_builder *b)
{
    b->stages[b->p.n_stages - 1].count = b->p.n_code - b->stages[b->p.n_stages - 1].first;
}

/* ---- data ------------------------------------------------------------------------------------ */

static inline uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33 ^ *state << 20;
}

static inline void prog_fill(program_builder *b, uint32_t t, uint64_t seed)
{
    static const uint32_t special[] = {0x7fc00000, 0xffc12345, 0x80000000,
                                       0x7f800000, 0x00000001, 0xff800000};
    const ppto_dtype dtype = (ppto_dtype)b->tensors[t].dtype;
    const size_t size = ppto_dtype_size(dtype);
    for (size_t i = 0; i * size < b->bytes[t]; i++) {
        const uint64_t r = next_random(&seed);
        float f32 = (float)(int32_t)(r >> 8) / 65536.0f;
        double f64 = (double)(int64_t)(r >> 8) / 4294967296.0;
        if (dtype == PPTO_F32 && r % 509 == 0) memcpy(&f32, &special[r / 509 % 6], sizeof f32);
        char *at = (char *)b->owned[t] + i * size;
        if (dtype == PPTO_F32)
            memcpy(at, &f32, size);
        else if (dtype == PPTO_F64)
            memcpy(at, &f64, size);
        else if (dtype == PPTO_BOOL)
            *at = (char)(r >> 7 & 1);
        else
            memcpy(at, &r, size);
    }
}

/* ---- running --------------------------------------------------------------------------------- */

typedef struct run_outcome {
    ppto_status status;
    char text[2048];
    int64_t position;
    uint32_t phases;
    uint64_t reads, writes;
} run_outcome;

static inline run_outcome prog_run(program_builder *b, const pp_device_class *class,
                                   const pp_device_options *options, uint32_t workers, bool backwards)
{
    static pp_error err;
    pp_device *device;
    pp_kernel *kernel;
    pp_launch *launch;
    pp_geometry geometry = {0};
    const pp_binding binding = {b->slots, b->refs, b->args};
    run_outcome out = {.status = PPTO_OK, .position = INT64_MAX};
    pp_error_clear(&err);
    cr_assert_eq(class->open(options, &device, &err), PPTO_OK, "%s", err.text);
    cr_assert_eq(class->compile(device, &b->p, &kernel, &err), PPTO_OK, "%s", err.text);
    cr_assert_eq(class->launch_create(kernel, &launch, &err), PPTO_OK, "%s", err.text);
    cr_assert_eq(class->resize(launch, &binding, workers, &geometry, &err), PPTO_OK, "%s", err.text);
    void *scratch = pp_alloc_aligned(64, geometry.scratch_bytes + 64);
    void *shared = pp_alloc_aligned(64, geometry.shared_bytes + 64);
    cr_assert_eq(class->bind(launch, &binding, shared), PPTO_OK);
    for (uint32_t phase = 0; phase < geometry.phases; phase++)
        for (uint32_t i = 0; i < geometry.tasks[phase]; i++) {
            int64_t position = 0;
            memset(scratch, 0xa5, geometry.scratch_bytes);
            pp_error_clear(&err);
            ppto_status status = class->run(launch, phase, backwards ? geometry.tasks[phase] - 1 - i : i,
                                            scratch, &err, &position);
            if (status == PPTO_OK) continue;
            if (position < out.position) {
                out.position = position;
                snprintf(out.text, sizeof out.text, "%s", err.text);
            }
            out.status = status;
        }
    out.phases = geometry.phases;
    if (class->counted != NULL) class->counted(launch, &out.reads, &out.writes);
    pp_free(scratch);
    pp_free(shared);
    class->launch_destroy(launch);
    class->kernel_destroy(kernel);
    class->close(device);
    return out;
}

/* Runs everywhere and compares all outputs with the reference's. */
static inline void prog_compare(program_builder *b, const char *name)
{
    static const struct {
        const char *simd;
        uint32_t grain, workers;
    } ways[] = {{"baseline", 0, 1}, {NULL, 0, 1},    {NULL, 0, 4},
                {NULL, 1, 2},       {NULL, 3000, 2}, {"avx2", 20000, 3}};
    void *want[MAX_T] = {NULL};
    pp_error err = {0};
    cr_assert_eq(pp_program_verify(&b->p, &err), PPTO_OK, "%s: %s", name, err.text);
    run_outcome expected = prog_run(b, &pp_reference_device, NULL, 1, false);
    for (uint32_t t = 0; t < b->p.n_tensors; t++) {
        if (!b->tensors[t].output) continue;
        want[t] = malloc(b->bytes[t] + 1);
        memcpy(want[t], b->owned[t], b->bytes[t]);
    }
    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
        const pp_device_options options = {.simd = ways[w].simd, .grain = ways[w].grain};
        pp_device *device;
        const ppto_status opened = pp_cpu_device.open(&options, &device, &err);
        if (opened == PPTO_E_UNSUPPORTED && options.simd != NULL) continue; /* a machine without */
        cr_assert_eq(opened, PPTO_OK, "%s", err.text);
        pp_cpu_device.close(device);
        for (uint32_t t = 0; t < b->p.n_tensors; t++)
            if (want[t] != NULL) memset(b->owned[t], 0x5a, b->bytes[t]);
        run_outcome got = prog_run(b, &pp_cpu_device, &options, ways[w].workers, w % 2 == 1);
        cr_expect_eq(got.status, expected.status, "%s way %zu: status", name, w);
        if (got.status != PPTO_OK) {
            cr_expect_eq(got.position, expected.position, "%s way %zu: position", name, w);
            continue;
        }
        for (uint32_t t = 0; t < b->p.n_tensors; t++) {
            if (want[t] == NULL) continue;
            size_t at = 0;
            while (at < b->bytes[t] && ((char *)want[t])[at] == ((char *)b->owned[t])[at]) at++;
            cr_expect_eq(at, b->bytes[t], "%s way %zu (%u phases): tensor %u differs at byte %zu of %zu",
                         name, w, got.phases, t, at, b->bytes[t]);
        }
    }
    for (uint32_t t = 0; t < b->p.n_tensors; t++) free(want[t]);
}

#endif
