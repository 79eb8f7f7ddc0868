/* SPDX-License-Identifier: Apache-2.0
 * ppto info: what the library found on this machine. */
#include "cli.h"

int cli_info(const cli_arguments *arguments)
{
    ppto_context *ctx = NULL;
    char *text = NULL;
    if (arguments->operands.n > 0)
        return cli_fail(CLI_USAGE, "%s: info takes no arguments; see: ppto info --help",
                        arguments->operands.at[0]);
    int code = cli_context(arguments, &ctx);
    if (code != CLI_OK) return code;
    ppto_status status = ppto_runtime_info(ctx, arguments->json, &text);
    return cli_end_text(ctx, status, text);
}
