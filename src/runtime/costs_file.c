/* SPDX-License-Identifier: Apache-2.0
 * The constants of the cost model on disk: a note in the folder of compiled code, by the same rules (private,
 * written under another name and renamed, with a hash of what it holds). Its name has a hash of what they
 * depend on: processor, caches, CPUs of this process, version, instruction set, executor. So machines that
 * share a home do not take each other's, nor settings those of others. A note that is not exactly what was
 * written counts as missing. */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu/loop_cache.h"
#include "devices/cpu/topology.h"
#include "runtime/costs.h"

enum { NOTE_ROOM = 1024, PATH_ROOM = 4200, NAME_ROOM = 64 };
#define HEAD "ppto costs 1\n"

static pthread_once_t looked = PTHREAD_ONCE_INIT;
static pp_topology machine;

static void look(void)
{
    pp_topology_os(&machine);
}

static void make_name(const ppto_context *ctx, char name[NAME_ROOM])
{
    const char *simd = ctx->settings.o.simd, *executor = ctx->settings.o.executor;
    char key[512];
    pthread_once(&looked, look);
    const int n = snprintf(key, sizeof key, "%s, %s, %zu %zu %zu, %u, %s, %s", ppto_version(), machine.model,
                           machine.l1d, machine.l2, machine.l3, machine.cpus, simd ? simd : "best",
                           executor ? executor : "");
    snprintf(name, NAME_ROOM, "machine-%016" PRIx64 ".costs", pp_hash_bytes(key, (size_t)n, 1));
}

static void print(const pp_costs *costs, pp_text *out)
{
    pp_text_add(out, HEAD);
    for (int i = 0; i < PP_COSTS; i++) pp_text_add(out, "%s %.6g\n", pp_cost_name((pp_cost)i), costs->at[i]);
}

/* The lines in order, each with a number that can be one. */
static bool parse(const char *text, pp_costs *costs)
{
    if (strncmp(text, HEAD, strlen(HEAD)) != 0) return false;
    text += strlen(HEAD);
    for (int i = 0; i < PP_COSTS; i++) {
        const char *key = pp_cost_name((pp_cost)i);
        const size_t n = strlen(key);
        char *end;
        if (strncmp(text, key, n) != 0 || text[n] != ' ') return false;
        costs->at[i] = pp_read_f64(text + n + 1, &end);
        if (*end != '\n' || !isfinite(costs->at[i]) || costs->at[i] <= 0) return false;
        text = end + 1;
    }
    return *text == '\0';
}

void pp_costs_read(const ppto_context *ctx, pp_costs *costs)
{
    char text[NOTE_ROOM], name[NAME_ROOM];
    make_name(ctx, name);
    costs->measured = pp_cache_note_get(name, text, sizeof text) && parse(text, costs);
    if (!costs->measured) *costs = pp_usual_costs;
}

bool pp_costs_write(const ppto_context *ctx, const pp_costs *costs, pp_text *path)
{
    char room[PATH_ROOM], name[NAME_ROOM];
    pp_text text = {0};
    make_name(ctx, name);
    print(costs, &text);
    const bool good = !text.failed && pp_cache_note_put(name, text.at, room, sizeof room);
    pp_text_add(path, "%s", text.failed ? "out of memory" : room);
    pp_text_free(&text);
    return good;
}
