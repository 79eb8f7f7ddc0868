/* SPDX-License-Identifier: Apache-2.0
 * Options: what the caller gave, else the environment, else the default. A wrong value is an error that names
 * it. */
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

/* What an option may be: the i-th word, NULL past the last. */
typedef const char *words(size_t i);

static const char *tier_at(size_t i)
{
    static const char *const all[] = {"auto", "interp", "jit", NULL};
    return all[i];
}

static const char *simd_at(size_t i)
{
    static const char *const all[] = {"baseline", "avx2", "avx512", NULL};
    return all[i];
}

static const char *memcheck_at(size_t i)
{
    static const char *const all[] = {"off", "report", "error", NULL};
    return all[i];
}

static const char *page_cache_at(size_t i)
{
    static const char *const all[] = {"auto", "through", "around", "read-around", NULL};
    return all[i];
}

static const char *device_at(size_t i)
{
    const pp_device_class *device = pp_device_at(i);
    return device ? device->name : NULL;
}

static bool known(words *at, const char *word)
{
    size_t i = 0;
    while (at(i) && strcmp(word, at(i)) != 0) i++;
    return at(i) != NULL;
}

static ppto_status unknown(words *at, const char *source, const char *word, pp_error *err)
{
    pp_text list = {0};
    for (size_t i = 0; at(i); i++) pp_text_add(&list, "%s%s", i > 0 ? ", " : "", at(i));
    pp_fail(err, PPTO_E_VALUE, "%s: unknown value \"%.100s\", expected one of: %s", source, word,
            list.at ? list.at : "");
    pp_text_free(&list);
    return PPTO_E_VALUE;
}

/* The option, else the variable, else the default; of the words `at`. */
static ppto_status word(const char *given, const char *option, const char *variable, const char *fallback,
                        words *at, char out[16], pp_error *err)
{
    const char *from = given, *source = option;
    if (!from && (from = getenv(variable)) && *from) source = variable;
    if (!from || !*from) from = fallback;
    if (strlen(from) < 16 && (from == fallback || known(at, from))) {
        memcpy(out, from, strlen(from) + 1);
        return PPTO_OK;
    }
    return unknown(at, source, from, err);
}

static ppto_status integer(const char *variable, long lo, long hi, long *out, pp_error *err)
{
    const char *text = getenv(variable);
    char *end;
    if (!text || !*text) return PPTO_OK;
    *out = strtol(text, &end, 10);
    if (*end || *out < lo || *out > hi)
        return pp_fail(err, PPTO_E_VALUE, "%s: \"%s\" is not a number from %ld to %ld", variable, text, lo,
                       hi);
    return PPTO_OK;
}

/* Words and paths of memcheck. -1 as a level: only what the caller gave counts. */
static ppto_status read_memcheck(pp_settings *out, pp_error *err)
{
    ppto_options *o = &out->o;
    long level = 0;
    bool alone = o->memcheck_level == -1;
    if (o->memcheck_level < -1 || o->memcheck_level > 3)
        return pp_fail(err, PPTO_E_VALUE, "memcheck_level: %d is not from 0 to 3", o->memcheck_level);
    PP_TRY(word(alone && !o->memcheck ? "off" : o->memcheck, "memcheck", "PPTO_MEMCHECK", "off", memcheck_at,
                out->memcheck, err));
    if (!alone) PP_TRY(integer("PPTO_MEMCHECK_LEVEL", 0, 3, &level, err));
    if (o->memcheck_level <= 0) o->memcheck_level = (int)level;
    if (o->memcheck_level == 0 && strcmp(out->memcheck, "off") != 0) o->memcheck_level = 1;
    o->memcheck = out->memcheck;
    const char *file = getenv("PPTO_MEMCHECK_FILE"), *suppress = getenv("PPTO_MEMCHECK_SUPPRESS");
    if (o->memcheck_level == 0) return PPTO_OK;
    if (file && *file && !(out->memcheck_file = pp_strdup(file))) return PPTO_E_NOMEM;
    if (suppress && *suppress && !(out->memcheck_suppress = pp_strdup(suppress))) return PPTO_E_NOMEM;
    return PPTO_OK;
}

static ppto_status read_topology(pp_settings *out, pp_error *err)
{
    const char *from = out->o.topology ? out->o.topology : getenv("PPTO_TOPOLOGY");
    if (from && *from && !(out->topology = pp_strdup(from))) return PPTO_E_NOMEM;
    out->o.topology = out->topology;
    const char *pages = out->o.placement, *source = "placement";
    if (!pages && (pages = getenv("PPTO_PLACEMENT")) != NULL && *pages) source = "PPTO_PLACEMENT";
    if (pages && *pages && !pp_pages_parse(pages, &out->pages))
        return pp_fail(err, PPTO_E_VALUE, "%s: unknown value \"%.100s\", expected one of: " PP_PAGES_WORDS,
                       source, pages);
    out->o.placement = NULL; /* read */
    return PPTO_OK;
}

void pp_settings_free(pp_settings *settings)
{
    pp_free(settings->memcheck_file);
    pp_free(settings->memcheck_suppress);
    pp_free(settings->topology);
    settings->memcheck_file = settings->memcheck_suppress = settings->topology = NULL;
}

ppto_status pp_settings_read(const ppto_options *options, pp_settings *out, pp_error *err)
{
    static const ppto_options defaults = PPTO_OPTIONS_INIT;
    memset(out, 0, sizeof *out);
    out->o = defaults;
    if (options) {
        if (options->size == 0 || options->size > sizeof *options)
            return pp_fail(err, PPTO_E_VALUE, "options: start from PPTO_OPTIONS_INIT");
        memcpy(&out->o, options, options->size);
    }
    ppto_options *o = &out->o;
    long threads = 0, level = 0;
    PP_TRY(word(o->executor, "executor", "PPTO_EXECUTOR", pp_executor_default(), pp_executor_at,
                out->executor, err));
    PP_TRY(word(o->device, "device", "PPTO_DEVICE", "cpu", device_at, out->device, err));
    PP_TRY(word(o->tier, "tier", "PPTO_TIER", "auto", tier_at, out->tier, err));
    PP_TRY(word(o->simd, "simd", "PPTO_SIMD", "", simd_at, out->simd, err));
    PP_TRY(word(o->page_cache, "page_cache", "PPTO_PAGE_CACHE", "auto", page_cache_at, out->page_cache, err));
    PP_TRY(integer("PPTO_NUM_THREADS", 0, 4096, &threads, err));
    PP_TRY(integer("PPTO_LOG_LEVEL", 0, 3, &level, err));
    if (o->threads < -1 || o->threads > 4096)
        return pp_fail(err, PPTO_E_VALUE, "threads: %d is not from 0 to 4096", o->threads);
    if (o->threads == 0) o->threads = (int)threads;
    if (o->threads == -1) o->threads = 0;
    if (o->log_level == 0) o->log_level = (int)level;
    if (o->log_level < 0) o->log_level = 0;
    o->executor = out->executor;
    o->device = out->device;
    o->tier = out->tier;
    o->page_cache = out->page_cache;
    o->simd = out->simd[0] ? out->simd : NULL;
    PP_TRY(read_topology(out, err));
    return read_memcheck(out, err);
}
