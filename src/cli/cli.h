/* SPDX-License-Identifier: Apache-2.0
 * src/cli: the `ppto` command, a program like any other on include/ppto.
 *
 * One file a verb. What several verbs share stands beside them: arguments.c reads options from one table
 * (getopt, help and completion all follow it), binding.c reads NAME=VALUE, recording.c turns a text and
 * bindings into a compiled program, output.c prints and writes. Data goes to standard output, everything else
 * to standard error. Functions that can fail return an exit code, after they have said why: start reading at
 * main.c. */
#ifndef PPTO_CLI_H
#define PPTO_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "ppto/context.h"

enum cli_exit {
    CLI_OK = 0,
    CLI_DIFFERENT = 1, /* a comparison or check found a difference */
    CLI_USAGE = 2,     /* wrong use: wrong for every data */
    CLI_INPUT = 3,     /* a file is missing, malformed, contradicts the program, cannot be read or written */
    CLI_LIMIT = 4,     /* a limit or resource */
    CLI_INTERRUPTED = 5, /* SIGINT, SIGTERM */
    CLI_INTERNAL = 70
};

/* Bits of the verbs an option belongs to. */
enum cli_verb_bit {
    CLI_RUN = 1,
    CLI_EXPLAIN = 2,
    CLI_BENCH = 4,
    CLI_OPS = 8,
    CLI_SHOW = 16,
    CLI_INFO = 32,
    CLI_COMPARE = 64,
    CLI_SELFCHECK = 128,
    CLI_MEMCHECK = 256,
    CLI_TUNE = 512
};

/* A list of strings of the command line, in order. */
typedef struct cli_list {
    size_t n;
    const char **at; /* room for every argument */
} cli_list;

/* What the command line said. Strings are borrowed from argv. */
typedef struct cli_arguments {
    cli_list operands, defines, outputs;
    ppto_options context;
    bool json, stats, progress;
    const char *stats_json; /* a path or NULL */
    const char *trace;      /* a path or NULL */
    const char *timeline;   /* a path or NULL */
    bool memcheck;
    const char *memcheck_json, *folded; /* paths or NULL */
    const char *stage;                  /* of explain, or NULL */
    const char *svg, *dot;              /* of explain and memcheck: paths or NULL */
    uint64_t warmup, repeats;
    double rtol, atol;
} cli_arguments;

typedef struct cli_verb {
    const char *name, *operands, *summary;
    const char *more; /* what --help says besides: rules and examples */
    unsigned bit;
    int (*run)(const cli_arguments *arguments);
} cli_verb;

/* One per verb_*.c. */
int cli_run(const cli_arguments *arguments);
int cli_explain(const cli_arguments *arguments);
int cli_bench(const cli_arguments *arguments);
int cli_ops(const cli_arguments *arguments);
int cli_show_op(const cli_arguments *arguments);
int cli_info(const cli_arguments *arguments);
int cli_compare(const cli_arguments *arguments);
int cli_selfcheck(const cli_arguments *arguments);
int cli_tune(const cli_arguments *arguments);
int cli_memcheck(const cli_arguments *arguments);

/* arguments.c */
/* Reads the arguments after the verb. returns  CLI_OK; CLI_USAGE; -1 when --help was asked for and printed
 * owns     cli_arguments_free */
int cli_arguments_read(cli_arguments *arguments, const cli_verb *verb, int argc, char **argv);
void cli_arguments_free(cli_arguments *arguments);
void cli_verb_help(FILE *to, const cli_verb *verb);
extern const char cli_bindings_help[]; /* what NAME=VALUE may be */
/* Bytes: a number with K, M, G or T, powers of 1024. */
bool cli_read_bytes(const char *text, uint64_t *bytes);
/* The name of a list of n that is nearest to the word, if it is near; else NULL. Names are `stride` bytes
 * apart. */
const char *cli_nearest(const char *word, const char *const *names, size_t n, size_t stride);

/* recording.c */
/* The context the options ask for, with --define read into it. owns  *ctx: ppto_context_destroy */
int cli_context(const cli_arguments *arguments, ppto_context **ctx);
/* The whole text of a file, at most one byte more than the language takes. owns  *text: free */
int cli_read_text(const char *path, char **text, size_t *length);

/* endings.c */
/* May the file that an option's value names have this name? spec: of the option, "trace=FILE". What ends like
 * another format than the option writes may not, nor may none: false, and it has been said. */
bool cli_ending_fits(const char *spec, const char *path);

/* output.c */
/* Would two texts of so many bytes name one file, also by links and dots? Not of devices and pipes. */
bool cli_same_file(const char *a, size_t a_length, const char *b, size_t b_length);
/* One line "ppto: …" on standard error; returns code. */
int cli_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same with the library's last error after the words in front (may be NULL; left out where the error
 * begins with them); returns its exit code. */
int cli_fail_status(ppto_status status, const char *front);
/* For a file that was read: all that is no limit is a bad input. */
int cli_fail_file(ppto_status status, const char *front);
int cli_exit_of(ppto_status status);
/* --color: auto, always, never. false for another word. */
bool cli_color(const char *when);
/* Prints a text of the library and frees it (NULL is fine), with a line end when it has none. */
void cli_print_text(char *text);
/* The end of a verb that only asks for a text: prints it, or says what failed; gives the context back. */
int cli_end_text(ppto_context *ctx, ppto_status status, char *text);
/* Bytes of a path that name an archive, before its end or a colon and the name of an array; 0: it is no
 * archive. */
size_t cli_archive_length(const char *path);
/* A JSON string with its quotes; a number, null when it is not finite. */
void cli_json_string(FILE *to, const char *text);
void cli_json_number(FILE *to, double value);
/* Writes a text to a file by rename ("-": standard output; devices and pipes in place). */
int cli_write_text(const char *path, const char *text, size_t length);
/* Flushes standard output; returns code, or what a failed write makes of it. */
int cli_finish(int code);

/* symbols.c */
/* Finds names with the addr2line of the system, one process for a module; where there is none it knows
 * nothing. */
typedef struct cli_symbols cli_symbols;
cli_symbols *cli_symbols_open(void); /* NULL: out of memory; then no names are found */
void cli_symbols_close(cli_symbols *symbols);
struct ppto_symbol;
bool cli_symbols_find(void *symbols, const char *module, uint64_t offset, struct ppto_symbol *symbol);

/* interrupt.c */
/* SIGINT and SIGTERM end the command at once with CLI_INTERRUPTED, but never leave half a file: between begin
 * and end they wait for end. SIGPIPE ends it quietly. */
void cli_signals(void);
/* While results are written a reader that goes away is a failure to be told: not to be killed by SIGPIPE. */
void cli_broken_pipes(bool told);
void cli_uninterrupted_begin(void);
void cli_uninterrupted_end(void);
/* Between these the signals end the process and its unfinished files; where reports are wanted of the run
 * they cancel it, and the process ends with it. A signal from before the run had begun counts when
 * cli_cancel_begun is called after its start. */
struct ppto_program;
void cli_cancel_begin(struct ppto_program *program, bool reports);
void cli_cancel_begun(void);
void cli_cancel_end(void); /* after cli_uninterrupted_begin the process goes on to its end */
bool cli_interrupted(void);

/* progress_line.c */
/* Waits for the run. show: says on standard error how far it is, if that is a terminal. returns  as
 * ppto_run_wait */
struct ppto_run;
ppto_status cli_wait(struct ppto_run *run, bool show);
/* Makes descriptors 0 to 2 exist, so that no file takes their place. */
void cli_standard_files(void);
bool cli_is_standard(const char *path); /* standard input or output: "-", "-:TYPE" */
/* Saving to this path makes a new file: not "-", nor a device, a pipe or a descriptor by name (/dev/stdout).
 */
bool cli_makes_file(const char *path);

#endif
