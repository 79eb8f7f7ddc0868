/* SPDX-License-Identifier: Apache-2.0
 * Names of functions, files and lines for addresses, from addr2line of binutils: it stands wherever programs
 * are compiled, and reads every form of debug information there is. One process a module answers line by
 * line; a module that cannot be read, or a system without it, has no names. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "ppto/memcheck.h"

enum { MOST_MODULES = 16 };

typedef struct module {
    char *path;
    pid_t pid;
    FILE *from; /* NULL: it has no names */
} module;

struct cli_symbols {
    size_t n;
    module modules[MOST_MODULES];
};

cli_symbols *cli_symbols_open(void)
{
    return calloc(1, sizeof(cli_symbols));
}

void cli_symbols_close(cli_symbols *symbols)
{
    for (size_t i = 0; symbols != NULL && i < symbols->n; ++i) {
        module *m = &symbols->modules[i];
        if (m->from != NULL) fclose(m->from); /* the end of its input: it ends */
        if (m->pid > 0) waitpid(m->pid, NULL, 0);
        free(m->path);
    }
    free(symbols);
}

/* Starts addr2line with the descriptor as its standard input and output. */
static bool spawn(module *m, int end)
{
    extern char **environ;
    char words[][16] = {"addr2line", "-f", "-C", "-e"};
    char *argv[] = {words[0], words[1], words[2], words[3], m->path, NULL};
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0) return false;
    bool fine = posix_spawn_file_actions_adddup2(&actions, end, STDIN_FILENO) == 0 &&
                posix_spawn_file_actions_adddup2(&actions, end, STDOUT_FILENO) == 0 &&
                posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0) == 0 &&
                posix_spawnp(&m->pid, argv[0], &actions, NULL, argv, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    if (!fine) m->pid = 0;
    return fine;
}

/* A pair of sockets: writing to one whose other end is gone is an error there, and no signal. */
static void start(module *m)
{
    int ends[2];
    if (access(m->path, R_OK) != 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
    bool fine = spawn(m, ends[1]);
    close(ends[1]);
    if (fine) m->from = fdopen(ends[0], "r");
    if (m->from == NULL) close(ends[0]);
}

static module *find_module(cli_symbols *symbols, const char *path)
{
    for (size_t i = 0; i < symbols->n; ++i)
        if (strcmp(symbols->modules[i].path, path) == 0) return &symbols->modules[i];
    if (symbols->n == MOST_MODULES) return NULL;
    module *m = &symbols->modules[symbols->n];
    m->path = strdup(path);
    if (m->path == NULL) return NULL;
    ++symbols->n;
    start(m);
    return m;
}

static bool ask(const module *m, uint64_t offset)
{
    char line[32];
    int n = snprintf(line, sizeof line, "0x%" PRIx64 "\n", offset);
    return send(fileno(m->from), line, (size_t)n, MSG_NOSIGNAL) == n;
}

static bool read_line(FILE *from, char *line, size_t room)
{
    if (fgets(line, (int)room, from) == NULL) return false;
    line[strcspn(line, "\n")] = '\0';
    return true;
}

/* "attention" and "/src/model.c:118 (discriminator 2)"; question marks where something is not known. */
bool cli_symbols_find(void *arg, const char *path, uint64_t offset, ppto_symbol *symbol)
{
    module *m = arg != NULL ? find_module(arg, path) : NULL;
    if (m == NULL || m->from == NULL || !ask(m, offset)) return false;
    if (!read_line(m->from, symbol->function, sizeof symbol->function) ||
        !read_line(m->from, symbol->file, sizeof symbol->file))
        return false;
    if (symbol->function[0] == '?') symbol->function[0] = '\0';
    char *colon = strrchr(symbol->file, ':');
    if (colon != NULL) {
        symbol->line = atoi(colon + 1);
        *colon = '\0';
    }
    if (symbol->file[0] == '?') symbol->file[0] = '\0';
    return symbol->function[0] != '\0' || symbol->file[0] != '\0';
}
