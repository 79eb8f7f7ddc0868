/* SPDX-License-Identifier: Apache-2.0
 * The public calls that read a trace. All of them keep its lock, so that no run begins meanwhile, and make
 * the pool be silent while its ring is read. */
#include "runtime/report.h"
#include "runtime/tracing.h"

/* With the trace's lock until `done`. */
static ppto_status read(ppto_trace *trace, pp_trace_view *view)
{
    *view = (pp_trace_view){0};
    pthread_mutex_lock(&trace->lock);
    if (trace->running != 0)
        return pp_report_new(PPTO_E_BUSY, "trace: a program that notes there is running; wait for its run");
    pp_pool_unlisten(trace->ctx->pool, &trace->listener);
    ppto_status status = pp_trace_view_make(trace, view);
    pp_pool_listen(trace->ctx->pool, &trace->listener);
    return status == PPTO_OK ? status : pp_report_new(status, "trace: %s", ppto_status_text(status));
}

static void done(ppto_trace *trace, pp_trace_view *view)
{
    pp_trace_view_free(view);
    pthread_mutex_unlock(&trace->lock);
}

ppto_status ppto_trace_write(ppto_trace *trace, ppto_trace_format format, char **bytes, size_t *n)
{
    static void (*const writers[])(const pp_trace_view *, pp_text *) = {
        pp_trace_chrome, pp_trace_perfetto, pp_trace_timeline}; /* by ppto_trace_format */
    pp_trace_view view;
    pp_text out = {0};
    if (!trace || !bytes || !n) return pp_report_new(PPTO_E_VALUE, "trace: an argument is NULL");
    *bytes = NULL;
    *n = 0;
    if ((unsigned)format > PPTO_TRACE_TIMELINE)
        return pp_report_new(PPTO_E_VALUE, "trace: unknown format %d", (int)format);
    PP_TRY(pp_context_refuses(trace->ctx));
    ppto_status status = read(trace, &view);
    if (status == PPTO_OK) writers[format](&view, &out);
    done(trace, &view);
    if (status != PPTO_OK) return status;
    *n = out.n;
    return pp_report_give(&out, bytes);
}

ppto_status ppto_trace_steps(ppto_trace *trace, bool json, char **text)
{
    pp_trace_view view;
    pp_text out = {0};
    if (!trace || !text) return pp_report_new(PPTO_E_VALUE, "trace: an argument is NULL");
    *text = NULL;
    PP_TRY(pp_context_refuses(trace->ctx));
    ppto_status status = read(trace, &view);
    if (status == PPTO_OK) {
        status = pp_trace_steps(&view, json, &out);
        if (status != PPTO_OK) (void)pp_report_new(status, "trace: %s", ppto_status_text(status));
    }
    done(trace, &view);
    if (status == PPTO_OK) return pp_report_give(&out, text);
    pp_text_free(&out);
    return status;
}

ppto_status ppto_trace_count(ppto_trace *trace, ppto_trace_counts *counts)
{
    pp_trace_view view;
    if (!trace || !counts || counts->size < sizeof *counts)
        return pp_report_new(PPTO_E_VALUE, "trace: set counts->size to sizeof(ppto_trace_counts)");
    PP_TRY(pp_context_refuses(trace->ctx));
    ppto_status status = read(trace, &view);
    if (status == PPTO_OK) {
        counts->runs = view.runs;
        counts->events = view.spans.n + view.memory.n;
        counts->dropped = view.dropped;
    }
    done(trace, &view);
    return status;
}
