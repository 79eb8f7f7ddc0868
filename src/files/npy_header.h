/* SPDX-License-Identifier: Apache-2.0
 * src/files, private: the text of an NPY header and its dtype names. */
#ifndef PP_NPY_HEADER_H
#define PP_NPY_HEADER_H

#include "files/npy.h"

/* Parses the n bytes of text (a Python dictionary of literals) into all of *info. See pp_npy_read_header. */
ppto_status pp_npy_parse_header(const char *text, size_t n, pp_npy_info *info, pp_error *err);

/* Bytes of an element; 0 for a value that is no dtype. */
size_t pp_npy_dtype_size(ppto_dtype dtype);

/* NPY's name of a dtype in the machine's byte order; false for a value that is no dtype. */
bool pp_npy_descr(ppto_dtype dtype, char descr[8]);

#endif
