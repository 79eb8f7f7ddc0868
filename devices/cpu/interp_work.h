/* SPDX-License-Identifier: Apache-2.0
 * A running task of the block interpreter: where it stands and what its files offer each other. A task owns
 * its scratch; the launch is shared and read only (but for marks of the counting mode). */
#ifndef PP_INTERP_WORK_H
#define PP_INTERP_WORK_H

#include "devices/cpu/interp.h"

/* ---- running --------------------------------------------------------------------------------- */

/* A running task. */
typedef struct pp_work {
    const pp_launch *launch;
    const pp_block_set *set;
    char *scratch;
    pp_view *views;
    size_t rows, cols;      /* of the current tile */
    int64_t at[PP_DIMS];    /* flattened position of the tile's corner */
    int64_t major_at;       /* where the arrays of fold results are read: 0, or the position when split */
    int64_t coord[PP_AXES]; /* of the corner */
    const pp_space *space;
    const pp_step *steps; /* of the running group */
    pp_view product;      /* CONTRACT: the finished tile of C */
    int64_t failed_at;    /* lowest position of a failed check */
    uint32_t failed;      /* its check, PP_NONE */
    uint64_t failed_value;
    uint8_t failed_dtype;
    int64_t chunk;         /* split: which chunk of the minor dimension is folded, else -1 */
    int64_t first, length; /* the range of the minor dimension that is folded */
    int64_t kept_batch;    /* CONTRACT: whose B is packed, -1 */
    uint32_t folded;       /* folds of the body whose states of this tile are there already, a bit each */
    bool streamed;
} pp_work;

/* The elements [at, at + n) of a dimension become those of the tile. */
void pp_work_range(pp_work *w, pp_dim_id dim, int64_t at, size_t n);
void pp_work_steps(pp_work *w, const pp_body *body, pp_group group); /* interp_tile.c */
/* interp_machine.c: runs the steps of the machine as one loop. false: they are to be run one by one. */
bool pp_work_machine(pp_work *w, const pp_body *body, const pp_machine *machine);
/* interp_fold.c: where machine code leaves state s of fold f of the body, an element for each row of the
 * tile. */
char *pp_work_folded(const pp_work *w, uint32_t f, unsigned s);
/* Where fold f of the body leaves its state of this tile; whether nothing of it is there yet. */
bool pp_work_fold_state(const pp_work *w, const pp_body *body, uint32_t f, void **state);
enum { PP_MOST_FOLDED = 8 }; /* folds of a body that machine code may do */

/* interp_load.c, interp_store.c, interp_walk.c */
void pp_work_load(pp_work *w, const pp_step *step);
void pp_work_choose(pp_work *w, const pp_step *step); /* interp_choose.c */
void pp_work_store(pp_work *w, const pp_step *step);
/* Where a step's result goes: its register, or at once where its store or keep would put it. */
pp_view pp_work_place(pp_work *w, const pp_step *step);
pp_view pp_work_buffer(const pp_work *w, uint32_t buffer, uint8_t level,
                       size_t size); /* the tile's part of it */
void pp_work_keep(pp_work *w, const pp_step *step);
void pp_work_inside(pp_work *w, const pp_step *step);
/* Where the tile of a store lies in memory, if in one piece. around: also where it is written past the
 * caches. */
bool pp_work_direct(pp_work *w, const pp_step *store, bool around, pp_view *out);
bool pp_store_is_canonical(const pp_tensor_at *tensor); /* whether stores make NaN canonical */
void pp_work_index(pp_work *w, const pp_step *step);
void pp_work_check(pp_work *w, const pp_step *step);
void pp_work_touch(const pp_work *w, const pp_access_at *access, const char *at, size_t rows, size_t cols,
                   int64_t row_step, int64_t col_step); /* counting mode; interp_count.c */
int64_t pp_value_as_i64(const void *at, ppto_dtype dtype);

/* interp_walk.c. Stretches of a dimension along its last axis; dimension PP_DIMS: a single element. */
typedef struct pp_walk {
    const pp_launch *launch;
    const pp_dim *dim;
    int64_t *coord; /* of the launch's axes; those of the dimension are moved */
    size_t done, n, left;
} pp_walk;
void pp_walk_start(pp_walk *walk, const pp_work *w, pp_dim_id dim, size_t total, int64_t *coord);
bool pp_walk_next(pp_walk *walk);
/* The coordinates of one element of the tile. */
void pp_work_coords(const pp_work *w, size_t row, size_t col, int64_t *coord);

/* What a value of some level covers of the tile: rows x cols elements, the columns being what loops run along
 * (the tile's rows for a value per row). start returns whether it is one stretch each way. */
typedef struct pp_area {
    pp_dim_id row_dim, col_dim; /* PP_DIMS: not moved along */
    size_t rows, cols;
} pp_area;
typedef struct pp_rect {
    const int64_t *coord; /* of its corner */
    size_t row, col;      /* of its corner in the area */
    size_t rows, cols;
    pp_dim_id row_dim, col_dim;
} pp_rect;
typedef void (*pp_rect_fn)(pp_work *w, const pp_step *step, const pp_rect *rect);
bool pp_area_start(pp_area *area, const pp_work *w, uint8_t level);
void pp_area_each(const pp_area *area, pp_work *w, const pp_step *step,
                  pp_rect_fn fn); /* every rectangle of stretches */
int64_t pp_rect_step(const pp_work *w, const pp_lin *lin, pp_dim_id dim);
/* Which part of a row of a rectangle the guards leave: [*from, *to) of its columns. Guards on values are left
 * out. */
void pp_guards_clip(const pp_work *w, const pp_guard_at *guards, uint32_t n, const pp_rect *rect, size_t row,
                    size_t *from, size_t *to);
/* 1: all of the rectangle is inside, 0: nothing, -1: some of it. */
int pp_guards_side(const pp_work *w, const pp_guard_at *guards, uint32_t n, const pp_rect *rect);
/* The part of a rectangle that is inside, as ranges of rows and columns; false where it has another form. */
bool pp_guards_box(const pp_work *w, const pp_guard_at *guards, uint32_t n, const pp_rect *rect,
                   size_t rows[2], size_t cols[2]);
/* One element; views: of the guards' values, in order. */
bool pp_guards_hold(const pp_work *w, const pp_guard_at *guards, uint32_t n, const uint32_t *views,
                    const pp_rect *rect, size_t row, size_t col);

/* interp_load.c: a load without indices over a rectangle, to rows `pitch` bytes apart; over an area of one
 * rectangle in place, if it can be: then the step's view is set. Rows of some bytes. */
void pp_load_rect(const pp_work *w, const pp_access_at *access, char *out, int64_t pitch,
                  const pp_rect *rect);
bool pp_load_in_place(pp_work *w, const pp_step *step, const pp_access_at *access, const pp_area *area);
void pp_copy_rows(char *out, int64_t pitch, const char *in, int64_t down, size_t rows, size_t bytes);
/* interp_gather.c */
void pp_gather_rows(pp_work *w, const pp_step *step, const pp_rect *rect);
void pp_gather_elements(pp_work *w, const pp_step *step, const pp_rect *rect);

/* interp_fold.c: lanes, rows and their trees. The minor tiles of a range come in order between start and end.
 */
void pp_work_fold_tile(pp_work *w, const pp_body *body);
void pp_work_fold_end(pp_work *w, const pp_body *body);
/* Whether no further tile can change the states, or anything else that is seen. */
bool pp_work_fold_settled(const pp_work *w, const pp_body *body);
void pp_work_fold_join(pp_work *w,
                       const pp_body *body); /* split: joins the chunks of the current major tile */
/* Scratch of one fold beyond its states: positions, lanes, lifted elements and a copy of them. */
typedef struct pp_fold_temp {
    int64_t *position;
    void *lanes[4], *lifted[4], *copy[4];
} pp_fold_temp;
void pp_fold_temp_at(const pp_work *w, pp_fold_temp *out);
/* state = lift(in) at positions k0, k0 + k_step, …; of a fold of states: a copy. */
void pp_fold_lift(const pp_work *w, const pp_fold_code *code, size_t n, void *const *state,
                  const void *const *in, int64_t k0, int64_t k_step);
void pp_fold_join(const pp_work *w, const pp_fold_code *code, size_t n, void *const *a, const void *const *b);
/* Joins lanes by halving; a lane is `each` neighbouring elements. */
void pp_fold_join_lanes(const pp_work *w, const pp_fold_code *code, size_t lanes, size_t each,
                        void *const *state);
/* interp_against.c: the tile into the state of each row, by lanes or in any order; by lanes it is there when
 * the block is complete. */
void pp_work_fold_against(pp_work *w, const pp_body *body, void *const *state, bool lanes);
/* interp_scan.c */
void pp_work_scan(pp_work *w, const pp_step *step);
pp_view pp_work_scanned(const pp_work *w, const pp_step *step, unsigned s); /* the register of its state s */
bool pp_work_scans_turned(const pp_work *w); /* whether the tile is of short rows that go all at once */

/* interp_contract_factor.c: a slice of a factor, `depth` products of nx rows of A (columns of B): element
 * (x, k) of the first register tile at + x * row + k * step, each tile `panel` bytes after the one before.
 * Valid until the next slice of the factor. */
typedef struct pp_operand {
    const char *at;
    int64_t row, step, panel;
    int64_t width; /* rows (columns) of a register tile */
} pp_operand;
pp_operand pp_factor_slice(pp_work *w, const pp_factor_at *f, int64_t x0, int64_t nx, int64_t k0,
                           size_t depth);
/* The same of all nx columns of a B that is kept packed; there: it has been packed before. */
pp_operand pp_factor_kept(pp_work *w, const pp_factor_at *f, int64_t nx, int64_t k0, size_t depth,
                          bool there);
/* Bytes from row to row of what is packed by rows: neighbours do not fall on the same sets of a cache. */
static inline int64_t pp_factor_pitch(const pp_contract_at *c, size_t depth)
{
    return (int64_t)((depth * c->size + 127) & ~(size_t)63);
}
/* Evaluates the factor on a tile, at most f->rows x f->cols, and gives its value. */
pp_view pp_factor_tile(pp_work *w, const pp_factor_at *f, int64_t row, size_t rows, int64_t col, size_t cols);

/* interp_run.c: a task that stands nowhere yet, and what it computes once; between the two a failed check is
 * none of its own. */
void pp_work_open(pp_work *w, const pp_launch *launch, void *scratch);
void pp_work_start(pp_work *w, uint32_t first_stage, uint32_t n_stages);
/* All stages of a LANES program on the rows [from, to), flattened. */
void pp_work_rows(pp_work *w, int64_t from, int64_t to);

/* Rows [from, from + n) of a product, flattened with its batch and all of one batch, at full width. */
void pp_work_contract_rows(pp_work *w, int64_t from, int64_t n);
/* One unit (macro tile) of a contraction, its stages included. */
void pp_work_contract_start(pp_work *w);
void pp_work_contract(pp_work *w, int64_t unit);

#endif
