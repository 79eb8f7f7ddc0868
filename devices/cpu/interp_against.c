/* SPDX-License-Identifier: Apache-2.0
 * Lanes over an operand that lies against them: its elements are neighbours along the rows of the tile, as in
 * a sum along the last axis of a transposed matrix.
 *
 * Turning such a tile reads a cache line here and a cache line there. Instead every lane has a state for each
 * row of the tile, and the element k of all rows is one step of lane k mod 64: memory is read in order. At
 * the end of a block the lanes join by halving, all rows at once: the order of the law. Only for folds of
 * plain loads; whatever is computed first has been turned already. */
#include <string.h>

#include "devices/cpu/interp_work.h"

enum { MAX_STATES = 4 };

/* The load whose result is the view, PP_NONE: something else. */
static const pp_access_at *loaded(const pp_body *body, uint32_t view)
{
    for (uint32_t i = 0; i < body->n_steps[PP_GROUP_MINOR]; i++) {
        const pp_step *step = &body->steps[PP_GROUP_MINOR][i];
        if (step->out == view && step->kind == PP_STEP_LOAD && step->level == PP_LEVEL_FULL)
            return step->data;
    }
    return NULL;
}

static bool lies_against(const pp_launch *launch, const pp_access_at *access)
{
    const pp_dim *rows = &launch->space.dim[PP_DIM_ROWS], *cols = &launch->space.dim[PP_DIM_COLS];
    if (access == NULL || access->n_guards > 0 || access->n_gathers > 0 || access->data_guard) return false;
    return !launch->kernel->device->count_bytes && pp_dim_step(access->lin, rows) == access->size &&
           pp_dim_step(access->lin, cols) != access->size;
}

bool pp_interp_against(const pp_launch *launch, const pp_body *body)
{
    const pp_program *p = launch->variant->program;
    if (p->frame != PP_FRAME_LANES || !body->inner || !body->only_folds || body->n_folds != 1) return false;
    for (uint32_t i = 0; i < body->n_steps[PP_GROUP_MINOR]; i++)
        if (body->steps[PP_GROUP_MINOR][i].kind != PP_STEP_LOAD) return false;
    const pp_fold_code *code = &launch->kernel->folds[body->first_fold];
    return code->fold->law == PP_LAW_FOLD && code->fold->n_inputs == 1 && !code->fold->position &&
           !code->uncast && code->loops != NULL && code->loops->rows != NULL &&
           lies_against(launch, loaded(body, body->input[0][0]));
}

/* A fold over the tile: lanes: state[s] is [lane][row], else [row]. */
typedef struct taking {
    const pp_access_at *access;
    const pp_fold_code *code;
    char *state[MAX_STATES];
    bool lanes;
} taking;

static void take_rect(pp_work *w, const pp_step *step, const pp_rect *rect)
{
    const taking *t = step->data;
    const int64_t along = pp_rect_step(w, t->access->lin, rect->col_dim);
    const char *at = w->launch->tensors[t->access->tensor].data +
                     pp_lin_at(t->access->lin, w->launch->n_axes, rect->coord);
    const size_t stride = 0;
    for (size_t c = 0; c < rect->cols; c++, at += along) {
        const int64_t k = w->at[PP_DIM_COLS] - w->first + (int64_t)(rect->col + c);
        const int64_t in = t->lanes ? k % (int64_t)PP_LANE_BLOCK : k, lanes = t->lanes ? PP_LANES : 1;
        const size_t row = (size_t)(in % lanes) * w->rows + rect->row;
        void *state[MAX_STATES] = {NULL};
        const void *from = at;
        for (unsigned s = 0; s < t->code->fold->n_states; s++)
            state[s] = t->state[s] + row * ppto_dtype_size((ppto_dtype)t->code->fold->state[s]);
        t->code->loops->rows(1, rect->rows, state, &from, &stride, in < lanes, 0);
    }
}

void pp_work_fold_against(pp_work *w, const pp_body *body, void *const *state, bool lanes)
{
    const pp_fold_code *code = &w->launch->kernel->folds[body->first_fold];
    const int64_t to = w->at[PP_DIM_COLS] - w->first + (int64_t)w->cols;
    const bool done = to % (int64_t)PP_LANE_BLOCK == 0 || to == w->length;
    taking t = {.access = loaded(body, body->input[0][0]), .code = code, .lanes = lanes};
    const pp_step step = {.data = &t};
    pp_fold_temp temp;
    pp_area area;
    pp_fold_temp_at(w, &temp);
    for (unsigned s = 0; s < code->fold->n_states; s++) t.state[s] = lanes ? temp.lifted[s] : state[s];
    pp_area_start(&area, w, PP_LEVEL_FULL);
    pp_area_each(&area, w, &step, take_rect);
    if (!lanes || !done) return;
    const int64_t in = (to - 1) % (int64_t)PP_LANE_BLOCK + 1;
    pp_fold_join_lanes(w, code, in < (int64_t)PP_LANES ? (size_t)in : PP_LANES, w->rows, temp.lifted);
    for (unsigned s = 0; s < code->fold->n_states; s++)
        memcpy(state[s], temp.lifted[s], w->rows * ppto_dtype_size((ppto_dtype)code->fold->state[s]));
}
