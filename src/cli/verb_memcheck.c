/* SPDX-License-Identifier: Apache-2.0
 * ppto memcheck: a report that a program wrote as JSON, as text with names for its stacks, or as a picture.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "ppto/memcheck.h"

enum { MOST_BYTES = 1 << 30 };

/* The whole file; owns *text: free. */
static int read_report(const char *path, char **text, size_t *length)
{
    FILE *from = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    size_t room = 0, n = 0;
    char *all = NULL;
    if (from == NULL) return cli_fail(CLI_INPUT, "%s: %s", path, strerror(errno));
    for (bool more = true; more && n < MOST_BYTES;) {
        if (n == room) {
            room = room == 0 ? 1 << 16 : room * 2;
            char *larger = realloc(all, room);
            if (larger == NULL) break;
            all = larger;
        }
        size_t got = fread(all + n, 1, room - n, from);
        n += got;
        more = got != 0;
    }
    bool fine = feof(from) && !ferror(from);
    if (from != stdin) fclose(from);
    *text = all;
    *length = n;
    return fine ? CLI_OK : cli_fail(CLI_INPUT, "%s: cannot be read, or is no report", path);
}

typedef struct job {
    const char *path, *json;
    size_t length;
    cli_symbols *symbols;
} job;

/* to NULL: nothing is asked for. */
static int write_form(const job *j, ppto_report form, const char *to)
{
    char *text;
    if (to == NULL) return CLI_OK;
    ppto_status status = ppto_memcheck_convert(j->json, j->length, form, cli_symbols_find, j->symbols, &text);
    if (status != PPTO_OK) return cli_fail_file(status, j->path);
    int code = cli_write_text(to, text, strlen(text));
    ppto_text_free(text);
    return code;
}

/* Both into one place: one of them would be lost. */
static int check_places(const cli_arguments *a)
{
    if (a->svg == NULL || a->folded == NULL) return CLI_OK;
    if (!cli_same_file(a->svg, strlen(a->svg), a->folded, strlen(a->folded))) return CLI_OK;
    return cli_fail(CLI_USAGE, "--svg %s and --folded %s both want one place: give them two files", a->svg,
                    a->folded);
}

int cli_memcheck(const cli_arguments *arguments)
{
    char *json = NULL;
    job j = {.symbols = cli_symbols_open()};
    if (arguments->operands.n != 1) {
        cli_symbols_close(j.symbols);
        return cli_fail(CLI_USAGE, "memcheck takes one report, not %zu; see: ppto memcheck --help",
                        arguments->operands.n);
    }
    j.path = arguments->operands.at[0];
    int code = check_places(arguments);
    if (code == CLI_OK) code = read_report(j.path, &json, &j.length);
    j.json = json;
    bool text = arguments->svg == NULL && arguments->folded == NULL;
    if (code == CLI_OK) code = write_form(&j, PPTO_REPORT_SVG, arguments->svg);
    if (code == CLI_OK) code = write_form(&j, PPTO_REPORT_FOLDED, arguments->folded);
    if (code == CLI_OK && text)
        code = write_form(&j, arguments->json ? PPTO_REPORT_JSON : PPTO_REPORT_TEXT, "-");
    free(json);
    cli_symbols_close(j.symbols);
    return code;
}
