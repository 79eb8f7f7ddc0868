/* SPDX-License-Identifier: Apache-2.0
 * Loops to be compiled: what the hash covers, what the verifier refuses, how they print. */
#include <criterion/criterion.h>
#include <string.h>

#include "devices/cpu/loop.h"

/* out 0 = max(in 0 * in 1, 0.5), in 1 one a row. */
typedef struct sample {
    pp_stream in[2], out[1];
    pp_instr code[6];
    uint64_t consts[1];
    pp_loop loop;
} sample;

static void make(sample *s)
{
    *s = (sample){
        .in = {{.dtype = PPTO_F32}, {.dtype = PPTO_F32, .kind = PP_STREAM_ROW}},
        .out = {{.dtype = PPTO_F32, .canonical = true}},
        .code = {{.op = PP_PARAM, .dtype = PPTO_F32},
                 {.op = PP_PARAM, .dtype = PPTO_F32, .imm = 1},
                 {.op = PP_CONST, .dtype = PPTO_F32},
                 {.op = PP_MUL, .dtype = PPTO_F32, .b = 1},
                 {.op = PP_MAX, .dtype = PPTO_F32, .a = 3, .b = 2},
                 {.op = PP_STORE, .dtype = PPTO_F32, .a = 4}},
        .consts = {0x3f000000},
    };
    s->loop = (pp_loop){.in = s->in,
                        .n_in = 2,
                        .out = s->out,
                        .n_out = 1,
                        .code = s->code,
                        .n_code = 6,
                        .consts = s->consts,
                        .n_consts = 1};
    s->loop.hash = pp_loop_hash(&s->loop);
}

Test(loop, prints_streams_and_code)
{
    sample s;
    pp_text text = {0};
    make(&s);
    pp_loop_print(&s.loop, &text);
    cr_assert_str_eq(text.at, "in 0: f32\n"
                              "in 1: f32 a row\n"
                              "out 0: f32 canonical\n"
                              "    v0: f32 = param 0\n"
                              "    v1: f32 = param 1\n"
                              "    v2: f32 = const 0x1p-1\n"
                              "    v3: f32 = mul v0 v1\n"
                              "    v4: f32 = max v3 v2\n"
                              "    store 0 v4\n");
    pp_text_free(&text);
}

/* Changes of a good loop that decide the code, and so its hash. */
static void change(sample *s, int i)
{
    switch (i) {
    case 0: s->in[0].kind = PP_STREAM_ROW; break;
    case 1: s->out[0].canonical = false; break;
    case 2: s->out[0].around = true; break;
    case 3: s->consts[0] = 0; break;
    case 4: s->code[3].op = PP_ADD; break;
    case 5: s->code[4].a = 0; break;
    case 6: s->code[1].imm = 0; break;
    default: s->code[5].a = 3; break;
    }
}

Test(loop, hash_covers_what_decides_the_code)
{
    for (int i = 0; i < 8; i++) {
        sample s;
        make(&s);
        change(&s, i);
        cr_assert_neq(pp_loop_hash(&s.loop), s.loop.hash, "change %d", i);
    }
}

Test(loop, hash_leaves_out_numbers_of_pools)
{
    sample s;
    const uint64_t consts[2] = {7, 0x3f000000};
    make(&s);
    s.loop.consts = consts, s.loop.n_consts = 2;
    s.code[2].imm = 1;
    cr_assert_eq(pp_loop_hash(&s.loop), s.loop.hash);
}

/* ---- folds --------------------------------------------------------------------------------------------- */

/* sum of in 0: lift x, join a + b. */
static const pp_instr lift_code[] = {{.op = PP_PARAM, .dtype = PPTO_F32}};
static const pp_instr join_code[] = {{.op = PP_PARAM, .dtype = PPTO_F32},
                                     {.op = PP_PARAM, .dtype = PPTO_F32, .imm = 1},
                                     {.op = PP_ADD, .dtype = PPTO_F32, .b = 1}};
static const pp_function lift = {.name = "same",
                                 .hash = 11,
                                 .n_params = 1,
                                 .n_results = 1,
                                 .param = {PPTO_F32},
                                 .code = lift_code,
                                 .n_code = 1};
static const pp_function join = {.name = "plus",
                                 .hash = 12,
                                 .n_params = 2,
                                 .n_results = 1,
                                 .param = {PPTO_F32, PPTO_F32},
                                 .result = {2},
                                 .code = join_code,
                                 .n_code = 3};
static const pp_fold sum = {.n_states = 1, .n_inputs = 1, .state = {PPTO_F32}, .lift = &lift, .join = &join};

static void make_fold(sample *s, pp_loop_fold *fold)
{
    make(s);
    *fold = (pp_loop_fold){.fold = &sum, .input = {4}, .first = PP_NONE};
    s->out[0].kind = PP_STREAM_ROW;
    s->loop.n_code = 5;
    s->loop.folds = fold, s->loop.n_folds = 1;
    s->loop.hash = pp_loop_hash(&s->loop);
}

Test(loop, folds_print_and_verify_and_are_part_of_the_hash)
{
    sample s;
    pp_loop_fold fold;
    pp_text text = {0};
    pp_error err = {0};
    make_fold(&s, &fold);
    cr_assert_eq(pp_loop_verify(&s.loop, &err), PPTO_OK, "%s", err.text);
    pp_loop_print(&s.loop, &text);
    cr_assert(strstr(text.at, "    fold lift same join plus: v4 to 0\n") != NULL, "%s", text.at);
    pp_text_free(&text);
    const uint64_t hash = s.loop.hash;
    fold.input[0] = 3;
    cr_assert_neq(pp_loop_hash(&s.loop), hash);
    s.loop.n_folds = 0;
    cr_assert_neq(pp_loop_hash(&s.loop), hash);
}

Test(loop, scans_print_and_verify_and_are_part_of_the_hash)
{
    for (int i = 0; i < 5; i++) {
        sample s;
        pp_loop_fold fold;
        pp_fold scan = sum;
        pp_text text = {0};
        pp_error err = {0};
        make_fold(&s, &fold);
        const uint64_t hash = s.loop.hash;
        scan.law = PP_LAW_SCAN;
        fold.fold = &scan;
        pp_stream in[4];
        memcpy(in, s.in, s.loop.n_in * sizeof *in);
        fold.first = s.loop.n_in, fold.carry[0] = s.loop.n_in + 1;
        in[fold.first] = (pp_stream){.dtype = PPTO_I64, .kind = PP_STREAM_ROW};
        in[fold.carry[0]] = (pp_stream){.dtype = i == 1 ? PPTO_F64 : PPTO_F32, .kind = PP_STREAM_ROW};
        s.loop.in = in, s.loop.n_in += i == 2 ? 1 : 2;
        s.code[5] = (pp_instr){.op = PP_SCANNED, .dtype = i == 3 ? PPTO_F64 : PPTO_F32, .a = i == 4};
        s.loop.n_code = 6;
        s.loop.hash = pp_loop_hash(&s.loop);
        cr_expect_neq(s.loop.hash, hash);
        cr_expect_eq(pp_loop_verify(&s.loop, &err), i == 0 ? PPTO_OK : PPTO_E_INTERNAL, "case %d: %s", i,
                     err.text);
        if (i == 0) pp_loop_print(&s.loop, &text);
        cr_expect(i > 0 || strstr(text.at, "scanned 0.0\n    scan lift same join plus: v4 from in") != NULL,
                  "%s", text.at);
        pp_text_free(&text);
    }
}

Test(loop, folds_by_columns_print_and_verify_and_are_part_of_the_hash)
{
    for (int i = 0; i < 5; i++) {
        sample s;
        pp_loop_fold fold;
        pp_text text = {0};
        pp_error err = {0};
        make_fold(&s, &fold);
        const uint64_t hash = s.loop.hash;
        pp_stream in[3];
        memcpy(in, s.in, s.loop.n_in * sizeof *in);
        in[2] = (pp_stream){.dtype = i == 1 ? PPTO_U8 : PPTO_BOOL, .kind = PP_STREAM_ROW};
        s.loop.in = in, s.loop.n_in += i == 2 ? 0 : 1;
        fold.columns = true, fold.fresh = 2;
        s.out[0].kind = i == 3 ? PP_STREAM_ROW : PP_STREAM_COLUMN;
        if (i == 4) in[0].kind = PP_STREAM_COLUMN;
        s.loop.hash = pp_loop_hash(&s.loop);
        cr_expect_neq(s.loop.hash, hash);
        cr_expect_eq(pp_loop_verify(&s.loop, &err), i == 0 ? PPTO_OK : PPTO_E_INTERNAL, "case %d: %s", i,
                     err.text);
        if (i == 0) pp_loop_print(&s.loop, &text);
        cr_expect(i > 0 || strstr(text.at, "fold columns lift same join plus: v4 fresh in 2 to 0") != NULL,
                  "%s", text.at);
        pp_text_free(&text);
    }
}

Test(loop, verifier_refuses_folds_that_do_not_fit)
{
    for (int i = 0; i < 5; i++) {
        sample s;
        pp_loop_fold fold;
        pp_fold other = sum;
        make_fold(&s, &fold);
        fold.fold = &other;
        if (i == 0) s.out[0].kind = PP_STREAM_FULL;
        if (i == 1) fold.input[0] = 5;
        if (i == 2) fold.out[0] = 1;
        if (i == 3) other.law = PP_LAW_SCAN;
        if (i == 4) other.position = true;
        s.loop.hash = pp_loop_hash(&s.loop);
        cr_assert_eq(pp_loop_verify(&s.loop, NULL), PPTO_E_INTERNAL, "rule %d", i);
    }
}

/* ---- the verifier -------------------------------------------------------------------------------------- */

/* Breaks one rule; the hash is made to fit. */
static void spoil(sample *s, int i)
{
    switch (i) {
    case 0: s->in[0].dtype = 99; break;
    case 1: s->in[0].around = true; break;
    case 2: s->out[0].kind = PP_STREAM_ROW; break;
    case 3: s->out[0].dtype = PPTO_F64; break;
    case 4: s->code[5].imm = 1; break;
    case 5: s->code[5].a = 5; break;
    case 6: s->code[3].b = 4; break;
    case 7: s->code[1].imm = 2; break;
    case 8: s->code[0].dtype = PPTO_I32; break;
    case 9: s->code[5] = s->code[4]; break;
    case 10: s->code[4] = s->code[5], s->code[4].a = 3; break;
    default: s->code[4].op = PP_LOAD; break;
    }
}

Test(loop, verifier_takes_the_good_and_refuses_each_broken_rule)
{
    sample s;
    pp_error err = {0};
    make(&s);
    cr_assert_eq(pp_loop_verify(&s.loop, &err), PPTO_OK, "%s", err.text);
    for (int i = 0; i < 12; i++) {
        pp_error wrong = {0};
        make(&s);
        spoil(&s, i);
        s.loop.hash = i == 0 ? 0 : pp_loop_hash(&s.loop);
        cr_assert_eq(pp_loop_verify(&s.loop, &wrong), PPTO_E_INTERNAL, "rule %d", i);
    }
    make(&s);
    s.loop.hash++;
    cr_assert_eq(pp_loop_verify(&s.loop, NULL), PPTO_E_INTERNAL);
}
