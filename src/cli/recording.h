/* SPDX-License-Identifier: Apache-2.0
 * From a text and bindings to a compiled program: what run, explain and bench share. */
#ifndef PPTO_CLI_RECORDING_H
#define PPTO_CLI_RECORDING_H

#include "binding.h"
#include "cli.h"
#include "ppto/run.h"
#include "ppto/trace.h"

typedef struct cli_recording {
    ppto_context *ctx;
    ppto_graph *graph;
    ppto_program *program;
    cli_bindings bindings;
    bool without_data; /* for explain: specifications stay shapes, inputs may stay unbound */
    bool from_files;   /* files are read by the run */
    const cli_arguments *arguments;
    size_t n; /* results of the text, with their names ("" when it names none) */
    ppto_tensor **outputs;
    char **names;
    double record_seconds, compile_seconds; /* parsing and recording; cli_compile */
    int failed;          /* exit code of a binding that could not be made while the text was read */
    const char *missing; /* a name the text asks for and nothing binds */
} cli_recording;

/* Makes the context, reads --define files and bindings, then the text. Free with cli_recording_free, also on
 * failure. */
int cli_record(cli_recording *recording, const cli_arguments *arguments, bool without_data, bool from_files);
/* Says what memcheck found, or that its report could not be written. code: the exit code so far, which is
 * returned unless it is CLI_OK. */
int cli_recording_free(cli_recording *recording, int code);

/* Compiles the results with these numbers and binds every input; a binding that nothing uses is an error. */
int cli_compile(cli_recording *recording, const size_t *chosen, size_t n);

/* Exit code of a failed bind or run. A shape or dtype that is wrong then contradicts a declared input: the
 * fault of a file when a file is bound to one. */
int cli_fail_run(const cli_recording *recording, ppto_status status);

/* trace.c */
/* A trace of the program's runs when an option asks for what it knows, else NULL. owns  ppto_trace_destroy */
int cli_trace_begin(const cli_recording *recording, const cli_arguments *arguments, ppto_trace **trace);
int cli_trace_follow(const cli_recording *recording, ppto_trace *trace); /* trace: may be NULL */
/* Is anything to be told of the run, and only to files? */
bool cli_reports(const cli_arguments *arguments);
/* What the options ask for: --trace, --timeline, --memcheck, --stats. trace: as begun. */
int cli_report_run(const cli_recording *recording, const cli_arguments *arguments, ppto_trace *trace);

/* "; N of M loops compiled, K from disk"; nothing where no loop can be machine code. */
void cli_print_loops(FILE *to, const ppto_stats *stats);

/* Seconds of a clock that only goes forward. */
double cli_now(void);

#endif
