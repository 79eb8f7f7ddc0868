/* SPDX-License-Identifier: Apache-2.0
 * The block interpreter: what its files share.
 *
 * Start reading at interp_run.c. A kernel (interp_compile.c) is a program with its functions looked up or
 * compiled. A launch (interp_bind.c, interp_shape.c) fixes the sizes: every access becomes a linear form in
 * bytes over the axes, axes that move together everywhere become one, and the domain is cut into tiles. Code
 * is evaluated tile by tile over [rows] [columns] (interp_tile.c): a body (interp_plan.c) is a list of steps,
 * one loop each, over registers that stay in L1.
 *
 * A value has a level: one element per tile, one per row, one per column, or one each (full). It is computed
 * at its own level and spread only where loops need it. Steps fall into three groups: once per task, once per
 * major tile, once per tile. The major dimension is the rows in MAP and LANES (the minor one, the columns,
 * runs inside) and the columns in ROWS (the minor one is the reduced rows).
 *
 * A full value lies in rows of w->cols elements, `pitch` bytes apart; a value per column has pitch 0; a value
 * per row is an array. So element (r, c) of a vector operand is always at + r * pitch + c * size. */
#ifndef PP_INTERP_H
#define PP_INTERP_H

#include "devices/cpu/blocks.h"
#include "devices/cpu/loop.h"
#include "devices/part_launches.h"

enum { PP_AXES = 32 };
#define PP_TILE_BYTES (32u * 1024u)    /* live registers of a tile: they share L1 with what streams through */
#define PP_TILE_MAX 4096u              /* elements of a tile */
#define PP_WIDE 128u                   /* from so many columns on a loop per row costs little */
#define PP_BUFFER_BYTES (512u * 1024u) /* kept values of a tile: a share of L2 */
/* Outputs from here on go around the caches: an eighth of the last cache, between these bounds. */
#define PP_STREAM_LEAST (8u * 1024u * 1024u)
#define PP_STREAM_MOST (32u * 1024u * 1024u)
/* Bounds of what is taken for the second cache. */
#define PP_NEAR_LEAST (256u * 1024u)
#define PP_NEAR_MOST (4u * 1024u * 1024u)

/* ---- functions (interp_function.c) ----------------------------------------------------------- */

#define PP_FUNCTION_CHUNK 512u /* elements a function is interpreted over at once */

typedef struct pp_fcode pp_fcode;
typedef struct pp_fcode_list {
    PP_VEC(pp_fcode *) codes;
    size_t bytes; /* scratch of all interpreted functions */
} pp_fcode_list;

/* A function ready to run over arrays: its generated loop, or its code compiled to loops over registers.
 * NULL in *out for a NULL function. The list owns the code; equal functions share one. */
ppto_status pp_fcode_get(pp_fcode_list *list, const pp_block_set *set, const pp_function *function,
                         pp_fcode **out, pp_error *err);
void pp_fcode_list_free(pp_fcode_list *list);
/* Writes the constants of the interpreted functions into their scratch, once per task. */
void pp_fcode_list_start(const pp_fcode_list *list, const pp_block_set *set, char *area);
/* n elements: out[r] result arrays, in[p] parameter arrays. An out may be an in. area: scratch of the list.
 */
void pp_fcode_run(const pp_fcode *code, const pp_block_set *set, char *area, size_t n, void *const *out,
                  const void *const *in);
/* The primitive row when the function is one row of its two parameters in order (join of sum, max): else
 * PP_OP_COUNT. */
pp_op pp_fcode_as_row(const pp_fcode *code);
bool pp_fcode_is_identity(const pp_fcode *code); /* of one parameter */
const pp_function *pp_fcode_function(const pp_fcode *code);

/* ---- kernels (interp_compile.c) -------------------------------------------------------------- */

struct pp_device {
    const pp_block_set *set;
    bool count_bytes;
    uint32_t grain;
    pp_tier tier;        /* INTERP also where machine code cannot be had */
    size_t stream_bytes; /* from here on results go around the caches */
    size_t near_bytes;   /* of a worker's second cache */
    pp_costs costs;
    char text[96];
};

typedef struct pp_fold_code {
    const pp_fold *fold;
    const pp_fold_loops *loops; /* NULL: by the functions */
    pp_fcode *lift, *step, *join, *finish;
    pp_block_fn row, row_sv; /* the loops of a join that is one primitive row, else NULL */
    bool identity;           /* lift gives its input */
    bool any_order;     /* join is one row whose result does not depend on the order, lift a copy or cast */
    bool uncast;        /* the input is a cast, and is taken before it (pp_interp_fold_input) */
    pp_reduce_fn whole; /* any_order: all elements of a row at once; NULL: by lanes */
    uint8_t absorbs;    /* any_order, states of bool: the one that no element changes; else 2 */
    uint8_t n_results;
    uint8_t result[4]; /* dtypes of the finished components */
} pp_fold_code;

/* One form of the program: as given, or with kept values computed again (bare). */
typedef struct pp_variant {
    const pp_program *program;
    bool *live; /* per instruction: reaches a store, check, keep, fold or factor */
} pp_variant;

struct pp_kernel {
    struct pp_device *device;
    pp_variant plain, bare; /* bare.program NULL: there is none */
    pp_fcode_list functions;
    pp_fcode **callee;              /* per callee */
    pp_fold_code *folds;            /* per fold */
    void **table;                   /* per table: its elements in their own width */
    pp_kernel *part[PP_MOST_PARTS]; /* of a chain, which has nothing of the above but the device */
    pp_arena arena;
};

/* Builds the form without buffers: code of the stage that kept a value is repeated where it is read. false in
 * *possible where that would need a scan or could read what was stored meanwhile. */
ppto_status pp_interp_bare(const pp_program *program, pp_arena *arena, pp_program *out, bool *possible);

/* The instruction whose value is input i of a fold of the program. */
uint32_t pp_interp_fold_input(const pp_program *program, const pp_fold_code *codes, uint32_t fold,
                              uint32_t i);

ppto_status pp_interp_compile(pp_device *device, const pp_program *program, pp_kernel **out, pp_error *err);
void pp_interp_kernel_destroy(pp_kernel *kernel);

/* ---- launches: shape (interp_shape.c) -------------------------------------------------------- */

typedef enum pp_level {
    PP_LEVEL_ONE,
    PP_LEVEL_ROWS,
    PP_LEVEL_COLS,
    PP_LEVEL_FULL
} pp_level; /* bits: rows, columns */
typedef enum pp_dim_id { PP_DIM_FIXED, PP_DIM_ROWS, PP_DIM_COLS, PP_DIMS } pp_dim_id;

/* Axes flattened in order, the last one fastest. */
typedef struct pp_dim {
    uint32_t n, mask;
    uint8_t axis[PP_AXES];
    int64_t total;
} pp_dim;

typedef struct pp_space {
    pp_dim dim[PP_DIMS];
} pp_space;

/* A dimension cut into tiles: pieces of `width` inside each stretch of `period` elements. */
typedef struct pp_tiling {
    int64_t total, period, width, per_period, count;
} pp_tiling;

/* base + sum coef * coordinate. In bytes for an access, in elements for guards, indices and positions. */
typedef struct pp_lin {
    int64_t base;
    int64_t coef[]; /* n_axes of the launch */
} pp_lin;

static inline int64_t pp_lin_at(const pp_lin *lin, uint32_t n_axes, const int64_t *coord)
{
    int64_t at = lin->base;
    for (uint32_t i = 0; i < n_axes; i++) at += lin->coef[i] * coord[i];
    return at;
}
static inline int64_t pp_dim_step(const pp_lin *lin, const pp_dim *dim)
{
    return dim->n == 0 ? 0 : lin->coef[dim->axis[dim->n - 1]];
}

typedef struct pp_guard_at {
    const pp_lin *lin;
    int64_t lo, hi;
    uint32_t value; /* instruction, PP_NONE */
} pp_guard_at;

/* A dimension indexed by a value. */
typedef struct pp_gather_at {
    const pp_lin *lin; /* of the index without its value */
    uint32_t value;    /* instruction */
    int64_t stride, extent;
} pp_gather_at;

typedef struct pp_access_at {
    uint32_t tensor;
    uint8_t dtype, size;
    uint32_t n_guards, n_gathers;
    bool data_guard; /* a guard looks at a value */
    bool used;
    const pp_lin *lin;
    const pp_guard_at *guards;
    const pp_gather_at *gathers;
    uint64_t fill;
    uint32_t mask; /* axes of the launch it moves with */
} pp_access_at;

typedef struct pp_tensor_at {
    char *data;
    uint8_t dtype, size;
    bool output, result, stream, aliased;
    int64_t lowest, span;      /* of the bytes it occupies */
    _Atomic uint64_t *touched; /* counting mode: one bit an element */
} pp_tensor_at;

/* ---- bodies (interp_plan.c) ------------------------------------------------------------------ */

typedef struct pp_view {
    char *at;
    int64_t pitch;
} pp_view;

typedef enum pp_group { PP_GROUP_TASK, PP_GROUP_MAJOR, PP_GROUP_MINOR, PP_GROUPS } pp_group;

typedef enum pp_step_kind {
    PP_STEP_ROW1,
    PP_STEP_ROW2,
    PP_STEP_ROW3,
    PP_STEP_SPREAD,
    PP_STEP_LOAD,
    PP_STEP_STORE,
    PP_STEP_CHECK,
    PP_STEP_CALL,
    PP_STEP_COLD,
    PP_STEP_TABLE,
    PP_STEP_INDEX,
    PP_STEP_INSIDE,
    PP_STEP_STATE,
    PP_STEP_BUFFER,
    PP_STEP_KEEP,
    PP_STEP_SCAN,
    PP_STEP_PRODUCT,
    PP_STEP_CHOOSE
} pp_step_kind;

/* A value chosen by position: with guards, one of two; else a load, or a value computed before. */
typedef struct pp_choice pp_choice;
struct pp_choice {
    const pp_guard_at *guards; /* NULL: a leaf */
    uint32_t n_guards;
    const pp_choice *inside, *outside;
    const pp_access_at *access; /* of a leaf that loads */
    uint32_t view;              /* of a leaf that copies */
    bool one;                   /* the view is one element for the whole tile */
};

/* One loop. Operands and results are views. */
typedef struct pp_step {
    uint8_t kind, level, group;
    uint8_t size;  /* of a result element (STORE, KEEP: of the value) */
    uint8_t dtype; /* of the result (CHECK: of the reported value) */
    uint8_t from;  /* SPREAD: level of the operand */
    uint8_t n_out; /* SCAN: several results, views out, out + 1, … */
    bool by_row;   /* LOAD: the gathered indices are per row of a full load */
    uint8_t a_size, b_size, c_size;
    bool a_one, b_one, c_one; /* ROW*: the operand is one element for the whole tile */
    bool per_row;             /* ROW*: some operand is one element per row of a full result */
    uint8_t op, on;           /* ROW*: the primitive, dtype of its operands (but the mask of SELECT) */
    uint32_t out, a, b, c;
    uint32_t imm;   /* TABLE: the length */
    uint32_t table; /* TABLE: of the program */
    uint32_t
        direct; /* index of a STORE or KEEP of the same group the result may be written to at once, PP_NONE */
    uint32_t n_list;
    const uint32_t *list; /* more operands: of CALL, COLD, SCAN, CHOOSE; the gathered indices, then the
                             guards' values */
    pp_block_fn fn;
    const void *data; /* TABLE: elements; CALL, COLD: function; INDEX: lin; LOAD, STORE: access; INSIDE:
                         guards; CHOOSE: the tree */
} pp_step;

/* Neighbouring steps that are one loop: interp_loops.c finds them, interp_machine.c runs them. */
typedef struct pp_loop_code pp_loop_code; /* devices/cpu/loop_store.h */
enum { PP_MACHINE_STREAMS = 24 };
typedef struct pp_machine_out {
    const pp_step *step;  /* that makes the value; NULL: it is a state of a fold, or the last of a scan */
    uint32_t view;        /* of the value */
    const pp_step *store; /* the only one that reads it, run with the loop; NULL: others do */
    uint8_t fold, state;  /* of the body */
} pp_machine_out;
typedef struct pp_machine {
    uint32_t first, n;         /* steps of the group */
    pp_loop loop;              /* without code: no loop is made of it */
    pp_loop_code *code;        /* NULL: not asked for */
    bool claims;               /* its compilation is told of here, and nowhere else */
    const uint32_t *in;        /* views, per stream; PP_NONE: what the launch or the tile says */
    bool scans;                /* the folds of the loop are scans */
    bool columns;              /* they are by columns */
    const pp_machine_out *out; /* per stream */
} pp_machine;

typedef struct pp_body {
    const pp_space *space;
    pp_step *steps[PP_GROUPS];
    uint32_t n_steps[PP_GROUPS];
    pp_machine *machines[PP_GROUPS]; /* in order */
    uint32_t n_machines[PP_GROUPS];
    uint8_t level;                /* of what a machine computes: of all that moves with every axis */
    uint32_t first_fold, n_folds; /* of the program */
    uint32_t (*input)[4];         /* per fold: views */
    uint32_t value;               /* the view of a factor of a contraction */
    uint8_t value_level;
    bool inner;
    bool against;    /* its fold takes its operand as it lies (interp_against.c); the steps are not run */
    bool only_folds; /* nothing else is seen of its tiles: no store, check or kept value */
} pp_body;

/* What the planner needs to know about the tiles. */
typedef struct pp_plan_request {
    const pp_variant *variant;
    const pp_space *space;
    uint32_t first, count; /* code */
    const pp_stage *stage; /* NULL for a factor */
    uint32_t value;        /* a factor's value, PP_NONE */
    pp_dim_id major;       /* the other one is minor */
    bool single[PP_DIMS];  /* the dimension is one tile */
    size_t rows, cols;     /* of the largest tile */
} pp_plan_request;

/* Builds a body in the launch's arena, its views after those there are. Registers get offsets from the start
 * of their area (launch.fixed_bytes grows; the group MINOR shares one area among bodies). minor_bytes: of
 * that area; hot_bytes: what of it a tile really touches. */
ppto_status pp_interp_plan(pp_launch *launch, const pp_plan_request *request, pp_body *out,
                           size_t *minor_bytes, size_t *hot_bytes);

/* ---- launches (interp_bind.c) ---------------------------------------------------------------- */

typedef struct pp_fold_at {
    size_t raw[4], result[4]; /* offsets in scratch (split: in the shared area) */
    size_t state[4];          /* of the running block, in scratch */
    size_t counter[4];        /* [level][width] in scratch */
    size_t partial[4];        /* split: [chunk][outer] in the shared area */
    size_t carry[4];          /* of scans */
} pp_fold_at;

typedef enum pp_phase_kind { PP_PHASE_WHOLE, PP_PHASE_CHUNKS, PP_PHASE_JOIN } pp_phase_kind;
typedef struct pp_phase {
    uint8_t kind;
    uint32_t first_stage,
        n_stages; /* WHOLE: stages in order; CHUNKS: one; JOIN: its folds, then outer stages */
} pp_phase;

/* A factor of a contraction: tiles of its code are [k][x] (by_k) or [x][k], x being m or n. */
typedef struct pp_factor_at {
    pp_body body;
    pp_space space;
    bool by_k;
    bool direct;       /* read in place where it can be, see interp_contract_factor.c */
    bool neighbours;   /* B: only where its columns are neighbours */
    bool by_rows;      /* A: packed row by row */
    unsigned width;    /* of a panel: rows or columns of the register tile */
    size_t rows, cols; /* of the largest tile */
    size_t packed;     /* offset in scratch */
} pp_factor_at;

typedef struct pp_contract_at {
    pp_factor_at a, b;
    bool thin;   /* few rows: B is not packed, see interp_contract.c */
    bool by_k;   /* A lies so that it is read in place */
    bool deep;   /* a slice is a whole block, its B fits L2: rows of register tiles one after the other */
    bool strips; /* C of a strip is finished at once: in scratch there is room for one */
    const pp_contract_tile *tile;
    uint8_t dtype;
    size_t size;
    int64_t m, n, k, batches;
    int64_t mt, nt; /* macro tile */
    int64_t m_tiles, n_tiles;
    int64_t kc, mc;    /* depth of a slice; rows of a strip, of which A is packed at once */
    bool keeps_b;      /* all of B stays packed from unit to unit of a batch */
    size_t chain, sum; /* offsets in scratch: the running block, the blocks before */
} pp_contract_at;

struct pp_launch {
    const pp_kernel *kernel;
    int64_t *key; /* slots, shapes and strides of the last resize */
    size_t n_key;
    uint32_t workers;
    bool sized, empty;          /* empty: the outer domain has no point */
    bool whole;                 /* asked for: one phase */
    int64_t block;              /* asked for: so many rows of a product at a time, at full width; 0 */
    const bool *near;           /* per tensor: it lives in scratch; NULL: none does */
    struct pp_chained *chained; /* interp_chain.c: of a chain, which uses nothing below but the geometry */
    pp_geometry geometry;
    void *shared;
    uint64_t *args; /* cells with the element in the first bytes */

    /* All below belongs to the arena and the last resize. */
    pp_arena arena;
    const pp_variant *variant;
    const int64_t *slots;
    uint32_t n_axes;
    int64_t size[PP_AXES];
    uint8_t role[PP_AXES];
    pp_lin **affine;      /* per affine of the program; NULL when no step needs it */
    pp_access_at *access; /* per access of the program */
    pp_guard_at *guards;  /* per guard of the program */
    pp_tensor_at *tensors;
    pp_space space;
    pp_dim_id major_dim;
    pp_tiling major, minor;
    size_t rows, cols; /* of the largest tile */
    bool trial;        /* the plan that is made tells sizes only */
    pp_body *bodies;   /* per stage */
    uint32_t n_views, cap_views;
    size_t *reg;        /* per view: offset in scratch */
    uint8_t *reg_minor; /* per view: whether its register is one of the group MINOR */
    pp_view *views;     /* initial: constants and args */
    size_t fixed_bytes; /* registers of the groups TASK and MAJOR, 64-byte aligned */
    size_t function_off, fixed_off, minor_off, temp_off, fold_temp_off, buffer_off;
    size_t temp_bytes;
    size_t *buffers; /* per buffer: offset from buffer_off */
    bool to_split;   /* wanted: see interp_layout.c */
    pp_fold_at *folds;
    bool split;
    int64_t chunks, chunk; /* how many, and elements of the minor dimension in each */
    size_t width;          /* of the arrays of folds: elements of the largest major tile */
    size_t folded_off;     /* states of the tile's rows by machine code, see pp_work_folded */
    size_t fold_vector;    /* elements of the longest vector of a fold's functions */
    pp_phase phase[PP_MAX_PHASES];
    pp_contract_at *contract;
};

ppto_status pp_interp_launch_create(const pp_kernel *kernel, pp_launch **out, pp_error *err);
void pp_interp_launch_destroy(pp_launch *launch);
ppto_status pp_interp_resize(pp_launch *launch, const pp_binding *binding, uint32_t workers, pp_geometry *out,
                             pp_error *err);
ppto_status pp_interp_bind(pp_launch *launch, const pp_binding *binding, void *shared);

/* Axes, linear forms, tensors: everything that follows from slots and strides alone. */
ppto_status pp_interp_shape(pp_launch *launch, const pp_binding *binding, pp_error *err);
void pp_interp_dim(const pp_launch *launch, uint32_t roles, pp_dim *out); /* roles: bits of pp_axis_role */
pp_tiling pp_interp_tiling(const pp_launch *launch, const pp_dim *dim, int64_t width);
/* A 64-byte aligned place; SIZE_MAX in *total on overflow. */
size_t pp_interp_reserve(size_t *total, size_t bytes);

/* Tiles, bodies, scratch and phases: interp_layout.c, interp_phases.c. *again: the form without buffers is
 * wanted. */
ppto_status pp_interp_layout(pp_launch *launch, uint32_t workers, bool *again, pp_error *err);
/* Plans a body of the program's code with tiles of rows x cols. */
ppto_status pp_interp_plan_stage(pp_launch *launch, uint32_t stage, size_t *minor_bytes, size_t *hot_bytes);
/* interp_against.c: whether the body is one fold of a load that lies against the lanes. */
bool pp_interp_against(const pp_launch *launch, const pp_body *body);
/* interp_fold.c: scratch of pp_fold_temp for vectors of `width` elements. */
size_t pp_fold_temp_bytes(int64_t width);
/* interp_fold.c: scratch of pp_work_folded. */
size_t pp_folded_bytes(const pp_launch *launch);
/* interp_fold.c: rows up to so long are folded all at once where there are some. */
size_t pp_fold_turned_columns(const pp_fold_code *code);
void pp_interp_phases(pp_launch *launch, uint32_t workers);
/* interp_contract_plan.c: tiles, factors and scratch of a contraction; its stages' tile in launch.rows, cols.
 */
ppto_status pp_interp_contract_tiles(pp_launch *launch, uint32_t workers, size_t *temp_elements,
                                     size_t *minor_bytes);
void pp_interp_contract_scratch(pp_launch *launch, size_t *total);
double pp_interp_elements(const pp_launch *launch); /* of its space */
/* interp_cost.c: what the whole launch computes, in ns of a machine that costs tells of by factors. */
double pp_interp_cost(const pp_launch *launch);
/* ns that so many workers should take for a launch whose bodies are planned, or the products of one whose
 * tiles are not. The costs of the device are meant. */
double pp_interp_predict(const pp_launch *launch, uint32_t workers);
double pp_interp_predict_products(const pp_launch *launch);
/* In how many tasks work is cut that takes one worker `alone` ns and all of them `shared`, at least 1. */
uint32_t pp_interp_tasks(const pp_device *device, double alone, double shared, uint32_t workers);
/* interp_machine.c: asks for the code of all loops; gives it back, before the arena is freed. */
void pp_interp_machines_ask(pp_launch *launch);
void pp_interp_machines_drop(pp_launch *launch);
void pp_interp_count_code(const pp_launch *launch, pp_code_count *count, pp_text *text);

/* ---- chains (interp_chain.c) ----------------------------------------------------------------- */

struct pp_chained;
ppto_status pp_interp_chain_create(pp_launch *launch, pp_error *err);
void pp_interp_chain_destroy(struct pp_chained *chained); /* NULL is fine */
ppto_status pp_interp_chain_resize(pp_launch *launch, const pp_binding *binding, uint32_t workers,
                                   pp_error *err);
ppto_status pp_interp_chain_bind(pp_launch *launch, const pp_binding *binding, void *shared);
ppto_status pp_interp_chain_run(pp_launch *launch, uint32_t phase, uint32_t task, void *scratch,
                                pp_error *err, int64_t *position);
void pp_interp_chain_counted(const pp_launch *launch, uint64_t *reads, uint64_t *writes);
void pp_interp_chain_count_code(const pp_launch *launch, pp_code_count *count, pp_text *text);

/* ---- running: interp_run.c, interp_count.c; the rest in interp_work.h ------------------------ */

ppto_status pp_interp_run(pp_launch *launch, uint32_t phase, uint32_t task, void *scratch, pp_error *err,
                          int64_t *position);
void pp_interp_count_start(pp_launch *launch);
/* Adds what was touched of one tensor. */
void pp_interp_counted_of(const pp_launch *launch, uint32_t tensor, uint64_t *sum);
void pp_interp_counted(const pp_launch *launch, uint64_t *reads, uint64_t *writes);

#endif
