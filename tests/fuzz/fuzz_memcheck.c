/* SPDX-License-Identifier: Apache-2.0
 * Fuzzer of reports of memory: any bytes as JSON. What is accepted is written in all forms, and its JSON is
 * accepted again and the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "memory/memcheck.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void must(bool holds)
{
    if (!holds) abort();
}

static void write_all(const pp_memcheck *report, pp_text *json)
{
    pp_text other = {0};
    pp_memcheck_write_text(report, &other);
    pp_memcheck_write_svg(report, &other);
    pp_memcheck_write_folded(report, &other);
    pp_memcheck_write_json(report, json);
    must(!other.failed && !json->failed);
    pp_text_free(&other);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    pp_memcheck report, again;
    pp_error err = {0};
    pp_text json = {0}, json_again = {0};
    if (pp_memcheck_read((const char *)bytes, n, &report, &err) == PPTO_OK) {
        write_all(&report, &json);
        must(pp_memcheck_read(json.at, json.n, &again, &err) == PPTO_OK);
        pp_memcheck_write_json(&again, &json_again);
        must(json_again.n == json.n && memcmp(json.at, json_again.at, json.n) == 0);
        pp_memcheck_free(&again);
    }
    pp_memcheck_free(&report);
    pp_text_free(&json);
    pp_text_free(&json_again);
    return 0;
}
