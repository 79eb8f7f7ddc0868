/* SPDX-License-Identifier: Apache-2.0
 * Files that a run by pieces reads. One that cannot be read on ends the run; unless the run is to keep going
 * and something else is wanted of it: then the results that depend on the file are lost, the others are
 * computed. All are made by the same pieces, so the pieces go on with zeros in place of what could not be
 * read, and nobody gets what is made of them. A zero must not fail anything: where a check of values depends
 * on the file the run ends. */
#include <string.h>

#include "runtime/async_run.h"
#include "runtime/region_run.h"
#include "runtime/tracing.h"

/* ---- giving up ----------------------------------------------------------------------------------------- */

/* Per prim: is it made of this input? NULL: out of memory. */
static uint8_t *find_dependents(const pp_flat *flat, uint32_t input)
{
    uint8_t *depends = pp_calloc(flat->prims.n + 1, 1);
    for (uint32_t id = 0; depends && id < flat->prims.n; id++) {
        const pp_prim *p = &flat->prims.at[id];
        depends[id] = p->kind == PP_P_INPUT && p->number == input;
        for (uint32_t k = 0; k < p->n_operands; k++) depends[id] |= depends[pp_flat_operands(flat, id)[k]];
    }
    return depends;
}

static bool checks_any(const pp_flat *flat, const uint8_t *depends)
{
    for (uint32_t id = 0; id < flat->prims.n; id++)
        if (depends[id] && flat->prims.at[id].kind == PP_P_CHECK) return true;
    return false;
}

static bool others_are_wanted(const pp_region_run *r, const uint8_t *depends)
{
    const pp_flat *flat = &r->p->plan->flat;
    for (size_t i = 0; i < flat->outputs.n; i++)
        if (!depends[flat->outputs.at[i]] && !r->sinks[i].lost) return true;
    return false;
}

/* False: the run is not to go on. */
static bool lose(pp_region_run *r, uint32_t input)
{
    const pp_flat *flat = &r->p->plan->flat;
    uint8_t *depends = find_dependents(flat, input);
    if (!r->lost_input) r->lost_input = pp_calloc(r->p->plan->inputs.n + 1, 1);
    const bool goes_on =
        depends && r->lost_input && !checks_any(flat, depends) && others_are_wanted(r, depends);
    for (size_t i = 0; goes_on && i < flat->outputs.n; i++)
        r->sinks[i].lost |= depends[flat->outputs.at[i]] != 0;
    if (goes_on) r->lost_input[input] = 1;
    pp_free(depends);
    return goes_on;
}

ppto_status pp_region_input_fails(pp_region_run *r, uint32_t input, ppto_status status, const pp_error *why)
{
    const bool stops = status == PPTO_E_CANCELLED || status == PPTO_E_DEADLINE;
    if (pp_region_input_lost(r, input)) return PPTO_OK;
    if (stops || !r->p->control->keep_going || !lose(r, input))
        return pp_fail(r->err, status, "%s", why->text);
    (void)pp_fail(&r->lost, status, "%s", why->text);
    return PPTO_OK;
}

bool pp_region_input_lost(const pp_region_run *r, uint32_t input)
{
    return r->lost_input && r->lost_input[input];
}

bool pp_region_output_lost(const pp_region_run *r, size_t output)
{
    return r->sinks[output].lost;
}

/* ---- opening, reading whole ---------------------------------------------------------------------------- */

static ppto_status open_sequence(pp_array_file *file, pp_region_stream *s, pp_error *err)
{
    s->data_at = 0;
    return pp_sequence_open(file, &s->sequence, err);
}

/* The file that has the name now, as a run in one piece reads it: the one before may have replaced it. */
static ppto_status open_file(pp_array_file *file, pp_region_stream *s, pp_error *err)
{
    const pp_reader *planned = &file->reader;
    PP_TRY(pp_array_file_reader(file, &s->reader, &s->owned, err));
    s->file.fd = s->reader.source.fd;
    s->data_at = s->reader.data_at;
    if (s->reader.in_place == planned->in_place && s->reader.info.swap == planned->info.swap &&
        s->reader.info.fortran == planned->info.fortran && s->data_at >= 0)
        return PPTO_OK;
    if (s->owned) pp_reader_close(&s->reader);
    s->owned = false;
    return pp_fail(err, PPTO_E_FORMAT, "the array lies otherwise in the file than when it was opened");
}

ppto_status pp_region_input_open(pp_region_run *r, uint32_t input, pp_region_stream *s)
{
    pp_array_file *file = r->inputs[input]->file;
    pp_error why = {0}, named = {0};
    s->dead = pp_region_input_lost(r, input);
    if (s->dead) return PPTO_OK;
    ppto_status status = file->reader.in_order ? open_sequence(file, s, &why) : open_file(file, s, &why);
    if (status == PPTO_OK) return status;
    (void)pp_fail_of_file(&named, status, file->path, &why);
    PP_TRY(pp_region_input_fails(r, input, status, &named));
    s->dead = true;
    return PPTO_OK;
}

ppto_status pp_region_input_load(pp_region_run *r, uint32_t input, ppto_array **out)
{
    const ppto_array *array = r->inputs[input];
    const pp_files_watch watch = pp_progress_watch(r->p);
    pp_error why = {0};
    ppto_status status = pp_tracing_load(r->p, array, out, &watch, &why);
    if (status == PPTO_OK) return status;
    PP_TRY(pp_region_input_fails(r, input, status, &why));
    PP_TRY(pp_array_for_file(array, out, r->err));
    memset((*out)->data, 0, (*out)->bytes);
    return PPTO_OK;
}
