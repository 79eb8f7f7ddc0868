/* SPDX-License-Identifier: Apache-2.0
 * What tests of the public interface share: a context on one thread, made before each test and destroyed
 * after it with every block given back, and errors that are compared with a status and words of the text. */
#ifndef TEST_CONTEXT_H
#define TEST_CONTEXT_H

#include <criterion/criterion.h>
#include <string.h>

#include "base/base.h"
#include "ppto/ppto.h"

static ppto_context *ctx;
static int64_t live;

static PP_UNUSED void open_context(void)
{
    ppto_options o = PPTO_OPTIONS_INIT;
    o.executor = "serial";
    live = pp_heap_count().live;
    cr_assert_eq(ppto_context_create(&ctx, &o), PPTO_OK, "%s", ppto_error_text(NULL));
}

static PP_UNUSED void close_context(void)
{
    ppto_context_destroy(ctx);
    cr_expect_eq(pp_heap_count().live, live, "blocks are left");
}

/* The status is `code`, and the text holds every word (NULL ends them). */
static PP_UNUSED void expect_error(ppto_status got, ppto_status code, const char *const *words)
{
    const char *text = ppto_error_text(NULL);
    cr_expect_eq(got, code, "%s instead of %s: %s", ppto_status_name(got), ppto_status_name(code), text);
    for (; *words; words++) cr_expect(strstr(text, *words) != NULL, "\"%s\" is not in: %s", *words, text);
}
#define EXPECT_ERROR(got, code, ...) expect_error(got, code, (const char *const[]){__VA_ARGS__, NULL})

#endif
