/* SPDX-License-Identifier: Apache-2.0
 * Build-time program: index_gen writes the index of the shipped texts (graph/shelf.h) as C: every name and
 * alias in order, where its definition stands, and the traits the library finds when it reads everything.
 *
 * A definition is the lines from its documentation to its last token. What the index says is tried here: each
 * piece must parse alone to the definition that the whole text has under that name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/library.h"
#include "lang/parser.h"

extern const char pp_library_text[], pp_functions_text[];
extern const size_t pp_library_text_size, pp_functions_text_size;

static const pp_unit *unit[PP_SHELF_TEXTS]; /* owned by the library */
static pp_library *library;
static PP_VEC(pp_shelf_row) rows;

static ppto_status add(unsigned k, const char *text, size_t n, const char *file, pp_error *err)
{
    pp_unit *parsed = NULL;
    PP_TRY(pp_parse(text, n, file, PP_PARSE_LIBRARY, &parsed, err));
    unit[k] = parsed;
    return pp_library_add(library, parsed, pp_unit_destroy, true, err);
}

static size_t line_begin(const char *text, size_t at)
{
    while (at > 0 && text[at - 1] != '\n') at--;
    return at;
}

/* From its comments to its last token. */
static void place(const pp_definition *d, pp_shelf_row *row)
{
    const char *text = d->owner->source;
    size_t begin = line_begin(text, d->at);
    while (begin > 0 && text[line_begin(text, begin - 1)] == '#') begin = line_begin(text, begin - 1);
    row->at = (uint32_t)begin;
    row->length = d->end - row->at;
    for (size_t i = 0; i < begin; i++) row->lines_above += text[i] == '\n';
}

/* The piece alone gives the same definition. */
static ppto_status try_piece(const pp_definition *d, const pp_shelf_row *row, pp_error *err)
{
    pp_unit *alone = NULL;
    const pp_unit *whole = d->owner;
    PP_TRY(pp_parse_part(whole->source + row->at, row->length, whole->file, row->lines_above,
                         PP_PARSE_LIBRARY, &alone, err));
    const pp_definition *a = alone->definitions;
    bool same = a != NULL && a->next == NULL && strcmp(a->name, d->name) == 0 &&
                strcmp(a->doc, d->doc) == 0 && a->at + row->at == d->at && a->end + row->at == d->end;
    if (!same) pp_unit_fail(whole, d->at, err, PPTO_E_INTERNAL, "the piece does not give its definition");
    pp_unit_destroy(alone);
    return same ? PPTO_OK : PPTO_E_INTERNAL;
}

static ppto_status add_row(const char *name, const pp_definition *d, pp_error *err)
{
    pp_shelf_row row = {.name = name,
                        .text = d->owner == unit[1],
                        .elementwise = d->traits.elementwise == PP_SCAN_YES,
                        .literal = d->traits.literal == PP_SCAN_YES};
    place(d, &row);
    PP_TRY(try_piece(d, &row, err));
    return pp_vec_push(&rows, row);
}

static ppto_status add_rows(pp_error *err)
{
    for (unsigned k = 0; k < PP_SHELF_TEXTS; k++) {
        for (const pp_definition *d = unit[k]->definitions; d != NULL; d = d->next)
            PP_TRY(add_row(d->name, d, err));
        for (const pp_alias *alias = unit[k]->aliases; alias != NULL; alias = alias->next) {
            const pp_definition *d;
            PP_TRY(pp_library_find(library, alias->target, &d, err));
            PP_TRY(add_row(alias->name, d, err));
        }
    }
    return PPTO_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const pp_shelf_row *)a)->name, ((const pp_shelf_row *)b)->name);
}

static size_t row_of(const char *name)
{
    size_t i = 0;
    while (strcmp(rows.at[i].name, name) != 0) i++;
    return i;
}

static ppto_status write_rows(pp_text *out, pp_error *err)
{
    pp_text_add(out,
                "/* SPDX-License-Identifier: Apache-2.0\n"
                " * Where the shipped definitions stand. Written when the library is built. */\n"
                "#include \"graph/shelf.h\"\n\n"
                "extern const pp_shelf_row pp_library_rows[];\nextern const size_t pp_library_rows_n;\n\n"
                "const pp_shelf_row pp_library_rows[] = {\n");
    for (size_t i = 0; i < rows.n; i++) {
        const pp_shelf_row *row = &rows.at[i];
        const pp_definition *d;
        PP_TRY(pp_library_find(library, row->name, &d, err));
        pp_text_add(out, "    {\"%s\", %zu, %u, %d, %d, %u, %u, %u},\n", row->name, row_of(d->name),
                    row->text, row->elementwise, row->literal, row->at, row->length, row->lines_above);
    }
    pp_text_add(out, "};\nconst size_t pp_library_rows_n = %zu;\n", rows.n);
    return PPTO_OK;
}

static ppto_status make(pp_text *out, pp_error *err)
{
    PP_TRY(pp_library_create(NULL, &library));
    PP_TRY(add(0, pp_functions_text, pp_functions_text_size, "functions.ppto", err));
    PP_TRY(add(1, pp_library_text, pp_library_text_size, "library.ppto", err));
    PP_TRY(add_rows(err));
    if (rows.n > UINT16_MAX) return pp_fail(err, PPTO_E_LIMIT, "too many names");
    qsort(rows.at, rows.n, sizeof *rows.at, by_name);
    return write_rows(out, err);
}

int main(void)
{
    pp_error err = {0};
    pp_text out = {0};
    ppto_status status = make(&out, &err);
    if (status != PPTO_OK) fprintf(stderr, "index_gen: %s\n", err.code ? err.text : ppto_status_text(status));
    bool bad =
        status != PPTO_OK || out.failed || fwrite(out.at, 1, out.n, stdout) != out.n || fflush(stdout) != 0;
    pp_text_free(&out);
    pp_vec_free(&rows);
    pp_library_destroy(library);
    return bad;
}
