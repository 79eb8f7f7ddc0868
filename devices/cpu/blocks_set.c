/* SPDX-License-Identifier: Apache-2.0
 * The table of all loops of one instruction set, filled from the same lists that declare the loops. */
#include "devices/cpu/blocks_simd.h"

#define AT(d) [pp_is_##d]

#define PLACE_1(d, name, E) AT(d) = {PP_LOOP(name, d, vv), PP_LOOP(name, d, vv), PP_LOOP(name, d, vv)},
#define PLACE_3(d, name, E) AT(d) = {PP_LOOP(name, d, vv), PP_LOOP(name, d, vs), PP_LOOP(name, d, sv)},
#define PLACE_2 PLACE_3
#define ROW_SAME(E, name, n, on) [PP_##E] = {PP_EACH_##on(PLACE_##n, name, E)},
#define ROW_BOOL ROW_SAME
#define ROW_TARGET(E, name, n, on)

#define PLACE_PAIR(from, to, name) AT(from) AT(to) = PP_LOOP_PAIR(name, from, to),
#define PLACE_CANONICAL(d, ...) AT(d) = PP_LOOP_CANONICAL(d),

#define PLACE_HAS_NAN(d, ...) AT(d) = PP_HAS_NAN(d),

#define PLACE_REDUCE(d, name) AT(d) = PP_REDUCE(name, d),

#define PLACE_TILE(d, ...) AT(d) = {PP_TILE_ROWS(d), PP_TILE_COLUMNS(d), PP_TILE(d), NULL},

pp_block_set PP_NAME(pp_blocks) = {
    .name = PP_TEXT(PP_SIMD),
    .scalar =
        {
#define PP_SCALAR(E, name, n, on, result, ...) ROW_##result(E, name, n, on)
#define PP_KERNEL(...)
#include "ops/scalar.def"
        },
    .cast = {PP_EACH_CAST(PLACE_PAIR, cast)},
    .bitcast = {PP_EACH_BITCAST(PLACE_PAIR, bitcast)},
    .canonical = {PP_EACH_ANY(PLACE_CANONICAL, )},
    .reduce = {[PP_MIN] = {PP_EACH_NUM(PLACE_REDUCE, min)},
               [PP_MAX] = {PP_EACH_NUM(PLACE_REDUCE, max)},
               [PP_AND] = {PP_EACH_INTB(PLACE_REDUCE, and)},
               [PP_OR] = {PP_EACH_INTB(PLACE_REDUCE, or)},
               [PP_ADD] = {PP_EACH_INTB(PLACE_REDUCE, add)}},
    .has_nan = {PP_EACH_FLOAT(PLACE_HAS_NAN, )},
    .fill = PP_NAME(pp_move_fill),
    .table = PP_NAME(pp_move_table),
    .load_strided = PP_NAME(pp_move_load_strided),
    .store_strided = PP_NAME(pp_move_store_strided),
    .load_transposed = PP_NAME(pp_move_load_transposed),
    .stream = PP_NAME(pp_move_stream),
    .fence = PP_NAME(pp_move_fence),
    .any = PP_NAME(pp_move_any),
    .contract = {PP_EACH_NUM(PLACE_TILE, )},
    .functions = PP_NAME(pp_functions),
    .folds = PP_NAME(pp_folds),
};

void PP_NAME(pp_blocks_complete)(void)
{
    PP_NAME(pp_blocks).contract[PPTO_F32].thin = PP_THIN(f32);
    PP_NAME(pp_blocks).contract[PPTO_F64].thin = PP_THIN(f64);
#define PLACE_DIVIDE_idiv(d, name) PP_NAME(pp_blocks).scalar[PP_IDIV][pp_is_##d][PP_VS] = PP_DIVIDE(name, d);
#define PLACE_DIVIDE_imod(d, name) PP_NAME(pp_blocks).scalar[PP_IMOD][pp_is_##d][PP_VS] = PP_DIVIDE(name, d);
    PP_EACH_DIVIDE(PLACE_DIVIDE_idiv, idiv)
    PP_EACH_DIVIDE(PLACE_DIVIDE_imod, imod)
    PP_NAME(pp_blocks).n_functions = PP_NAME(pp_n_functions);
    PP_NAME(pp_blocks).n_folds = PP_NAME(pp_n_folds);
}
