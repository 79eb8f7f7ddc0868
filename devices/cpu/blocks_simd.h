/* SPDX-License-Identifier: Apache-2.0
 * What the block loops of one instruction set share: names, element types, and the declarations of every
 * loop. The files that include this header (blocks_scalar.c, blocks_cast.c, blocks_divide.c, blocks_move.c,
 * blocks_reduce.c, blocks_transpose.c, blocks_contract.c, blocks_set.c) are compiled once per instruction
 * set; PP_SIMD (absent: baseline) ends every global name, so that all sets live in one library. The scalar
 * loops are made from the rows of ops/scalar.def: a new row has its loops, its declarations and its places in
 * the set without another line. */
#ifndef PP_BLOCKS_SIMD_H
#define PP_BLOCKS_SIMD_H

#include <string.h>

#include "devices/cpu/blocks.h"
#include "ops/scalar_each.h"
#include "ops/scalar_inline.h"

#ifndef PP_SIMD
#define PP_SIMD baseline
#endif
#define PP_GLUE_(a, b) a##_##b
#define PP_GLUE(a, b) PP_GLUE_(a, b)
#define PP_TEXT_(a) #a
#define PP_TEXT(a) PP_TEXT_(a)
#define PP_NAME(x) PP_GLUE(x, PP_SIMD)

/* A loop in which out may be an input: what it writes at i was read at i. */
#ifdef __clang__
#define PP_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#pragma clang diagnostic ignored "-Wpass-failed" /* some rows, such as fmod, cannot be vectorised */
#else
#define PP_INDEPENDENT _Pragma("GCC ivdep")
#endif

/* Elements in buffers of any alignment. */
#define PP_UNALIGNED __attribute__((aligned(1), may_alias))
typedef pp_b8 pp_at_b8 PP_UNALIGNED;
typedef pp_i8 pp_at_i8 PP_UNALIGNED;
typedef pp_i16 pp_at_i16 PP_UNALIGNED;
typedef pp_i32 pp_at_i32 PP_UNALIGNED;
typedef pp_i64 pp_at_i64 PP_UNALIGNED;
typedef pp_u8 pp_at_u8 PP_UNALIGNED;
typedef pp_u16 pp_at_u16 PP_UNALIGNED;
typedef pp_u32 pp_at_u32 PP_UNALIGNED;
typedef pp_u64 pp_at_u64 PP_UNALIGNED;
typedef pp_f32 pp_at_f32 PP_UNALIGNED;
typedef pp_f64 pp_at_f64 PP_UNALIGNED;

/* The dtypes by the names of the lists. */
enum {
    pp_is_b8 = PPTO_BOOL,
    pp_is_i8 = PPTO_I8,
    pp_is_i16 = PPTO_I16,
    pp_is_i32 = PPTO_I32,
    pp_is_i64 = PPTO_I64,
    pp_is_u8 = PPTO_U8,
    pp_is_u16 = PPTO_U16,
    pp_is_u32 = PPTO_U32,
    pp_is_u64 = PPTO_U64,
    pp_is_f32 = PPTO_F32,
    pp_is_f64 = PPTO_F64
};

/* Of the scalar rows: pp_loop_<row>_<dtype>_<shape>_<simd>. <MACRO>_<operands>_<result> is called once per
 * row and dtype; the rows whose result is TARGET (casts) are pairs of dtypes and listed on their own. */
#define PP_LOOP(name, d, shape) PP_NAME(pp_loop_##name##_##d##_##shape)
#define PP_LOOP_PAIR(name, from, to) PP_NAME(pp_loop_##name##_##from##_##to)
#define PP_LOOP_CANONICAL(d) PP_NAME(pp_loop_canonical_##d)
#define PP_BLOCK_ARGS size_t n, void *out, const void *a, const void *b, const void *c

#define PP_DECLARE_1(d, name, E) void PP_LOOP(name, d, vv)(PP_BLOCK_ARGS);
#define PP_DECLARE_3(d, name, E)                                                                             \
    void PP_LOOP(name, d, vv)(PP_BLOCK_ARGS);                                                                \
    void PP_LOOP(name, d, vs)(PP_BLOCK_ARGS);                                                                \
    void PP_LOOP(name, d, sv)(PP_BLOCK_ARGS);
#define PP_DECLARE_1_SAME PP_DECLARE_1
#define PP_DECLARE_1_BOOL PP_DECLARE_1
#define PP_DECLARE_1_TARGET(d, name, E)
#define PP_DECLARE_2_SAME PP_DECLARE_3
#define PP_DECLARE_2_BOOL PP_DECLARE_3
#define PP_DECLARE_3_SAME PP_DECLARE_3
#define PP_DECLARE_PAIR(from, to, name) void PP_LOOP_PAIR(name, from, to)(PP_BLOCK_ARGS);
#define PP_DECLARE_CANONICAL(d, ...) void PP_LOOP_CANONICAL(d)(PP_BLOCK_ARGS);

#define PP_SCALAR(E, name, n, on, result, ...) PP_EACH_##on(PP_DECLARE_##n##_##result, name, E)
#define PP_KERNEL(...)
#include "ops/scalar.def"
#undef PP_SCALAR
#undef PP_KERNEL
PP_EACH_CAST(PP_DECLARE_PAIR, cast)
PP_EACH_BITCAST(PP_DECLARE_PAIR, bitcast)
PP_EACH_ANY(PP_DECLARE_CANONICAL, )
#define PP_HAS_NAN(d) PP_NAME(pp_has_nan_##d)
#define PP_DECLARE_HAS_NAN(d, ...) bool PP_HAS_NAN(d)(size_t n, const void *in);
PP_EACH_FLOAT(PP_DECLARE_HAS_NAN, )

/* blocks_divide.c: a quotient or remainder by one divisor, in place of the row's loop. */
#define PP_DIVIDE(name, d) PP_NAME(pp_divide_##name##_##d)
#define PP_EACH_DIVIDE(X, name) X(u8, name) X(i8, name) X(i16, name) X(i32, name) X(i64, name)
#define PP_DECLARE_DIVIDE(d, name) void PP_DIVIDE(name, d)(PP_BLOCK_ARGS);
PP_EACH_DIVIDE(PP_DECLARE_DIVIDE, idiv)
PP_EACH_DIVIDE(PP_DECLARE_DIVIDE, imod)

/* blocks_reduce.c: see pp_block_set. */
#define PP_REDUCE(name, d) PP_NAME(pp_reduce_##name##_##d)
#define PP_DECLARE_REDUCE(d, name) void PP_REDUCE(name, d)(size_t n, void *out, const void *in);
PP_EACH_NUM(PP_DECLARE_REDUCE, min)
PP_EACH_NUM(PP_DECLARE_REDUCE, max)
PP_EACH_INTB(PP_DECLARE_REDUCE, and)
PP_EACH_INTB(PP_DECLARE_REDUCE, or)
PP_EACH_INTB(PP_DECLARE_REDUCE, add)

/* blocks_move.c, blocks_transpose.c: see pp_block_set. */
void PP_NAME(pp_move_fill)(size_t n, void *out, const void *value, size_t size);
void PP_NAME(pp_move_table)(size_t n, void *out, const void *table, uint32_t length, const uint32_t *idx,
                            size_t size);
void PP_NAME(pp_move_load_strided)(size_t n, void *out, const void *in, int64_t stride, size_t size);
void PP_NAME(pp_move_store_strided)(size_t n, void *out, int64_t stride, const void *in, size_t size);
void PP_NAME(pp_move_load_transposed)(size_t rows, size_t n, void *out, size_t pitch, const void *in,
                                      int64_t col_stride, size_t size);
void PP_NAME(pp_move_stream)(void *out, const void *in, size_t bytes);
void PP_NAME(pp_move_fence)(void);
bool PP_NAME(pp_move_any)(size_t n, const uint8_t *mask);

/* blocks_contract.c: register tiles of mr rows by nr columns, one per dtype but bool. Two vectors of columns
 * (one of the narrow integers, whose tiles would be too wide for small products). */
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__)
#define PP_VECTOR_BYTES 64u
#define PP_TILE_ROWS_FLOAT 12u
#elif defined(__AVX2__) && defined(__FMA__)
#define PP_VECTOR_BYTES 32u
#define PP_TILE_ROWS_FLOAT 6u
#else
#define PP_VECTOR_BYTES 16u
#define PP_TILE_ROWS_FLOAT 4u
#endif
#define PP_TILE_ROWS_INT 4u
#define PP_TILE_ROWS(d) (pp_is_##d >= pp_is_f32 ? PP_TILE_ROWS_FLOAT : PP_TILE_ROWS_INT)
#define PP_TILE_VECTORS(d) (sizeof(pp_##d) < 4 ? 1u : 2u)
#define PP_TILE_COLUMNS(d) ((unsigned)(PP_TILE_VECTORS(d) * PP_VECTOR_BYTES / sizeof(pp_##d)))
#define PP_TILE(d) PP_NAME(pp_tile_##d)
#define PP_DECLARE_TILE(d, ...) void PP_TILE(d)(const pp_tile_job *job);
PP_EACH_NUM(PP_DECLARE_TILE, )
#define PP_THIN(d) PP_NAME(pp_thin_##d)
#define PP_DECLARE_THIN(d)                                                                                   \
    void PP_THIN(d)(size_t kc, size_t n, const void *a, size_t a_step, const void *b, int64_t b_step,        \
                    void *c);
PP_DECLARE_THIN(f32)
PP_DECLARE_THIN(f64)

/* The generated functions_N.c. */
extern const pp_function_entry PP_NAME(pp_functions)[];
extern const size_t PP_NAME(pp_n_functions);
extern const pp_fold_loops PP_NAME(pp_folds)[];
extern const size_t PP_NAME(pp_n_folds);
/* blocks_set.c; complete once PP_NAME(pp_blocks_complete) was called (the counts of the generated arrays are
 * objects of another file and cannot initialise it). */
extern pp_block_set PP_NAME(pp_blocks);
void PP_NAME(pp_blocks_complete)(void);

#endif
