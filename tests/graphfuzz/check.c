/* SPDX-License-Identifier: Apache-2.0
 * The comparison. Contexts are kept for some hundred programs, so that caches are tried as well, and then
 * replaced. Which inputs are donated and whether an output overlaps an input follows from the seed, so that
 * it stays while the program shrinks. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "generate.h"
#include "ppto/run.h"

#define NO_SIMD NULL

const fz_config fz_configs[FZ_CONFIGS] = {
    {"serial", 1, NO_SIMD, false, 0, 0, 0},      {"serial", 1, "baseline", false, 0, 0, 0},
    {"serial", 1, "avx2", false, 7, 0, 0},       {"serial", 1, "avx512", true, 0, 0, 0},
    {"serial", 1, "baseline", true, 1, 0, 0},    {"sim", 1, NO_SIMD, false, 64, 1, 0},
    {"sim", 2, "avx2", false, 0, 2, 0},          {"sim", 3, NO_SIMD, false, 1, 3, 0},
    {"sim", 3, "baseline", true, 33, 4, 0},      {"sim", 7, "avx512", false, 7, 5, 0},
    {"sim", 7, NO_SIMD, false, 1000, 6, 0},      {"sim", 2, NO_SIMD, true, 16, 7, 0},
    {"pthread", 1, NO_SIMD, false, 0, 0, 0},     {"pthread", 2, NO_SIMD, false, 0, 0, 0},
    {"pthread", 2, "baseline", false, 64, 0, 0}, {"pthread", 3, "avx2", true, 7, 0, 0},
    {"pthread", 3, "avx512", false, 1, 0, 0},    {"pthread", 7, NO_SIMD, false, 33, 0, 0},
    {"pthread", 7, "avx2", true, 0, 0, 0},       {"tbb", 1, NO_SIMD, true, 64, 0, 0},
    {"tbb", 2, NO_SIMD, false, 0, 0, 0},         {"tbb", 2, "avx2", false, 1, 0, 0},
    {"tbb", 3, "baseline", true, 0, 0, 0},       {"tbb", 3, NO_SIMD, false, 7, 0, 0},
    {"tbb", 7, "avx512", false, 16, 0, 0},       {"tbb", 7, NO_SIMD, true, 1000, 0, 0},
    {"serial", 1, NO_SIMD, false, 0, 0, 128},    {"sim", 3, NO_SIMD, true, 0, 8, 8},
    {"pthread", 2, "avx2", false, 7, 0, 1024},
};

typedef struct results {
    ppto_status status;
    char why[512];
    ppto_array *at[FZ_VARIANTS][FZ_OUTPUTS];
} results;

void fz_config_text(int config, char *room, size_t size)
{
    const fz_config *c = &fz_configs[config];
    snprintf(room, size, "executor=%s threads=%d simd=%s optimise=%s grain=%u chunk=%u", c->executor,
             c->threads, c->simd ? c->simd : "best", c->no_optimise ? "off" : "on", (unsigned)c->grain,
             (unsigned)c->chunk);
}

static void results_release(results *r)
{
    for (int v = 0; v < FZ_VARIANTS; v++)
        for (int i = 0; i < FZ_OUTPUTS; i++) ppto_array_release(r->at[v][i]);
}

ppto_context *fz_open_context(const fz_config *c)
{
    ppto_options options = PPTO_OPTIONS_INIT;
    ppto_context *ctx = NULL;
    options.device = c ? "cpu" : "reference";
    options.executor = c ? c->executor : "serial";
    options.threads = c ? c->threads : 1;
    options.simd = c ? c->simd : NULL;
    options.no_optimise = !c || c->no_optimise;
    options.grain = c ? c->grain : 0;
    options.chunk = c ? c->chunk : 0;
    options.sim_seed = c ? c->sim_seed : 0;
    options.log_level = -1;
    return ppto_context_create(&ctx, &options) == PPTO_OK ? ctx : NULL;
}

void fz_checker_close(fz_checker *checker)
{
    ppto_context_destroy(checker->reference);
    for (int i = 0; i < FZ_CONFIGS; i++) ppto_context_destroy(checker->context[i]);
    memset(checker->context, 0, sizeof checker->context);
    checker->reference = NULL;
    checker->age = 0;
}

/* Numbers are free names of the text: n<node>. */
static ppto_tensor *declare(void *arg, ppto_graph *graph, const char *name)
{
    const fz_program *program = arg;
    if (name[0] != 'n') return NULL;
    return ppto_input_number(graph, name, program->node[atoi(name + 1)].type.dtype == PPTO_F32);
}

static ppto_status compile(ppto_context *ctx, const fz_program *p, const char *text, ppto_program **out,
                           results *r)
{
    ppto_graph *graph = ppto_graph_create(ctx);
    ppto_tensor **outputs = NULL;
    char **names = NULL;
    size_t n = 0;
    ppto_status status =
        ppto_parse_program(graph, text, strlen(text), "fuzz.ppto", declare, (void *)p, &n, &outputs, &names);
    if (status == PPTO_OK) status = ppto_compile(n, outputs, out);
    if (status != PPTO_OK) snprintf(r->why, sizeof r->why, "%s", ppto_error_text(ctx));
    ppto_outputs_free(n, outputs, names);
    ppto_graph_destroy(graph);
    return status;
}

/* An output that lies in the memory of an input of its type; memory to free, NULL when this program has none.
 */
typedef struct overlap {
    int input, output; /* a node, a position */
    char *memory;
    ppto_array *array;
} overlap;

static overlap overlap_of(ppto_context *ctx, const fz_program *p, int variant, ppto_program *program)
{
    overlap o = {-1, -1, NULL, NULL};
    if (p->seed % 3 != 0) return o;
    for (int k = 0; k < p->n_outputs && o.input < 0; k++)
        for (int i = 0; i < p->n && o.input < 0; i++)
            if (p->node[i].op == FZ_INPUT && fz_same_type(&p->node[i].type, &p->node[p->output[k]].type))
                o.input = i, o.output = k;
    if (o.input < 0) return o;
    const fz_type *t = &p->node[o.input].type;
    size_t size = ppto_dtype_size(t->dtype), bytes = size * (size_t)fz_elements(t);
    size_t shift = size * (size_t)(p->seed / 3 % 3);
    char *data = fz_data(&p->node[o.input], variant), name[16];
    o.memory = calloc(bytes + 4 * size, 1);
    if (!o.memory) abort();
    memcpy(o.memory + 2 * size, data, bytes);
    free(data);
    ppto_array *in = ppto_array_wrap(ctx, o.memory + 2 * size, t->dtype, t->rank, t->size, NULL, NULL, NULL);
    o.array = ppto_array_wrap(ctx, o.memory + shift * 2, t->dtype, t->rank, t->size, NULL, NULL, NULL);
    fz_name(p, o.input, name);
    if (ppto_program_bind_name(program, name, in) != PPTO_OK ||
        ppto_program_bind_output(program, (size_t)o.output, o.array) != PPTO_OK)
        o.output = -1;
    ppto_array_release(in);
    return o;
}

static void overlap_end(ppto_context *ctx, const fz_program *p, overlap *o, ppto_program *program,
                        ppto_array **at)
{
    char name[16];
    if (!o->memory) return;
    if (o->output >= 0) {
        const fz_type *t = &p->node[o->input].type;
        ppto_array *result = at[o->output];
        if (result)
            at[o->output] = ppto_array_copy_of(ctx, t->dtype, t->rank, t->size, ppto_array_data(result));
        ppto_array_release(result);
        ppto_program_bind_output(program, (size_t)o->output, NULL);
    }
    ppto_program_bind_name(program, fz_name(p, o->input, name), NULL);
    ppto_array_release(o->array);
    free(o->memory);
}

static ppto_status bind(ppto_context *ctx, const fz_program *p, int variant, bool plain,
                        ppto_program *program)
{
    for (size_t i = 0; i < ppto_program_inputs(program); i++) {
        int node = atoi(ppto_program_input_name(program, i) + 1);
        ppto_array *array = fz_array(ctx, &p->node[node], variant, plain);
        if (!array) return ppto_error_status(ctx);
        ppto_status status = ppto_program_bind(program, i, array);
        bool given = !plain && p->node[node].op == FZ_INPUT && p->node[node].strides == FZ_PLAIN;
        if (status == PPTO_OK)
            status = ppto_program_donate(program, i, given && (p->seed >> (i % 8) & 3) == 1);
        ppto_array_release(array);
        if (status != PPTO_OK) return status;
    }
    return PPTO_OK;
}

/* The reference is never faulty: it shares the runtime with the configurations. */
static void plant(int fault)
{
#ifdef PP_FAULTS
    pp_fault_active = fault;
#endif
    (void)fault;
}

static void run(ppto_context *ctx, const fz_program *p, const char *text, bool plain, results *r)
{
    ppto_program *program = NULL;
    r->status = compile(ctx, p, text, &program, r);
    for (int v = 0; v < FZ_VARIANTS && r->status == PPTO_OK; v++) {
        r->status = bind(ctx, p, v, plain, program);
        overlap o = {-1, -1, NULL, NULL};
        if (!plain && r->status == PPTO_OK) o = overlap_of(ctx, p, v, program);
        if (r->status == PPTO_OK) r->status = ppto_program_run(program, r->at[v]);
        if (r->status != PPTO_OK) snprintf(r->why, sizeof r->why, "%s", ppto_error_text(ctx));
        overlap_end(ctx, p, &o, program, r->at[v]);
    }
    ppto_program_destroy(program);
}

bool fz_same_bytes(const ppto_array *a, const ppto_array *b)
{
    size_t bytes = ppto_dtype_size(ppto_array_dtype(a)) * (size_t)ppto_array_elements(a);
    return ppto_array_elements(a) == ppto_array_elements(b) && ppto_array_dtype(a) == ppto_array_dtype(b) &&
           memcmp(ppto_array_data(a), ppto_array_data(b), bytes) == 0;
}

/* True when equal; else what differs. */
static bool compare(const fz_program *p, const results *want, const results *got, char *text, size_t size)
{
    if (want->status != got->status) {
        snprintf(text, size, "status %s, the reference has %s: %.400s", ppto_status_name(got->status),
                 ppto_status_name(want->status), got->status ? got->why : want->why);
        return false;
    }
    for (int v = 0; v < FZ_VARIANTS && want->status == PPTO_OK; v++)
        for (int i = 0; i < p->n_outputs; i++) {
            ppto_comparison c;
            ppto_status status =
                got->at[v][i] ? ppto_compare(got->at[v][i], want->at[v][i], 0, 0, &c) : PPTO_E_INTERNAL;
            if (status == PPTO_OK && c.equal && fz_same_bytes(got->at[v][i], want->at[v][i])) continue;
            if (status != PPTO_OK)
                snprintf(text, size, "output y%d of run %d cannot be compared", i, v);
            else if (c.equal)
                snprintf(text, size, "output y%d of run %d: the bytes of a NaN differ", i, v);
            else if (!c.same_dtype || !c.same_shape)
                snprintf(text, size, "output y%d of run %d has another dtype or shape", i, v);
            else
                snprintf(text, size,
                         "output y%d of run %d: %lld elements differ, first at %lld: %.17g, not %.17g", i, v,
                         (long long)c.different, (long long)c.first, c.first_a, c.first_b);
            return false;
        }
    return true;
}

/* The reference against the generator's own idea of the types. */
static bool types_as_expected(const fz_program *p, const results *want, char *text, size_t size)
{
    for (int i = 0; i < p->n_outputs; i++) {
        const fz_type *t = &p->node[p->output[i]].type;
        const ppto_array *a = want->at[0][i];
        fz_type have = {.dtype = ppto_array_dtype(a), .rank = ppto_array_rank(a)};
        if (have.rank == t->rank)
            memcpy(have.size, ppto_array_shape(a), (size_t)have.rank * sizeof *have.size);
        if (have.rank == t->rank && fz_same_type(&have, t)) continue;
        snprintf(text, size, "output y%d is %s of rank %d, expected %s of rank %d or another shape", i,
                 ppto_dtype_name(have.dtype), have.rank, ppto_dtype_name(t->dtype), t->rank);
        return false;
    }
    return true;
}

fz_verdict fz_check(fz_checker *checker, const fz_program *program, uint64_t mask, fz_failure *failure)
{
    if (checker->age++ > 300) fz_checker_close(checker);
    if (!checker->reference) checker->reference = fz_open_context(NULL);
    failure->config = 0;
    if (!checker->reference) {
        snprintf(failure->text, sizeof failure->text, "no reference: %.500s", ppto_error_text(NULL));
        return FZ_FAIL;
    }
    char *text = fz_text(program);
    results want = {0};
    bool passed = true;
    plant(PP_FAULT_NONE);
    run(checker->reference, program, text, true, &want);
    plant(checker->fault);
    if (want.status == PPTO_OK)
        passed = types_as_expected(program, &want, failure->text, sizeof failure->text);
    snprintf(checker->invalid, sizeof checker->invalid, "%s", want.why);
    for (int i = 0; i < FZ_CONFIGS && passed; i++) {
        if (!(mask >> i & 1) || checker->absent[i]) continue;
        if (!checker->context[i]) checker->context[i] = fz_open_context(&fz_configs[i]);
        if (!checker->context[i]) {
            checker->absent[i] = true;
            continue;
        }
        results got = {0};
        run(checker->context[i], program, text, false, &got);
        passed = compare(program, &want, &got, failure->text, sizeof failure->text);
        failure->config = i;
        results_release(&got);
    }
    results_release(&want);
    free(text);
    return !passed ? FZ_FAIL : want.status != PPTO_OK ? FZ_INVALID : FZ_PASS;
}

bool fz_dump(fz_checker *checker, const fz_program *program, const char *folder)
{
    if (!checker->context[0]) checker->context[0] = fz_open_context(&fz_configs[0]);
    ppto_context *ctx = checker->context[0];
    char *text = fz_text(program), path[4096], name[16];
    results r = {0};
    run(ctx, program, text, true, &r);
    free(text);
    bool good = r.status == PPTO_OK;
    if (!good) fprintf(stderr, "seed %llu: %s\n", (unsigned long long)program->seed, r.why);
    for (int i = 0; i < program->n + program->n_outputs && r.status == PPTO_OK; i++) {
        bool input = i < program->n;
        int node = input ? i : program->output[i - program->n];
        if (input && program->node[node].op != FZ_INPUT) continue;
        ppto_array *array =
            input ? fz_array(ctx, &program->node[node], 0, true) : ppto_array_retain(r.at[0][i - program->n]);
        snprintf(path, sizeof path, "%s/%llu.%s.npy", folder, (unsigned long long)program->seed,
                 fz_name(program, node, name));
        good = array && ppto_array_save(array, path) == PPTO_OK && good;
        ppto_array_release(array);
    }
    results_release(&r);
    return good;
}
