/* SPDX-License-Identifier: Apache-2.0
 * Where the pool's blocks come from: the heap, or from PP_MAPPED_FROM bytes up mappings of their own, which
 * begin with a page. */
#ifndef PP_POOL_SYSTEM_H
#define PP_POOL_SYSTEM_H

#include "base/base.h"

enum { PP_POOL_ALIGNMENT = 64 };
#define PP_MAPPED_FROM ((size_t)1 << 20)

void *pp_system_take(size_t bytes);             /* NULL: the system has none */
void pp_system_give(void *block, size_t bytes); /* the bytes asked for */

#endif
