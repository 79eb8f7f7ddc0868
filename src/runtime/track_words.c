/* SPDX-License-Identifier: Apache-2.0
 * Calls as words. The first says what it is; of an operator the second is the address of its name, which is
 * static, then come the arguments: a tensor by position is one word, its reference; all others begin with a
 * word that no reference can be (MARK), followed by the address of the keyword and the value. Words hold all
 * that the call depends on, so equal words behind equal calls mean an equal call, and they can be recorded.
 */
#include <string.h>

#include "runtime/operator_call.h"

#define MARK PP_TRACK_MARK /* of an argument; a reference has the number of a result there */
enum { KIND_SHIFT = 48, FIELD = 8, WORD = sizeof(uint64_t) };

static uint64_t word_of_ref(pp_ref ref)
{
    return (uint64_t)ref.result << 32 | ref.node;
}

static pp_ref ref_of_word(uint64_t word)
{
    return (pp_ref){(uint32_t)word, (uint32_t)(word >> 32)};
}

static uint64_t words_for(size_t bytes)
{
    return (bytes + WORD - 1) / WORD;
}

/* Room for n more words; then they can be appended. */
static ppto_status more(pp_track *track, size_t n)
{
    return track->words.n + n <= track->words.cap ? PPTO_OK
                                                  : pp_vec_reserve(&track->words, track->words.n + n);
}

static void put(pp_track *track, uint64_t word)
{
    track->words.at[track->words.n++] = word;
}

static void put_bytes(pp_track *track, const void *bytes, size_t n)
{
    uint64_t *at = track->words.at + track->words.n;
    size_t count = words_for(n);
    if (count == 0) return;
    at[count - 1] = 0;
    memcpy(at, bytes, n);
    track->words.n += count;
}

ppto_status pp_track_words_input(pp_track *track, const char *name, ppto_dtype dtype, bool weak,
                                 const char *dims)
{
    size_t n_name = strlen(name) + 1, n_dims = strlen(dims) + 1;
    PP_TRY(more(track, 2 + words_for(n_name) + words_for(n_dims)));
    put(track, PP_TRACK_INPUT | (uint64_t)dtype << FIELD | (uint64_t)weak << 2 * FIELD);
    put(track, n_name);
    put_bytes(track, name, n_name);
    put_bytes(track, dims, n_dims);
    return PPTO_OK;
}

ppto_status pp_track_words_literal(pp_track *track, bool is_float)
{
    PP_TRY(more(track, 1));
    put(track, PP_TRACK_LITERAL | (uint64_t)is_float << FIELD);
    return PPTO_OK;
}

/* ---- calls --------------------------------------------------------------------------------------- */

/* Bytes of its value behind the keyword. */
static size_t value_of(const pp_arg *arg, const void **value)
{
    switch (arg->kind) {
    case PP_ARG_TENSOR: *value = &arg->tensor; return sizeof arg->tensor;
    case PP_ARG_TENSORS: *value = arg->tensors; return arg->n * sizeof *arg->tensors;
    case PP_ARG_INTS: *value = arg->ints; return arg->n * sizeof *arg->ints;
    case PP_ARG_STR: *value = arg->text; return strlen(arg->text) + 1;
    case PP_ARG_FLOAT: *value = &arg->f; return sizeof arg->f;
    default: *value = &arg->i; return sizeof arg->i;
    }
}

static ppto_status put_arg(pp_track *track, const pp_arg *arg)
{
    const void *value = NULL;
    size_t bytes = value_of(arg, &value);
    PP_TRY(more(track, 2 + words_for(bytes)));
    put(track, MARK | (uint64_t)arg->kind << KIND_SHIFT | bytes);
    put(track, (uint64_t)(uintptr_t)arg->keyword);
    put_bytes(track, value, bytes);
    return PPTO_OK;
}

ppto_status pp_track_words_call(pp_track *track, const pp_call *call)
{
    PP_TRY(more(track, 2 + call->n));
    put(track, PP_TRACK_CALL | (uint64_t)call->n << FIELD);
    put(track, (uint64_t)(uintptr_t)call->name);
    for (uint32_t i = 0; i < call->n; i++) {
        const pp_arg *arg = &call->arg[i];
        if (arg->kind != PP_ARG_TENSOR || arg->keyword) {
            PP_TRY(put_arg(track, arg));
            PP_TRY(more(track, call->n - i));
        } else {
            put(track, word_of_ref(arg->tensor));
        }
    }
    return PPTO_OK;
}

static void take_value(pp_arg *arg, const uint64_t *at, size_t bytes)
{
    switch (arg->kind) {
    case PP_ARG_TENSOR: memcpy(&arg->tensor, at, sizeof arg->tensor); break;
    case PP_ARG_TENSORS:
        arg->tensors = (const pp_ref *)(const void *)at;
        arg->n = bytes / sizeof *arg->tensors;
        break;
    case PP_ARG_INTS:
        arg->ints = (const int64_t *)at;
        arg->n = bytes / sizeof *arg->ints;
        break;
    case PP_ARG_STR: arg->text = (const char *)at; break;
    case PP_ARG_FLOAT: memcpy(&arg->f, at, sizeof arg->f); break;
    default: memcpy(&arg->i, at, sizeof arg->i);
    }
}

/* The argument at these words, which stay where they are; returns  the words behind it. */
static const uint64_t *take_arg(const uint64_t *at, pp_arg *arg)
{
    if (!(*at & MARK)) {
        *arg = (pp_arg){.kind = PP_ARG_TENSOR, .tensor = ref_of_word(*at)};
        return at + 1;
    }
    const size_t bytes = (size_t)(*at & ((UINT64_C(1) << KIND_SHIFT) - 1));
    *arg = (pp_arg){.kind = (uint8_t)(*at >> KIND_SHIFT & 0xff), .keyword = (const char *)(uintptr_t)at[1]};
    take_value(arg, at + 2, bytes);
    return at + 2 + words_for(bytes);
}

static uint32_t arguments(const uint64_t *words)
{
    return (uint32_t)(words[0] >> FIELD);
}

uint32_t pp_track_words_tensors(const uint64_t *words, pp_ref *refs, uint32_t room)
{
    const uint64_t *at = words + 2;
    uint32_t n = 0;
    if ((words[0] & 0xff) != PP_TRACK_CALL) return 0;
    for (uint32_t i = 0; i < arguments(words); i++) {
        pp_arg arg;
        at = take_arg(at, &arg);
        const pp_ref *given = arg.kind == PP_ARG_TENSOR ? &arg.tensor : arg.tensors;
        const size_t count = arg.kind == PP_ARG_TENSOR ? 1 : arg.kind == PP_ARG_TENSORS ? arg.n : 0;
        for (size_t k = 0; k < count; k++, n++)
            if (n < room) refs[n] = given[k];
    }
    return n;
}

void pp_track_words_plain(const char *name, const pp_ref *tensors, uint32_t n, uint64_t *words)
{
    words[0] = PP_TRACK_CALL | (uint64_t)n << FIELD;
    words[1] = (uint64_t)(uintptr_t)name;
    for (uint32_t i = 0; i < n; i++) words[2 + i] = word_of_ref(tensors[i]);
}

/* ---- recording ----------------------------------------------------------------------------------- */

static ppto_status record_call(ppto_graph *g, const uint64_t *words, ppto_site site)
{
    pp_call call;
    pp_ref *refs, few[PP_CALL_FEW];
    size_t n;
    const uint64_t *at = words + 2;
    pp_call_begin(&call, site, g, (const char *)(uintptr_t)words[1]);
    call.n = arguments(words);
    for (uint32_t i = 0; i < call.n; i++) {
        at = take_arg(at, &call.arg[i]);
        call.n_tensors += call.arg[i].kind == PP_ARG_TENSOR && !call.arg[i].keyword;
    }
    refs = few;
    return pp_call_record(&call, &refs, &n);
}

ppto_status pp_track_words_record(ppto_graph *g, const uint64_t *words, const pp_track_row *row)
{
    pp_ref ref;
    const uint64_t head = words[0] >> FIELD;
    switch (words[0] & 0xff) {
    case PP_TRACK_INPUT: {
        const char *name = (const char *)(words + 2), *dims = (const char *)(words + 2 + words_for(words[1]));
        return pp_graph_input(g->graph, name, (ppto_dtype)(head & 0xff), head >> FIELD != 0, dims, row->site,
                              &ref);
    }
    case PP_TRACK_LITERAL: return pp_graph_literal(g->graph, head != 0, row->bits, row->site, &ref);
    default: return record_call(g, words, row->site);
    }
}
