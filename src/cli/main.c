/* SPDX-License-Identifier: Apache-2.0
 * The ppto command: finds the verb, reads its options, runs it. Exit codes are those of cli.h. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const cli_verb verbs[] = {
    {"run", "TEXT [NAME=VALUE...]", "Run a chain of operators on files, pipes or made-up data",
     "Results of up to 1,000 elements are printed; -o writes files instead, or to pipes: as the run goes,\n"
     "the first of several pipes. What cannot be written spoils no other result, and the exit code tells.\n"
     "\nexamples:\n"
     "  ppto run 'softmax(x @ w + b)' x=x.npy w=w.npy b=b.npy -o y.npy\n"
     "  ppto run model.ppto x=x.npy -o y=y.npy -o top=top.npy --memory-limit 256M\n"
     "  ppto run 'x * t' 'x=f32[2,3]:random(7)' t=0.5\n",
     CLI_RUN, cli_run},
    {"explain", "TEXT [NAME=VALUE...]",
     "Say how a text would run: kernels, bytes, what is fused, what is not and why",
     "Sizes may stay open: x=f32[N,512]. Nothing is run.\n"
     "\nexample:\n"
     "  ppto explain 'softmax(x @ w)' 'x=f32[N,512]' 'w=f32[512,10]' --stage kernel\n",
     CLI_EXPLAIN, cli_explain},
    {"bench", "TEXT [NAME=VALUE...]", "Measure a text: a plan already built, inputs bound, outputs reused",
     "\nexample:\n"
     "  ppto bench 'exp(x) + 1' 'x=f32[4096,4096]' --warmup 10 --repeat 50\n",
     CLI_BENCH, cli_bench},
    {"ops", "[PATTERN]", "List the operators; PATTERN is a glob, or a word that is part of the name", "",
     CLI_OPS, cli_ops},
    {"show-op", "NAME", "Show an operator: signature, documentation, rule of shapes, dtypes, definition", "",
     CLI_SHOW, cli_show_op},
    {"info", "", "Show the version, threads, executors, devices, instruction sets and limits", "", CLI_INFO,
     cli_info},
    {"compare", "A.npy B.npy", "Compare two NPY files; exit 1 when they differ",
     "Equal where |a - b| <= atol + rtol * |b|; NaN equals NaN; another shape or dtype is a difference.\n"
     "\nexample:\n"
     "  ppto compare a.npy b.npy --rtol 1e-5 --atol 1e-8\n",
     CLI_COMPARE, cli_compare},
    {"selfcheck", "",
     "Check known answers of the device against the reference device; exit 1 when one differs", "",
     CLI_SELFCHECK, cli_selfcheck},
    {"tune", "", "Measure what predictions of time are made from, and keep it for this machine",
     "Takes about two seconds, on a machine that does nothing else. Results do not depend on it.\n", CLI_TUNE,
     cli_tune},
    {"memcheck", "REPORT.json", "Show a report of memory: as text, or as a picture",
     "Reports are written by ppto run --memcheck-json FILE, and by any program that uses ppto, run with\n"
     "PPTO_MEMCHECK=report PPTO_MEMCHECK_FILE=FILE.json; with PPTO_MEMCHECK_LEVEL=2 they hold stacks and "
     "time.\n"
     "\nexample:\n"
     "  ppto memcheck report.json --svg memory.svg\n",
     CLI_MEMCHECK, cli_memcheck},
};
enum { N_VERBS = sizeof verbs / sizeof verbs[0] };

static void general_help(FILE *to)
{
    fputs("usage: ppto VERB [ARGUMENT...] [OPTION...]\n       ppto VERB --help\n       ppto "
          "--version\n\nverbs:\n",
          to);
    for (size_t i = 0; i < N_VERBS; ++i) fprintf(to, "  %-10s %s\n", verbs[i].name, verbs[i].summary);
    fprintf(to, "\n%s", cli_bindings_help);
    fputs("\nexit codes: 0 ok; 1 a comparison or check found a difference; 2 wrong use; 3 a file that is\n"
          "bad or cannot be read or written; 4 a limit or resource; 5 interrupted; 70 internal.\n"
          "environment: PPTO_NUM_THREADS, PPTO_EXECUTOR, PPTO_DEVICE, PPTO_TIER, PPTO_SIMD, PPTO_TOPOLOGY, "
          "PPTO_PLACEMENT, PPTO_PAGE_CACHE, PPTO_LOG_LEVEL, PPTO_MEMCHECK, PPTO_MEMCHECK_LEVEL, "
          "PPTO_MEMCHECK_FILE, "
          "PPTO_MEMCHECK_SUPPRESS, PPTO_MODULE_PATH, PPTO_CACHE_DIR, "
          "NO_COLOR.\n",
          to);
}

static const cli_verb *find_verb(const char *name)
{
    for (size_t i = 0; i < N_VERBS; ++i)
        if (strcmp(verbs[i].name, name) == 0) return &verbs[i];
    return NULL;
}

static int unknown_verb(const char *name)
{
    const char *near = cli_nearest(name, &verbs[0].name, N_VERBS, sizeof verbs[0]);
    return cli_fail(CLI_USAGE, "%s: unknown %s%s%s; see: ppto --help", name,
                    name[0] == '-' ? "option" : "verb", near != NULL ? ", did you mean " : "",
                    near != NULL ? near : "");
}

static int help(const char *name)
{
    if (name == NULL) {
        general_help(stdout);
        return CLI_OK;
    }
    const cli_verb *verb = find_verb(name);
    if (verb == NULL) return unknown_verb(name);
    cli_verb_help(stdout, verb);
    return CLI_OK;
}

static bool is_word(const char *argument, const char *a, const char *b, const char *c)
{
    return strcmp(argument, a) == 0 || strcmp(argument, b) == 0 || strcmp(argument, c) == 0;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        general_help(stderr);
        return CLI_USAGE;
    }
    if (is_word(argv[1], "--help", "-h", "help")) return help(argc > 2 ? argv[2] : NULL);
    if (is_word(argv[1], "--version", "-V", "version")) {
        printf("ppto %s\n", ppto_version());
        return CLI_OK;
    }
    const cli_verb *verb = find_verb(argv[1]);
    if (verb == NULL) return unknown_verb(argv[1]);
    cli_arguments arguments;
    int code = cli_arguments_read(&arguments, verb, argc - 1, argv + 1);
    if (code == CLI_OK) code = verb->run(&arguments);
    cli_arguments_free(&arguments);
    return code < 0 ? CLI_OK : code;
}

int main(int argc, char **argv)
{
    cli_standard_files();
    cli_signals();
    return cli_finish(dispatch(argc, argv));
}
