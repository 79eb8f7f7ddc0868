/* SPDX-License-Identifier: Apache-2.0
 * ppto selfcheck: known answers of the context's device; exit 1 when one differs. */
#include "cli.h"

int cli_selfcheck(const cli_arguments *arguments)
{
    ppto_context *ctx = NULL;
    char *text = NULL;
    if (arguments->operands.n > 0)
        return cli_fail(CLI_USAGE, "%s: selfcheck takes no arguments; see: ppto selfcheck --help",
                        arguments->operands.at[0]);
    int code = cli_context(arguments, &ctx);
    if (code != CLI_OK) return code;
    ppto_status status = ppto_selfcheck(ctx, &text);
    cli_print_text(text);
    if (status != PPTO_OK) code = cli_fail_status(status, NULL);
    ppto_context_destroy(ctx);
    return status == PPTO_E_DEVICE ? CLI_DIFFERENT : code;
}
