/* SPDX-License-Identifier: Apache-2.0
 * fuzz_graphs [--graphs N] [--seed S] [--configs quick|all] [--fault NAME] [--show N] [--print]
 *             [--dump FOLDER]
 *
 * Runs N random programs, seeds S, S + 1, …, on the reference device and on configurations of the CPU device:
 * all of them, or three a program in turn. A difference is shrunk and printed (the first three, or --show) as
 * a text with its seed; exit status 1. A crash is a failure like another and is shrunk, too: a worker process
 * runs the programs. With --fault (a build with -Dfaults=true) the fault is switched on and must be found and
 * shrunk to at most 6 nodes. --print shows programs and runs nothing; --dump FOLDER also writes data and the
 * value of every statement as NPY files, for compare_graphs.py. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "check.h"
#include "generate.h"
#include "reduce.h"

enum { FZ_CPU_SECONDS = 120, FZ_SECONDS = 1200, FZ_SMALL_ENOUGH = 6 };

typedef struct options {
    uint64_t seed;
    long graphs, shown; /* shown: failures that are shrunk and printed */
    bool all, print;
    const char *folder; /* of --dump */
    int fault;          /* PP_FAULT_NONE: none */
} options;

static const char *const fault_names[PP_FAULT_KINDS] = {
    "none",     "lost_edge",       "early_reuse",  "dropped_tail",    "swapped_join",   "wrong_guard",
    "nan_rule", "negative_stride", "stale_scalar", "overlapping_out", "swapped_blocks", "code_tail",
    "code_nan", "code_lanes",      "code_pitch",   "code_join",
};

/* What a worker process leaves to its parent. */
typedef struct progress {
    long done; /* graphs, the one under test not counted */
    long failed, invalid;
} progress;

static void print_failure(const fz_program *program, const fz_failure *failure)
{
    static const char *const fills[] = {"ones", "small", "uniform", "wide", "special"};
    static const char *const strides[] = {"plain", "reversed", "repeated", "scattered"};
    char config[128], name[16];
    fz_config_text(failure->config, config, sizeof config);
    printf("# seed %llu, %s\n# %s\n", (unsigned long long)program->seed, config, failure->text);
    for (int i = 0; i < program->n; i++) {
        const fz_node *n = &program->node[i];
        if (n->op == FZ_INPUT && (n->strides || n->fill > FZ_SMALL))
            printf("# %s: %s data, %s strides\n", fz_name(program, i, name), fills[n->fill],
                   strides[n->strides]);
    }
    fz_print(stdout, program);
    fflush(stdout);
}

/* Four configurations a program, so that every one has its turn: one of them on the simulated executor, one
 * piece by piece. */
static uint64_t mask_of(const options *o, uint64_t seed)
{
    if (o->all) return ((uint64_t)1 << FZ_CONFIGS) - 1;
    return (uint64_t)1 << seed % 5 | (uint64_t)1 << (5 + seed / 5 % 7) | (uint64_t)1 << (12 + seed / 3 % 14) |
           (uint64_t)1 << (26 + seed / 7 % 3);
}

static int usage(void)
{
    fputs("usage: fuzz_graphs [--graphs N] [--seed S] [--configs quick|all] [--fault NAME] [--show N]\n"
          "                   [--print] [--dump FOLDER]\n",
          stderr);
    return 2;
}

static bool parse(int argc, char **argv, options *o)
{
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(word, "--print") == 0) {
            o->print = true;
            continue;
        }
        i++;
        if (strcmp(word, "--graphs") == 0)
            o->graphs = atol(value);
        else if (strcmp(word, "--seed") == 0)
            o->seed = strtoull(value, NULL, 10);
        else if (strcmp(word, "--show") == 0)
            o->shown = atol(value);
        else if (strcmp(word, "--dump") == 0)
            o->folder = value, o->print = true;
        else if (strcmp(word, "--configs") == 0)
            o->all = strcmp(value, "all") == 0;
        else if (strcmp(word, "--fault") == 0)
            for (o->fault = 1; o->fault < PP_FAULT_KINDS && strcmp(value, fault_names[o->fault]) != 0;)
                o->fault++;
        else
            return false;
    }
    return o->graphs > 0 && o->fault < PP_FAULT_KINDS;
}

static int print_all(const options *o, fz_checker *checker, fz_program *program)
{
    int failed = 0;
    for (long i = 0; i < o->graphs; i++) {
        fz_generate(o->seed + (uint64_t)i, program);
        if (o->folder) {
            program->n_outputs = 0;
            for (int k = 0; k < program->n && program->n_outputs < FZ_OUTPUTS; k++)
                if (program->node[k].op > FZ_NUMBER) program->output[program->n_outputs++] = k;
            fz_prune(program);
            if (!fz_dump(checker, program, o->folder)) {
                failed = 1;
                continue;
            }
        }
        printf("# seed %llu\n", (unsigned long long)program->seed);
        fz_print(stdout, program);
    }
    return failed;
}

/* The planted fault must be found, and what is left must be small. */
static int hunt(const options *o, fz_checker *checker, fz_program *program)
{
    fz_failure failure;
    for (long i = 0; i < o->graphs; i++) {
        uint64_t seed = o->seed + (uint64_t)i;
        fz_generate(seed, program);
        if (fz_check(checker, program, mask_of(o, seed), &failure) != FZ_FAIL) continue;
        uint64_t mask = (uint64_t)1 << failure.config;
        if (fz_check(checker->clean, program, mask, &(fz_failure){0}) == FZ_FAIL) continue;
        fz_reduce(checker, program, &failure);
        print_failure(program, &failure);
        printf("%s: found by graph %ld, shrunk to %d nodes (%d with inputs)\n", fault_names[o->fault], i + 1,
               fz_statements(program), program->n);
        return fz_statements(program) <= FZ_SMALL_ENOUGH ? 0 : 1;
    }
    printf("%s: not found by %ld graphs\n", fault_names[o->fault], o->graphs);
    return 1;
}

/* A graph that computes for too long ends the process, and so does one that stands still. */
static void limit_time(int times)
{
    setitimer(ITIMER_PROF, &(struct itimerval){.it_value.tv_sec = times * FZ_CPU_SECONDS}, NULL);
    alarm((unsigned)(times * FZ_SECONDS));
}

/* Goes on from p->done to the end, or to a crash. */
static void work(const options *o, progress *p, fz_checker *checker, fz_program *program)
{
    fz_failure failure;
    for (; p->done < o->graphs; p->done++) {
        uint64_t seed = o->seed + (uint64_t)p->done;
        limit_time(1);
        fz_generate(seed, program);
        fz_verdict verdict = fz_check(checker, program, mask_of(o, seed), &failure);
        if (verdict == FZ_INVALID && p->invalid++ < o->shown)
            fprintf(stderr, "seed %llu is not legal: %s\n", (unsigned long long)seed, checker->invalid);
        if (verdict != FZ_FAIL || p->failed++ >= o->shown) continue;
        limit_time(10);
        fz_reduce(checker, program, &failure);
        print_failure(program, &failure);
    }
    fz_checker_close(checker);
}

/* A worker stopped in a program: finds the configuration and shrinks it, in processes of their own. */
static void crashed(const options *o, progress *p, int signal_number, fz_program *program)
{
    static fz_checker checker = {.apart = true};
    fz_failure failure = {0};
    uint64_t seed = o->seed + (uint64_t)p->done++;
    if (p->failed++ >= o->shown) return;
    fz_generate(seed, program);
    for (int config = 0; config < FZ_CONFIGS; config++) {
        uint64_t mask = mask_of(o, seed) & (uint64_t)1 << config;
        if (!mask || fz_check_apart(program, mask, &failure) != FZ_FAIL) continue;
        failure.config = config;
        fz_reduce(&checker, program, &failure);
        print_failure(program, &failure);
        return;
    }
    printf("# seed %llu: a process stopped by signal %d; the program alone does not\n",
           (unsigned long long)seed, signal_number);
}

/* Programs run in a worker process, so that a crash is a failure like any other. */
static int fuzz(const options *o, fz_checker *checker, fz_program *program)
{
    progress *p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return 1;
    while (p->done < o->graphs) {
        int status = 0;
        fflush(stdout);
        pid_t worker = fork();
        if (worker == 0) {
            work(o, p, checker, program);
            fflush(stdout);
            _exit(0);
        }
        if (worker < 0 || waitpid(worker, &status, 0) < 0) return 1;
        if (p->done < o->graphs) crashed(o, p, WIFSIGNALED(status) ? WTERMSIG(status) : 0, program);
    }
    if (p->invalid) printf("%ld of the graphs are not legal\n", p->invalid);
    printf("%ld graphs, %ld failed\n", o->graphs, p->failed);
    return p->failed == 0 && p->invalid * 20 <= o->graphs ? 0 : 1;
}

int main(int argc, char **argv)
{
    static fz_program program;
    static fz_checker checker, clean;
    options o = {.seed = 1, .graphs = 1000, .shown = 3};
    int result;
    if (!parse(argc, argv, &o)) return usage();
#ifndef PP_FAULTS
    if (o.fault) {
        fputs("fuzz_graphs: --fault needs a build with -Dfaults=true\n", stderr);
        return 2;
    }
#endif
    checker.fault = o.fault;
    checker.clean = o.fault ? &clean : NULL;
    if (o.print)
        result = print_all(&o, &checker, &program);
    else
        result = o.fault ? hunt(&o, &checker, &program) : fuzz(&o, &checker, &program);
    fz_checker_close(&checker);
    fz_checker_close(&clean);
    return result;
}
