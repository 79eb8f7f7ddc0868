/* SPDX-License-Identifier: Apache-2.0
 * Evaluation in one call: compiled, bound by name, run and given up. The program is not lost: a graph
 * recorded like this one takes it again (runtime/track.h). */
#include <string.h>

#include "runtime/runtime.h"

ppto_status ppto_evaln_at(ppto_site site, size_t n, ppto_tensor *const *tensors, ppto_array **outputs,
                          size_t n_inputs, const char *const *names, ppto_array *const *arrays)
{
    pp_error err;
    ppto_program *p = NULL;
    if (!outputs) return pp_report_new(PPTO_E_VALUE, "eval: out is NULL");
    for (size_t i = 0; i < n; i++) outputs[i] = NULL;
    pp_error_clear(&err);
    if (pp_program_compile(n, tensors, &p, &err) != PPTO_OK) return pp_report(&err);
    ppto_status status = PPTO_OK;
    for (size_t i = 0; status == PPTO_OK && i < n_inputs; i++) {
        for (size_t j = 0; j < i; j++)
            if (strcmp(names[i], names[j]) == 0)
                status = pp_report_new(PPTO_E_NAME, "eval: input \"%s\" is bound twice", names[i]);
        if (status == PPTO_OK && !arrays[i])
            status = pp_report_new(PPTO_E_VALUE, "eval: the array bound to \"%s\" is NULL", names[i]);
        if (status == PPTO_OK) status = ppto_program_bind_name_at(site, p, names[i], arrays[i]);
    }
    if (status == PPTO_OK) status = ppto_program_run_at(site, p, outputs);
    ppto_program_destroy(p);
    return status;
}

static ppto_status eval(ppto_site site, ppto_tensor *tensor, ppto_array **out, va_list args)
{
    enum { MAX = 64 };
    const char *names[MAX];
    ppto_array *arrays[MAX];
    size_t n = 0;
    if (!out) return pp_report_new(PPTO_E_VALUE, "eval: out is NULL");
    *out = NULL;
    for (const char *name; (name = va_arg(args, const char *)) != NULL && n < MAX; n++) {
        names[n] = name;
        arrays[n] = va_arg(args, ppto_array *);
    }
    return ppto_evaln_at(site, 1, &tensor, out, n, names, arrays);
}

ppto_status ppto_eval_at(ppto_site site, ppto_tensor *tensor, ppto_array **out, ...)
{
    va_list args;
    va_start(args, out);
    ppto_status status = eval(site, tensor, out, args);
    va_end(args);
    return status;
}

ppto_status(ppto_eval)(ppto_tensor *tensor, ppto_array **out, ...)
{
    va_list args;
    va_start(args, out);
    ppto_status status = eval((ppto_site){0}, tensor, out, args);
    va_end(args);
    return status;
}
