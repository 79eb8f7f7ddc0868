/* SPDX-License-Identifier: Apache-2.0
 * Status words and the error record.
 *
 * The table of statuses is status.def; this file expands it once for words and once for sentences, and
 * asserts that its numbers are those of the public enum. The record has fixed storage so that running out of
 * memory can itself be reported. The first failure wins: the innermost caller knows most, those above only
 * pass it on. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

#define PP_STATUS(name, number, text)                                                                        \
    _Static_assert((int)PPTO_##name == (number), "status.def and types.h differ");
#include "base/status.def"
#undef PP_STATUS

const char *ppto_status_name(ppto_status status)
{
    switch (status) {
#define PP_STATUS(name, number, text)                                                                        \
    case PPTO_##name:                                                                                        \
        return "PPTO_" #name;
#include "base/status.def"
#undef PP_STATUS
    }
    return "PPTO_E_?";
}

const char *ppto_status_text(ppto_status status)
{
    switch (status) {
#define PP_STATUS(name, number, text)                                                                        \
    case PPTO_##name:                                                                                        \
        return text;
#include "base/status.def"
#undef PP_STATUS
    }
    return "unknown status";
}

ppto_status pp_fail(pp_error *err, ppto_status code, const char *format, ...)
{
    if (err == NULL || err->code != PPTO_OK) return code;
    va_list args;
    va_start(args, format);
    err->code = code;
    if (pp_vsnprintf(err->text, sizeof err->text, format, args) < 0) err->text[0] = '\0';
    va_end(args);
    return code;
}

ppto_status pp_errno_status(int number)
{
    return number == ENOSPC || number == EDQUOT || number == EFBIG ? PPTO_E_LIMIT : PPTO_E_IO;
}

ppto_status pp_fail_errno(pp_error *err, const char *what, int number)
{
    char reason[128];
    if (strerror_r(number, reason, sizeof reason) != 0) snprintf(reason, sizeof reason, "error %d", number);
    return pp_fail(err, pp_errno_status(number), "%s: %s%s", what, reason,
                   number == EPIPE ? ", who read it has gone" : "");
}

void pp_error_clear(pp_error *err)
{
    if (err == NULL) return;
    err->code = PPTO_OK;
    err->text[0] = '\0';
    err->site = (ppto_site){0};
}

const char *pp_site_text(const ppto_site *site, char *out, size_t room)
{
    out[0] = '\0';
    if (site->file == NULL) return out;
    if (site->column > 0)
        (void)snprintf(out, room, "%s:%d:%d", site->file, (int)site->line, (int)site->column);
    else
        (void)snprintf(out, room, "%s:%d", site->file, (int)site->line);
    return out;
}
