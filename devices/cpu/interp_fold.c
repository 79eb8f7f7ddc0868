/* SPDX-License-Identifier: Apache-2.0
 * Folds by the laws of meaning.
 *
 * Lanes: a tile holds one block (up to 4096 elements) of one row, or whole short rows. Rows: tiles add to the
 * state of the running block of 128 rows, as many columns at once as the tile has. Finished blocks go to a
 * binary counter: bit d of the number of blocks says that level d holds the joined state of 2^d blocks, and a
 * new block carries like a binary increment, the older state on the left: the pairwise tree of the law. At
 * the end what is left is joined from the right. A chunk of a split fold is an aligned run of 2^c blocks,
 * hence a subtree: the chunks' states go through the same counter. Generated loops do the work where there
 * are any; otherwise lanes and rows are vectors for the fold's functions. */
#include <string.h>

#include "base/fault.h"
#include "devices/cpu/interp_work.h"

enum { MAX_STATES = 4, MAX_PARAMS = 2 * MAX_STATES + 1, TURNED_ROWS = 8 };

static size_t state_size(const pp_fold *fold, unsigned s)
{
    return ppto_dtype_size((ppto_dtype)fold->state[s]);
}

static bool is_lanes(const pp_work *w)
{
    return w->launch->variant->program->frame == PP_FRAME_LANES;
}
static size_t major_n(const pp_work *w)
{
    return is_lanes(w) ? w->rows : w->cols;
}

/* ---- functions over vectors ------------------------------------------------------------------ */

static size_t align64(size_t n)
{
    return (n + 63) & ~(size_t)63;
}

size_t pp_fold_temp_bytes(int64_t width)
{
    const size_t n = (size_t)(width > (int64_t)PP_LANES ? width : (int64_t)PP_LANES);
    return align64(n * 8) * (1 + 2 * MAX_STATES) + align64(PP_LANES * 8) * MAX_STATES;
}

void pp_fold_temp_at(const pp_work *w, pp_fold_temp *out)
{
    const size_t n = w->launch->fold_vector > PP_LANES ? w->launch->fold_vector : PP_LANES,
                 step = align64(n * 8);
    char *at = w->scratch + w->launch->fold_temp_off;
    out->position = (int64_t *)(void *)at;
    at += step;
    for (unsigned s = 0; s < MAX_STATES; s++, at += step) out->lifted[s] = at;
    for (unsigned s = 0; s < MAX_STATES; s++, at += step) out->copy[s] = at;
    for (unsigned s = 0; s < MAX_STATES; s++, at += align64(PP_LANES * 8)) out->lanes[s] = at;
}

static void run_function(const pp_work *w, const pp_fcode *code, size_t n, void *const *out,
                         const void *const *in)
{
    pp_fcode_run(code, w->set, w->scratch + w->launch->function_off, n, out, in);
}

static const void *positions(const pp_work *w, size_t n, int64_t k0, int64_t k_step)
{
    pp_fold_temp temp;
    pp_fold_temp_at(w, &temp);
    for (size_t i = 0; i < n; i++) temp.position[i] = k0 + (int64_t)i * k_step;
    return temp.position;
}

void pp_fold_lift(const pp_work *w, const pp_fold_code *code, size_t n, void *const *state,
                  const void *const *in, int64_t k0, int64_t k_step)
{
    const pp_fold *fold = code->fold;
    const void *param[MAX_PARAMS];
    if (code->identity) {
        for (unsigned s = 0; s < fold->n_states; s++) memcpy(state[s], in[s], n * state_size(fold, s));
        return;
    }
    for (unsigned i = 0; i < fold->n_inputs; i++) param[i] = in[i];
    if (fold->position) param[fold->n_inputs] = positions(w, n, k0, k_step);
    run_function(w, code->lift, n, state, param);
}

void pp_fold_join(const pp_work *w, const pp_fold_code *code, size_t n, void *const *a, const void *const *b)
{
    const void *param[MAX_PARAMS];
    const unsigned n_states = code->fold->n_states;
    if (code->row != NULL) {
        code->row(n, a[0], a[0], b[0], NULL);
        return;
    }
    if (code->loops != NULL && code->loops->join_loop != NULL && !pp_fault(PP_FAULT_SWAPPED_JOIN)) {
        code->loops->join_loop(n, a, b);
        return;
    }
    const bool swapped = pp_fault(PP_FAULT_SWAPPED_JOIN);
    for (unsigned s = 0; s < n_states; s++) {
        param[s] = swapped ? b[s] : a[s];
        param[n_states + s] = swapped ? a[s] : b[s];
    }
    run_function(w, code->join, n, a, param);
}

/* state = step(state, in), or join(state, lift(in)) without a step. `lifted`: room for n states. */
static void fold_in(const pp_work *w, const pp_fold_code *code, size_t n, void *const *state,
                    const void *const *in, int64_t k0, int64_t k_step, void *const *lifted)
{
    const pp_fold *fold = code->fold;
    const void *param[MAX_PARAMS];
    if (code->step == NULL) {
        if (!code->identity) pp_fold_lift(w, code, n, lifted, in, k0, k_step);
        pp_fold_join(w, code, n, state, code->identity ? in : (const void *const *)lifted);
        return;
    }
    for (unsigned s = 0; s < fold->n_states; s++) param[s] = state[s];
    for (unsigned i = 0; i < fold->n_inputs; i++) param[fold->n_states + i] = in[i];
    if (fold->position) param[fold->n_states + fold->n_inputs] = positions(w, n, k0, k_step);
    run_function(w, code->step, n, state, param);
}

/* ---- lanes: one block ------------------------------------------------------------------------ */

static void advance(const pp_work *w, const pp_fold *fold, size_t elements, const void **in)
{
    const pp_instr *code = w->launch->kernel->plain.program->code;
    for (unsigned i = 0; i < fold->n_inputs; i++)
        in[i] = (const char *)in[i] + elements * ppto_dtype_size((ppto_dtype)code[fold->input[i]].dtype);
}

void pp_fold_join_lanes(const pp_work *w, const pp_fold_code *code, size_t lanes, size_t each,
                        void *const *state)
{
    const pp_fold *fold = code->fold;
    for (size_t h = PP_LANES / 2; h > 0; h /= 2) {
        const void *right[MAX_STATES];
        if (lanes <= h) continue;
        for (unsigned s = 0; s < fold->n_states; s++)
            right[s] = (char *)state[s] + h * each * state_size(fold, s);
        pp_fold_join(w, code, (lanes - h) * each, state, right);
        lanes = h;
    }
}

static void lanes_by_functions(const pp_work *w, const pp_fold_code *code, size_t n, void *const *state,
                               const void *const *in, int64_t k0)
{
    const pp_fold *fold = code->fold;
    const size_t lanes = n < PP_LANES ? n : PP_LANES;
    const void *at[MAX_STATES] = {NULL};
    pp_fold_temp temp;
    pp_fold_temp_at(w, &temp);
    for (unsigned i = 0; i < fold->n_inputs; i++) at[i] = in[i];
    pp_fold_lift(w, code, lanes, temp.lanes, at, k0, 1);
    for (size_t k = lanes; k < n; k += PP_LANES) {
        const size_t m = n - k < PP_LANES ? n - k : PP_LANES;
        advance(w, fold, PP_LANES, at);
        fold_in(w, code, m, temp.lanes, at, k0 + (int64_t)k, 1, temp.lifted);
    }
    pp_fold_join_lanes(w, code, lanes, 1, temp.lanes);
    for (unsigned s = 0; s < fold->n_states; s++) memcpy(state[s], temp.lanes[s], state_size(fold, s));
}

size_t pp_fold_turned_columns(const pp_fold_code *code)
{
    return code->loops != NULL && code->loops->turned != NULL ? PP_TURNED_COLUMNS : PP_LANES;
}

/* Short rows, one lane an element: the tile is turned to [lane][row], so that lanes join for all rows at
 * once. */
static void fold_turned(const pp_work *w, const pp_fold_code *code, const uint32_t *view, void *const *state)
{
    const pp_fold *fold = code->fold;
    const pp_instr *instr = w->launch->kernel->plain.program->code;
    const size_t rows = w->rows, n = rows * w->cols;
    const void *in[MAX_PARAMS] = {NULL};
    pp_fold_temp temp;
    pp_fold_temp_at(w, &temp);
    for (unsigned i = 0; i < fold->n_inputs; i++) {
        const pp_view *v = &w->views[view[i]];
        void *turned = code->identity ? temp.lifted[i] : temp.copy[i];
        const size_t size = ppto_dtype_size((ppto_dtype)instr[fold->input[i]].dtype);
        w->set->load_transposed(w->cols, rows, turned, rows * size, v->at, v->pitch, size);
        in[i] = turned;
    }
    if (code->loops != NULL && code->loops->turned != NULL) {
        code->loops->turned(w->cols, rows, state, in, w->at[PP_DIM_COLS]);
        return;
    }
    if (!code->identity) {
        for (size_t c = 0; fold->position && c < w->cols; c++)
            for (size_t r = 0; r < rows; r++) temp.position[c * rows + r] = w->at[PP_DIM_COLS] + (int64_t)c;
        in[fold->n_inputs] = temp.position;
        run_function(w, code->lift, n, temp.lifted, in);
    }
    pp_fold_join_lanes(w, code, w->cols, rows, temp.lifted);
    for (unsigned s = 0; s < fold->n_states; s++)
        memcpy(state[s], temp.lifted[s], rows * state_size(fold, s));
}

/* The tile's rows into element r of the state, joined with what is there unless it is the first tile. */
static void fold_whole(pp_work *w, const pp_fold_code *code, uint32_t view, char *state, bool first)
{
    const size_t size = state_size(code->fold, 0);
    for (size_t r = 0; r < w->rows; r++, state += size) {
        const char *in = w->views[view].at + (int64_t)r * w->views[view].pitch;
        uint64_t more;
        code->whole(w->cols, first ? (void *)state : &more, in);
        if (!first) code->row(1, state, state, &more, NULL);
    }
}

/* Whether there are no blocks: one state takes all tiles of the range. */
static bool accumulates(const pp_work *w, const pp_fold_code *code)
{
    if (!is_lanes(w)) return code->any_order;
    return code->whole != NULL || (code->loops != NULL && code->loops->best != NULL);
}

static void copy_states(const pp_fold *fold, size_t n, void *const *to, const void *const *from)
{
    for (unsigned s = 0; s < fold->n_states; s++) memcpy(to[s], from[s], n * state_size(fold, s));
}

/* ---- states that machine code left --------------------------------------------------------------- */

static size_t folded_step(const pp_launch *launch)
{
    return align64(launch->rows * 8);
}

size_t pp_folded_bytes(const pp_launch *launch)
{
    const bool some =
        launch->variant->program->frame == PP_FRAME_LANES && launch->kernel->device->tier != PP_TIER_INTERP;
    return some ? folded_step(launch) * PP_MOST_FOLDED * MAX_STATES : 0;
}

char *pp_work_folded(const pp_work *w, uint32_t f, unsigned s)
{
    return w->scratch + w->launch->folded_off + folded_step(w->launch) * (f * MAX_STATES + s);
}

/* The same as fold_lanes, of blocks that are folded already. */
static void take_folded(pp_work *w, const pp_fold_code *code, uint32_t f, void *const *state, bool first)
{
    const pp_fold *fold = code->fold;
    const void *folded[MAX_STATES] = {NULL};
    for (unsigned s = 0; s < fold->n_states; s++) folded[s] = pp_work_folded(w, f, s);
    if (!first && accumulates(w, code))
        pp_fold_join(w, code, w->rows, state, folded);
    else
        copy_states(fold, w->rows, state, folded);
}

/* ---- lanes: tiles ---------------------------------------------------------------------------------- */

/* The tile's rows, a block each, into element r of the states. */
static void fold_lanes(pp_work *w, const pp_fold_code *code, const uint32_t *view, void *const *state,
                       bool first)
{
    const pp_fold *fold = code->fold;
    const bool turned = w->cols <= pp_fold_turned_columns(code) && w->rows >= TURNED_ROWS;
    if (code->whole != NULL && (!turned || !first || code->uncast)) {
        fold_whole(w, code, view[0], state[0], first);
        return;
    }
    if (turned) {
        fold_turned(w, code, view, state);
        return;
    }
    for (size_t r = 0; r < w->rows; r++) {
        const void *in[MAX_STATES] = {NULL};
        void *out[MAX_STATES];
        for (unsigned i = 0; i < fold->n_inputs; i++)
            in[i] = w->views[view[i]].at + (int64_t)r * w->views[view[i]].pitch;
        for (unsigned s = 0; s < fold->n_states; s++) out[s] = (char *)state[s] + r * state_size(fold, s);
        if (code->loops != NULL && code->loops->best != NULL)
            code->loops->best(w->cols, out, in, w->at[PP_DIM_COLS], first);
        else if (code->loops != NULL && code->loops->lanes != NULL)
            code->loops->lanes(w->cols, out, in, w->at[PP_DIM_COLS]);
        else
            lanes_by_functions(w, code, w->cols, out, in, w->at[PP_DIM_COLS]);
    }
}

/* ---- rows: some rows of the running block ---------------------------------------------------- */

static void fold_rows(pp_work *w, const pp_fold_code *code, const uint32_t *view, void *const *state,
                      bool first)
{
    const pp_fold *fold = code->fold;
    const int64_t k0 = w->at[PP_DIM_ROWS];
    const void *in[MAX_STATES] = {NULL};
    size_t stride[MAX_STATES] = {0};
    for (unsigned i = 0; i < fold->n_inputs; i++) {
        in[i] = w->views[view[i]].at;
        stride[i] = (size_t)w->views[view[i]].pitch;
    }
    if (code->loops != NULL && code->loops->rows != NULL) {
        code->loops->rows(w->rows, w->cols, state, in, stride, first, k0);
        return;
    }
    pp_fold_temp temp;
    pp_fold_temp_at(w, &temp);
    for (size_t r = 0; r < w->rows; r++) {
        if (first && r == 0)
            pp_fold_lift(w, code, w->cols, state, in, k0, 0);
        else
            fold_in(w, code, w->cols, state, in, k0 + (int64_t)r, 0, temp.lifted);
        for (unsigned i = 0; i < fold->n_inputs; i++) in[i] = (const char *)in[i] + stride[i];
    }
}

/* ---- the tree -------------------------------------------------------------------------------- */

static void counter_level(const pp_work *w, const pp_fold *fold, const pp_fold_at *at, unsigned level,
                          void **out)
{
    for (unsigned s = 0; s < fold->n_states; s++)
        out[s] = w->scratch + at->counter[s] + align64(w->launch->width * state_size(fold, s)) * level;
}

/* Adds block number `count` (0, 1, …). */
static void push(const pp_work *w, const pp_fold_code *code, const pp_fold_at *at, uint64_t count,
                 const void *const *block)
{
    const size_t n = major_n(w);
    void *level[MAX_STATES];
    const void *carry[MAX_STATES] = {NULL};
    unsigned d = 0;
    for (unsigned s = 0; s < code->fold->n_states; s++) carry[s] = block[s];
    for (; count >> d & 1; d++) {
        counter_level(w, code->fold, at, d, level);
        pp_fold_join(w, code, n, level, carry);
        for (unsigned s = 0; s < code->fold->n_states; s++) carry[s] = level[s];
    }
    counter_level(w, code->fold, at, d, level);
    copy_states(code->fold, n, level, carry);
}

static void pop_all(const pp_work *w, const pp_fold_code *code, const pp_fold_at *at, uint64_t count,
                    void *const *out)
{
    const size_t n = major_n(w);
    void *level[MAX_STATES];
    const void *right[MAX_STATES] = {NULL};
    for (unsigned d = 0; count >> d != 0; d++) {
        if (!(count >> d & 1)) continue;
        counter_level(w, code->fold, at, d, level);
        if (right[0] != NULL) pp_fold_join(w, code, n, level, right);
        for (unsigned s = 0; s < code->fold->n_states; s++) right[s] = level[s];
    }
    if (right[0] != NULL) {
        copy_states(code->fold, n, out, right);
        return;
    }
    for (unsigned s = 0; s < code->fold->n_states; s++) memset(out[s], 0, n * state_size(code->fold, s));
}

/* ---- ranges ---------------------------------------------------------------------------------- */

static int64_t block_length(const pp_work *w)
{
    return is_lanes(w) ? PP_LANE_BLOCK : PP_ROW_BLOCK;
}

/* Where the state of the whole range goes. */
static void target(const pp_work *w, const pp_fold *fold, const pp_fold_at *at, void **out)
{
    const pp_launch *launch = w->launch;
    const int64_t place = w->chunk * launch->major.total + w->at[is_lanes(w) ? PP_DIM_ROWS : PP_DIM_COLS];
    for (unsigned s = 0; s < fold->n_states; s++)
        out[s] = w->chunk < 0 ? w->scratch + at->raw[s]
                              : (char *)launch->shared + at->partial[s] + (size_t)place * state_size(fold, s);
}

/* Whether the state of the whole range takes the tiles; else that of the running block does. */
static bool in_one(const pp_work *w, const pp_fold_code *code)
{
    return w->length <= block_length(w) || accumulates(w, code);
}

static int64_t place_in_range(const pp_work *w)
{
    return w->at[is_lanes(w) ? PP_DIM_COLS : PP_DIM_ROWS] - w->first;
}

bool pp_work_fold_state(const pp_work *w, const pp_body *body, uint32_t f, void **state)
{
    const pp_fold_code *code = &w->launch->kernel->folds[body->first_fold + f];
    const pp_fold_at *at = &w->launch->folds[body->first_fold + f];
    const int64_t from = place_in_range(w);
    if (in_one(w, code)) {
        target(w, code->fold, at, state);
        return from == 0;
    }
    for (unsigned s = 0; s < code->fold->n_states; s++) state[s] = w->scratch + at->state[s];
    return from % block_length(w) == 0;
}

/* The tile into the state, unless machine code did it. */
static void fold_tile(pp_work *w, const pp_body *body, uint32_t f, void *const *state, bool first)
{
    const pp_fold_code *code = &w->launch->kernel->folds[body->first_fold + f];
    if (body->against)
        pp_work_fold_against(w, body, state, !accumulates(w, code));
    else if ((w->folded >> f & 1) && is_lanes(w))
        take_folded(w, code, f, state, place_in_range(w) == 0);
    else if (w->folded >> f & 1)
        return;
    else if (is_lanes(w))
        fold_lanes(w, code, body->input[f], state, place_in_range(w) == 0);
    else
        fold_rows(w, code, body->input[f], state, first);
}

void pp_work_fold_tile(pp_work *w, const pp_body *body)
{
    const int64_t length = block_length(w), from = place_in_range(w);
    const int64_t to = from + (int64_t)(is_lanes(w) ? w->cols : w->rows);
    for (uint32_t f = 0; f < body->n_folds; f++) {
        const pp_fold_code *code = &w->launch->kernel->folds[body->first_fold + f];
        const pp_fold_at *at = &w->launch->folds[body->first_fold + f];
        void *state[MAX_STATES];
        if (code->fold->law == PP_LAW_SCAN) continue;
        const bool first = pp_work_fold_state(w, body, f, state);
        fold_tile(w, body, f, state, first);
        if (!in_one(w, code) && (to % length == 0 || to == w->length))
            push(w, code, at, (uint64_t)(from / length), (const void *const *)state);
    }
    w->folded = 0;
}

/* Results from the states of the whole; without a finish they are the states. */
static void finish(const pp_work *w, const pp_fold_code *code, const pp_fold_at *at)
{
    const size_t n = major_n(w);
    char *base = w->launch->split ? w->launch->shared : w->scratch;
    const void *in[MAX_STATES] = {NULL};
    void *out[MAX_STATES];
    for (unsigned s = 0; s < code->fold->n_states; s++) in[s] = w->scratch + at->raw[s];
    for (unsigned i = 0; i < code->n_results; i++)
        out[i] = base + at->result[i] + (size_t)w->major_at * ppto_dtype_size((ppto_dtype)code->result[i]);
    if (code->finish != NULL)
        run_function(w, code->finish, n, out, in);
    else if (w->launch->split)
        copy_states(code->fold, n, out, in);
}

bool pp_work_fold_settled(const pp_work *w, const pp_body *body)
{
    if (!body->only_folds || w->launch->kernel->device->count_bytes) return false;
    for (uint32_t f = 0; f < body->n_folds; f++) {
        const pp_fold_code *code = &w->launch->kernel->folds[body->first_fold + f];
        void *state[MAX_STATES];
        if (code->absorbs > 1 || !accumulates(w, code)) return false;
        target(w, code->fold, &w->launch->folds[body->first_fold + f], state);
        if (memchr(state[0], !code->absorbs, major_n(w)) != NULL) return false;
    }
    return body->n_folds > 0;
}

void pp_work_fold_end(pp_work *w, const pp_body *body)
{
    for (uint32_t f = 0; f < body->n_folds; f++) {
        const pp_fold_code *code = &w->launch->kernel->folds[body->first_fold + f];
        const pp_fold_at *at = &w->launch->folds[body->first_fold + f];
        const int64_t length = block_length(w);
        const bool blocks = w->length > length && !accumulates(w, code);
        if (w->length == 0 || (code->fold->law == PP_LAW_FOLD && blocks)) {
            void *out[MAX_STATES];
            target(w, code->fold, at, out);
            pop_all(w, code, at, (uint64_t)((w->length + length - 1) / length), out);
        }
        if (w->chunk < 0) finish(w, code, at);
    }
}

void pp_work_fold_join(pp_work *w, const pp_body *body)
{
    const int64_t chunks = w->launch->chunks;
    for (uint32_t f = 0; f < body->n_folds; f++) {
        const pp_fold_code *code = &w->launch->kernel->folds[body->first_fold + f];
        const pp_fold_at *at = &w->launch->folds[body->first_fold + f];
        void *part[MAX_STATES];
        for (w->chunk = 0; w->chunk < chunks; w->chunk++) {
            target(w, code->fold, at, part);
            push(w, code, at, (uint64_t)w->chunk, (const void *const *)part);
        }
        w->chunk = -1;
        target(w, code->fold, at, part);
        pop_all(w, code, at, (uint64_t)chunks, part);
        finish(w, code, at);
    }
}
