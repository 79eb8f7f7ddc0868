/* SPDX-License-Identifier: Apache-2.0
 * Plain values every header uses: status codes, dtypes, the export macro, the call site. */
#ifndef PPTO_TYPES_H
#define PPTO_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define PPTO_API __attribute__((visibility("default")))
#else
#define PPTO_API
#endif

/* 0 is success, errors are negative; numbers never change. ppto_status_name() gives the word,
 * ppto_status_text() a sentence. */
typedef enum ppto_status {
    PPTO_OK = 0,
    PPTO_E_SHAPE = -1,
    PPTO_E_DTYPE = -2,
    PPTO_E_SIZE = -3,
    PPTO_E_NAME = -4,
    PPTO_E_VALUE = -5,
    PPTO_E_UNSUPPORTED = -6,
    PPTO_E_NOMEM = -7,
    PPTO_E_LIMIT = -8,
    PPTO_E_IO = -9,
    PPTO_E_FORMAT = -10,
    PPTO_E_DEVICE = -11,
    PPTO_E_CANCELLED = -12,
    PPTO_E_DEADLINE = -13,
    PPTO_E_FORKED = -14,
    PPTO_E_WOULD_DEADLOCK = -15,
    PPTO_E_BUSY = -16,
    PPTO_E_INTERNAL = -17,
    PPTO_E_SYNTAX = -18,
    PPTO_E_NOT_SCHEDULED = -19,
    PPTO_E_TIMEOUT = -20
} ppto_status;

/* Element types. Values are stable. */
typedef enum ppto_dtype {
    PPTO_BOOL = 0,
    PPTO_I8 = 1,
    PPTO_I16 = 2,
    PPTO_I32 = 3,
    PPTO_I64 = 4,
    PPTO_U8 = 5,
    PPTO_U16 = 6,
    PPTO_U32 = 7,
    PPTO_U64 = 8,
    PPTO_F32 = 9,
    PPTO_F64 = 10
} ppto_dtype;

#define PPTO_MAX_RANK 16

/* Where a call was written. Static strings, or of a text: the context's, which frees them last. */
typedef struct ppto_site {
    const char *file;
    const char *function;
    int32_t line;
    int32_t column; /* of a call in a text of the operator language; 0: not known */
} ppto_site;

#ifdef __cplusplus
#define PPTO_HERE (ppto_site{__FILE__, __func__, __LINE__, 0})
#else
#define PPTO_HERE ((ppto_site){__FILE__, __func__, __LINE__, 0})
#endif

PPTO_API const char *ppto_status_name(ppto_status status);
PPTO_API const char *ppto_status_text(ppto_status status);
PPTO_API const char *ppto_dtype_name(ppto_dtype dtype);
PPTO_API size_t ppto_dtype_size(ppto_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
