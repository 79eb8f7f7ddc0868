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
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum {
    TEXTS = CLI_RUN | CLI_EXPLAIN | CLI_BENCH, /* verbs with a program text */
    ALL = 255 | CLI_TUNE,                      /* with a context */
    FIRST_ID = 256                             /* above every character */
};

/* What a value is and where it goes. */
typedef enum option_kind {
    HELP,
    FLAG,      /* true */
    WORD,      /* the string */
    LIST,      /* the string, after those before */
    COUNT,     /* 0 … `most`, of u64 */
    COUNT_OR,  /* the same, of int; 0 is kept as -1: the context reads 0 as not given */
    BYTES,     /* with K, M, G or T */
    TOLERANCE, /* a number, not negative */
    COLOR
} option_kind;

typedef struct option_row {
    const char *spec;
    char letter; /* 0: none */
    unsigned verbs;
    const char *help;
    option_kind kind;
    size_t field;         /* in cli_arguments */
    uint64_t least, most; /* counts */
    const char *expected; /* of a wrong value */
} option_row;

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

#define TO(member) offsetof(cli_arguments, member)
static const option_row rows[] = {
    {"output=[NAME=]FILE", 'o', CLI_RUN,
     "write a result to FILE.npy, .npz, .safetensors or .raw (-, -:raw: standard output)", LIST, TO(outputs),
     0, 0, NULL},
    {"output=[NAME=]FILE", 'o', CLI_EXPLAIN, "explain the run that writes this result there", LIST,
     TO(outputs), 0, 0, NULL},
    {"npy=FILE", 0, CLI_RUN, "the same as -o FILE", LIST, TO(outputs), 0, 0, NULL},
    {"json", 0, (ALL & ~(unsigned)(CLI_SELFCHECK | CLI_TUNE)) | CLI_MEMCHECK, "print JSON", FLAG, TO(json), 0,
     0, NULL},
    {"stats", 0, CLI_RUN, "say on standard error what the run took, kernel by kernel", FLAG, TO(stats), 0, 0,
     NULL},
    {"stats-json=FILE", 0, CLI_RUN, "write the same as JSON", WORD, TO(stats_json), 0, 0, NULL},
    {"progress", 0, CLI_RUN, "say how far the run is, on a terminal", FLAG, TO(progress), 0, 0, NULL},
    {"trace=FILE", 0, CLI_RUN, "write what ran when: Chrome JSON; .pftrace: Perfetto's protobuf", WORD,
     TO(trace), 0, 0, NULL},
    {"timeline=FILE", 0, CLI_RUN, "draw what ran when, and the memory held, as SVG", WORD, TO(timeline), 0, 0,
     NULL},
    {"memcheck", 0, CLI_RUN, "say on standard error what memory was held, and by whom", FLAG, TO(memcheck), 0,
     0, NULL},
    {"memcheck-json=FILE", 0, CLI_RUN, "write the same as JSON, for ppto memcheck", WORD, TO(memcheck_json),
     0, 0, NULL},
    {"svg=FILE", 0, CLI_MEMCHECK, "write a picture of the report (- is standard output)", WORD, TO(svg), 0, 0,
     NULL},
    {"folded=FILE", 0, CLI_MEMCHECK, "write folded stacks for flame graphs", WORD, TO(folded), 0, 0, NULL},
    {"stage=STAGE", 0, CLI_EXPLAIN, "summary (default), graph, simplified, fused, kernel, plan or source",
     WORD, TO(stage), 0, 0, NULL},
    {"svg=FILE", 0, CLI_EXPLAIN, "draw the kernels and what flows between them as SVG", WORD, TO(svg), 0, 0,
     NULL},
    {"dot=FILE", 0, CLI_EXPLAIN, "the same in Graphviz's language", WORD, TO(dot), 0, 0, NULL},
    {"warmup=N", 0, CLI_BENCH, "runs before measuring (3)", COUNT, TO(warmup), 0, 1000000000,
     "a number of runs"},
    {"repeat=N", 0, CLI_BENCH, "runs that are measured (20)", COUNT, TO(repeats), 1, 1000000000,
     "a number of runs, at least 1"},
    {"rtol=X", 0, CLI_COMPARE, "tolerated difference relative to B (0)", TOLERANCE, TO(rtol), 0, 0,
     "a number, not negative"},
    {"atol=X", 0, CLI_COMPARE, "tolerated absolute difference (0)", TOLERANCE, TO(atol), 0, 0,
     "a number, not negative"},
    {"define=FILE", 0, TEXTS | CLI_SHOW | CLI_OPS, "add the operators of a file; may be repeated", LIST,
     TO(defines), 0, 0, NULL},
    {"threads=N", 0, ALL, "workers; 0 for all the machine allows", COUNT_OR, TO(context.threads), 0, INT_MAX,
     "a number, 0 for all"},
    {"topology=TEXT", 0, ALL, "memory nodes: flat, or a description of hwloc", WORD, TO(context.topology), 0,
     0, NULL},
    {"placement=WORD", 0, ALL, "where memory lies: split, interleave, first_touch or bind:N", WORD,
     TO(context.placement), 0, 0, NULL},
    {"executor=NAME", 0, ALL, "tbb, pthread, serial or sim", WORD, TO(context.executor), 0, 0, NULL},
    {"device=NAME", 0, ALL, "cpu or reference", WORD, TO(context.device), 0, 0, NULL},
    {"tier=NAME", 0, ALL, "machine code: auto (compiled meanwhile), interp (none) or jit (waited for)", WORD,
     TO(context.tier), 0, 0, NULL},
    {"simd=NAME", 0, ALL, "baseline, avx2 or avx512; default the best there is", WORD, TO(context.simd), 0, 0,
     NULL},
    {"memory-limit=SIZE", 0, ALL,
     "bytes of all tensors, or a whole number with K, M, G or T (powers of 1024)", BYTES,
     TO(context.memory_limit), 0, 0, "bytes, or a whole number with K, M, G or T (64M), more than 0"},
    {"no-optimise", 0, TEXTS, "run the graph as recorded", FLAG, TO(context.no_optimise), 0, 0, NULL},
    {"log-level=N", 0, ALL, "0 errors to 3 the lowering, on standard error", COUNT_OR, TO(context.log_level),
     0, 3, "0, 1, 2 or 3"},
    {"color=WHEN", 0, ALL | CLI_MEMCHECK, "auto, always or never", COLOR, 0, 0, 0, "auto, always or never"},
    {"help", 'h', ALL | CLI_MEMCHECK, "this text", HELP, 0, 0, 0, NULL},
};
enum { N_ROWS = sizeof rows / sizeof rows[0], NAME_ROOM = 24 };

const char cli_bindings_help[] =
    "TEXT is an expression or a program of the operator language, or a file of it: what ends in "
    ".ppto, or a path with a / in it.\n"
    "Bindings give the inputs, NAME=VALUE:\n"
    "  x=FILE                an NPY file; - is standard input\n"
    "  x=FILE.npz:NAME       an array of an NPZ file, or of a FILE.safetensors; :NAME is needed only for one "
    "of several\n"
    "  x=FILE.raw:f32[N,512] a file without a header (.bin, too); -:f32[4,512] is standard input\n"
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

static bool read_tolerance(const char *text, double *tolerance)
{
    char *end;
    *tolerance = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*tolerance) && *tolerance >= 0;
}

/* Of two files for one thing only one would be written; of two numbers the last one counts. */
static bool names_file(const option_row *row)
{
    const char *value = strchr(row->spec, '=');
    return row->kind == WORD && value != NULL && strcmp(value, "=FILE") == 0;
}

static int read_value(const option_row *row, cli_arguments *arguments, const char *value)
{
    void *field = (char *)arguments + row->field;
    const char **word = field;
    if (names_file(row) && *word != NULL)
        return cli_fail(CLI_USAGE, "--%.*s is given twice: %s and %s", (int)strcspn(row->spec, "="),
                        row->spec, *word, value);
    if (names_file(row) && !cli_ending_fits(row->spec, value)) return CLI_USAGE;
    uint64_t count = 0;
    bool ok = true;
    switch (row->kind) {
    case FLAG: *(bool *)field = true; break;
    case WORD: *word = value; break;
    case LIST: append(field, value); break;
    case COUNT:
    case COUNT_OR:
        ok = read_count(value, row->most, &count) && count >= row->least;
        if (row->kind == COUNT)
            *(uint64_t *)field = count;
        else
            *(int *)field = count == 0 ? -1 : (int)count;
        break;
    case BYTES: ok = cli_read_bytes(value, field); break;
    case TOLERANCE: ok = read_tolerance(value, field); break;
    case COLOR: ok = cli_color(value); break;
    default: break;
    }
    if (ok) return CLI_OK;
    return cli_fail(CLI_USAGE, "--%.*s %s: expected %s", (int)strcspn(row->spec, "="), row->spec, value,
                    row->expected);
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

/* How many names begin with the word; " --A, --B" of them. */
static size_t which_begin(const option_set *set, const char *word, char *text, size_t room)
{
    size_t n = 0, at = 0, length = strlen(word);
    for (size_t i = 0; length > 0 && i < set->n; ++i) {
        if (strncmp(set->names[i], word, length) != 0 || at >= room) continue;
        at += (size_t)snprintf(text + at, room - at, "%s --%s", n++ > 0 ? " or" : "", set->names[i]);
    }
    return n;
}

/* A name that has the letters of the word in their order, as memory-limit those of memlimit; else NULL. */
static const char *spelt_out(const option_set *set, const char *word)
{
    for (size_t i = 0; strlen(word) >= 3 && i < set->n; ++i) {
        const char *w = word;
        for (const char *c = set->names[i]; *c != '\0' && *w != '\0'; ++c) w += *c == *w;
        if (*w == '\0') return set->names[i];
    }
    return NULL;
}

static int unknown_option(const option_set *set, const cli_verb *verb, const char *argument)
{
    char word[64], begin[512];
    if (argument[0] == '-' && argument[1] != '-')
        return cli_fail(
            CLI_USAGE,
            "%s: unknown option; see: ppto %s --help (an expression that begins with - follows --)", argument,
            verb->name);
    snprintf(word, sizeof word, "%.*s", (int)strcspn(argument + 2, "="), argument + 2);
    if (which_begin(set, word, begin, sizeof begin) > 1)
        return cli_fail(CLI_USAGE, "--%s: may be%s; see: ppto %s --help", word, begin, verb->name);
    const char *near =
        cli_nearest(word, (const char *const *)&set->options[0].name, set->n, sizeof set->options[0]);
    if (near == NULL) near = spelt_out(set, word);
    return cli_fail(CLI_USAGE, "--%s: unknown option%s%s%s; see: ppto %s --help", word,
                    near != NULL ? ", did you mean --" : "", near != NULL ? near : "",
                    near != NULL ? "?" : "", verb->name);
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
    const char *letters = verb->bit & (CLI_RUN | CLI_EXPLAIN) ? "-:o:h" : "-:h";
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
        if (row->kind == HELP) {
            cli_verb_help(stdout, verb);
            return -1;
        }
        int code = read_value(row, arguments, optarg);
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
