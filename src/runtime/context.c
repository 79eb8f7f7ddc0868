/* SPDX-License-Identifier: Apache-2.0
 * The context. Creation is cheap: the library is made, the device opened and the executor made at their first
 * use, and the library reads a shipped definition at its first look-up. */
#include <string.h>

#include "base/fork.h"
#include "lang/parser.h"
#include "memory/memcheck.h"
#include "runtime/costs.h"
#include "runtime/domains.h"
#include "runtime/sync.h"
#include "scheduler/io.h"

extern const char pp_library_text[], pp_functions_text[];
extern const pp_shelf_row pp_library_rows[];
extern const size_t pp_library_rows_n;

enum { MAX_IDLE_KERNELS = 1024, FEW = 64 << 10 };

static _Thread_local pp_error thread_error;

ppto_status pp_report(const pp_error *err)
{
    if (err->code != PPTO_OK) thread_error = *err;
    return err->code;
}

ppto_status pp_report_new(ppto_status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    thread_error = (pp_error){.code = code};
    pp_vsnprintf(thread_error.text, sizeof thread_error.text, format, args);
    va_end(args);
    return code;
}

const char *ppto_error_text(PP_UNUSED const ppto_context *ctx)
{
    return thread_error.code == PPTO_OK ? "" : thread_error.text;
}

ppto_status ppto_error_status(PP_UNUSED const ppto_context *ctx)
{
    return thread_error.code;
}

const char *ppto_version(void)
{
    return "0.1.0";
}

void ppto_text_free(char *text)
{
    pp_free(text);
}

ppto_status pp_context_check(const ppto_context *ctx, pp_error *err)
{
    if (!ctx) return pp_fail(err, PPTO_E_VALUE, "the context is NULL");
    if (pp_context_forked(ctx))
        return pp_fail(err, PPTO_E_FORKED,
                       "this context belongs to the parent process; create a new one after fork");
    return PPTO_OK;
}

bool pp_context_forked(const ppto_context *ctx)
{
    return !pp_process_is(ctx->process);
}

ppto_status pp_context_refuses(const ppto_context *ctx)
{
    pp_error err;
    if (!pp_context_forked(ctx)) return PPTO_OK;
    pp_error_clear(&err);
    (void)pp_context_check(ctx, &err);
    return pp_report(&err);
}

/* Memcheck, at the level of the settings. */
static ppto_status watch(ppto_context *ctx, pp_error *err)
{
    int level = ctx->settings.o.memcheck_level;
    if (level > 0) PP_TRY(pp_memcheck_suppressions(ctx->settings.memcheck_suppress, &ctx->suppressions, err));
    PP_TRY(pp_pool_watch(ctx->pool, level));
    ctx->ledger = pp_pool_ledger(ctx->pool);
    if (level < 2) return PPTO_OK;
    ctx->stacks = pp_stacks_create();
    pp_ledger_use_stacks(ctx->ledger, ctx->stacks);
    return ctx->stacks ? PPTO_OK : PPTO_E_NOMEM;
}

ppto_status ppto_context_create(ppto_context **out, const ppto_options *options)
{
    pp_error err = {0};
    if (!out) return pp_report_new(PPTO_E_VALUE, "ppto_context_create: out is NULL");
    *out = NULL;
    ppto_context *ctx = pp_calloc(1, sizeof *ctx);
    if (!ctx) return pp_report_new(PPTO_E_NOMEM, "out of memory");
    pthread_mutex_init(&ctx->machine_lock, NULL);
    ctx->few = FEW;
    ppto_status status = pp_settings_read(options, &ctx->settings, &err);
    if (status == PPTO_OK && ctx->settings.topology)
        status = pp_machine_open(ctx->settings.topology, &ctx->machine, &err);
    if (status == PPTO_OK) status = pp_pool_create(&ctx->pool);
    if (status == PPTO_OK) status = watch(ctx, &err);
    if (status == PPTO_OK) status = pp_context_place(ctx, &err);
    if (status != PPTO_OK) {
        pp_fail(&err, status, "%s", ppto_status_text(status));
        pp_pool_destroy(ctx->pool);
        pp_free(ctx->suppressions);
        pp_machine_close(ctx->machine);
        pp_settings_free(&ctx->settings);
        pthread_mutex_destroy(&ctx->machine_lock);
        pp_free(ctx);
        return pp_report(&err);
    }
    pthread_mutex_init(&ctx->lock, NULL);
    ctx->process = pp_process_mark();
    ctx->log = (pp_log){ctx->settings.o.log, ctx->settings.o.log_arg, ctx->settings.o.log_level};
    pp_pool_set_limit(ctx->pool, ctx->settings.o.memory_limit);
    *out = ctx;
    return PPTO_OK;
}

static void free_kernels(ppto_context *ctx)
{
    for (size_t i = 0; i < ctx->kernels.n; i++) {
        pp_kernel_entry *entry = ctx->kernels.at[i];
        if (!entry) continue;
        ctx->device_class->kernel_destroy(entry->kernel);
        pp_program_destroy(entry->program);
        pp_free(entry);
    }
    pp_vec_free(&ctx->kernels);
    pp_map_free(&ctx->kernel_map);
}

ppto_status ppto_context_destroy(ppto_context *ctx)
{
    pp_error err = {0};
    uint64_t left[PP_LEFTS] = {0};
    if (!ctx) return PPTO_OK;
    PP_TRY(pp_context_refuses(ctx));
    pp_drivers_close(ctx);
    pp_held_count(ctx, left);
    pp_syncs_destroy(ctx->syncs);
    pp_graphs_free_idle(ctx);
    pp_tracks_close(ctx, ctx->tracks);
    for (size_t i = 0; i < ctx->plans.n; i++) pp_plan_release(ctx->plans.at[i]);
    pp_vec_free(&ctx->plans);
    free_kernels(ctx);
    pp_executor_destroy(ctx->executor);
    pp_io_destroy(ctx->io);
    if (ctx->device) ctx->device_class->close(ctx->device);
    pp_library_destroy(ctx->library);
    if (ctx->ledger) pp_held_tell(ctx);
    if (ctx->ledger) pp_memcheck_shutdown(ctx, left, &err); /* what runs nobody released still hold counts */
    pp_drivers_destroy(ctx);
    pp_pool_destroy(ctx->pool);
    pp_stacks_destroy(ctx->stacks);
    pp_free(ctx->suppressions);
    pp_machine_close(ctx->machine);
    pp_settings_free(&ctx->settings);
    pthread_mutex_destroy(&ctx->lock);
    pthread_mutex_destroy(&ctx->machine_lock);
    pp_free(ctx);
    return pp_report(&err);
}

/* ---- library
 * ------------------------------------------------------------------------------------------------------ */

static ppto_status parse_shelved(const char *text, size_t length, const char *file, uint32_t lines_above,
                                 pp_unit **out, pp_error *err)
{
    return pp_parse_part(text, length, file, lines_above, PP_PARSE_LIBRARY, out, err);
}

ppto_status pp_shipped_library(pp_library **out)
{
    const pp_shelf shelf = {.row = pp_library_rows,
                            .n = pp_library_rows_n,
                            .text = {pp_functions_text, pp_library_text},
                            .file = {"functions.ppto", "library.ppto"},
                            .parse = parse_shelved,
                            .destroy = pp_unit_destroy};
    return pp_library_create(&shelf, out);
}

ppto_status pp_context_library(ppto_context *ctx, pp_library **out, pp_error *err)
{
    PP_TRY(pp_context_check(ctx, err));
    pthread_mutex_lock(&ctx->lock);
    ppto_status status = ctx->library ? PPTO_OK : pp_shipped_library(&ctx->library);
    *out = ctx->library;
    pthread_mutex_unlock(&ctx->lock);
    return status == PPTO_OK ? status
                             : pp_fail(err, status, "the operator library: %s", ppto_status_text(status));
}

ppto_status ppto_define_named(ppto_context *ctx, const char *text, size_t length, const char *file)
{
    pp_error err = {0};
    pp_library *library;
    ppto_status status =
        text ? pp_context_library(ctx, &library, &err) : pp_fail(&err, PPTO_E_VALUE, "the text is NULL");
    pp_unit *unit = NULL;
    if (status == PPTO_OK)
        status = pp_parse(text, length, file ? file : "<text>", PP_PARSE_LIBRARY, &unit, &err);
    if (status == PPTO_OK) status = pp_library_add(library, unit, pp_unit_destroy, false, &err);
    if (status != PPTO_OK) pp_fail(&err, status, "%s", ppto_status_text(status));
    return pp_report(&err);
}

ppto_status ppto_define(ppto_context *ctx, const char *text)
{
    return ppto_define_named(ctx, text, text ? strlen(text) : 0, "<text>");
}

/* ---- device and executor
 * -------------------------------------------------------------------------------------------- */

static pp_tier tier_of(const char *name)
{
    return strcmp(name, "jit") == 0      ? PP_TIER_JIT
           : strcmp(name, "interp") == 0 ? PP_TIER_INTERP
                                         : PP_TIER_AUTO;
}

static ppto_status open_device(ppto_context *ctx, pp_error *err)
{
    const ppto_options *o = &ctx->settings.o;
    pp_costs costs;
    pp_device_options options = {.simd = o->simd,
                                 .count_bytes = o->count_bytes,
                                 .grain = o->grain,
                                 .tier = tier_of(ctx->settings.tier),
                                 .costs = ctx->tunes ? NULL : &costs,
                                 .no_code = &ctx->no_code};
    pp_domains domains;
    pp_costs_read(ctx, &costs);
    ctx->device_class = pp_device_find(o->device);
    if (!ctx->device) PP_TRY(ctx->device_class->open(&options, &ctx->device, err));
    if (ctx->no_code.text[0])
        pp_log_line(&ctx->log, 1, "tier jit: there is no machine code: %s", ctx->no_code.text);
    PP_TRY(pp_context_domains(ctx, &domains, err));
    ctx->workers = 0;
    for (uint32_t d = 0; d < domains.n; d++) ctx->workers += domains.workers[d];
    PP_TRY(pp_executor_create_in(o->executor, &domains, o->sim_seed, &ctx->executor, err));
    ctx->plan_workers = pp_executor_workers(ctx->executor) == 1 ? 1 : ctx->workers;
    return PPTO_OK;
}

ppto_status pp_context_device(ppto_context *ctx, pp_error *err)
{
    PP_TRY(pp_context_check(ctx, err));
    pthread_mutex_lock(&ctx->lock);
    ppto_status status = ctx->executor ? PPTO_OK : open_device(ctx, err);
    pthread_mutex_unlock(&ctx->lock);
    return status == PPTO_OK
               ? status
               : pp_fail(err, status, "device %s: %s", ctx->settings.device, ppto_status_text(status));
}

ppto_status pp_context_io(ppto_context *ctx, pp_io **out, pp_error *err)
{
    PP_TRY(pp_context_check(ctx, err));
    pthread_mutex_lock(&ctx->lock);
    ppto_status status = ctx->io ? PPTO_OK : pp_io_create(NULL, &(pp_io_options){0}, &ctx->io, err);
    *out = ctx->io;
    pthread_mutex_unlock(&ctx->lock);
    return status == PPTO_OK ? status : pp_fail(err, status, "the I/O engine: %s", ppto_status_text(status));
}

/* ---- kernels
 * ----------------------------------------------------------------------------------------------------------
 */

typedef struct equal_context {
    const ppto_context *ctx;
    const pp_program *program;
} equal_context;

static bool equal_program(const void *context, uint32_t value)
{
    const equal_context *c = context;
    const pp_kernel_entry *entry = c->ctx->kernels.at[value];
    return entry && pp_program_equal(entry->program, c->program);
}

/* Drops the kernels used longest ago that nobody holds; the map is built anew. A map that could not be built
 * only costs hits. */
static void shrink_kernels(ppto_context *ctx)
{
    size_t kept = 0;
    pp_map_free(&ctx->kernel_map);
    uint64_t limit = ctx->clock - MAX_IDLE_KERNELS / 2;
    for (size_t i = 0; i < ctx->kernels.n; i++) {
        pp_kernel_entry *entry = ctx->kernels.at[i];
        if (entry->refs == 0 && entry->last_use < limit) {
            ctx->device_class->kernel_destroy(entry->kernel);
            pp_program_destroy(entry->program);
            pp_free(entry);
            continue;
        }
        ctx->kernels.at[kept] = entry;
        (void)!pp_map_insert(&ctx->kernel_map, entry->program->hash, (uint32_t)kept++);
    }
    ctx->kernels.n = kept;
}

static ppto_status new_kernel(ppto_context *ctx, pp_program *program, pp_kernel_entry **out, pp_error *err)
{
    if (ctx->kernels.n >= MAX_IDLE_KERNELS && ctx->kernels.n % MAX_IDLE_KERNELS == 0) shrink_kernels(ctx);
    PP_TRY(pp_vec_reserve(&ctx->kernels, ctx->kernels.n + 1));
    pp_kernel_entry *entry = pp_calloc(1, sizeof *entry);
    if (!entry) return PPTO_E_NOMEM;
    ppto_status status = ctx->device_class->compile(ctx->device, program, &entry->kernel, err);
    if (status == PPTO_OK) status = pp_map_insert(&ctx->kernel_map, program->hash, (uint32_t)ctx->kernels.n);
    if (status != PPTO_OK) {
        ctx->device_class->kernel_destroy(entry->kernel);
        pp_free(entry);
        return status;
    }
    entry->program = program;
    ctx->kernels.at[ctx->kernels.n++] = entry;
    *out = entry;
    return PPTO_OK;
}

ppto_status pp_context_kernel(ppto_context *ctx, pp_program *program, pp_kernel_entry **out, bool *hit,
                              pp_error *err)
{
    uint32_t at;
    equal_context context = {ctx, program};
    pthread_mutex_lock(&ctx->lock);
    ppto_status status = PPTO_OK;
    *hit = pp_map_find(&ctx->kernel_map, program->hash, equal_program, &context, &at);
    if (*hit) {
        *out = ctx->kernels.at[at];
        ctx->kernel_hits++;
        pp_program_destroy(program);
    } else {
        status = new_kernel(ctx, program, out, err);
        ctx->kernel_misses += status == PPTO_OK;
        if (status != PPTO_OK) pp_program_destroy(program);
    }
    if (status == PPTO_OK) {
        (*out)->refs++;
        (*out)->last_use = ++ctx->clock;
    }
    pthread_mutex_unlock(&ctx->lock);
    return status;
}

void pp_context_kernel_release(ppto_context *ctx, pp_kernel_entry *entry)
{
    if (!entry) return;
    pthread_mutex_lock(&ctx->lock);
    entry->refs--;
    pthread_mutex_unlock(&ctx->lock);
}
