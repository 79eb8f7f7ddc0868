/* SPDX-License-Identifier: Apache-2.0
 * Which files go around the page cache (scheduler/io_around.c), and how memory has to lie for that. */
#ifndef PP_FILE_AROUND_H
#define PP_FILE_AROUND_H

#include "runtime/runtime.h"

/* What the option page_cache says; "auto": large files, so large that keeping them would push out what others
 * use. What is to be read again soon is kept where half of the memory has room for it. */
bool pp_file_goes_around(const ppto_context *ctx, uint64_t bytes, bool write, bool again);

/* Where data that begin at `data_at` of a file are to lie, behind a multiple of PP_IO_BLOCK; SIZE_MAX: that
 * cannot be asked for, and blocks that lie otherwise go through the cache. */
size_t pp_file_lead(int64_t data_at);

/* As pp_array_new, for what a file holds from there on, if it goes around. */
ppto_status pp_array_new_led(ppto_context *ctx, const pp_tag *tag, ppto_dtype dtype, int rank,
                             const int64_t *shape, size_t lead, ppto_array **out, pp_error *err);

/* The lead of a result that its step stores in a file; SIZE_MAX: none is wanted. path NULL: in no file */
size_t pp_file_lead_of_result(const ppto_context *ctx, const char *path, ppto_dtype dtype, int rank,
                              const int64_t *shape, uint64_t bytes);

#endif
