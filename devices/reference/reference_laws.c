/* SPDX-License-Identifier: Apache-2.0
 * The laws of meaning, literally: reduction along lanes and rows, scans along both, contraction.
 * A state is an array of up to four words. The inputs of the fold lie in run->input, one row of inner points
 * each. */
#include "devices/reference/reference.h"

#include <string.h>

/* ---- lift, step, join, finish ---------------------------------------------------------------- */

/* Appends the inputs at k and, where the fold wants it, k. */
static unsigned add_inputs(const pp_ref_run *run, const pp_fold *fold, int64_t k, uint64_t *params,
                           unsigned n)
{
    for (unsigned i = 0; i < fold->n_inputs; i++) params[n++] = run->input[i * run->launch->inner + k];
    if (fold->position) params[n++] = (uint64_t)k;
    return n;
}

static void copy_state(const pp_fold *fold, uint64_t *to, const uint64_t *from)
{
    memmove(to, from, fold->n_states * sizeof *to);
}

static void lift(pp_ref_run *run, const pp_fold *fold, int64_t k, uint64_t *state)
{
    uint64_t params[PP_REF_PARAMS];
    add_inputs(run, fold, k, params, 0);
    if (fold->joined)
        copy_state(fold, state, params);
    else
        pp_ref_call(fold->lift, params, state, run->stack);
}

/* out = join(a, b); out may be either. */
static void join(pp_ref_run *run, const pp_fold *fold, const uint64_t *a, const uint64_t *b, uint64_t *out)
{
    uint64_t params[PP_REF_PARAMS];
    copy_state(fold, params, a);
    copy_state(fold, params + fold->n_states, b);
    pp_ref_call(fold->join, params, out, run->stack);
}

static void step(pp_ref_run *run, const pp_fold *fold, uint64_t *state, int64_t k)
{
    uint64_t params[PP_REF_PARAMS], lifted[PP_REF_STATES];
    if (fold->step != NULL) {
        copy_state(fold, params, state);
        add_inputs(run, fold, k, params, fold->n_states);
        pp_ref_call(fold->step, params, state, run->stack);
    } else {
        lift(run, fold, k, lifted);
        join(run, fold, state, lifted, state);
    }
}

static void finish(pp_ref_run *run, const pp_fold *fold, const uint64_t *state, uint64_t *result)
{
    if (fold->finish != NULL)
        pp_ref_call(fold->finish, state, result, run->stack);
    else
        copy_state(fold, result, state);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- folds ----------------------------------------------------------------------------------- */

/* At level d, block i (a multiple of 2^(d+1)) joins block i + 2^d if there is one, i on the left. */
static void join_blocks(pp_ref_run *run, const pp_fold *fold, int64_t n)
{
    for (int64_t distance = 1; distance < n; distance *= 2) {
        for (int64_t i = 0; i + distance < n; i += 2 * distance) {
            uint64_t *left = run->block + i * PP_REF_STATES;
            join(run, fold, left, left + distance * PP_REF_STATES, left);
        }
    }
}

/* Elements [first, end): element k is in lane k mod 64; lanes fold in order, then join by halving. */
static void fold_lane_block(pp_ref_run *run, const pp_fold *fold, int64_t first, int64_t end, uint64_t *out)
{
    int64_t lanes = least(end - first, PP_LANES);
    for (int64_t lane = 0; lane < lanes; lane++) {
        uint64_t *state = run->lane + lane * PP_REF_STATES;
        lift(run, fold, first + lane, state);
        for (int64_t k = first + lane + PP_LANES; k < end; k += PP_LANES) step(run, fold, state, k);
    }
    for (int64_t half = PP_LANES / 2; half >= 1; half /= 2) {
        for (int64_t lane = 0; lane < half && lane + half < lanes; lane++) {
            uint64_t *left = run->lane + lane * PP_REF_STATES;
            join(run, fold, left, left + half * PP_REF_STATES, left);
        }
    }
    copy_state(fold, out, run->lane);
}

static void fold_row_block(pp_ref_run *run, const pp_fold *fold, int64_t first, int64_t end, uint64_t *out)
{
    lift(run, fold, first, out);
    for (int64_t k = first + 1; k < end; k++) step(run, fold, out, k);
}

static void fold_all(pp_ref_run *run, const pp_fold *fold, uint64_t *state)
{
    bool lanes = run->program->frame == PP_FRAME_LANES;
    int64_t size = lanes ? PP_LANE_BLOCK : PP_ROW_BLOCK, inner = run->launch->inner, n = 0;
    for (int64_t first = 0; first < inner; first += size, n++) {
        uint64_t *out = run->block + n * PP_REF_STATES;
        if (lanes)
            fold_lane_block(run, fold, first, least(first + size, inner), out);
        else
            fold_row_block(run, fold, first, least(first + size, inner), out);
    }
    join_blocks(run, fold, n);
    copy_state(fold, state, run->block);
}

/* ---- scans ----------------------------------------------------------------------------------- */

/* The scanned states: component s of element k at [s][k]. */
typedef struct scan {
    pp_ref_run *run;
    const pp_fold *fold;
    uint64_t *at;
} scan;

static void get(const scan *s, int64_t k, uint64_t *state)
{
    for (unsigned i = 0; i < s->fold->n_states; i++) state[i] = s->at[i * s->run->launch->inner + k];
}

static void set(const scan *s, int64_t k, const uint64_t *state)
{
    for (unsigned i = 0; i < s->fold->n_states; i++) s->at[i * s->run->launch->inner + k] = state[i];
}

/* y[k] = join(left, y[k]) */
static void join_left(const scan *s, const uint64_t *left, int64_t k)
{
    uint64_t state[PP_REF_STATES];
    get(s, k, state);
    join(s->run, s->fold, left, state, state);
    set(s, k, state);
}

/* A carry from the left that may be absent: joins [first, end) with it and goes on to the state before that
 * at the end. */
typedef struct carry {
    bool present;
    uint64_t state[PP_REF_STATES];
} carry;

static void pass_carry(const scan *s, carry *c, int64_t first, int64_t end)
{
    uint64_t last[PP_REF_STATES];
    get(s, end - 1, last);
    for (int64_t k = first; k < end && c->present; k++) join_left(s, c->state, k);
    if (c->present)
        join(s->run, s->fold, c->state, last, c->state);
    else
        copy_state(s->fold, c->state, last);
    c->present = true;
}

/* Prefixes inside a group by log steps. From the right, so that a step reads what the one before left. */
static void scan_group(const scan *s, int64_t first, int64_t end)
{
    for (int64_t distance = 1; distance < PP_SCAN_GROUP; distance *= 2) {
        for (int64_t k = end - 1; k - distance >= first; k--) {
            uint64_t left[PP_REF_STATES];
            get(s, k - distance, left);
            join_left(s, left, k);
        }
    }
}

static void scan_lane_block(const scan *s, int64_t first, int64_t end)
{
    carry groups = {0};
    for (int64_t group = first; group < end; group += PP_SCAN_GROUP) {
        int64_t stop = least(group + PP_SCAN_GROUP, end);
        scan_group(s, group, stop);
        pass_carry(s, &groups, group, stop);
    }
}

static void scan_row_block(const scan *s, int64_t first, int64_t end)
{
    for (int64_t k = first + 1; k < end; k++) {
        uint64_t left[PP_REF_STATES];
        get(s, k - 1, left);
        join_left(s, left, k);
    }
}

static void scan_all(pp_ref_run *run, uint32_t index, const pp_fold *fold, uint64_t *last)
{
    const scan s = {run, fold, run->scanned + run->launch->scan_at[index]};
    bool lanes = run->program->frame == PP_FRAME_LANES;
    int64_t size = lanes ? PP_LANE_BLOCK : PP_ROW_BLOCK, inner = run->launch->inner;
    carry blocks = {0};
    for (int64_t k = 0; k < inner; k++) {
        uint64_t state[PP_REF_STATES];
        lift(run, fold, k, state);
        set(&s, k, state);
    }
    for (int64_t first = 0; first < inner; first += size) {
        int64_t end = least(first + size, inner);
        if (lanes)
            scan_lane_block(&s, first, end);
        else
            scan_row_block(&s, first, end);
        pass_carry(&s, &blocks, first, end);
    }
    get(&s, inner - 1, last);
}

void pp_ref_fold(pp_ref_run *run, uint32_t index)
{
    const pp_fold *fold = &run->program->folds[index];
    uint64_t state[PP_REF_STATES], *result = run->result + (size_t)index * PP_REF_STATES;
    memset(result, 0, PP_REF_STATES * sizeof *result);
    if (run->launch->inner == 0) return; /* units are not the kernel's business */
    if (fold->law == PP_LAW_SCAN)
        scan_all(run, index, fold, state);
    else
        fold_all(run, fold, state);
    finish(run, fold, state, result);
}

/* ---- contraction ----------------------------------------------------------------------------- */

/* One fma chain from +0 over k in [first, end). */
static uint64_t chain(pp_ref_run *run, int64_t first, int64_t end)
{
    const pp_contract *c = &run->program->contract;
    ppto_dtype dtype = (ppto_dtype)c->dtype;
    uint64_t sum = 0;
    for (int64_t k = first; k < end; k++) {
        pp_ref_point(run, PP_REF_INNER, k);
        pp_ref_code(run, c->a_first, c->a_count, NULL);
        pp_ref_code(run, c->b_first, c->b_count, NULL);
        sum = pp_scalar_eval(PP_FMA, dtype, dtype, run->value[c->a_value], run->value[c->b_value], sum);
    }
    return sum;
}

uint64_t pp_ref_product(pp_ref_run *run)
{
    ppto_dtype dtype = (ppto_dtype)run->program->contract.dtype;
    int64_t inner = run->launch->inner;
    uint64_t sum = 0;
    for (int64_t first = 0; first < inner; first += PP_K_BLOCK) {
        uint64_t block = chain(run, first, least(first + PP_K_BLOCK, inner));
        sum = first == 0 ? block : pp_scalar_eval(PP_ADD, dtype, dtype, sum, block, 0);
    }
    return pp_scalar_eval(PP_ADD, dtype, dtype, sum, 0, 0);
}
