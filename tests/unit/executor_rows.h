/* SPDX-License-Identifier: Apache-2.0
 * Every executor on one, two and three domains: row i of a table for tests. */
#ifndef EXECUTOR_ROWS_H
#define EXECUTOR_ROWS_H

#include <criterion/criterion.h>

#include "scheduler/dispatch.h"

enum { MOST_DOMAINS = 3 };

/* The name of the executor; NULL past the last. */
static inline const char *row_name(size_t i)
{
    return pp_executor_at(i / MOST_DOMAINS);
}

static inline uint32_t row_domains(size_t i)
{
    return (uint32_t)(i % MOST_DOMAINS) + 1;
}

static inline pp_executor *row_executor(size_t i, uint32_t workers, uint64_t seed)
{
    pp_domains domains = {.n = row_domains(i)};
    pp_executor *executor;
    pp_error err = {0};
    pp_domains_spread(&domains, workers);
    cr_assert_eq(pp_executor_create_in(row_name(i), &domains, seed, &executor, &err), PPTO_OK, "%s",
                 err.text);
    return executor;
}

#endif
