/* SPDX-License-Identifier: Apache-2.0
 * What the command says: failures, texts of the library, JSON, small files.
 *
 * A failure is one line that begins with "ppto: " (the library's own may go on: a source line and a caret).
 * The exit code follows from the status by one table, exit_of. */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

static int colour = -1; /* -1 auto, 0 never, 1 always */
static int output_error;

size_t cli_archive_length(const char *path)
{
    static const char *const endings[] = {".npz", ".safetensors"};
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; ++i) {
        size_t length = strlen(endings[i]);
        for (const char *at = strstr(path, endings[i]); at != NULL; at = strstr(at + 1, endings[i]))
            if (at[length] == '\0' || at[length] == ':') return (size_t)(at - path) + length;
    }
    return 0;
}

/* The path without links and dots, of a file that is not there its folder's; NULL: it has none. */
static char *place_of(const char *path, size_t length)
{
    char *own = strndup(path, length), *place = own != NULL ? realpath(own, NULL) : NULL;
    if (own != NULL && place == NULL) {
        char *slash = strrchr(own, '/'), *name = slash != NULL ? slash + 1 : own;
        char *folder = slash != NULL ? strndup(own, (size_t)(name - own)) : strdup(".");
        char *found = folder != NULL ? realpath(folder, NULL) : NULL;
        if (found != NULL && (place = malloc(strlen(found) + strlen(name) + 2)) != NULL)
            strcat(strcat(strcpy(place, found), "/"), name);
        free(found);
        free(folder);
    }
    free(own);
    return place;
}

bool cli_same_file(const char *a, size_t a_length, const char *b, size_t b_length)
{
    struct stat facts;
    char *one = place_of(a, a_length), *other = place_of(b, b_length);
    bool same = one != NULL && other != NULL && strcmp(one, other) == 0;
    same = same && (stat(one, &facts) != 0 || S_ISREG(facts.st_mode));
    free(one);
    free(other);
    return same;
}

bool cli_color(const char *when)
{
    static const char *const words[] = {"auto", "never", "always"};
    for (int i = 0; i < 3; ++i) {
        if (strcmp(when, words[i]) != 0) continue;
        colour = i - 1;
        return true;
    }
    return false;
}

static bool is_set(const char *variable)
{
    const char *value = getenv(variable);
    return value != NULL && value[0] != '\0';
}

static bool in_colour(void)
{
    if (colour >= 0) return colour == 1;
    if (is_set("NO_COLOR")) return false;
    if (is_set("CLICOLOR_FORCE") && strcmp(getenv("CLICOLOR_FORCE"), "0") != 0) return true;
    const char *terminal = getenv("TERM");
    return isatty(STDERR_FILENO) == 1 && terminal != NULL && strcmp(terminal, "dumb") != 0;
}

static void say_front(void)
{
    fflush(stdout);
    fputs(in_colour() ? "\033[1;31mppto:\033[0m " : "ppto: ", stderr);
}

int cli_fail(int code, const char *format, ...)
{
    va_list args;
    say_front();
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return code;
}

int cli_exit_of(ppto_status status)
{
    switch (status) {
    case PPTO_OK: return CLI_OK;
    case PPTO_E_SHAPE:
    case PPTO_E_DTYPE:
    case PPTO_E_NAME:
    case PPTO_E_VALUE:
    case PPTO_E_UNSUPPORTED:
    case PPTO_E_SYNTAX: return CLI_USAGE;
    case PPTO_E_IO:
    case PPTO_E_FORMAT: return CLI_INPUT;
    case PPTO_E_SIZE:
    case PPTO_E_NOMEM:
    case PPTO_E_LIMIT: return CLI_LIMIT;
    case PPTO_E_CANCELLED:
    case PPTO_E_DEADLINE: return CLI_INTERRUPTED;
    case PPTO_E_DEVICE:
    case PPTO_E_FORKED:
    case PPTO_E_WOULD_DEADLOCK:
    case PPTO_E_BUSY:
    case PPTO_E_NOT_SCHEDULED:
    case PPTO_E_TIMEOUT:
    case PPTO_E_INTERNAL: break;
    }
    return CLI_INTERNAL;
}

int cli_fail_status(ppto_status status, const char *front)
{
    const char *text = ppto_error_text(NULL);
    if (text == NULL || text[0] == '\0') text = ppto_status_text(status);
    size_t length = strlen(text);
    if (length > 0 && text[length - 1] == '\n') --length;
    say_front();
    if (front != NULL && strncmp(text, front, strlen(front)) != 0) fprintf(stderr, "%s: ", front);
    fprintf(stderr, "%.*s\n", (int)length, text);
    return cli_exit_of(status);
}

int cli_fail_file(ppto_status status, const char *front)
{
    int code = cli_fail_status(status, front);
    return code == CLI_USAGE ? CLI_INPUT : code;
}

/* To standard output; the first failure is kept for cli_finish, since a full buffer may fail long before the
 * end. */
static void put(const char *text, size_t length)
{
    errno = 0;
    if (fwrite(text, 1, length, stdout) != length && output_error == 0) output_error = errno;
}

void cli_print_text(char *text)
{
    if (text == NULL) return;
    size_t length = strlen(text);
    put(text, length);
    if (length > 0 && text[length - 1] != '\n') fputc('\n', stdout);
    ppto_text_free(text);
}

int cli_end_text(ppto_context *ctx, ppto_status status, char *text)
{
    int code = CLI_OK;
    if (status == PPTO_OK)
        cli_print_text(text);
    else
        code = cli_fail_status(status, NULL);
    ppto_context_destroy(ctx);
    return code;
}

void cli_json_string(FILE *to, const char *text)
{
    fputc('"', to);
    for (const char *c = text; *c != '\0'; ++c) {
        if (*c == '"' || *c == '\\')
            fprintf(to, "\\%c", *c);
        else if ((unsigned char)*c < 0x20)
            fprintf(to, "\\u%04x", (unsigned)*c);
        else
            fputc(*c, to);
    }
    fputc('"', to);
}

void cli_json_number(FILE *to, double value)
{
    if (isfinite(value))
        fprintf(to, "%.9g", value);
    else
        fputs("null", to);
}

static int write_failure(const char *path)
{
    int error = errno;
    int code =
        error == ENOSPC || error == EDQUOT || error == EFBIG || error == ENOMEM ? CLI_LIMIT : CLI_INPUT;
    return cli_fail(code, "%s: %s", path, strerror(error));
}

static bool write_all(int fd, const char *text, size_t length)
{
    while (length > 0) {
        ssize_t n = write(fd, text, length);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        text += n;
        length -= (size_t)n;
    }
    return true;
}

static bool write_closing(int fd, const char *text, size_t length)
{
    bool fine = write_all(fd, text, length);
    int error = errno;
    if (close(fd) != 0) return false;
    errno = error;
    return fine;
}

/* A new file beside path, renamed to it when it is whole. */
static bool write_renamed(const char *path, const char *text, size_t length)
{
    char *real = realpath(path, NULL); /* what a link points to is replaced, not the link */
    const char *target = real != NULL ? real : path;
    size_t room = strlen(target) + 16;
    char *temporary = malloc(room);
    bool fine = temporary != NULL;
    if (fine) {
        snprintf(temporary, room, "%s.XXXXXX", target);
        int fd = mkstemp(temporary);
        struct stat facts;
        mode_t mask = umask(0);
        umask(mask);
        mode_t mode = stat(target, &facts) == 0 ? facts.st_mode & 07777 : 0666 & ~mask;
        fine = fd >= 0 && fchmod(fd, mode) == 0;
        if (fd >= 0) fine = write_closing(fd, text, length) && fine;
        fine = fine && rename(temporary, target) == 0;
        int error = errno;
        if (!fine && fd >= 0) unlink(temporary);
        errno = error;
    }
    int error = errno;
    free(temporary);
    free(real);
    errno = error;
    return fine;
}

int cli_write_text(const char *path, const char *text, size_t length)
{
    if (strcmp(path, "-") == 0) {
        put(text, length);
        return cli_finish(CLI_OK);
    }
    bool fine;
    if (cli_makes_file(path)) {
        cli_uninterrupted_begin();
        fine = write_renamed(path, text, length);
        int error = errno;
        cli_uninterrupted_end();
        errno = error;
    } else {
        fflush(stdout); /* which path may be */
        int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
        fine = fd >= 0 && write_closing(fd, text, length);
    }
    return fine ? CLI_OK : write_failure(path);
}

int cli_finish(int code)
{
    static bool failed = false;
    if (failed) return code;
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    failed = true;
    if (output_error != 0) errno = output_error;
    if (errno == 0) errno = EIO;
    int wrong = write_failure("standard output");
    return code == CLI_OK ? wrong : code;
}
