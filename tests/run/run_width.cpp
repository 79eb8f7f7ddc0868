/* SPDX-License-Identifier: Apache-2.0
 * A program that limits oneTBB itself: `info` says how many threads may run at once under that limit, runs go
 * on, and the width comes back with the limit's end. */
#include <cstdio>
#include <cstring>

#include <tbb/global_control.h>

#include "ppto/ppto.h"

static int failures;

static void expect_threads(ppto_context *ctx, int threads)
{
    char *text = nullptr, wanted[32];
    std::snprintf(wanted, sizeof wanted, "\"threads\": %d,", threads);
    if (ppto_runtime_info(ctx, true, &text) == PPTO_OK && std::strstr(text, wanted) != nullptr) {
        ppto_text_free(text);
        return;
    }
    std::fprintf(stderr, "%s was expected: %s\n", wanted, text != nullptr ? text : ppto_error_text(ctx));
    ppto_text_free(text);
    failures++;
}

int main()
{
    const tbb::global_control enough(tbb::global_control::max_allowed_parallelism, 8);
    ppto_options options = PPTO_OPTIONS_INIT;
    ppto_context *ctx = nullptr;
    options.executor = "tbb";
    options.topology = "flat";
    options.threads = 3;
    if (ppto_context_create(&ctx, &options) != PPTO_OK) return 77;
    expect_threads(ctx, 3);
    {
        const tbb::global_control one(tbb::global_control::max_allowed_parallelism, 1);
        char *text = nullptr;
        expect_threads(ctx, 1);
        if (ppto_selfcheck(ctx, &text) != PPTO_OK) failures++;
        ppto_text_free(text);
    }
    expect_threads(ctx, 3);
    (void)ppto_context_destroy(ctx);
    return failures != 0;
}
