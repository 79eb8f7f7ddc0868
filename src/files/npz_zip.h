/* SPDX-License-Identifier: Apache-2.0
 * src/files, private: what the files that use libzip share. */
#ifndef PP_NPZ_ZIP_H
#define PP_NPZ_ZIP_H

#include <zip.h>

#include "base/base.h"

/* libzip's error as ours; the status. */
ppto_status pp_zip_fail(pp_error *err, zip_error_t *why);

#endif
