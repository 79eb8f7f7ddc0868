/* SPDX-License-Identifier: Apache-2.0
 * run_cases CASES [--edges | --dump FOLDER]
 *
 * Runs every line of cases.txt (`expression | name=dtype[sizes]:filler …`) on the reference device and on
 * every configuration of the CPU device and compares bytes: executors, threads, instruction sets, optimiser,
 * grains. Half of the configurations get their inputs wrapped backwards; a second pass repeats every input
 * along its first axis by a stride of 0; in a third every size but 1 is a name when the case is recorded
 * (where its operators can be recorded so). --dump writes inputs and results as NPY instead
 * (<case>.<input>.npy, <case>.=<output>.npy), which compare_numpy.py reads; with --edges a case
 * may be refused, by all with one status. One line per failure, then `N
 * passed, N failed`. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ppto/array.h"
#include "ppto/run.h"
#include "tests/graphfuzz/check.h"

enum { CASE_INPUTS = 8, CASE_RESULTS = 16, CASE_NAME = 32 };

/* An input: made once a case, by the filler, and copied for every configuration. */
typedef struct binding {
    char name[CASE_NAME], dims[128], named[160], filler[64];
    bool number, is_float;
    ppto_dtype dtype;
    int rank;
    int64_t shape[PPTO_MAX_RANK];
    double value;
    ppto_array *made;
} binding;

typedef struct one_case {
    int line;
    bool named; /* sizes are names when recorded */
    bool edge;  /* may be refused */
    char text[512];
    int n;
    binding input[CASE_INPUTS];
} one_case;

typedef struct outcome {
    ppto_status status;
    char why[512];
    size_t n;
    ppto_array *at[CASE_RESULTS];
} outcome;

/* How inputs lie in memory. */
typedef enum lie { LIE_PLAIN, LIE_REVERSED, LIE_REPEATED_COPY, LIE_REPEATED } lie;

static char *trim(char *s)
{
    while (*s == ' ') s++;
    for (size_t n = strlen(s); n > 0 && (s[n - 1] == ' ' || s[n - 1] == '\n'); n--) s[n - 1] = 0;
    return s;
}

static bool parse_array(binding *b, char *open)
{
    char *close = strchr(open, ']');
    if (!close) return false;
    *open = *close = 0;
    snprintf(b->filler, sizeof b->filler, "%s", close[1] == ':' ? close + 2 : "random(1)");
    snprintf(b->dims, sizeof b->dims, "%s", open + 1);
    for (char *at = open + 1; *at && b->rank < PPTO_MAX_RANK;) {
        int64_t size = b->shape[b->rank++] = strtoll(at, &at, 10);
        size_t n = strlen(b->named);
        snprintf(b->named + n, sizeof b->named - n, size == 1 ? "%s1" : "%sS%lld", n ? "," : "",
                 (long long)size);
        if (*at == ',') at++;
    }
    return true;
}

static bool parse_binding(char *word, binding *b)
{
    char *value = strchr(word, '='), *open;
    if (!value) return false;
    *value++ = 0;
    snprintf(b->name, sizeof b->name, "%s", word);
    open = strchr(value, '[');
    if (!open) {
        b->number = true;
        b->is_float = strpbrk(value, ".en") != NULL;
        b->value = strtod(value, NULL);
        return true;
    }
    if (!parse_array(b, open)) return false;
    for (int d = PPTO_BOOL; d <= PPTO_F64; d++)
        if (strcmp(value, ppto_dtype_name((ppto_dtype)d)) == 0) return b->dtype = (ppto_dtype)d, true;
    return false;
}

static bool parse_line(char *line, one_case *c)
{
    char *bar = strrchr(line, '|'), *rest = NULL;
    if (!bar) return false;
    *bar = 0;
    snprintf(c->text, sizeof c->text, "%s", trim(line));
    for (char *word = strtok_r(trim(bar + 1), " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        if (c->n == CASE_INPUTS || !parse_binding(word, &c->input[c->n++])) return false;
    return true;
}

static ppto_tensor *declare(void *arg, ppto_graph *graph, const char *name)
{
    const one_case *c = arg;
    for (int i = 0; i < c->n; i++) {
        const binding *b = &c->input[i];
        if (strcmp(b->name, name) != 0) continue;
        return b->number ? ppto_input_number(graph, name, b->is_float)
                         : ppto_input(graph, name, b->dtype, c->named ? b->named : b->dims);
    }
    return NULL;
}

static void release(void *arg, void *data)
{
    (void)data;
    free(arg);
}

/* The array in another layout; consumes it. */
static ppto_array *laid(ppto_context *ctx, ppto_array *plain, lie how)
{
    if (!plain || how == LIE_PLAIN) return plain;
    ppto_dtype dtype = ppto_array_dtype(plain);
    int rank = ppto_array_rank(plain);
    const int64_t *shape = ppto_array_shape(plain);
    int64_t size = (int64_t)ppto_dtype_size(dtype), n = ppto_array_elements(plain), stride[PPTO_MAX_RANK],
            span = size;
    const char *data = ppto_array_data(plain);
    char *memory = malloc((size_t)((n + 1) * size)), *base = memory;
    if (!memory) abort();
    int64_t row = rank > 0 && shape[0] > 0 ? n / shape[0] : n;
    for (int64_t i = 0; i < n; i++) {
        int64_t from = how == LIE_REVERSED ? n - 1 - i : row ? i % row : i;
        memcpy(memory + i * size, data + from * size, (size_t)size);
    }
    for (int i = rank - 1; i >= 0; i--, span *= shape[i + 1]) stride[i] = how == LIE_REVERSED ? -span : span;
    if (how == LIE_REVERSED && n > 0) base += (n - 1) * size;
    if (how == LIE_REPEATED && rank > 0) stride[0] = 0;
    ppto_array *array = how == LIE_REPEATED_COPY
                            ? ppto_array_copy_of(ctx, dtype, rank, shape, memory)
                            : ppto_array_wrap(ctx, base, dtype, rank, shape, stride, release, memory);
    if (how == LIE_REPEATED_COPY || !array) free(memory);
    ppto_array_release(plain);
    return array;
}

/* An array of ctx's own: the filler is the reference evaluator, too slow to be asked by every configuration.
 */
static ppto_array *array_of(ppto_context *ctx, const binding *b, lie how)
{
    if (b->number) return b->is_float ? ppto_number(ctx, b->value) : ppto_integer(ctx, (int64_t)b->value);
    if (!b->made)
        return laid(ctx, ppto_array_fill(ctx, b->dtype, b->rank, b->shape, b->filler, b->name), how);
    return laid(ctx, ppto_array_copy_of(ctx, b->dtype, b->rank, b->shape, ppto_array_data(b->made)), how);
}

static void run(ppto_context *ctx, const one_case *c, lie how, outcome *r)
{
    ppto_graph *graph = ppto_graph_create(ctx);
    ppto_tensor **outputs = NULL;
    char **names = NULL;
    ppto_program *program = NULL;
    r->status = ppto_parse_program(graph, c->text, strlen(c->text), "case", declare, (void *)c, &r->n,
                                   &outputs, &names);
    if (r->status == PPTO_OK && r->n > CASE_RESULTS) r->status = PPTO_E_LIMIT;
    if (r->status == PPTO_OK) r->status = ppto_compile(r->n, outputs, &program);
    for (int i = 0; i < c->n && r->status == PPTO_OK; i++) {
        ppto_array *array = array_of(ctx, &c->input[i], how);
        r->status = array ? ppto_program_bind_name(program, c->input[i].name, array) : ppto_error_status(ctx);
        ppto_array_release(array);
    }
    if (r->status == PPTO_OK) r->status = ppto_program_run(program, r->at);
    if (r->status != PPTO_OK) snprintf(r->why, sizeof r->why, "%s", ppto_error_text(ctx));
    ppto_program_destroy(program);
    ppto_outputs_free(r->n, outputs, names);
    ppto_graph_destroy(graph);
}

/* Fills the inputs of c in the reference's context; one that cannot be made is told by each run. */
static void make_inputs(ppto_context *reference, one_case *c)
{
    for (int i = 0; i < c->n; i++) {
        binding *b = &c->input[i];
        if (!b->number) b->made = ppto_array_fill(reference, b->dtype, b->rank, b->shape, b->filler, b->name);
    }
}

static void release_inputs(one_case *c)
{
    for (int i = 0; i < c->n; i++) ppto_array_release(c->input[i].made);
}

static void outcome_release(outcome *r)
{
    for (size_t i = 0; i < CASE_RESULTS; i++) ppto_array_release(r->at[i]);
}

static bool same(const outcome *want, const outcome *got, char *text, size_t size)
{
    if (want->status != got->status || want->n != got->n) {
        snprintf(text, size, "%s, not %s: %.300s", ppto_status_name(got->status),
                 ppto_status_name(want->status), got->status ? got->why : want->why);
        return false;
    }
    for (size_t i = 0; i < want->n && want->status == PPTO_OK; i++) {
        ppto_comparison c;
        if (ppto_compare(got->at[i], want->at[i], 0, 0, &c) == PPTO_OK && c.equal &&
            fz_same_bytes(got->at[i], want->at[i]))
            continue;
        snprintf(text, size, "result %zu: %lld elements differ, first at %lld: %.17g, not %.17g", i,
                 (long long)c.different, (long long)c.first, c.first_a, c.first_b);
        return false;
    }
    return true;
}

/* Sizes that are names mean what the numbers mean. */
static bool check_named(ppto_context **ctx, ppto_context *reference, const one_case *c, char *text,
                        size_t size)
{
    one_case named = *c;
    outcome want = {0}, got = {0}, slow = {0};
    char why[512];
    bool passed = true;
    named.named = true;
    run(reference, c, LIE_PLAIN, &want);
    run(reference, &named, LIE_PLAIN, &slow);
    if (ctx[0]) run(ctx[0], &named, LIE_PLAIN, &got);
    if (slow.status == PPTO_OK) passed = same(&want, &slow, why, sizeof why);
    if (passed && ctx[0]) passed = same(&slow, &got, why, sizeof why);
    if (!passed) snprintf(text, size, "named sizes: %s", why);
    outcome_release(&want);
    outcome_release(&got);
    outcome_release(&slow);
    return passed;
}

/* One case on every configuration; the first difference into text. */
static bool check(ppto_context **ctx, ppto_context *reference, one_case *c, char *text, size_t size)
{
    make_inputs(reference, c);
    bool passed = check_named(ctx, reference, c, text, size);
    for (int pass = 0; pass < 2 && passed; pass++) {
        outcome want = {0};
        run(reference, c, pass ? LIE_REPEATED_COPY : LIE_PLAIN, &want);
        if (want.status != PPTO_OK && pass == 0 && (!c->edge || want.status == PPTO_E_INTERNAL)) {
            snprintf(text, size, "reference: %.500s", want.why);
            passed = false;
        }
        for (int i = 0; i < FZ_CONFIGS && passed; i++) {
            char why[512], config[128];
            outcome got = {0};
            if (!ctx[i]) continue;
            run(ctx[i], c, pass ? LIE_REPEATED : i % 2 ? LIE_REVERSED : LIE_PLAIN, &got);
            passed = same(&want, &got, why, sizeof why);
            fz_config_text(i, config, sizeof config);
            if (!passed) snprintf(text, size, "%s, %s: %s", config, pass ? "repeated inputs" : "inputs", why);
            outcome_release(&got);
        }
        outcome_release(&want);
    }
    release_inputs(c);
    return passed;
}

static bool dump(ppto_context *ctx, const one_case *c, const char *folder, char *text, size_t size)
{
    char path[4096];
    outcome r = {0};
    bool good = true;
    run(ctx, c, LIE_PLAIN, &r);
    if (r.status != PPTO_OK) snprintf(text, size, "%s", r.why);
    for (size_t i = 0; i < r.n && r.status == PPTO_OK; i++) {
        snprintf(path, sizeof path, "%s/%d.=%zu.npy", folder, c->line, i);
        good = ppto_array_save(r.at[i], path) == PPTO_OK && good;
    }
    for (int i = 0; i < c->n; i++) {
        if (c->input[i].number) continue;
        ppto_array *array = array_of(ctx, &c->input[i], LIE_PLAIN);
        snprintf(path, sizeof path, "%s/%d.%s.npy", folder, c->line, c->input[i].name);
        good = array && ppto_array_save(array, path) == PPTO_OK && good;
        ppto_array_release(array);
    }
    outcome_release(&r);
    return r.status == PPTO_OK && good;
}

/* What a worker process leaves to its parent. */
typedef struct progress {
    int line, passed, failed; /* line: the one under test */
    bool edges;
} progress;

/* The cases behind p->line. */
static void work(progress *p, const char *path, const char *folder)
{
    FILE *file = fopen(path, "r");
    ppto_context *ctx[FZ_CONFIGS] = {NULL}, *reference = folder ? NULL : fz_open_context(NULL);
    char line[1024], text[1024];
    int number = 0;
    for (int i = 0; i < (folder ? 1 : FZ_CONFIGS); i++) ctx[i] = fz_open_context(&fz_configs[i]);
    if (!file || !ctx[0] || (!folder && !reference)) {
        printf("FAILED: no context or no cases: %s\n", ppto_error_text(NULL));
        p->failed++;
        return;
    }
    for (int skip = p->line; fgets(line, sizeof line, file);) {
        one_case c = {.line = ++number, .edge = p->edges};
        if (number <= skip || line[0] == '#' || !*trim(line)) continue;
        p->line = number;
        snprintf(text, sizeof text, "the line is no case");
        bool good = parse_line(line, &c) && (folder ? dump(ctx[0], &c, folder, text, sizeof text)
                                                    : check(ctx, reference, &c, text, sizeof text));
        p->passed += good;
        p->failed += !good;
        if (!good) printf("FAILED line %d: %s: %s\n", number, c.text, text);
    }
    fclose(file);
    for (int i = 0; i < FZ_CONFIGS; i++) ppto_context_destroy(ctx[i]);
    ppto_context_destroy(reference);
}

int main(int argc, char **argv)
{
    const char *folder = argc == 4 && strcmp(argv[2], "--dump") == 0 ? argv[3] : NULL;
    progress *p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bool edges = argc == 3 && strcmp(argv[2], "--edges") == 0;
    if (p == MAP_FAILED || (argc != 2 && !edges && !folder))
        return fputs("usage: run_cases CASES [--edges | --dump FOLDER]\n", stderr), 2;
    p->edges = edges;
    for (int status = 1;
         status != 0;) { /* a crash is the failure of its case; a new worker goes on behind it */
        fflush(stdout);
        pid_t worker = fork();
        if (worker == 0) {
            work(p, argv[1], folder);
            fflush(stdout);
            _exit(0);
        }
        if (worker < 0 || waitpid(worker, &status, 0) < 0) return 1;
        if (status == 0) break;
        p->failed++;
        printf("FAILED line %d: stopped by signal %d\n", p->line, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    }
    printf("%d passed, %d failed\n", p->passed, p->failed);
    return p->failed != 0;
}
