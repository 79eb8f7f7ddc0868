/* SPDX-License-Identifier: Apache-2.0
 * Pictures of a plan: inputs, kernels with their operators, results, and what flows between them.
 * picture_model.c reads the plan, picture_layout.c gives places (it knows boxes and lines only),
 * picture_svg.c and picture_dot.c draw. */
#ifndef PP_PICTURE_H
#define PP_PICTURE_H

#include "runtime/runtime.h"

/* ---- picture_model.c ---------------------------------------------------------------------------- */

typedef enum pp_node_role { PP_NODE_INPUT, PP_NODE_KERNEL, PP_NODE_COPY, PP_NODE_RESULT } pp_node_role;

typedef struct pp_picture_node {
    uint8_t role;       /* pp_node_role */
    const char *title;  /* "x", "kernel 3, reduce", "result 0" */
    const char *text;   /* operators, or the type */
    const char *bytes;  /* "reads 1.00 MiB, writes 4 B"; "" not known */
    const char *detail; /* lines for a tooltip */
} pp_picture_node;

typedef struct pp_picture_edge {
    uint32_t from, to;
    const char *label;  /* between kernels: "f32[N, 512]", "f32[8, 4], 128 B"; else "" */
    const char *why;    /* code of the reason why they are two kernels; NULL: it is no kernel's result */
    const char *detail; /* the reason as a sentence; NULL with why */
} pp_picture_edge;

typedef struct pp_picture {
    PP_VEC(pp_picture_node) nodes; /* inputs, kernels in an order that can be run, results */
    PP_VEC(pp_picture_edge) edges; /* at most one from a node to another; from < to */
    const char *title;
    pp_arena arena; /* of all texts */
} pp_picture;

/* picture: free it also after a failure. Errors are those of explain. */
ppto_status pp_picture_read(const ppto_program *program, pp_picture *picture, pp_error *err);
void pp_picture_free(pp_picture *picture);

/* ---- picture_layout.c --------------------------------------------------------------------------- */

typedef struct pp_layered_node {
    double width, height;
    double x, y;   /* of its middle; the result */
    uint32_t late; /* 1: as near as may be to those it leads to, else to those it comes from */
} pp_layered_node;

typedef struct pp_layered_point {
    double x, y;
} pp_layered_point;

typedef struct pp_layered_edge {
    uint32_t from, to;    /* from < to */
    double width, height; /* of its label; 0: none */
    double x, y;          /* of the label's middle; the result */
    uint32_t first, n;    /* the points it passes, in `points`: from its begin to its end */
} pp_layered_edge;

typedef struct pp_layered {
    pp_layered_node *nodes;
    pp_layered_edge *edges;
    uint32_t n_nodes, n_edges;
    double width, height; /* the result */
    PP_VEC(pp_layered_point) points;
} pp_layered;

/* Places for all nodes and labels so that nothing overlaps and every edge goes down.
 * returns  PPTO_OK; E_NOMEM
 * owns     points
 * source   Sugiyama, Tagawa, Toda 1981: layers, barycentres; places by pool adjacent violators */
ppto_status pp_layered_place(pp_layered *graph);

/* ---- picture_svg.c, picture_dot.c: what fails is in out->failed --------------------------------- */

ppto_status pp_picture_svg(const pp_picture *picture, pp_text *out);
void pp_picture_dot(const pp_picture *picture, pp_text *out);

#endif
