/* SPDX-License-Identifier: Apache-2.0
 * ppto_tune: the constants of the cost model, measured on this machine in about two seconds and kept for the
 * next process. Small programs are run whose time is one constant and others that are known by then: a launch
 * alone; bytes at three sizes; arithmetic in cache by blocks, by machine code and of a product; and the same
 * arithmetic in several tasks. The least of many runs counts, since whatever disturbs only adds. */
#include "runtime/costs.h"
#include "runtime/report.h"

enum { LEAST_RUNS = 9, MOST_RUNS = 400, PATIENCE_NS = 60000000 };

/* Ten operators that need no function. */
static const char chain[] = "(((((x*1.5 + 0.25)*x - 0.5)*x + 0.75)*x - 0.125)*x + 2)*x";

/* One program that was timed: what it took at least, and what the device thinks of it. */
typedef struct timing {
    double least_ns, work_ns;
    uint32_t tasks;
    bool compiled; /* all of its loops */
} timing;

typedef struct probe {
    const char *text;
    int rank;
    int64_t side; /* of x and y */
} probe;

static ppto_status make(ppto_context *ctx, const probe *of, ppto_graph *graph, ppto_program **program)
{
    static const char *const names[] = {"x", "y"}, *const fillers[] = {"uniform(0, 1, 1)",
                                                                       "uniform(0, 1, 2)"};
    const int64_t shape[2] = {of->side, of->side};
    for (int i = 0; i < 2; i++) ppto_input(graph, names[i], PPTO_F32, of->rank == 2 ? "N, N" : "N");
    ppto_tensor *z = ppto_expr(graph, of->text);
    PP_TRY(ppto_compile(1, &z, program));
    for (size_t i = 0; i < ppto_program_inputs(*program); i++) {
        const int which = ppto_program_input_name(*program, i)[0] == 'y';
        ppto_array *array = ppto_array_fill(ctx, PPTO_F32, of->rank, shape, fillers[which], names[which]);
        const ppto_status status = ppto_program_bind(*program, i, array);
        ppto_array_release(array);
        PP_TRY(status);
    }
    return ppto_program_prepare(*program);
}

/* The least of runs with the result bound. */
static ppto_status time_runs(ppto_program *program, double *least_ns)
{
    ppto_array *result = NULL;
    PP_TRY(ppto_program_run(program, &result));
    ppto_status status = ppto_program_bind_output(program, 0, result);
    ppto_array_release(result);
    const int64_t begin = pp_clock_ns();
    *least_ns = 1e18;
    for (int i = 0; i < MOST_RUNS && status == PPTO_OK; i++) {
        const int64_t start = pp_clock_ns();
        if (i >= LEAST_RUNS && start - begin > PATIENCE_NS) break;
        status = ppto_program_run(program, NULL);
        const double ns = (double)(pp_clock_ns() - start);
        if (ns < *least_ns) *least_ns = ns;
    }
    return status;
}

/* What the device thinks of the only kernel. */
static void look_at(const ppto_program *program, timing *out)
{
    const pp_instance_group *group = &program->instance->groups[0];
    pp_code_count code = {0};
    if (group->device->count_code) group->device->count_code(group->launch, &code, NULL);
    out->compiled = code.loops > 0 && code.compiled == code.loops;
    out->work_ns = pp_cost_of_work(&group->geometry);
    out->tasks = group->geometry.tasks[0];
}

static ppto_status measure(ppto_context *ctx, const probe *of, timing *out)
{
    ppto_graph *graph = ppto_graph_create(ctx);
    ppto_program *program = NULL;
    ppto_status status = graph ? make(ctx, of, graph, &program) : PPTO_E_NOMEM;
    if (status == PPTO_OK) status = time_runs(program, &out->least_ns);
    if (status == PPTO_OK) look_at(program, out);
    ppto_program_destroy(program);
    ppto_graph_destroy(graph);
    return status;
}

/* ---- the constants ------------------------------------------------------------------------------------- */

/* What is left of a time without the launch; never nothing. */
static double without_launch(const pp_costs *costs, double ns)
{
    const double rest = ns - costs->at[PP_COST_LAUNCH_NS];
    return rest > ns / 10 ? rest : ns / 10;
}

static ppto_status tune_factor(ppto_context *ctx, const probe *of, bool compiled, pp_cost cost,
                               pp_costs *costs)
{
    timing t;
    PP_TRY(measure(ctx, of, &t));
    if (!compiled || t.compiled) costs->at[cost] = without_launch(costs, t.least_ns) / t.work_ns;
    return PPTO_OK;
}

/* x + y of so many bytes for each worker: two operands and a result. */
static ppto_status tune_bandwidth(ppto_context *ctx, uint64_t bytes, pp_cost cost, pp_costs *costs)
{
    const probe of = {"x + y", 1, (int64_t)(bytes * ctx->workers / 12)};
    timing t;
    PP_TRY(measure(ctx, &of, &t));
    costs->at[cost] = (double)bytes / without_launch(costs, t.least_ns);
    return PPTO_OK;
}

/* What several tasks take beyond their share of one worker's time. */
static ppto_status tune_wake(ppto_context *one, ppto_context *all, pp_costs *costs)
{
    const probe of = {chain, 1, 262144};
    timing alone, shared;
    if (all->workers < 2) return PPTO_OK;
    PP_TRY(measure(one, &of, &alone));
    PP_TRY(measure(all, &of, &shared));
    if (shared.tasks < 2) return PPTO_OK;
    const double workers = shared.tasks < all->workers ? shared.tasks : all->workers;
    const double more = shared.least_ns - alone.least_ns / workers;
    costs->at[PP_COST_WAKE_NS] = more > 200 ? more : 200;
    return PPTO_OK;
}

static ppto_status tune_all(ppto_context *blocks, ppto_context *code, ppto_context *all, pp_costs *costs)
{
    static const probe nothing = {"x + 1", 1, 16}, steps = {chain, 1, 16384}, product = {"x @ y", 2, 256};
    timing t;
    PP_TRY(measure(blocks, &nothing, &t));
    costs->at[PP_COST_LAUNCH_NS] = t.least_ns;
    PP_TRY(tune_factor(blocks, &steps, false, PP_COST_STEPS, costs));
    PP_TRY(tune_factor(code, &steps, true, PP_COST_CODE, costs));
    PP_TRY(tune_factor(blocks, &product, false, PP_COST_PRODUCTS, costs));
    PP_TRY(tune_bandwidth(blocks, PP_NEAR_BYTES / 2, PP_COST_NEAR, costs));
    PP_TRY(tune_bandwidth(all, PP_MIDDLE_BYTES / 4, PP_COST_MIDDLE, costs));
    PP_TRY(tune_bandwidth(all, (uint64_t)PP_MIDDLE_BYTES * 3, PP_COST_FAR, costs));
    return tune_wake(code, all, costs);
}

/* ---- the call ------------------------------------------------------------------------------------------ */

static ppto_status open_like(const ppto_context *ctx, const char *tier, int threads, ppto_context **out)
{
    ppto_options options = PPTO_OPTIONS_INIT;
    options.executor = ctx->settings.o.executor;
    options.simd = ctx->settings.o.simd;
    options.tier = tier;
    options.threads = threads;
    options.log_level = -1;
    pp_error err = {0};
    PP_TRY(ppto_context_create(out, &options));
    (*out)->tunes = true;
    return pp_context_device(*out, &err) == PPTO_OK ? PPTO_OK : pp_report(&err); /* counts its workers */
}

static void tell(const pp_costs *costs, pp_text *out)
{
    for (int i = 0; i < PP_COSTS; i++)
        pp_text_add(out, "%-14s %10.4g   usually %.4g\n", pp_cost_name((pp_cost)i), costs->at[i],
                    pp_usual_costs.at[i]);
}

ppto_status ppto_tune(ppto_context *ctx, char **text)
{
    pp_error err = {0};
    pp_text out = {0}, path = {0};
    pp_costs costs = pp_usual_costs;
    ppto_context *blocks = NULL, *code = NULL, *all = NULL;
    if (!text) return pp_report_new(PPTO_E_VALUE, "ppto_tune: text is NULL");
    *text = NULL;
    if (pp_context_device(ctx, &err) != PPTO_OK) return pp_report(&err);
    ppto_status status = open_like(ctx, "interp", 1, &blocks);
    if (status == PPTO_OK) status = open_like(ctx, "auto", 1, &code);
    if (status == PPTO_OK) status = open_like(ctx, "auto", (int)ctx->workers, &all);
    if (status == PPTO_OK) status = tune_all(blocks, code, all, &costs);
    ppto_context_destroy(all);
    ppto_context_destroy(code);
    ppto_context_destroy(blocks);
    if (status != PPTO_OK) return status;
    tell(&costs, &out);
    const bool kept = pp_costs_write(ctx, &costs, &path);
    pp_text_add(&out, "%s%s\n", kept ? "kept in " : "not kept: ", path.at ? path.at : "");
    pp_text_free(&path);
    return pp_report_give(&out, text);
}
