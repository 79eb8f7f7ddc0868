/* SPDX-License-Identifier: Apache-2.0
 * src/files: files without a header. Their name says what is in them: FILE.raw:f32[1000,512] (.bin alike),
 * row by row in the byte order of this machine. The first size may be a word, as in f32[N,512]: as many as
 * there are. */
#ifndef PP_RAW_H
#define PP_RAW_H

#include "files/npy.h"

/* text: what follows the colon, NULL: nothing. size: bytes of the file, -1 for a pipe.
 * returns  PPTO_OK; PPTO_E_VALUE the text is no dtype and sizes; PPTO_E_DTYPE; PPTO_E_SIZE it overflows;
 * PPTO_E_FORMAT the file has another number of bytes */
ppto_status pp_raw_describe(const char *text, int64_t size, pp_npy_info *info, pp_error *err);

ppto_status pp_raw_write(int fd, ppto_dtype dtype, int rank, const int64_t *shape, const void *data,
                         const pp_files_watch *watch, pp_error *err); /* as pp_npy_write */

#endif
