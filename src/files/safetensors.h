/* SPDX-License-Identifier: Apache-2.0
 * src/files: safetensors, a JSON header and raw row-major arrays in little-endian order. The JSON is read by
 * jansson. Files are not trusted: the header must describe every byte of the data once, as the format says.
 * Errors name the cause, not the file. Without jansson reading returns E_UNSUPPORTED; writing needs it not.
 * source  https://huggingface.co/docs/safetensors */
#ifndef PP_SAFETENSORS_H
#define PP_SAFETENSORS_H

#include "files/npz.h"

/* Finds the array of that name (NULL: the only one) in a file with offsets. *data_at: offset of its data in
 * the file. returns  PPTO_OK; PPTO_E_FORMAT malformed, no such array (the text lists what there is);
 * PPTO_E_DTYPE its dtype is not supported; PPTO_E_IO; PPTO_E_NOMEM */
ppto_status pp_safetensors_find(const pp_source *source, const char *name, pp_npy_info *info,
                                int64_t *data_at, pp_error *err);

/* The header of a file of these arrays: the data follow at once in the order of `order` (room for n), the
 * largest elements first and then by name, so that all lie aligned. An entry without a name is arr_i.
 * returns  PPTO_OK; PPTO_E_VALUE two arrays of one name; PPTO_E_SIZE; PPTO_E_NOMEM. owns *head: pp_text_free
 */
ppto_status pp_safetensors_head(const pp_files_entry *entries, size_t n, size_t *order, pp_text *head,
                                pp_error *err);
/* Writes a whole file to fd. returns also PPTO_E_IO; PPTO_E_LIMIT; what the watch says */
ppto_status pp_safetensors_write(int fd, const pp_files_entry *entries, size_t n, const pp_files_watch *watch,
                                 pp_error *err);

#endif
