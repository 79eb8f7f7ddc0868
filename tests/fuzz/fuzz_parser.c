/* SPDX-License-Identifier: Apache-2.0
 * libFuzzer entry for the operator language: the first byte chooses the mode, the rest is the text.
 * Any text must give a unit or an error with a message, never both, never neither, and leave no memory
 * behind. */
#include "lang/parser.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pp_error err = {0};
    pp_unit *unit = NULL;
    if (size == 0) return 0;
    pp_parse_mode mode = data[0] & 1 ? PP_PARSE_LIBRARY : PP_PARSE_PROGRAM;
    int64_t live = pp_heap_count().live;
    ppto_status status = pp_parse((const char *)data + 1, size - 1, "fuzz", mode, &unit, &err);
    if ((status == PPTO_OK) != (unit != NULL) || (status == PPTO_OK) != (err.text[0] == '\0'))
        __builtin_trap();
    pp_unit_destroy(unit);
    if (pp_heap_count().live != live) __builtin_trap();
    return 0;
}
