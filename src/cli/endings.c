/* SPDX-License-Identifier: Apache-2.0
 * Endings of the files that options write. An option has its format whatever the file is called, so a name
 * that promises another one (--timeline t.png) would only be noticed when something cannot open the file: it
 * is refused before anything runs. Names without an ending and endings that nobody knows are the user's. */
#include <stddef.h>
#include <string.h>

#include "cli.h"

/* What an option writes, and the endings that say so. */
typedef struct written {
    const char *option, *format, *endings;
} written;

static const written all[] = {
    {"trace=", "Chrome JSON (.json) or Perfetto's protobuf (.pftrace)", ".json .pftrace .perfetto-trace"},
    {"timeline=", "SVG (.svg)", ".svg"},
    {"svg=", "SVG (.svg)", ".svg"},
    {"dot=", "Graphviz's language (.dot)", ".dot .gv"},
    {"stats-json=", "JSON (.json)", ".json"},
    {"memcheck-json=", "JSON (.json)", ".json"},
    {"folded=", "folded stacks (.folded)", ".folded .txt"},
};

/* Endings that mean a format, of these options or of others. */
static const char known[] =
    ".json .pftrace .perfetto-trace .svg .dot .gv .folded .txt .csv .html .pdf .png .jpg .jpeg "
    ".gif .webp .ppm .npy .npz .safetensors .ppto";

/* Is it one of the words, which are parted by spaces? */
static bool is_among(const char *ending, const char *words)
{
    size_t length = strlen(ending);
    for (const char *at = words; *at != '\0'; at += strspn(at, " ")) {
        size_t n = strcspn(at, " ");
        if (n == length && memcmp(at, ending, n) == 0) return true;
        at += n;
    }
    return false;
}

/* "" where the last part of the path has none; a name that only begins with a dot has none. */
static const char *ending_of(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    return dot != NULL && dot != name ? dot : "";
}

static const written *find(const char *spec)
{
    for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i)
        if (strncmp(spec, all[i].option, strlen(all[i].option)) == 0) return &all[i];
    return NULL;
}

bool cli_ending_fits(const char *spec, const char *path)
{
    const written *w = find(spec);
    const char *ending = ending_of(path);
    if (w != NULL && *path == '\0') {
        cli_fail(CLI_USAGE, "--%.*s: a file name is missing", (int)strcspn(spec, "="), spec);
        return false;
    }
    if (w == NULL || is_among(ending, w->endings) || !is_among(ending, known)) return true;
    cli_fail(CLI_USAGE, "--%.*s %s: what is written is %s, and the end of this name says another format",
             (int)strcspn(spec, "="), spec, path, w->format);
    return false;
}
