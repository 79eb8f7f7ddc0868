/* SPDX-License-Identifier: Apache-2.0
 * Options: one table says what there is, which verbs take it, and what --help says of it.
 *
 * A row's spec is the long name, with "=WORD" when a value follows. getopt_long gets the rows of its verb; a
 * leading "-" in its short options makes it hand over operands in order, so that options may stand anywhere
 * and everything after "--" is an operand, whatever POSIXLY_CORRECT says. */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum {
    TEXTS = CLI_RUN | CLI_EXPLAIN | CLI_BENCH, /* verbs with a program text */
    ALL = 255,
    FIRST_ID = 256 /* above every character */
};

typedef struct option_row {
    const char *spec;
    char letter; /* 0: none */
    unsigned verbs;
    const char *help;
    int (*read)(cli_arguments *arguments, const char *value); /* NULL: --help */
} option_row;

static int wrong_value(const char *name, const char *value, const char *expected)
{
    return cli_fail(CLI_USAGE, "%s %s: expected %s", name, value, expected);
}

static bool read_count(const char *text, uint64_t most, uint64_t *count)
{
    if (text[0] < '0' || text[0] > '9') return false;
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (*end != '\0' || errno != 0 || value > most) return false;
    *count = value;
    return true;
}

bool cli_read_bytes(const char *text, uint64_t *bytes)
{
    static const char units[] = "KMGT";
    size_t length = strlen(text);
    char digits[32];
    unsigned shift = 0;
    if (length == 0 || length >= sizeof digits) return false;
    memcpy(digits, text, length + 1);
    const char *unit = strchr(units, text[length - 1]);
    if (unit != NULL) {
        shift = 10 * (unsigned)(unit - units + 1);
        digits[length - 1] = '\0';
    }
    if (!read_count(digits, UINT64_MAX >> shift, bytes)) return false;
    *bytes <<= shift;
    return *bytes > 0;
}

static void append(cli_list *list, const char *value)
{
    list->at[list->n++] = value;
}

static int read_threads(cli_arguments *a, const char *value)
{
    uint64_t n;
    if (!read_count(value, INT_MAX, &n)) return wrong_value("--threads", value, "a number, 0 for all");
    a->context.threads = n == 0 ? -1 : (int)n;
    return CLI_OK;
}

static int read_executor(cli_arguments *a, const char *value)
{
    a->context.executor = value;
    return CLI_OK;
}

static int read_device(cli_arguments *a, const char *value)
{
    a->context.device = value;
    return CLI_OK;
}

static int read_tier(cli_arguments *a, const char *value)
{
    a->context.tier = value;
    return CLI_OK;
}

static int read_simd(cli_arguments *a, const char *value)
{
    a->context.simd = value;
    return CLI_OK;
}

static int read_memory_limit(cli_arguments *a, const char *value)
{
    if (cli_read_bytes(value, &a->context.memory_limit)) return CLI_OK;
    return wrong_value("--memory-limit", value, "bytes, or a number with K, M, G or T");
}

static int read_no_optimise(cli_arguments *a, const char *value)
{
    (void)value;
    a->context.no_optimise = true;
    return CLI_OK;
}

static int read_log_level(cli_arguments *a, const char *value)
{
    uint64_t level;
    if (!read_count(value, 3, &level)) return wrong_value("--log-level", value, "0, 1, 2 or 3");
    a->context.log_level = level == 0 ? -1 : (int)level;
    return CLI_OK;
}

static int read_color(cli_arguments *a, const char *value)
{
    (void)a;
    return cli_color(value) ? CLI_OK : wrong_value("--color", value, "auto, always or never");
}

static int read_define(cli_arguments *a, const char *value)
{
    append(&a->defines, value);
    return CLI_OK;
}

static int read_output(cli_arguments *a, const char *value)
{
    append(&a->outputs, value);
    return CLI_OK;
}

static int read_json(cli_arguments *a, const char *value)
{
    (void)value;
    a->json = true;
    return CLI_OK;
}

static int read_stats(cli_arguments *a, const char *value)
{
    (void)value;
    a->stats = true;
    return CLI_OK;
}

static int read_stats_json(cli_arguments *a, const char *value)
{
    a->stats_json = value;
    return CLI_OK;
}

static int read_trace(cli_arguments *a, const char *value)
{
    a->trace = value;
    return CLI_OK;
}

static int read_stage(cli_arguments *a, const char *value)
{
    a->stage = value;
    return CLI_OK;
}

static int read_warmup(cli_arguments *a, const char *value)
{
    return read_count(value, 1000000000, &a->warmup) ? CLI_OK
                                                     : wrong_value("--warmup", value, "a number of runs");
}

static int read_repeats(cli_arguments *a, const char *value)
{
    if (read_count(value, 1000000000, &a->repeats) && a->repeats > 0) return CLI_OK;
    return wrong_value("--repeat", value, "a number of runs, at least 1");
}

static int read_tolerance(const char *name, const char *value, double *tolerance)
{
    char *end;
    double number = strtod(value, &end);
    if (end == value || *end != '\0' || !isfinite(number) || number < 0)
        return wrong_value(name, value, "a number, not negative");
    *tolerance = number;
    return CLI_OK;
}

static int read_rtol(cli_arguments *a, const char *value)
{
    return read_tolerance("--rtol", value, &a->rtol);
}

static int read_atol(cli_arguments *a, const char *value)
{
    return read_tolerance("--atol", value, &a->atol);
}

static const option_row rows[] = {
    {"output=[NAME=]FILE", 'o', CLI_RUN, "write a result to an NPY file (- is standard output)", read_output},
    {"npy=FILE", 0, CLI_RUN, "the same as -o FILE", read_output},
    {"json", 0, ALL & ~(unsigned)CLI_SELFCHECK, "print JSON", read_json},
    {"stats", 0, CLI_RUN, "say on standard error what the run took", read_stats},
    {"stats-json=FILE", 0, CLI_RUN, "write the same as JSON", read_stats_json},
    {"trace=FILE", 0, CLI_RUN, "write the tasks of every worker as a Chrome trace", read_trace},
    {"stage=STAGE", 0, CLI_EXPLAIN, "summary (default), graph, fused, kernel, plan or source", read_stage},
    {"warmup=N", 0, CLI_BENCH, "runs before measuring (3)", read_warmup},
    {"repeat=N", 0, CLI_BENCH, "runs that are measured (20)", read_repeats},
    {"rtol=X", 0, CLI_COMPARE, "tolerated difference relative to B (0)", read_rtol},
    {"atol=X", 0, CLI_COMPARE, "tolerated absolute difference (0)", read_atol},
    {"define=FILE", 0, TEXTS | CLI_SHOW, "add the operators of a file; may be repeated", read_define},
    {"threads=N", 0, ALL, "workers; 0 for all the machine allows", read_threads},
    {"executor=NAME", 0, ALL, "tbb, pthread, serial or sim", read_executor},
    {"device=NAME", 0, ALL, "cpu or reference", read_device},
    {"tier=NAME", 0, ALL, "auto, interp or jit", read_tier},
    {"simd=NAME", 0, ALL, "baseline, avx2 or avx512; default the best there is", read_simd},
    {"memory-limit=SIZE", 0, ALL, "bytes of all tensors; K, M, G are powers of 1024", read_memory_limit},
    {"no-optimise", 0, TEXTS, "run the graph as recorded", read_no_optimise},
    {"log-level=N", 0, ALL, "0 errors to 3 the lowering, on standard error", read_log_level},
    {"color=WHEN", 0, ALL, "auto, always or never", read_color},
    {"help", 'h', ALL, "this text", NULL},
};
enum { N_ROWS = sizeof rows / sizeof rows[0], NAME_ROOM = 24 };

const char cli_bindings_help[] =
    "TEXT is an expression or a program of the operator language, or a file of it: what ends in "
    ".ppto, or a path with a / in it.\n"
    "Bindings give the inputs, NAME=VALUE:\n"
    "  x=FILE                an NPY file; - is standard input\n"
    "  x=f32[4,512]          data of this dtype and shape: random(0)\n"
    "  x=f32[4,512]:FILLER   zeros, ones, random(SEED), uniform(LO,HI[,SEED]), "
    "normal[(SEED)], integers(LO,HI[,SEED])\n"
    "  t=0.5                 a number\n";

void cli_verb_help(FILE *to, const cli_verb *verb)
{
    fprintf(to, "usage: ppto %s%s%s [OPTION...]\n%s.\n", verb->name, verb->operands[0] ? " " : "",
            verb->operands, verb->summary);
    if (verb->more[0] != '\0') fprintf(to, "\n%s", verb->more);
    if (verb->bit & TEXTS) fprintf(to, "\n%s", cli_bindings_help);
    fputs("\noptions:\n", to);
    for (size_t i = 0; i < N_ROWS; ++i) {
        char left[48];
        if (!(rows[i].verbs & verb->bit)) continue;
        const char *value = strchr(rows[i].spec, '=');
        int length = value != NULL ? (int)(value - rows[i].spec) : (int)strlen(rows[i].spec);
        snprintf(left, sizeof left, "%c%c%s --%.*s %s", rows[i].letter ? '-' : ' ',
                 rows[i].letter ? rows[i].letter : ' ', rows[i].letter ? "," : " ", length, rows[i].spec,
                 value != NULL ? value + 1 : "");
        fprintf(to, "  %-30s %s\n", left, rows[i].help);
    }
}

static size_t distance(const char *a, const char *b)
{
    size_t row[33], n = strlen(b);
    if (n > 32 || strlen(a) > 32) return SIZE_MAX;
    for (size_t j = 0; j <= n; ++j) row[j] = j;
    for (size_t i = 0; a[i] != '\0'; ++i) {
        size_t before = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < n; ++j) {
            size_t change = before + (a[i] != b[j]), skip = row[j] < row[j + 1] ? row[j] + 1 : row[j + 1] + 1;
            before = row[j + 1];
            row[j + 1] = change < skip ? change : skip;
        }
    }
    return row[n];
}

const char *cli_nearest(const char *word, const char *const *names, size_t n, size_t stride)
{
    const char *best = NULL;
    size_t least = strlen(word) / 3 + 2;
    for (size_t i = 0; i < n; ++i) {
        const char *name = *(const char *const *)(const void *)((const char *)names + i * stride);
        size_t d = distance(word, name);
        if (d >= least) continue;
        least = d;
        best = name;
    }
    return best;
}

/* The rows of one verb as getopt_long wants them. */
typedef struct option_set {
    char names[N_ROWS][NAME_ROOM];
    struct option options[N_ROWS + 1];
    size_t n;
} option_set;

static void make_set(option_set *set, unsigned bit)
{
    set->n = 0;
    for (size_t i = 0; i < N_ROWS; ++i) {
        if (!(rows[i].verbs & bit)) continue;
        snprintf(set->names[set->n], NAME_ROOM, "%.*s", (int)strcspn(rows[i].spec, "="), rows[i].spec);
        set->options[set->n] =
            (struct option){set->names[set->n], strchr(rows[i].spec, '=') != NULL, NULL, FIRST_ID + (int)i};
        ++set->n;
    }
    set->options[set->n] = (struct option){NULL, 0, NULL, 0};
}

static int unknown_option(const option_set *set, const cli_verb *verb, const char *argument)
{
    char word[64];
    if (argument[0] == '-' && argument[1] != '-')
        return cli_fail(
            CLI_USAGE,
            "%s: unknown option; see: ppto %s --help (an expression that begins with - follows --)", argument,
            verb->name);
    snprintf(word, sizeof word, "%.*s", (int)strcspn(argument + 2, "="), argument + 2);
    const char *near =
        cli_nearest(word, (const char *const *)&set->options[0].name, set->n, sizeof set->options[0]);
    return cli_fail(CLI_USAGE, "--%s: unknown or ambiguous option%s%s; see: ppto %s --help", word,
                    near != NULL ? ", did you mean --" : "", near != NULL ? near : "", verb->name);
}

static const option_row *row_of(int id)
{
    if (id >= FIRST_ID) return &rows[id - FIRST_ID];
    for (size_t i = 0; i < N_ROWS; ++i)
        if (rows[i].letter != 0 && rows[i].letter == id) return &rows[i];
    return NULL;
}

static int read_all(cli_arguments *arguments, const cli_verb *verb, int argc, char **argv)
{
    option_set set;
    make_set(&set, verb->bit);
    const char *letters = verb->bit == CLI_RUN ? "-:o:h" : "-:h";
    opterr = 0;
    optind = 1;
    for (;;) {
        int at = optind;
        int id = getopt_long(argc, argv, letters, set.options, NULL);
        if (id == -1) break;
        if (id == 1) {
            append(&arguments->operands, optarg);
            continue;
        }
        if (id == ':') return cli_fail(CLI_USAGE, "%s: a value must follow", argv[at]);
        if (id == '?' && optopt >= FIRST_ID) return cli_fail(CLI_USAGE, "%s: takes no value", argv[at]);
        if (id == '?') return unknown_option(&set, verb, argv[at]);
        const option_row *row = row_of(id);
        if (row->read == NULL) {
            cli_verb_help(stdout, verb);
            return -1;
        }
        int code = row->read(arguments, optarg);
        if (code != CLI_OK) return code;
    }
    while (optind < argc) append(&arguments->operands, argv[optind++]);
    return CLI_OK;
}

int cli_arguments_read(cli_arguments *arguments, const cli_verb *verb, int argc, char **argv)
{
    *arguments = (cli_arguments){.context = PPTO_OPTIONS_INIT, .warmup = 3, .repeats = 20};
    size_t room = (size_t)argc + 1;
    const char **lists = calloc(3 * room, sizeof *lists);
    if (lists == NULL) return cli_fail(CLI_LIMIT, "out of memory");
    arguments->operands.at = lists;
    arguments->defines.at = lists + room;
    arguments->outputs.at = lists + 2 * room;
    return read_all(arguments, verb, argc, argv);
}

void cli_arguments_free(cli_arguments *arguments)
{
    free((void *)arguments->operands.at);
}
