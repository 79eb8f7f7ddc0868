/* SPDX-License-Identifier: Apache-2.0
 * One loop over random data beside its definition: every element by the reference of the rows.
 *
 * Streams end where a page that may not be touched begins, elements lie anywhere, rows apart by any pitch,
 * outputs may be inputs. Bytes between rows must stay as they were. A NaN that no canonical store wrote may
 * have any payload. */
#include "loop_fuzz.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernel/function_eval.h"

enum { MAX_ELEMENTS = 6000, PAD = 0x5a };

typedef struct area { /* pages, the last one not to be touched */
    char *pages;
    size_t bytes;
} area;

typedef struct data {
    size_t rows, cols;
    area in[LF_MAX_STREAMS], out[LF_MAX_STREAMS];
    pp_stream_at in_at[LF_MAX_STREAMS], out_at[LF_MAX_STREAMS];
    uint64_t *expected; /* [out][rows][cols] */
} data;

static bool area_make(size_t bytes, area *out, char **end)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
    out->bytes = whole + page;
    out->pages = mmap(NULL, out->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (out->pages == MAP_FAILED || mprotect(out->pages + whole, page, PROT_NONE) != 0) return false;
    memset(out->pages, PAD, whole);
    *end = out->pages + whole;
    return true;
}

static uint64_t read_element(const char *at, size_t size)
{
    uint64_t bits = 0;
    memcpy(&bits, at, size);
    return bits;
}

static size_t size_of(uint8_t dtype)
{
    return ppto_dtype_size((ppto_dtype)dtype);
}

static size_t cols_of(const data *d, const pp_stream *stream)
{
    return stream->kind == PP_STREAM_ROW ? 1 : d->cols;
}

static size_t rows_of(const data *d, const pp_stream *stream)
{
    return stream->kind == PP_STREAM_COLUMN ? 1 : d->rows;
}

/* ---- data ---------------------------------------------------------------------------------------------- */

/* Rows apart by at least their own bytes, or (inputs) all the same; the last element ends at the area's end
 * or at a whole vector before it. */
static bool place(lf_random *random, const data *d, const pp_stream *stream, bool output, area *pages,
                  pp_stream_at *at)
{
    const size_t size = size_of(stream->dtype), cols = cols_of(d, stream);
    size_t pitch = cols * size + (lf_below(random, 2) ? lf_below(random, 40) : 0);
    const size_t after = lf_below(random, 3) == 0 ? 64 : lf_below(random, 3) == 0 ? lf_below(random, 70) : 0;
    char *end;
    if (!output && lf_below(random, 5) == 0) pitch = 0;
    const size_t bytes = (rows_of(d, stream) - 1) * pitch + cols * size;
    if (!area_make(bytes + after, pages, &end)) return false;
    *at = (pp_stream_at){end - after - bytes, (int64_t)pitch};
    return true;
}

static void fill(lf_random *random, const data *d, const pp_stream *stream, const pp_stream_at *at)
{
    const size_t size = size_of(stream->dtype);
    for (size_t r = 0; r < rows_of(d, stream); r++)
        for (size_t c = 0; c < cols_of(d, stream); c++) {
            const uint64_t bits = lf_element(random, (ppto_dtype)stream->dtype);
            memcpy(at->at + (int64_t)r * at->pitch + c * size, &bits, size);
        }
}

/* Sometimes output i is written over an input that no other one is. */
static bool in_place(lf_random *random, const pp_loop *loop, data *d, uint32_t i, uint32_t *used)
{
    for (uint32_t k = 0; k < loop->n_in; k++) {
        if ((*used >> k & 1) != 0 || loop->in[k].kind != PP_STREAM_FULL ||
            loop->out[i].kind != PP_STREAM_FULL || lf_below(random, 2))
            continue;
        if (size_of(loop->in[k].dtype) != size_of(loop->out[i].dtype) || d->in_at[k].pitch == 0) continue;
        *used |= UINT32_C(1) << k;
        d->out_at[i] = d->in_at[k];
        return true;
    }
    return false;
}

static bool data_make(lf_random *random, const pp_loop *loop, data *d)
{
    uint32_t used = 0;
    const uint32_t kind = lf_below(random, 8);
    d->cols = kind < 4   ? 1 + lf_below(random, 300)
              : kind < 7 ? 1 + lf_below(random, 20)
                         : 1 + lf_below(random, 4096);
    d->rows = 1 + lf_below(random, (uint32_t)(MAX_ELEMENTS / d->cols < 8 ? 1 + MAX_ELEMENTS / d->cols : 8));
    d->expected = pp_calloc((loop->n_out + 1u) * d->rows * d->cols, sizeof *d->expected);
    if (d->expected == NULL) return false;
    for (uint32_t i = 0; i < loop->n_in; i++) {
        if (!place(random, d, &loop->in[i], false, &d->in[i], &d->in_at[i])) return false;
        fill(random, d, &loop->in[i], &d->in_at[i]);
    }
    for (uint32_t i = 0; i < loop->n_out; i++) {
        if (!in_place(random, loop, d, i, &used) &&
            !place(random, d, &loop->out[i], true, &d->out[i], &d->out_at[i]))
            return false;
        if (loop->out[i].kind == PP_STREAM_COLUMN) fill(random, d, &loop->out[i], &d->out_at[i]);
    }
    return true;
}

static void data_free(data *d)
{
    for (int i = 0; i < LF_MAX_STREAMS; i++) {
        if (d->in[i].pages != NULL) munmap(d->in[i].pages, d->in[i].bytes);
        if (d->out[i].pages != NULL) munmap(d->out[i].pages, d->out[i].bytes);
    }
    pp_free(d->expected);
}

/* ---- by definition ------------------------------------------------------------------------------------- */

static uint64_t call(const pp_loop *loop, const pp_function *f, uint32_t first, const uint64_t *value)
{
    uint64_t param[sizeof f->param], result[4] = {0};
    for (unsigned i = 0; i < f->n_params; i++) param[i] = value[loop->operands[first + i]];
    return pp_function_eval(f, param, result) == PPTO_OK ? result[0] : 0;
}

static uint64_t evaluate(const pp_loop *loop, const data *d, uint32_t at, size_t r, size_t c,
                         const uint64_t *value)
{
    const pp_instr *i = &loop->code[at];
    const size_t size = size_of(i->dtype);
    switch (i->op) {
    case PP_CONST: return loop->consts[i->imm];
    case PP_PARAM:
        return read_element(d->in_at[i->imm].at + (int64_t)r * d->in_at[i->imm].pitch +
                                (loop->in[i->imm].kind == PP_STREAM_FULL ? c * size : 0),
                            size);
    case PP_TABLE: {
        const ppto_dtype from = (ppto_dtype)loop->code[i->a].dtype;
        const uint64_t index = pp_scalar_eval(PP_CAST, from, PPTO_U32, value[i->a], 0, 0);
        return loop->tables[i->imm].bits[index & (loop->tables[i->imm].length - 1)];
    }
    case PP_CALL: return call(loop, loop->callees[i->imm], i->a, value);
    case PP_COLD: return value[i->a] ? call(loop, loop->callees[i->imm], i->c, value) : value[i->b];
    default:
        return pp_scalar_eval((pp_op)i->op, pp_instr_operand_dtype(loop->code, i, i->op == PP_SELECT ? 1 : 0),
                              (ppto_dtype)i->dtype, value[i->a], value[i->b], value[i->c]);
    }
}

/* ---- folds, by the lane law ---------------------------------------------------------------------------- */

static void run(const pp_function *f, const uint64_t *a, unsigned n_a, const uint64_t *b, unsigned n_b,
                uint64_t *out)
{
    uint64_t param[12], result[4] = {0};
    for (unsigned i = 0; i < n_a; i++) param[i] = a[i];
    for (unsigned i = 0; i < n_b; i++) param[n_a + i] = b[i];
    if (pp_function_eval(f, param, result) != PPTO_OK) return;
    for (unsigned r = 0; r < f->n_results; r++) out[r] = result[r];
}

/* Element k into its lane; in: the inputs, then the position. */
static void fold_in(const pp_fold *fold, size_t k, const uint64_t *in, uint64_t (*lane)[4])
{
    const unsigned n_in = fold->n_inputs + (fold->position ? 1u : 0u), n = fold->n_states;
    uint64_t lifted[4] = {0}, *state = lane[k % PP_LANES];
    if (k >= PP_LANES && fold->step != NULL) {
        run(fold->step, state, n, in, n_in, state);
        return;
    }
    if (fold->joined)
        memcpy(lifted, in, n * sizeof *lifted);
    else
        run(fold->lift, in, n_in, NULL, 0, lifted);
    if (k >= PP_LANES)
        run(fold->join, state, n, lifted, n, state);
    else
        memcpy(state, lifted, sizeof lifted);
}

static void join_all(const pp_fold *fold, size_t lanes, uint64_t (*lane)[4])
{
    for (size_t h = PP_LANES / 2; h > 0; h /= 2)
        for (size_t i = 0; i < h; i++)
            if (i + h < lanes) run(fold->join, lane[i], fold->n_states, lane[i + h], fold->n_states, lane[i]);
}

typedef struct scanning { /* of one row */
    uint64_t group[PP_SCAN_GROUP][4], last[4], before[4], out[4];
} scanning;

typedef struct folding { /* of one row */
    uint64_t lane[LF_MAX_FOLDS][PP_LANES][4];
    scanning scan[LF_MAX_FOLDS];
    uint32_t scanned; /* scans of this element that are done */
} folding;

static bool by_columns(const pp_loop *loop)
{
    return loop->n_folds > 0 && loop->folds[0].columns;
}

static bool scans(const pp_loop *loop)
{
    return loop->n_folds > 0 && loop->folds[0].fold->law == PP_LAW_SCAN;
}

static void fold_inputs(const pp_loop_fold *fold, const data *d, size_t r, size_t c, const uint64_t *value,
                        uint64_t *in)
{
    for (unsigned k = 0; k < fold->fold->n_inputs; k++) in[k] = value[fold->input[k]];
    if (!fold->fold->position) return;
    const pp_stream_at *at = &d->in_at[fold->first];
    in[fold->fold->n_inputs] = read_element(at->at + (int64_t)r * at->pitch, 8) + (fold->columns ? r : c);
}

/* ---- scans, by their law ------------------------------------------------------------------------------- */

/* The prefix of the last of the n elements that its group has so far. */
static void prefix(const pp_fold *fold, const scanning *s, size_t n, uint64_t *out)
{
    uint64_t y[PP_SCAN_GROUP][4];
    memcpy(y, s->group, sizeof y);
    for (size_t by = 1; by < PP_SCAN_GROUP; by *= 2)
        for (size_t i = n; i-- > by;) run(fold->join, y[i - by], fold->n_states, y[i], fold->n_states, y[i]);
    memcpy(out, y[n - 1], sizeof y[0]);
}

static void scan_element(const pp_loop *loop, const data *d, uint32_t at, size_t r, size_t c,
                         const uint64_t *value, scanning *s)
{
    const pp_loop_fold *f = &loop->folds[at];
    const pp_fold *fold = f->fold;
    const unsigned n = fold->n_states, n_in = fold->n_inputs + (fold->position ? 1u : 0u);
    const size_t in_group = c % PP_SCAN_GROUP;
    uint64_t in[5] = {0}, carry[4];
    fold_inputs(f, d, r, c, value, in);
    if (in_group == 0 && c == PP_SCAN_GROUP) memcpy(s->before, s->last, sizeof s->last);
    if (in_group == 0 && c > PP_SCAN_GROUP) run(fold->join, s->before, n, s->last, n, s->before);
    run(fold->lift, in, n_in, NULL, 0, s->group[in_group]);
    prefix(fold, s, in_group + 1, s->last);
    memcpy(s->out, s->last, sizeof s->out);
    if (c >= PP_SCAN_GROUP) run(fold->join, s->before, n, s->last, n, s->out);
    const pp_stream_at *first = &d->in_at[f->first];
    if (read_element(first->at + (int64_t)r * first->pitch, 8) == 0) return;
    for (unsigned k = 0; k < n; k++) {
        const pp_stream_at *from = &d->in_at[f->carry[k]];
        carry[k] = read_element(from->at + (int64_t)r * from->pitch, size_of(fold->state[k]));
    }
    run(fold->join, carry, n, s->out, n, s->out);
}

/* The scans of this element up to number `most`; each once. */
static void scan_up_to(const pp_loop *loop, const data *d, uint32_t most, size_t r, size_t c,
                       const uint64_t *value, folding *f)
{
    for (; f->scanned <= most && f->scanned < loop->n_folds; f->scanned++)
        scan_element(loop, d, f->scanned, r, c, value, &f->scan[f->scanned]);
}

/* ---- folds by columns ---------------------------------------------------------------------------------- */

static uint64_t *state_at(const data *d, uint32_t out, size_t c)
{
    return &d->expected[out * d->rows * d->cols + c];
}

/* What is there before the first row. */
static void read_columns(const pp_loop *loop, const data *d)
{
    for (uint32_t i = 0; i < loop->n_out; i++) {
        const size_t size = size_of(loop->out[i].dtype);
        for (size_t c = 0; loop->out[i].kind == PP_STREAM_COLUMN && c < d->cols; c++)
            *state_at(d, i, c) = read_element(d->out_at[i].at + c * size, size);
    }
}

/* The element of row r into its column: fold_in, of the first element and a lane's later ones. */
static void column_in(const pp_loop *loop, const data *d, uint32_t at, size_t r, size_t c,
                      const uint64_t *value)
{
    const pp_loop_fold *f = &loop->folds[at];
    const bool fresh = read_element(d->in_at[f->fresh].at, 1) != 0;
    uint64_t in[5] = {0}, lane[PP_LANES][4] = {{0}};
    fold_inputs(f, d, r, c, value, in);
    for (unsigned s = 0; s < f->fold->n_states; s++) lane[0][s] = *state_at(d, f->out[s], c);
    fold_in(f->fold, fresh && r == 0 ? 0 : PP_LANES, in, lane);
    for (unsigned s = 0; s < f->fold->n_states; s++) *state_at(d, f->out[s], c) = lane[0][s];
}

/* ---- a row --------------------------------------------------------------------------------------------- */

static void fold_element(const pp_loop *loop, const data *d, size_t r, size_t c, const uint64_t *value,
                         folding *f)
{
    for (uint32_t i = 0; i < loop->n_folds; i++) {
        const pp_loop_fold *fold = &loop->folds[i];
        uint64_t in[5] = {0};
        if (fold->columns) {
            column_in(loop, d, i, r, c, value);
            continue;
        }
        fold_inputs(fold, d, r, c, value, in);
        fold_in(fold->fold, c, in, f->lane[i]);
    }
}

static void end_row(const pp_loop *loop, const data *d, size_t r, folding *f)
{
    for (uint32_t i = 0; i < loop->n_folds && !by_columns(loop); i++) {
        const pp_fold *fold = loop->folds[i].fold;
        const uint64_t *state = scans(loop) ? f->scan[i].out : f->lane[i][0];
        if (!scans(loop)) join_all(fold, d->cols < PP_LANES ? d->cols : PP_LANES, f->lane[i]);
        for (unsigned s = 0; s < fold->n_states; s++)
            d->expected[(loop->folds[i].out[s] * d->rows + r) * d->cols] = state[s];
    }
}

static void expect(const pp_loop *loop, const data *d)
{
    folding f = {0};
    read_columns(loop, d);
    for (size_t r = 0; r < d->rows; r++, end_row(loop, d, r - 1, &f))
        for (size_t c = 0; c < d->cols; c++) {
            uint64_t value[LF_MAX_CODE] = {0};
            f.scanned = 0;
            for (uint32_t at = 0; at < loop->n_code; at++) {
                const pp_instr *i = &loop->code[at];
                if (i->op == PP_SCANNED) {
                    scan_up_to(loop, d, i->imm, r, c, value, &f);
                    value[at] = f.scan[i->imm].out[i->a];
                } else if (i->op != PP_STORE)
                    value[at] = evaluate(loop, d, at, r, c, value);
                else
                    d->expected[(i->imm * d->rows + r) * d->cols + c] = value[i->a];
            }
            if (scans(loop))
                scan_up_to(loop, d, UINT32_MAX, r, c, value, &f);
            else
                fold_element(loop, d, r, c, value, &f);
        }
}

static bool is_nan(ppto_dtype dtype, uint64_t bits)
{
    return pp_dtype_is_float(dtype) && pp_scalar_eval(PP_NE, dtype, PPTO_BOOL, bits, bits, 0) != 0;
}

static bool agrees(const pp_stream *stream, uint64_t got, uint64_t wanted)
{
    const ppto_dtype dtype = (ppto_dtype)stream->dtype;
    if (!is_nan(dtype, wanted)) return got == wanted;
    return stream->canonical ? got == pp_dtype_canonical_nan(dtype) : is_nan(dtype, got);
}

static const char *check_row(const pp_loop *loop, const data *d, uint32_t i, size_t r, char *text)
{
    const size_t cols = cols_of(d, &loop->out[i]);
    const size_t size = size_of(loop->out[i].dtype), row_bytes = cols * size;
    const char *row = d->out_at[i].at + (int64_t)r * d->out_at[i].pitch;
    for (size_t c = 0; c < cols; c++) {
        const uint64_t got = read_element(row + c * size, size),
                       wanted = d->expected[(i * d->rows + r) * d->cols + c];
        if (agrees(&loop->out[i], got, wanted)) continue;
        snprintf(text, 256, "output %u at [%zu of %zu][%zu of %zu]: %" PRIx64 ", expected %" PRIx64, i, r,
                 d->rows, c, d->cols, got, wanted);
        return text;
    }
    for (size_t k = row_bytes; r + 1 < rows_of(d, &loop->out[i]) && k < (size_t)d->out_at[i].pitch; k++)
        if ((unsigned char)row[k] != PAD) {
            snprintf(text, 256, "output %u: a byte between its rows %zu and %zu was written", i, r, r + 1);
            return text;
        }
    return NULL;
}

const char *lf_compare(lf_random *random, const pp_loop *loop, pp_loop_fn fn, char *text)
{
    data d = {0};
    const char *wrong = NULL;
    if (!data_make(random, loop, &d)) {
        data_free(&d);
        return "no memory";
    }
    expect(loop, &d);
    fn(d.rows, d.cols, d.in_at, d.out_at);
    for (uint32_t i = 0; i < loop->n_out && wrong == NULL; i++)
        for (size_t r = 0; r < rows_of(&d, &loop->out[i]) && wrong == NULL; r++)
            wrong = check_row(loop, &d, i, r, text);
    data_free(&d);
    return wrong;
}
