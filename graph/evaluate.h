/* SPDX-License-Identifier: Apache-2.0
 * The evaluator: definitions and programs over values. Three modes share one walk over the text:
 *
 * TENSORS   bodies of operators become prims of a flat graph;
 *
 * FUNCTION  the same with rank-0 operands: elementwise operators and parts of folds become scalar functions;
 *
 * GRAPH     what the user wrote: every call of an operator becomes a node.
 *
 * Failures are recorded in ev->err with the name of the operator the user called. */
#ifndef PP_EVALUATE_H
#define PP_EVALUATE_H

#include "graph/scope.h"
#include "graph/value.h"

typedef enum pp_eval_mode { PP_EVAL_TENSORS, PP_EVAL_FUNCTION, PP_EVAL_GRAPH } pp_eval_mode;

enum { PP_EVAL_DEPTH = 200, PP_MAX_BOUND = 66, PP_MAX_RESULTS = 64 };

/* What only a program evaluated in GRAPH mode has (record_text.c). */
typedef struct pp_eval_program pp_eval_program;

typedef struct pp_eval {
    pp_eval_mode mode;
    pp_library *library;
    pp_types *types;
    pp_sizes *sizes;
    pp_flat *flat;                   /* TENSORS, FUNCTION */
    pp_graph *graph;                 /* GRAPH */
    pp_error *err;                   /* NULL: the caller does not want to know */
    pp_arena *arena;                 /* of lists */
    const char *called_as;           /* the operator as the user called it */
    const pp_definition *definition; /* whose text is evaluated; NULL: a program */
    pp_scope scope;                  /* variables */
    PP_VEC(pp_value) values;         /* theirs */
    size_t base;                     /* first variable of this body */
    unsigned depth;
    uint32_t at; /* place in the text of what is evaluated */
    const pp_definition
        *own; /* the innermost definition of the user's, and where in it a shipped one was called */
    uint32_t own_at;
    pp_eval_program *program;
} pp_eval;

typedef struct pp_given { /* an argument of a call */
    const char *keyword;  /* NULL: positional */
    uint32_t at;          /* place in the text */
    pp_value value;
} pp_given;

/* ---- evaluate.c, evaluate_statement.c ---------------------------------------------------------------- */

ppto_status pp_eval_fail(pp_eval *ev, ppto_status code, const char *format, ...) PP_PRINTF(3, 4);
ppto_status pp_eval_nomem(pp_eval *ev);
/* " (file:line:column)" of what is evaluated in a text of the user's own, "" elsewhere. */
void pp_eval_place(const pp_eval *ev, char *out, size_t room);
void pp_eval_free(pp_eval *ev);
/* Memory for n values of the walk. */
ppto_status pp_eval_items(pp_eval *ev, size_t n, pp_value **out);
ppto_status pp_eval_expr(pp_eval *ev, const pp_expr *e, pp_value *out);
/* Statements up to a value; *valued false when there was none. */
ppto_status pp_eval_block(pp_eval *ev, const pp_stmt *stmt, bool *valued, pp_value *out);
ppto_status pp_eval_set(pp_eval *ev, const char *name, const pp_value *value);
void pp_eval_cut(pp_eval *ev, size_t n); /* forgets all variables but the first n */
/* A message with {name} of variables filled in; *tensors: one is a tensor (NULL: not asked). */
void pp_eval_message(pp_eval *ev, const char *message, pp_text *out, bool *tensors);
const pp_value *pp_eval_variable(const pp_eval *ev, const char *name); /* NULL when there is none */
/* A tuple of one is its item; of several: an error that names how many. */
ppto_status pp_eval_single(pp_eval *ev, pp_value *value);

/* ---- evaluate_type.c --------------------------------------------------------------------------------- */

/* Type of a tensor, or the weak type of a number (bool: bool). NULL for other values. */
const pp_type *pp_eval_type(const pp_eval *ev, const pp_value *value);
/* Whether it adopts dtypes. */
bool pp_eval_is_weak(const pp_eval *ev, const pp_value *value);
/* The number as a prim: weak i64 or f64, or bool. Tensors as they are. */
ppto_status pp_eval_tensor(pp_eval *ev, const pp_value *value, uint32_t *prim);
/* The value in a dtype: a literal is rounded to it (E_VALUE when it does not fit), a weak tensor adopts it,
 * another is converted. weak: the result stays weak (dtype i64 or f64). */
ppto_status pp_eval_adopt(pp_eval *ev, const pp_value *value, ppto_dtype dtype, bool weak, uint32_t *prim);
/* bits of a known number in a dtype; E_VALUE with a message when it does not fit. */
ppto_status pp_eval_bits(pp_eval *ev, const pp_value *value, ppto_dtype dtype, uint64_t *bits);
/* "the number 300 does not fit u8 (0 to 255)", as E_VALUE. */
ppto_status pp_eval_no_fit(pp_eval *ev, const pp_value *value, ppto_dtype dtype);
/* Broadcasts prims to their common shape, in place. */
ppto_status pp_eval_broadcast(pp_eval *ev, uint32_t *prims, size_t n);
/* For messages: the type of a tensor, else the value. */
void pp_eval_print(const pp_eval *ev, const pp_value *value, pp_text *out);
ppto_status pp_eval_int(pp_eval *ev, const pp_value *value, const char *what,
                        int64_t *out); /* a known integer */
ppto_status pp_eval_size(pp_eval *ev, const pp_value *value, const char *what, pp_size *out);
/* A size from an i64. */
pp_value pp_eval_number(pp_eval *ev, int64_t value);
/* The status of the table of sizes, with a message. */
ppto_status pp_eval_sizes(pp_eval *ev);

/* ---- evaluate_number.c ------------------------------------------------------------------------------- */

/* Infix operators on values that are no tensors. */
ppto_status pp_eval_infix(pp_eval *ev, pp_infix op, const pp_value *a, const pp_value *b, pp_value *out);
ppto_status pp_eval_negate(pp_eval *ev, pp_infix op, const pp_value *a, pp_value *out);
pp_value pp_eval_equality(pp_eval *ev, const pp_value *a, const pp_value *b); /* a bool, perhaps unknown */
ppto_status pp_eval_truth(pp_eval *ev, const pp_value *value, pp_truth *out);

/* ---- evaluate_condition.c ---------------------------------------------------------------------------- */

/* margin >= 0, and a <= b: decided where that is possible. */
pp_value pp_eval_margin_holds(pp_eval *ev, pp_size margin);
pp_value pp_eval_is_least(pp_eval *ev, pp_size a, pp_size b);
pp_value pp_eval_is_same(pp_eval *ev, pp_size a, pp_size b); /* a == b */
/* Of bools: not value; a and b, or (either) a or b. */
pp_value pp_eval_not(pp_eval *ev, const pp_value *value);
pp_value pp_eval_both(pp_eval *ev, bool either, const pp_value *a, const pp_value *b);
/* A bool as the size 0 or 1. */
pp_size pp_eval_indicator(pp_eval *ev, const pp_value *value);
/* From here on the graph depends on margin >= 0, which is open: a run that breaks it fails with code and text
 * (complete, with the operator). */
ppto_status pp_eval_hold(pp_eval *ev, pp_size margin, ppto_status code, const char *text);
/* margin >= 0, now if that can be decided, else at the run; the text is that of pp_eval_fail. */
ppto_status pp_eval_need(pp_eval *ev, pp_size margin, ppto_status code, const char *text);
/* Whether the condition of a choice holds; an open one is taken to hold, and the run has to agree. */
ppto_status pp_eval_choose(pp_eval *ev, const pp_value *condition, bool *yes);

/* ---- evaluate_builtin.c ------------------------------------------------------------------------------ */

/* The functions of record time: size, rank, range, … *found false: the name is none of them (for these
 * values). */
ppto_status pp_eval_builtin(pp_eval *ev, const char *name, const pp_given *given, size_t n, bool *found,
                            pp_value *out);
/* How many arguments it takes; false: there is none of that name. So for scalar.NAME and tensor.NAME. */
bool pp_builtin_arity(const char *name, unsigned *least, unsigned *most);
bool pp_scalar_arity(const char *name, unsigned *least, unsigned *most);
bool pp_primitive_arity(const char *name, unsigned *least, unsigned *most);
/* One axis as 0 … rank - 1, or E_VALUE. */
ppto_status pp_eval_axis(pp_eval *ev, const pp_value *axis, int64_t rank, uint32_t *out);
/* int, list of ints or the word all, as a set of axes. */
ppto_status pp_eval_axes(pp_eval *ev, const pp_value *axes, int64_t rank, uint32_t *set);

/* ---- evaluate_scalar.c, evaluate_tensor.c, evaluate_index.c, evaluate_contract.c --------------------- */

ppto_status pp_eval_scalar(pp_eval *ev, const char *name, const pp_given *given, size_t n, pp_value *out);
ppto_status pp_eval_primitive(pp_eval *ev, const char *name, const pp_given *given, size_t n, pp_value *out);
ppto_status pp_eval_subscript(pp_eval *ev, const pp_expr *e, const pp_value *base, pp_value *out);
/* tensor.subscript(x, entries). */
ppto_status pp_eval_view(pp_eval *ev, uint32_t x, const pp_value *entries, pp_value *out);
ppto_status pp_eval_attribute(pp_eval *ev, const char *name, const pp_value *base, pp_value *out);
ppto_status pp_eval_contract(pp_eval *ev, uint32_t a, uint32_t b, const pp_value *lists, uint32_t *out);

/* ---- evaluate_bind.c, evaluate_call.c ---------------------------------------------------------------- */

/* Parameters of a definition; a fold has axis and keepdims behind its own. */
size_t pp_eval_params(const pp_definition *definition);
const pp_param *pp_eval_param(const pp_definition *definition, size_t i);
/* The parameter an argument is for; NULL when there is none. */
const pp_param *pp_eval_param_for(const pp_definition *definition, size_t position, const char *keyword);
/* Adds "no parameter `keyword`", and the one that was meant or, where none is near, all there are. */
void pp_eval_unknown_param(const pp_definition *definition, const char *keyword, pp_text *out);
/* Orders and checks arguments, fills in defaults: bound[pp_eval_params]. */
ppto_status pp_eval_bind(pp_eval *ev, const pp_definition *definition, const pp_given *given, size_t n,
                         pp_value *bound);
/* The named sizes of the parameters' shapes as variables. */
ppto_status pp_eval_set_sizes(pp_eval *ev, const pp_definition *definition, const pp_value *bound);
/* Calls it on bound values (TENSORS, FUNCTION). Several results are a tuple. */
ppto_status pp_eval_apply(pp_eval *ev, const pp_definition *definition, const pp_value *bound, bool scan,
                          pp_value *out);
/* Evaluates the body itself, as text. */
ppto_status pp_eval_body(pp_eval *ev, const pp_definition *definition, const pp_value *bound, pp_value *out);
/* By name, in any mode: binds and applies, or records. at: place in the text. */
ppto_status pp_eval_call(pp_eval *ev, const pp_definition *definition, const char *called_as, uint32_t at,
                         const pp_given *given, size_t n, bool scan, pp_value *out);
ppto_status pp_eval_call_name(pp_eval *ev, const char *name, uint32_t at, const pp_value *a,
                              const pp_value *b, pp_value *out);

/* ---- evaluate_fold.c --------------------------------------------------------------------------------- */

ppto_status pp_eval_fold(pp_eval *ev, const pp_definition *definition, const pp_value *bound, bool scan,
                         pp_value *out);

/* ---- record_text.c: what GRAPH mode asks for --------------------------------------------------------- */

ppto_status pp_program_name(pp_eval *ev, const pp_expr *e, pp_value *out);
ppto_status pp_program_call(pp_eval *ev, const pp_definition *definition, const char *called_as, uint32_t at,
                            const pp_given *given, size_t n, bool scan, pp_value *out);
const pp_unit *pp_program_unit(const pp_eval *ev);
ppto_status pp_program_check_name(pp_eval *ev,
                                  const char *name); /* E_NAME when it is an operator's or input's */

#endif
