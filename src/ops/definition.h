/* SPDX-License-Identifier: Apache-2.0
 * A parsed text as plain data: expressions, statements, definitions of operators and folds, programs.
 * src/lang makes these values, graph evaluates them; neither knows the other. Everything of one text lives in
 * the arena of its unit.
 *
 * Trees are built of pointers in that arena. Lists are chained by `next`. The parser limits nesting, but a
 * left-deep chain of binary operators may be as long as the text allows: walk `a` of PP_E_BINARY in a loop,
 * not by recursion. */
#ifndef PP_DEFINITION_H
#define PP_DEFINITION_H

#include "ops/type.h"

typedef enum pp_expr_kind {
    PP_E_INT,      /* i; `number` holds the text; `wide` when it does not fit i64 (then f holds it) */
    PP_E_FLOAT,    /* f; also inf, nan, pi */
    PP_E_BOOL,     /* i = 0/1 */
    PP_E_STRING,   /* name */
    PP_E_NAME,     /* name: variable, parameter, input, dtype or option word; "$0" is passed from C */
    PP_E_NONE,     /* None, newaxis */
    PP_E_ELLIPSIS, /* ... in subscripts */
    PP_E_LIST,     /* a = first item, chained by next */
    PP_E_TUPLE,    /* (e1, e2, …): a = first item; lift, step, join, finish of folds */
    PP_E_CALL,  /* name = callee ("sum", "scalar.add", "tensor.reshape"); a = first argument; an argument with
                   `keyword` set is a named one. scan: written `scan NAME(x, axis)` */
    PP_E_ATTR,  /* a . name: x.dtype, x.T, x.mT, s.n */
    PP_E_UNARY, /* op a */
    PP_E_BINARY, /* a op b */
    PP_E_NOT,
    PP_E_AND,
    PP_E_OR,    /* on parameters: a, b */
    PP_E_IF,    /* a if c else b */
    PP_E_INDEX, /* a [ subscripts b chained by next ]: PP_E_SLICE, PP_E_ELLIPSIS, PP_E_NONE or an expression
                 */
    PP_E_SLICE, /* a : b : c, each may be NULL */
    PP_E_COMPREHENSION, /* [a for name in b if c], c may be NULL: record-time lists only */
    PP_E_STAR           /* *a inside a list: its items are spliced in */
} pp_expr_kind;

/* Operators of PP_E_UNARY and PP_E_BINARY, in the order of pp_token_operator[] (definition.c): each maps to
 * an operator of the library by name: add subtract multiply divide floor_divide remainder pow matmul
 * bitwise_left_shift … */
typedef enum pp_infix {
    PP_I_ADD,
    PP_I_SUB,
    PP_I_MUL,
    PP_I_DIV,
    PP_I_FLOORDIV,
    PP_I_MOD,
    PP_I_POW,
    PP_I_MATMUL,
    PP_I_SHL,
    PP_I_SHR,
    PP_I_AND,
    PP_I_XOR,
    PP_I_OR,
    PP_I_EQ,
    PP_I_NE,
    PP_I_LT,
    PP_I_LE,
    PP_I_GT,
    PP_I_GE,
    PP_I_NEG,
    PP_I_INVERT,
    PP_INFIX_COUNT
} pp_infix;
const char *pp_infix_operator(pp_infix op); /* "add", …; definition.c */
const char *pp_infix_sign(pp_infix op);     /* "+", … */

typedef struct pp_expr pp_expr;
struct pp_expr {
    uint8_t kind; /* pp_expr_kind */
    uint8_t op;   /* pp_infix */
    bool scan;    /* PP_E_CALL written with `scan` */
    bool wide;    /* PP_E_INT beyond i64 (PP_E_FLOAT beyond f64: an error of the parser) */
    uint32_t at;  /* byte offset in the unit's text: of the operator or callee, for the caret */
    pp_expr *a, *b, *c;
    pp_expr *next;
    const char *name;    /* NUL-terminated */
    const char *keyword; /* of an argument in a call, else NULL */
    int64_t i;
    double f;
};

typedef enum pp_stmt_kind {
    PP_S_ASSIGN,  /* names = value; one name, or several for an operator with several results */
    PP_S_VALUE,   /* the result: value, value2 chained by next (only last in a block) */
    PP_S_REQUIRE, /* value, message (with {name} holes) */
    PP_S_IF,      /* value, then, otherwise (may be NULL; `else if` nests) */
    PP_S_OUTPUT   /* programs: name (may be NULL: the expression's own) = value */
} pp_stmt_kind;

typedef struct pp_name {
    const char *text;
    uint32_t at;
    struct pp_name *next;
} pp_name;

typedef struct pp_stmt pp_stmt;
struct pp_stmt {
    uint8_t kind;
    uint32_t at;
    pp_name *names;
    pp_expr *value;
    const char *message;
    pp_stmt *then, *otherwise;
    pp_stmt *next;
};

/* What a parameter accepts. Tensor specs first. */
typedef enum pp_spec {
    PP_SPEC_ANY,
    PP_SPEC_NUM,
    PP_SPEC_FLOAT,
    PP_SPEC_INT,
    PP_SPEC_BOOL,
    PP_SPEC_DTYPE_EXACT, /* tensors */
    PP_SPEC_TENSORS,     /* `tensors`: a list of tensors (concat) */
    /* fixed when the node is recorded */
    PP_SPEC_P_INT,
    PP_SPEC_P_FLOAT,
    PP_SPEC_P_NUM,
    PP_SPEC_P_BOOL,
    PP_SPEC_P_INTS,
    PP_SPEC_P_AXES,
    PP_SPEC_P_STR,
    PP_SPEC_P_DTYPE,
    PP_SPEC_P_ANY, /* any record-time value: lists of lists, numbers */
} pp_spec;

/* One entry of a shape spec: a named size, a literal, or `...` (at most once). */
typedef struct pp_spec_dim {
    const char *name; /* NULL for a literal or ... */
    int64_t literal;  /* when name is NULL and not rest */
    bool rest;
} pp_spec_dim;

typedef struct pp_param {
    const char *name;
    uint32_t at;
    uint8_t spec;   /* pp_spec */
    uint8_t dtype;  /* PP_SPEC_DTYPE_EXACT */
    bool has_shape; /* brackets were written: float[n], float[] */
    uint8_t n_dims;
    pp_spec_dim dim[PPTO_MAX_RANK];
    pp_expr *fallback; /* default value, NULL when required */
} pp_param;
static inline bool pp_param_is_tensor(const pp_param *p)
{
    return p->spec <= PP_SPEC_TENSORS;
}

/* One part of a fold: names of its arguments and its value (an expression, or a block that ends in one). */
typedef struct pp_fold_part {
    const char *arg[4]; /* join(a, b), step(s, x, …), lift: (the i of lift(i)) */
    uint8_t n_args;
    pp_stmt *body; /* PP_S_ASSIGN* PP_S_VALUE (a PP_E_TUPLE for several states) */
} pp_fold_part;

typedef struct pp_fold_state {
    const char *name; /* NULL for a fold with one unnamed state */
    uint8_t type;     /* 0: the first operand's dtype, 1: acc, 2: dtype below */
    uint8_t dtype;
} pp_fold_state;

/* What follows from the text of a definition alone; the library finds it (graph/library_scan.c). */
typedef enum pp_scan_state { PP_SCAN_NEW, PP_SCAN_OPEN, PP_SCAN_YES, PP_SCAN_NO } pp_scan_state;
typedef struct pp_traits {
    uint8_t elementwise, literal; /* pp_scan_state */
    bool open;                    /* it calls a name that is not there yet */
} pp_traits;

typedef struct pp_definition {
    const char *name;
    bool is_fold, ordered; /* fold, fold ordered */
    bool builtin;          /* from the shipped library */
    pp_traits traits;
    uint32_t at;     /* of its name */
    uint32_t end;    /* behind its last token */
    const char *doc; /* the `## ` lines joined by newlines; "" when none */
    pp_param *param;
    size_t n_params;
    pp_stmt *body; /* operators; an expression body is one PP_S_VALUE */
    /* folds */
    pp_fold_state state[4];
    uint8_t n_states;
    pp_fold_part lift, step, join, finish; /* body NULL when absent */
    pp_expr *unit;                         /* value(s) of an empty axis, NULL when absent */
    const struct pp_unit *owner;           /* whose text it was written in */
    struct pp_definition *next;
} pp_definition;

typedef struct pp_alias { /* alias NAME = OPERATOR */
    const char *name, *target;
    uint32_t at;
    struct pp_alias *next;
} pp_alias;

typedef struct pp_input_decl { /* input x: f32[N, 512] */
    const char *name;
    uint32_t at;
    uint8_t dtype, rank;
    const char *dims; /* "N, 512" */
    struct pp_input_decl *next;
} pp_input_decl;

/* One parsed text. */
typedef struct pp_unit {
    pp_arena arena;
    const char *source; /* a copy, in the arena */
    size_t length;
    const char *file;     /* "library.ppto", "<text>" */
    uint32_t lines_above; /* of the file, where the text is a part of it */
    pp_definition *definitions;
    pp_alias *aliases;
    pp_input_decl *inputs;
    pp_stmt *body; /* a program's statements, or one PP_S_VALUE for an expression; NULL for a pure library */
} pp_unit;

/* Length of the UTF-8 sequence at s within `room` > 0 bytes; 0 when it is malformed, overlong, a surrogate or
 * NUL. */
size_t pp_unit_character(const char *s, size_t room);

/* "file:line:column: message", the source line and a caret under `at`. */
ppto_status pp_unit_fail(const pp_unit *unit, uint32_t at, pp_error *err, ppto_status code,
                         const char *format, ...) PP_PRINTF(5, 6);

#endif
