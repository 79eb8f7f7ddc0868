/* SPDX-License-Identifier: Apache-2.0
 * Lists of dtypes per class of scalar.def, for macros that make one thing per (row, dtype): block loops,
 * tests. PP_EACH_<class>(M, ...) expands to M(dtype, ...) for every dtype of the class, without separators.
 * Use: #define LOOP(d, name) static void loop_##name##_##d(...) { ... pp_op_##name##_##d(...) ... } #define
 * PP_SCALAR(E, name, n, on, result, ...) PP_EACH_##on(LOOP, name) #define PP_SCALAR_SELECT(...) #define
 * PP_SCALAR_CONVERT(E, name, ...) PP_EACH_##E(LOOP_CAST, name) #include "ops/scalar.def" CAST and BITCAST are
 * pairs: PP_EACH_CAST(M, ...) and PP_EACH_BITCAST(M, ...) give M(from, to, ...). */
#ifndef PP_SCALAR_EACH_H
#define PP_SCALAR_EACH_H

#define PP_EACH_WIDEU(M, ...) M(u32, __VA_ARGS__) M(u64, __VA_ARGS__)
#define PP_EACH_WIDE(M, ...) M(i32, __VA_ARGS__) M(i64, __VA_ARGS__) PP_EACH_WIDEU(M, __VA_ARGS__)
#define PP_EACH_INT(M, ...)                                                                                  \
    M(i8, __VA_ARGS__) M(i16, __VA_ARGS__) M(u8, __VA_ARGS__) M(u16, __VA_ARGS__) PP_EACH_WIDE(M, __VA_ARGS__)
#define PP_EACH_FLOAT(M, ...) M(f32, __VA_ARGS__) M(f64, __VA_ARGS__)
#define PP_EACH_NUM(M, ...) PP_EACH_INT(M, __VA_ARGS__) PP_EACH_FLOAT(M, __VA_ARGS__)
#define PP_EACH_INTB(M, ...) M(b8, __VA_ARGS__) PP_EACH_INT(M, __VA_ARGS__)
#define PP_EACH_ANY(M, ...) M(b8, __VA_ARGS__) PP_EACH_NUM(M, __VA_ARGS__)

#define PP_EACH_CAST_FROM(M, from, ...)                                                                      \
    M(from, b8, __VA_ARGS__)                                                                                 \
    M(from, i8, __VA_ARGS__)                                                                                 \
    M(from, i16, __VA_ARGS__)                                                                                \
    M(from, i32, __VA_ARGS__)                                                                                \
    M(from, i64, __VA_ARGS__)                                                                                \
    M(from, u8, __VA_ARGS__)                                                                                 \
    M(from, u16, __VA_ARGS__)                                                                                \
    M(from, u32, __VA_ARGS__)                                                                                \
    M(from, u64, __VA_ARGS__)                                                                                \
    M(from, f32, __VA_ARGS__)                                                                                \
    M(from, f64, __VA_ARGS__)
#define PP_EACH_CAST(M, ...)                                                                                 \
    PP_EACH_CAST_FROM(M, b8, __VA_ARGS__)                                                                    \
    PP_EACH_CAST_FROM(M, i8, __VA_ARGS__)                                                                    \
    PP_EACH_CAST_FROM(M, i16, __VA_ARGS__)                                                                   \
    PP_EACH_CAST_FROM(M, i32, __VA_ARGS__)                                                                   \
    PP_EACH_CAST_FROM(M, i64, __VA_ARGS__)                                                                   \
    PP_EACH_CAST_FROM(M, u8, __VA_ARGS__)                                                                    \
    PP_EACH_CAST_FROM(M, u16, __VA_ARGS__)                                                                   \
    PP_EACH_CAST_FROM(M, u32, __VA_ARGS__)                                                                   \
    PP_EACH_CAST_FROM(M, u64, __VA_ARGS__)                                                                   \
    PP_EACH_CAST_FROM(M, f32, __VA_ARGS__)                                                                   \
    PP_EACH_CAST_FROM(M, f64, __VA_ARGS__)

#define PP_EACH_BITCAST_2(M, a, b, ...)                                                                      \
    M(a, a, __VA_ARGS__) M(a, b, __VA_ARGS__) M(b, a, __VA_ARGS__) M(b, b, __VA_ARGS__)
#define PP_EACH_BITCAST_3(M, a, b, f, ...)                                                                   \
    PP_EACH_BITCAST_2(M, a, b, __VA_ARGS__)                                                                  \
    M(a, f, __VA_ARGS__) M(b, f, __VA_ARGS__) M(f, a, __VA_ARGS__) M(f, b, __VA_ARGS__) M(f, f, __VA_ARGS__)
#define PP_EACH_BITCAST(M, ...)                                                                              \
    PP_EACH_BITCAST_2(M, i8, u8, __VA_ARGS__)                                                                \
    PP_EACH_BITCAST_2(M, i16, u16, __VA_ARGS__)                                                              \
    PP_EACH_BITCAST_3(M, i32, u32, f32, __VA_ARGS__)                                                         \
    PP_EACH_BITCAST_3(M, i64, u64, f64, __VA_ARGS__)

#endif
