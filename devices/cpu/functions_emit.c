/* SPDX-License-Identifier: Apache-2.0
 * The generated source as a whole: head, scalar functions, loops, folds, and the two arrays.
 *
 * The text is the same for every instruction set; only permute16 differs. Loops are written once, by hash,
 * each into the part that is shortest so far: parts compile side by side. Scalar versions of the functions
 * are written too, where needed: cold regions and folds call them. The arrays are in the first part. */
#include "devices/cpu/functions_emit.h"
#include "devices/cpu/blocks.h"

#include <inttypes.h>
#include <stdlib.h>

#include "devices/cpu/functions_cut.h"

static const char head[] =
    "/* Generated from the library of operators; compiled once per instruction set. */\n"
    "#if defined(__GNUC__) && !defined(__clang__)\n"
    "#pragma GCC optimize(\"no-thread-jumps\") /* two selections in a row stay two blends */\n#endif\n"
    "#include <string.h>\n\n"
    "#include \"devices/cpu/blocks.h\"\n"
    "#include \"ops/scalar_inline.h\"\n\n"
    "#if defined(__AVX2__)\n#include <immintrin.h>\n#endif\n\n"
    "#ifndef PP_SIMD\n#define PP_SIMD baseline\n#endif\n"
    "#define PP_PASTE2(a, b) a##b\n#define PP_PASTE(a, b) PP_PASTE2(a, b)\n"
    "#define PP_NAME(name) PP_PASTE(name##_, PP_SIMD)\n"
    "#if defined(__clang__)\n#define PP_INDEPENDENT _Pragma(\"clang loop vectorize(assume_safety)\")\n"
    "#pragma clang diagnostic ignored \"-Wpass-failed\" /* some, such as fmod, stay as they are */\n"
    "#else\n#define PP_INDEPENDENT _Pragma(\"GCC ivdep\")\n#endif\n"
    "#pragma GCC diagnostic ignored \"-Wunused-function\"\n"
    "#define HELPER static inline __attribute__((always_inline))\n"
    "#define HIDDEN_NANS \\\n"
    "    uint32_t nan_float = 0x7fc00000; uint64_t nan_double = UINT64_C(0x7ff8000000000000); \\\n"
    "    __asm__(\"\" : \"+r\"(nan_float), \"+r\"(nan_double));\n"
    "HELPER uint32_t bits_of_float(float a, uint32_t nan)\n{\n    return a == a ? pp_op_bits_f32(a) : "
    "nan;\n}\n"
    "HELPER uint64_t bits_of_double(double a, uint64_t nan)\n{\n    return a == a ? pp_op_bits_f64(a) : "
    "nan;\n}\n"
    "#if defined(__AVX512F__)\nenum { CHUNK = 512, STEP = 32 };\n#else\nenum { CHUNK = 512, STEP = 64 "
    "};\n#endif\n\n"
    "/* out[l] = table[index[l] & 15] for one step; elements of 32 bits. */\n"
    "HELPER void permute16(void *out, const void *table, const uint32_t *index)\n{\n"
    "#if defined(__AVX512F__)\n"
    "    const __m512i t = _mm512_loadu_si512(table);\n"
    "    for (int l = 0; l < STEP; l += 16)\n"
    "        _mm512_storeu_si512((char *)out + 4 * l, _mm512_permutexvar_epi32(_mm512_loadu_si512(index + "
    "l), t));\n"
    "#elif defined(__AVX2__)\n"
    "    const __m256i low = _mm256_loadu_si256(table), high = _mm256_loadu_si256((const __m256i *)table + "
    "1);\n"
    "    for (int l = 0; l < STEP; l += 8) {\n"
    "        const __m256i i = _mm256_loadu_si256((const void *)(index + l));\n"
    "        const __m256 a = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(low, i));\n"
    "        const __m256 b = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(high, i));\n"
    "        const __m256 upper = _mm256_castsi256_ps(_mm256_slli_epi32(i, 28));\n"
    "        _mm256_storeu_ps((float *)out + l, _mm256_blendv_ps(a, b, upper));\n"
    "    }\n"
    "#else\n"
    "    for (int l = 0; l < STEP; l++) ((uint32_t *)out)[l] = ((const uint32_t *)table)[index[l] & 15];\n"
    "#endif\n}\n\n";

typedef struct pp_emitted {
    PP_VEC(const pp_function *) functions;
    PP_VEC(pp_fold) folds;
    pp_render *parts;
    size_t n_parts;
} pp_emitted;

static int by_hash(const void *a, const void *b)
{
    const uint64_t x = (*(const pp_function *const *)a)->hash, y = (*(const pp_function *const *)b)->hash;
    return x < y ? -1 : x > y;
}

static pp_render *shortest(const pp_emitted *done)
{
    size_t best = 0;
    for (size_t i = 1; i < done->n_parts; i++)
        if (done->parts[i].out->n < done->parts[best].out->n) best = i;
    return &done->parts[best];
}

static ppto_status emit_functions(pp_emitted *done, const pp_function *const *functions, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool known = false;
        for (size_t k = 0; k < done->functions.n; k++)
            known = known || done->functions.at[k]->hash == functions[i]->hash;
        if (known) continue;
        PP_TRY(pp_vec_push(&done->functions, functions[i]));
        pp_render *const render = shortest(done);
        pp_render_function(render, functions[i]);
        PP_TRY(pp_emit_loop(render, functions[i]));
    }
    if (done->functions.n > 1)
        qsort(done->functions.at, done->functions.n, sizeof *done->functions.at, by_hash);
    return PPTO_OK;
}

static ppto_status emit_fold(pp_emitted *done, const pp_fold *fold)
{
    for (size_t i = 0; i < done->folds.n; i++)
        if (pp_fold_key(&done->folds.at[i]) == pp_fold_key(fold)) return PPTO_OK;
    PP_TRY(pp_vec_push(&done->folds, *fold));
    pp_emit_fold(shortest(done), fold);
    return PPTO_OK;
}

static ppto_status emit_folds(pp_emitted *done, const pp_fold *folds, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        pp_fold states = folds[i];
        states.lift = states.step = NULL;
        states.joined = true, states.position = false;
        states.n_inputs = states.n_states;
        PP_TRY(emit_fold(done, &folds[i]));
        PP_TRY(emit_fold(done, &states));
    }
    return PPTO_OK;
}

/* The loops of other parts are defined there. */
static void emit_declarations(const pp_emitted *done, pp_text *out)
{
    for (size_t i = 0; i < done->functions.n; i++)
        pp_text_add(
            out, "void PP_NAME(pp_loop_%016" PRIx64 ")(size_t n, void *const *out, const void *const *in);\n",
            done->functions.at[i]->hash);
    for (size_t i = 0; i < done->folds.n; i++) pp_emit_fold_declarations(&done->folds.at[i], out);
}

static void emit_arrays(const pp_emitted *done, pp_text *out)
{
    emit_declarations(done, out);
    pp_text_add(out, "extern const pp_function_entry PP_NAME(pp_functions)[];\n"
                     "extern const size_t PP_NAME(pp_n_functions);\n"
                     "extern const pp_fold_loops PP_NAME(pp_folds)[];\n"
                     "extern const size_t PP_NAME(pp_n_folds);\n\n"
                     "const pp_function_entry PP_NAME(pp_functions)[] = {\n");
    for (size_t i = 0; i < done->functions.n; i++)
        pp_text_add(out, "    {UINT64_C(0x%016" PRIx64 "), PP_NAME(pp_loop_%016" PRIx64 ")},\n",
                    done->functions.at[i]->hash, done->functions.at[i]->hash);
    pp_text_add(out,
                "    {UINT64_MAX, 0},\n};\nconst size_t PP_NAME(pp_n_functions) = %zu;\n\n"
                "const pp_fold_loops PP_NAME(pp_folds)[] = {\n",
                done->functions.n);
    for (size_t i = 0; i < done->folds.n; i++) pp_emit_fold_entry(&done->folds.at[i], out);
    pp_text_add(out, "    {0, 0, 0, 0, 0, 0, 0, 0, 0},\n};\nconst size_t PP_NAME(pp_n_folds) = %zu;\n",
                done->folds.n);
}

ppto_status pp_functions_emit(const pp_function *const *functions, size_t n, const pp_fold *folds,
                              size_t n_folds, pp_text *out, size_t n_parts)
{
    pp_emitted done = {.parts = pp_calloc(n_parts, sizeof(pp_render)), .n_parts = n_parts};
    if (done.parts == NULL) return PPTO_E_NOMEM;
    for (size_t i = 0; i < n_parts; i++) {
        done.parts[i] = (pp_render){.out = &out[i], .least_table = 16};
        pp_text_add(&out[i], "%s", head);
    }
    ppto_status status = emit_functions(&done, functions, n);
    if (status == PPTO_OK) status = emit_folds(&done, folds, n_folds);
    if (status == PPTO_OK) emit_arrays(&done, &out[0]);
    for (size_t i = 0; i < n_parts; i++) {
        if (status == PPTO_OK) status = done.parts[i].status;
        if (status == PPTO_OK && out[i].failed) status = PPTO_E_NOMEM;
        pp_render_free(&done.parts[i]);
    }
    pp_vec_free(&done.functions), pp_vec_free(&done.folds);
    pp_free(done.parts);
    return status;
}
