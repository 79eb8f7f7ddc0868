/* SPDX-License-Identifier: Apache-2.0
 * src/files: one array of a file, whatever the format. The name says which: FILE.npz, FILE.npz:NAME,
 * FILE.safetensors and FILE.safetensors:NAME are archives (NAME may be left out where there is one array),
 * FILE.raw:TYPE and FILE.bin:TYPE have no header (raw.h), "-" is a standard descriptor ("-:TYPE": without a
 * header), and every other name an NPY file; none is written under an ending of another kind. Errors name the
 * cause, not the file. */
#ifndef PP_FORMATS_H
#define PP_FORMATS_H

#include "files/safetensors.h"
#include "files/sink.h"

typedef enum pp_format { PP_FORMAT_NPY, PP_FORMAT_NPZ, PP_FORMAT_SAFETENSORS, PP_FORMAT_RAW } pp_format;

/* What a name stands for. */
typedef struct pp_file_name {
    pp_format format;
    char *path;       /* owned */
    const char *name; /* of the array, in path's memory; NULL: not said */
} pp_file_name;
bool pp_file_is_standard(const char *text); /* "-" or "-:TYPE" */
bool pp_files_reads(pp_format format);      /* the library for it is built in */
ppto_status pp_file_name_read(const char *text, pp_file_name *out, pp_error *err); /* E_VALUE; E_NOMEM */
void pp_file_name_free(pp_file_name *name);

/* ---- reading ---- */

/* An array of an open file, its header read. */
typedef struct pp_reader {
    pp_source source;
    pp_npy_info info;
    int64_t data_at; /* offset of the data when they lie in the file as they are, else -1 */
    bool in_place;   /* and row-major; pp_npy_put_right does the rest */
    bool in_order;   /* row-major, and to be read from first to last only: pp_reader_next */
    pp_npz *npz;
} pp_reader;

/* returns  PPTO_OK; PPTO_E_IO, PPTO_E_FORMAT, PPTO_E_DTYPE, PPTO_E_UNSUPPORTED (a library is missing),
 * PPTO_E_NOMEM. owns *reader: pp_reader_close */
ppto_status pp_reader_open(pp_reader *reader, const char *text, pp_error *err);
/* Reads the data, once, as pp_npy_data_from. */
ppto_status pp_reader_read(pp_reader *reader, void *dst, const pp_files_watch *watch, pp_error *err);
/* In place of pp_reader_read, where in_order: some of the next n bytes of the data, as they are in the file,
 * and none at the end (pp_npy_put_right). Waits for them. */
ppto_status pp_reader_next(pp_reader *reader, void *bytes, size_t n, size_t *got, pp_error *err);
/* All of the data were read: nothing may follow, and an archive's checksum must be right. */
ppto_status pp_reader_end(pp_reader *reader, pp_error *err);
void pp_reader_close(pp_reader *reader);

/* ---- writing ---- */

/* Does the name say a format, or nothing? What others read as a text or a picture gets no array. returns
 * PPTO_OK; PPTO_E_VALUE for an ending that is no format, of what is no pipe, and for a name that no array of
 * the archive can have: empty, no UTF-8, too long, __metadata__ */
ppto_status pp_files_can_write(const char *text, pp_error *err);

/* Writes arrays to a file that appears by rename (sink.h); all but archives hold one. A NAME in the text is
 * that of the only array. returns PPTO_OK; PPTO_E_VALUE; as pp_npy_write and pp_sink_open */
ppto_status pp_files_save(const char *text, const pp_files_entry *entries, size_t n,
                          const pp_files_watch *watch, pp_error *err);
/* For a writer by pieces: the file, and what stands before the data of one array (data NULL).
 * returns  PPTO_OK; PPTO_E_UNSUPPORTED where data do not lie in a file as they are. owns both */
ppto_status pp_files_head(const char *text, const pp_files_entry *entry, pp_file_name *file, pp_text *head,
                          pp_error *err);
/* Opens that file, for so many bytes of data, and writes what stands before them. *data_at: where they begin.
 * returns  as pp_files_head and pp_sink_open. After a failure nothing is open, and sink->fd is -1 */
ppto_status pp_files_begin(const char *text, const pp_files_entry *entry, size_t bytes,
                           const pp_files_watch *watch, pp_sink *sink, size_t *data_at, pp_error *err);
bool pp_files_by_pieces(const char *text); /* this can be done */
bool pp_files_flow(const char *text);      /* pp_sink_flows of its file */
/* An NPZ file that its only array can be written to from first to last, as it comes (pp_npz_write_from). */
bool pp_files_in_order(const char *text);
/* Opens it. *file: its name and that of the array. returns  as pp_sink_open. owns both; after a failure
 * neither is there */
ppto_status pp_files_begin_in_order(const char *text, const pp_files_watch *watch, pp_file_name *file,
                                    pp_sink *sink, pp_error *err);

#endif
