/* SPDX-License-Identifier: Apache-2.0
 * ppto tune: measures what predictions of time are made from, and keeps it for this machine. */
#include "cli.h"

int cli_tune(const cli_arguments *arguments)
{
    ppto_context *ctx = NULL;
    char *text = NULL;
    if (arguments->operands.n > 0)
        return cli_fail(CLI_USAGE, "%s: tune takes no arguments; see: ppto tune --help",
                        arguments->operands.at[0]);
    int code = cli_context(arguments, &ctx);
    if (code != CLI_OK) return code;
    ppto_status status = ppto_tune(ctx, &text);
    return cli_end_text(ctx, status, text);
}
