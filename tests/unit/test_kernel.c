/* SPDX-License-Identifier: Apache-2.0
 * Kernel programs written by hand: what the verifier accepts and refuses, the printed text, the hash. */
#define _GNU_SOURCE
#include <criterion/criterion.h>

#include "kernel_hand.h"

TestSuite(kernel, .init = functions);

/* ---- verify -------------------------------------------------------------------------------------------- */

static ppto_status verify(hand *h, pp_error *err)
{
    pp_error_clear(err);
    return pp_program_verify(&h->p, err);
}

Test(kernel, verify_accepts_good_programs)
{
    hand h;
    pp_error err = {0};
    build_map(&h);
    cr_expect_eq(verify(&h, &err), PPTO_OK, "map: %s", err.text);
    build_sum(&h, PP_FRAME_LANES);
    cr_expect_eq(verify(&h, &err), PPTO_OK, "lanes: %s", err.text);
    build_sum(&h, PP_FRAME_ROWS);
    cr_expect_eq(verify(&h, &err), PPTO_OK, "rows: %s", err.text);
    build_scan(&h, PP_FRAME_LANES);
    cr_expect_eq(verify(&h, &err), PPTO_OK, "scan: %s", err.text);
    build_buffer(&h);
    cr_expect_eq(verify(&h, &err), PPTO_OK, "buffer: %s", err.text);
    build_contract(&h);
    cr_expect_eq(verify(&h, &err), PPTO_OK, "contract: %s", err.text);
    h.p.hash = pp_program_hash(&h.p);
    cr_expect_eq(verify(&h, &err), PPTO_OK, "hash: %s", err.text);
    pp_error_clear(&err);
    cr_expect_eq(pp_function_verify(&add.f, &err), PPTO_OK, "function: %s", err.text);
    cr_expect_eq(pp_function_verify(&finish.f, &err), PPTO_OK, "function: %s", err.text);
}

#define BROKEN(build, change, what)                                                                          \
    do {                                                                                                     \
        build;                                                                                               \
        change;                                                                                              \
        cr_expect_eq(verify(&h, &err), PPTO_E_INTERNAL, "accepted: %s", #change);                            \
        cr_expect(strstr(err.text, what) != NULL, "%s: \"%s\" lacks \"%s\"", #change, err.text, what);       \
    } while (0)

Test(kernel, verify_refuses_broken_maps)
{
    hand h;
    pp_error err = {0};
    BROKEN(build_map(&h), h.code[3].a = 3, "not earlier");
    BROKEN(build_map(&h), h.code[3].a = 7, "not earlier");
    BROKEN(build_map(&h), h.code[9].a = 4, "without a value");
    BROKEN(build_map(&h), h.code[3].dtype = PPTO_F32, "another dtype");
    BROKEN(build_map(&h), h.code[9].b = 6, "differ in dtype");
    BROKEN(build_map(&h), h.code[3].op = PP_OP_COUNT, "no such operation");
    BROKEN(build_map(&h), h.code[9].dtype = 11, "no such dtype");
    BROKEN(build_map(&h), h.code[0].imm = 2, "no such access");
    BROKEN(build_map(&h), h.code[0].imm = 1, "a load from an output");
    BROKEN(build_map(&h), h.code[12].imm = 0, "a store to an input");
    BROKEN(build_map(&h), h.code[1].imm = 1, "no such arg");
    BROKEN(build_map(&h), h.code[1].op = PP_PARAM, "not allowed in a program");
    BROKEN(build_map(&h), h.code[1].op = PP_STATE, "no such fold");
    BROKEN(build_map(&h), h.code[1].op = PP_PRODUCT, "no product");
    BROKEN(build_map(&h), h.code[5].b = 1, "number of operands");
    BROKEN(build_map(&h), h.operands[0] = 3, "differs from its parameter");
    BROKEN(build_map(&h), h.code[7].dtype = PPTO_U16, "table has another dtype");
    BROKEN(build_map(&h), h.tables[0].length = 3, "no power of two");
    BROKEN(build_map(&h), h.consts[0] = UINT64_C(1) << 32, "beyond the dtype's width");
    BROKEN(build_map(&h), h.code[4].a = 0, "the condition is not bool");
    BROKEN(build_map(&h), h.code[10].a = 2, "guards out of range");
    BROKEN(build_map(&h), h.affines[0].base = 6, "no such slot");
    BROKEN(build_map(&h), h.affines[0].value = 0, "no integer");
    BROKEN(build_map(&h), h.affines[0].value = 6, "index value");
    BROKEN(build_map(&h), h.terms[0].axis = 1, "no such axis");
    BROKEN(build_map(&h), h.axes[0].role = PP_AXIS_INNER, "not of this frame");
    BROKEN(build_map(&h), h.stages[0].inner = true, "without inner axes");
    BROKEN(build_map(&h), h.stages[0].count = 40, "code out of range");
    BROKEN(build_map(&h), h.stages[0].count = 12, "outside every stage");
    BROKEN(build_map(&h), h.tensors[0].result = true, "an input is no result");
    BROKEN(build_map(&h), h.p.hash = 5, "hash");
}

Test(kernel, verify_refuses_broken_folds_and_contractions)
{
    hand h;
    pp_error err = {0};
    BROKEN(build_sum(&h, PP_FRAME_LANES), h.folds[0].input[0] = 1, "not of its stage");
    BROKEN(build_sum(&h, PP_FRAME_LANES), h.folds[0].join = NULL, "no join");
    BROKEN(build_sum(&h, PP_FRAME_LANES), h.folds[0].join = &ident.f, "join does not fit");
    BROKEN(build_sum(&h, PP_FRAME_LANES), h.folds[0].lift = NULL, "no lift");
    BROKEN(build_sum(&h, PP_FRAME_LANES), h.folds[0].joined = true, "fold of states");
    BROKEN(build_sum(&h, PP_FRAME_LANES), h.folds[0].position = true, "lift does not fit");
    BROKEN(build_sum(&h, PP_FRAME_LANES), h.folds[0].n_states = 5, "one to four states");
    BROKEN(build_sum(&h, PP_FRAME_LANES), h.stages[1].n_folds = 1, "folds out of");
    BROKEN(build_sum(&h, PP_FRAME_LANES), h.code[1].a = 1, "no such component");
    BROKEN(build_sum(&h, PP_FRAME_LANES), h.code[1].op = PP_SCANNED, "not of the same stage");
    BROKEN(build_sum(&h, PP_FRAME_LANES), h.terms[2].axis = 1, "an axis its domain lacks");
    BROKEN(build_scan(&h, PP_FRAME_LANES), h.folds[0].law = PP_LAW_FOLD, "is no scan");
    BROKEN(build_buffer(&h), h.code[3].imm = 1, "no such buffer");
    BROKEN(build_buffer(&h), h.code[3].op = PP_BUFFER, "no earlier stage keeps");
    BROKEN(build_buffer(&h), h.buffers[0].dtype = PPTO_F64, "buffer has another dtype");
    BROKEN(build_contract(&h), h.terms[0].axis = 1, "an axis its domain lacks");
    BROKEN(build_contract(&h), h.p.contract.b_first = 0, "overlap");
    BROKEN(build_contract(&h), h.p.contract.b_value = 0, "not of its code");
    BROKEN(build_contract(&h), h.p.contract.dtype = PPTO_F64, "another dtype");
    BROKEN(build_contract(&h), h.axes[1].role = PP_AXIS_K; h.axes[2].role = PP_AXIS_N, "out of order");
    builder bad;
    build_binary(&bad, "bad", PP_ADD, PPTO_F32);
    bad.code[1].imm = 2;
    pp_error_clear(&err);
    cr_expect_eq(pp_function_verify(&bad.f, &err), PPTO_E_INTERNAL);
    cr_expect(strstr(err.text, "no such parameter") != NULL, "%s", err.text);
}

/* ---- print and hash ------------------------------------------------------------------------------------ */

static void expect_print(hand *h, const char *want)
{
    pp_text text = {0};
    pp_program_print(&h->p, &text);
    cr_expect_str_eq(text.at, want);
    pp_text_free(&text);
}

Test(kernel, prints_a_map)
{
    hand h;
    build_map(&h);
    expect_print(&h, "program map: 6 slots, 1 args\n"
                     "axis i0: outer s3\n"
                     "tensor t0: f32 rank 1 input\n"
                     "tensor t1: f32 rank 1 result\n"
                     "stage 0: outer\n"
                     "    v0: f32 = load t0[s4 + i0] if 0 <= s4 + i0 < s3 else -0x1p+0\n"
                     "    v1: f32 = arg 0\n"
                     "    v2: f32 = const 0x1.8p+1\n"
                     "    v3: bool = lt v0 v2\n"
                     "    check \"not {value}\" at i0 v3 v0\n"
                     "    v5: f32 = call add_f32 v0 v1\n"
                     "    v6: i64 = index i0\n"
                     "    v7: u8 = table [1, 2, 3, 4] v6\n"
                     "    v8: f32 = cast v7\n"
                     "    v9: f32 = mul v5 v8\n"
                     "    v10: bool = inside 0 <= s4 + i0 < s3\n"
                     "    v11: f32 = select v10 v9 v2\n"
                     "    store t1[i0] v11\n");
}

Test(kernel, prints_folds_and_contractions)
{
    hand h;
    build_scan(&h, PP_FRAME_ROWS);
    expect_print(&h, "program rows: 5 slots, 0 args\n"
                     "axis i0: outer s3\n"
                     "axis i1: inner s4\n"
                     "tensor t0: f32 rank 2 input\n"
                     "tensor t1: f32 rank 2 result\n"
                     "tensor t2: f32 rank 1 result\n"
                     "stage 0: outer x inner\n"
                     "    v0: f32 = load t0[i0, i1]\n"
                     "    v1: f32 = scanned fold0.0\n"
                     "    store t1[i0, i1] v1\n"
                     "    fold0: f32 = scan v0 lift ident_f32 join add_f32\n"
                     "stage 1: outer\n"
                     "    v3: f32 = state fold0.0\n"
                     "    store t2[i0] v3\n");
    build_contract(&h);
    expect_print(&h, "program contract: 6 slots, 0 args\n"
                     "axis i0: m s3\n"
                     "axis i1: n s4\n"
                     "axis i2: k s5\n"
                     "tensor t0: f32 rank 2 input\n"
                     "tensor t1: f32 rank 2 input\n"
                     "tensor t2: f32 rank 2 result\n"
                     "left v0\n"
                     "    v0: f32 = load t0[i0, i2]\n"
                     "right v1\n"
                     "    v1: f32 = load t1[i2, i1]\n"
                     "stage 0: outer\n"
                     "    v2: f32 = product\n"
                     "    store t2[i0, i1] v2\n");
    pp_text text = {0};
    pp_function_print(&finish.f, &text);
    cr_expect_str_eq(text.at,
                     "function plus_zero(f32) v2\n    v0: f32 = param 0\n    v1: f32 = const 0x0p+0\n"
                     "    v2: f32 = add v0 v1\n");
    pp_text_free(&text);
}

Test(kernel, hash_is_of_content_not_of_names)
{
    hand g, h;
    build_map(&g), build_map(&h);
    cr_expect(pp_program_equal(&g.p, &h.p));
    cr_expect_eq(pp_program_hash(&g.p), pp_program_hash(&h.p));
    h.consts[1] = h.consts[0], h.p.n_consts = 2, h.code[2].imm = 1;
    cr_expect_eq(pp_program_hash(&g.p), pp_program_hash(&h.p), "another index of the same constant");
    cr_expect(pp_program_equal(&g.p, &h.p));
    h.consts[1]++;
    cr_expect_neq(pp_program_hash(&g.p), pp_program_hash(&h.p));
    cr_expect_not(pp_program_equal(&g.p, &h.p));
    build_map(&h), h.guards[0].hi = 4;
    cr_expect_neq(pp_program_hash(&g.p), pp_program_hash(&h.p));
    cr_expect_not(pp_program_equal(&g.p, &h.p));
    builder other;
    build_binary(&other, "another_name", PP_ADD, PPTO_F32);
    cr_expect_eq(other.f.hash, add.f.hash);
    build_binary(&other, "add_f32", PP_SUB, PPTO_F32);
    cr_expect_neq(other.f.hash, add.f.hash);
}

Test(kernel, axis_masks_follow_operands_places_and_states)
{
    hand h;
    uint32_t masks[32];
    build_buffer(&h);
    pp_program_axis_masks(&h.p, masks);
    const uint32_t want[] = {3, 0, 3, 3, 3, 1, 3, 3};
    for (uint32_t i = 0; i < h.p.n_code; i++) cr_expect_eq(masks[i], want[i], "v%u: %u", i, masks[i]);
    build_contract(&h);
    pp_program_axis_masks(&h.p, masks);
    cr_expect(masks[0] == 5 && masks[1] == 6 && masks[2] == 3 && masks[3] == 3);
}

Test(kernel, destroy_takes_null_and_frees_the_arena)
{
    const pp_heap_counters before = pp_heap_count();
    pp_program *p = pp_calloc(1, sizeof *p);
    cr_assert_not_null(p);
    p->code = pp_arena_alloc(&p->arena, 10 * sizeof *p->code);
    pp_program_destroy(p);
    pp_program_destroy(NULL);
    cr_expect_eq(pp_heap_count().live, before.live);
}
