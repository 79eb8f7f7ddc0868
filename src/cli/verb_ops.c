/* SPDX-License-Identifier: Apache-2.0
 * ppto ops and ppto show-op: the operators, from the library's table. */
#include <string.h>

#include "cli.h"

int cli_ops(const cli_arguments *arguments)
{
    ppto_context *ctx = NULL;
    char *text = NULL;
    if (arguments->operands.n > 1)
        return cli_fail(CLI_USAGE, "ops takes one pattern, not %zu; see: ppto ops --help",
                        arguments->operands.n);
    int code = cli_context(arguments, &ctx);
    if (code != CLI_OK) return code;
    const char *pattern = arguments->operands.n > 0 ? arguments->operands.at[0] : NULL;
    ppto_status status = ppto_list_operators(ctx, pattern, arguments->json, &text);
    bool none = status == PPTO_OK && pattern != NULL && (text[0] == '\0' || strcmp(text, "[]\n") == 0);
    if (status != PPTO_OK) code = cli_fail_status(status, NULL);
    if (none) code = cli_fail(CLI_USAGE, "no operator matches %s; see: ppto ops", pattern);
    if (code == CLI_OK)
        cli_print_text(text);
    else
        ppto_text_free(text);
    ppto_context_destroy(ctx);
    return code;
}

int cli_show_op(const cli_arguments *arguments)
{
    ppto_context *ctx = NULL;
    char *text = NULL;
    if (arguments->operands.n != 1)
        return cli_fail(CLI_USAGE, "show-op takes the name of one operator; see: ppto ops");
    int code = cli_context(arguments, &ctx);
    if (code != CLI_OK) return code;
    ppto_status status = ppto_show_operator(ctx, arguments->operands.at[0], arguments->json, &text);
    return cli_end_text(ctx, status, text);
}
