/* SPDX-License-Identifier: Apache-2.0
 * A generator of "machine code" for tests (devices/cpu/loop.h): its objects are the loops themselves, written
 * as words, and its functions evaluate them element by element by the reference of the primitives. A module
 * found by PPTO_MODULE_PATH, it shows all of the tiers without a compiler; a difference of bits is then one
 * of the loops.
 *
 * Objects are words: streams, code, pools, and called functions after their callers. A function of C cannot
 * carry data, so there are as many as SLOTS, each with the loop of its number; a loop more is refused, and
 * the interpreter keeps it. So is one with folds (tests/loops has those, tests/ops and graphs with LLVM). */
#include <string.h>

#include "devices/cpu/loop.h"
#include "devices/reference/reference.h"

enum { SLOTS = 1024, MAGIC = 0x70706f };

/* ---- writing --------------------------------------------------------------------------------- */

typedef PP_VEC(uint64_t) words;

static void put(words *w, uint64_t word)
{
    (void)!pp_vec_push(w, word);
}

static void put_code(words *w, const pp_instr *code, uint32_t n)
{
    put(w, n);
    for (uint32_t i = 0; i < n; i++) {
        put(w, (uint64_t)code[i].op << 8 | code[i].dtype);
        put(w, (uint64_t)code[i].a << 32 | code[i].b);
        put(w, (uint64_t)code[i].c << 32 | code[i].imm);
    }
}

static void put_function(words *w, const pp_function *f);

static void put_pools(words *w, const pp_pools *p)
{
    put_code(w, p->code, p->n_code);
    put(w, p->n_operands);
    for (uint32_t i = 0; i < p->n_operands; i++) put(w, p->operands[i]);
    put(w, p->n_consts);
    for (uint32_t i = 0; i < p->n_consts; i++) put(w, p->consts[i]);
    put(w, p->n_tables);
    for (uint32_t i = 0; i < p->n_tables; i++) {
        put(w, (uint64_t)p->tables[i].length << 8 | p->tables[i].dtype);
        for (uint32_t k = 0; k < p->tables[i].length; k++) put(w, p->tables[i].bits[k]);
    }
    put(w, p->n_callees);
    for (uint32_t i = 0; i < p->n_callees; i++) put_function(w, p->callees[i]);
}

static void put_function(words *w, const pp_function *f)
{
    const pp_pools pools = pp_function_pools(f);
    put(w, (uint64_t)f->n_params << 8 | f->n_results);
    for (unsigned i = 0; i < f->n_params; i++) put(w, f->param[i]);
    for (unsigned i = 0; i < f->n_results; i++) put(w, f->result[i]);
    put_pools(w, &pools);
}

static void put_streams(words *w, const pp_stream *s, uint32_t n)
{
    put(w, n);
    for (uint32_t i = 0; i < n; i++)
        put(w, (uint64_t)s[i].dtype << 8 | s[i].kind | (uint64_t)s[i].canonical << 16);
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct reader {
    const uint64_t *at, *end;
    pp_arena arena;
    bool broken;
} reader;

static uint64_t get(reader *r)
{
    if (r->at == r->end) r->broken = true;
    return r->broken ? 0 : *r->at++;
}

static void *room(reader *r, uint64_t n, size_t size)
{
    void *p = n <= (uint64_t)(r->end - r->at) ? pp_arena_alloc(&r->arena, (n + 1) * size) : NULL;
    if (p == NULL) r->broken = true;
    return p;
}

static uint32_t get_count(reader *r)
{
    const uint64_t n = get(r);
    if (n > (uint64_t)(r->end - r->at)) r->broken = true;
    return r->broken ? 0 : (uint32_t)n;
}

static const pp_function *get_function(reader *r);

static void get_pools(reader *r, pp_pools *p)
{
    pp_instr *code = room(r, p->n_code = get_count(r), sizeof *code);
    for (uint32_t i = 0; !r->broken && i < p->n_code; i++) {
        const uint64_t head = get(r), ab = get(r), ci = get(r);
        code[i] = (pp_instr){.op = (uint8_t)(head >> 8),
                             .dtype = (uint8_t)head,
                             .a = (uint32_t)(ab >> 32),
                             .b = (uint32_t)ab,
                             .c = (uint32_t)(ci >> 32),
                             .imm = (uint32_t)ci};
    }
    uint32_t *operands = room(r, p->n_operands = get_count(r), sizeof *operands);
    for (uint32_t i = 0; !r->broken && i < p->n_operands; i++) operands[i] = (uint32_t)get(r);
    uint64_t *consts = room(r, p->n_consts = get_count(r), sizeof *consts);
    for (uint32_t i = 0; !r->broken && i < p->n_consts; i++) consts[i] = get(r);
    pp_table *tables = room(r, p->n_tables = get_count(r), sizeof *tables);
    for (uint32_t i = 0; !r->broken && i < p->n_tables; i++) {
        const uint64_t head = get(r);
        uint64_t *bits = room(r, head >> 8, sizeof *bits);
        for (uint32_t k = 0; !r->broken && k < head >> 8; k++) bits[k] = get(r);
        tables[i] = (pp_table){.dtype = (uint8_t)head, .length = (uint32_t)(head >> 8), .bits = bits};
    }
    const pp_function **callees = room(r, p->n_callees = get_count(r), sizeof *callees);
    for (uint32_t i = 0; !r->broken && i < p->n_callees; i++) callees[i] = get_function(r);
    p->code = code, p->operands = operands, p->consts = consts, p->tables = tables, p->callees = callees;
}

static const pp_function *get_function(reader *r)
{
    pp_function *f = room(r, 1, sizeof *f);
    pp_pools p = {0};
    const uint64_t head = get(r);
    if (r->broken) return NULL;
    f->n_params = (uint8_t)(head >> 8), f->n_results = (uint8_t)head;
    for (unsigned i = 0; i < f->n_params; i++) f->param[i] = (uint8_t)get(r);
    for (unsigned i = 0; i < f->n_results; i++) f->result[i] = (uint32_t)get(r);
    get_pools(r, &p);
    f->code = p.code, f->operands = p.operands, f->consts = p.consts, f->tables = p.tables;
    f->callees = p.callees, f->n_code = p.n_code, f->n_operands = p.n_operands, f->n_consts = p.n_consts;
    f->n_tables = p.n_tables, f->n_callees = p.n_callees;
    return f;
}

static const pp_stream *get_streams(reader *r, uint32_t *n)
{
    pp_stream *s = room(r, *n = get_count(r), sizeof *s);
    for (uint32_t i = 0; !r->broken && i < *n; i++) {
        const uint64_t word = get(r);
        s[i] = (pp_stream){.dtype = (uint8_t)(word >> 8), .kind = (uint8_t)word, .canonical = word >> 16 & 1};
    }
    return s;
}

/* ---- running --------------------------------------------------------------------------------- */

typedef struct slot {
    bool taken;
    pp_arena arena;
    pp_pools code;
    const pp_stream *in, *out;
    uint32_t n_in, n_out;
    size_t words; /* of values and stack */
} slot;

static slot slots[SLOTS];

typedef struct element { /* of a run: where it stands */
    const slot *s;
    size_t row, col;
    const pp_stream_at *in, *out;
    uint64_t *value, *stack;
} element;

static uint64_t load(const element *e, uint32_t i)
{
    const size_t size = ppto_dtype_size((ppto_dtype)e->s->in[i].dtype);
    const size_t col = e->s->in[i].kind == PP_STREAM_FULL ? e->col : 0;
    uint64_t bits = 0;
    memcpy(&bits, e->in[i].at + (int64_t)e->row * e->in[i].pitch + col * size, size);
    return bits;
}

static void store(const element *e, uint32_t i, uint64_t bits)
{
    const ppto_dtype dtype = (ppto_dtype)e->s->out[i].dtype;
    const size_t size = ppto_dtype_size(dtype);
    if (e->s->out[i].canonical && pp_scalar_eval(PP_NE, dtype, PPTO_BOOL, bits, bits, 0))
        bits = pp_dtype_canonical_nan(dtype);
    memcpy(e->out[i].at + (int64_t)e->row * e->out[i].pitch + e->col * size, &bits, size);
}

static uint64_t called(const element *e, const pp_function *f, const uint32_t *argument)
{
    uint64_t params[PP_MAX_OPERANDS], results[4];
    for (unsigned i = 0; i < f->n_params; i++) params[i] = e->value[argument[i]];
    pp_ref_call(f, params, results, e->stack);
    return results[0];
}

static uint64_t computed(const element *e, const pp_instr *x)
{
    const pp_pools *p = &e->s->code;
    const uint64_t *v = e->value;
    switch (x->op) {
    case PP_CONST: return p->consts[x->imm];
    case PP_PARAM: return load(e, x->imm);
    case PP_STORE: store(e, x->imm, v[x->a]); return 0;
    case PP_TABLE: return p->tables[x->imm].bits[v[x->a] & (p->tables[x->imm].length - 1)];
    case PP_CALL: return called(e, p->callees[x->imm], p->operands + x->a);
    case PP_COLD: return v[x->a] & 1 ? called(e, p->callees[x->imm], p->operands + x->c) : v[x->b];
    default: break;
    }
    const ppto_dtype from = (ppto_dtype)p->code[x->op == PP_SELECT ? x->b : x->a].dtype;
    return pp_scalar_eval((pp_op)x->op, from, (ppto_dtype)x->dtype, v[x->a], v[x->b], v[x->c]);
}

static void run(const slot *s, size_t rows, size_t cols, const pp_stream_at *in, const pp_stream_at *out)
{
    uint64_t *values = pp_calloc(s->words, sizeof *values);
    element e = {.s = s, .in = in, .out = out, .value = values, .stack = values + s->code.n_code};
    if (values == NULL) return;
    for (e.row = 0; e.row < rows; e.row++)
        for (e.col = 0; e.col < cols; e.col++)
            for (uint32_t i = 0; i < s->code.n_code; i++) values[i] = computed(&e, &s->code.code[i]);
    pp_free(values);
}

#define ONE(n)                                                                                               \
    static void run_##n(size_t r, size_t c, const pp_stream_at *i, const pp_stream_at *o)                    \
    {                                                                                                        \
        run(&slots[0x##n], r, c, i, o);                                                                      \
    }
#define NAME(n) run_##n,
/* clang-format off */
#define HEX(F, n)                                                                                            \
    F(n##0) F(n##1) F(n##2) F(n##3) F(n##4) F(n##5) F(n##6) F(n##7)                                          \
    F(n##8) F(n##9) F(n##a) F(n##b) F(n##c) F(n##d) F(n##e) F(n##f)
#define HEX2(F, n)                                                                                           \
    HEX(F, n##0) HEX(F, n##1) HEX(F, n##2) HEX(F, n##3) HEX(F, n##4) HEX(F, n##5) HEX(F, n##6) HEX(F, n##7)  \
    HEX(F, n##8) HEX(F, n##9) HEX(F, n##a) HEX(F, n##b) HEX(F, n##c) HEX(F, n##d) HEX(F, n##e) HEX(F, n##f)
/* clang-format on */
#define ALL(F) HEX2(F, 0) HEX2(F, 1) HEX2(F, 2) HEX2(F, 3)
ALL(ONE)
static const pp_loop_fn functions[SLOTS] = {ALL(NAME)};

/* ---- the generator --------------------------------------------------------------------------- */

static ppto_status fake_open(const char *simd, pp_error *err)
{
    (void)simd;
    (void)err;
    return PPTO_OK;
}

static ppto_status fake_compile(const pp_loop *loop, const char *simd, void *(*alloc)(size_t), void **object,
                                size_t *bytes, pp_error *err)
{
    words w = {0};
    const pp_pools pools = pp_loop_pools(loop);
    (void)simd;
    PP_TRY(pp_loop_verify(loop, err));
    if (loop->n_folds > 0) return pp_fail(err, PPTO_E_UNSUPPORTED, "no folds here");
    put(&w, MAGIC);
    put_streams(&w, loop->in, loop->n_in);
    put_streams(&w, loop->out, loop->n_out);
    put_pools(&w, &pools);
    *bytes = w.n * sizeof *w.at;
    *object = alloc(*bytes);
    if (*object != NULL) memcpy(*object, w.at, *bytes);
    pp_vec_free(&w);
    return *object != NULL ? PPTO_OK : PPTO_E_NOMEM;
}

static ppto_status fake_load(const void *object, size_t bytes, void **handle, pp_loop_fn *fn, pp_error *err)
{
    unsigned i = 0;
    reader r = {.at = object};
    r.end = r.at + bytes / sizeof *r.at;
    while (i < SLOTS && slots[i].taken) i++;
    if (i == SLOTS) return pp_fail(err, PPTO_E_UNSUPPORTED, "all slots are taken");
    slot *s = &slots[i];
    *s = (slot){.words = 64};
    if (bytes % sizeof *r.at != 0 || get(&r) != MAGIC) r.broken = true;
    s->in = get_streams(&r, &s->n_in);
    s->out = get_streams(&r, &s->n_out);
    if (!r.broken) get_pools(&r, &s->code);
    s->arena = r.arena;
    if (r.broken || r.at != r.end) {
        pp_arena_free(&s->arena);
        return pp_fail(err, PPTO_E_INTERNAL, "the object is damaged");
    }
    s->words += s->code.n_code;
    for (uint32_t f = 0; f < s->code.n_callees; f++) s->words += pp_ref_function_words(s->code.callees[f]);
    s->taken = true;
    *handle = s;
    *fn = functions[i];
    return PPTO_OK;
}

static void fake_unload(void *handle)
{
    slot *s = handle;
    if (s == NULL) return;
    pp_arena_free(&s->arena);
    s->taken = false;
}

extern const pp_generator pp_generator_module;
__attribute__((visibility("default"))) const pp_generator pp_generator_module = {.abi = PP_GENERATOR_ABI,
                                                                                 .name = "fake 1",
                                                                                 .open = fake_open,
                                                                                 .compile = fake_compile,
                                                                                 .load = fake_load,
                                                                                 .unload = fake_unload};
