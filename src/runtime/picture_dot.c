/* SPDX-License-Identifier: Apache-2.0
 * A picture in Graphviz's language, for those who have it: dot -Tsvg. Strings are quoted as graphviz.org/doc
 * /info/lang.html says; \l ends a line that is left-justified. */
#include "runtime/picture.h"

static void add_escaped(pp_text *out, const char *text)
{
    for (const char *c = text; *c; c++) {
        if (*c == '"' || *c == '\\') pp_text_raw(out, "\\", 1);
        if (*c == '\n')
            pp_text_raw(out, "\\n", 2);
        else
            pp_text_raw(out, c, 1);
    }
}

static void add_node(const pp_picture *picture, uint32_t i, pp_text *out)
{
    static const char *const looks[] = {
        "shape=ellipse, fillcolor=\"#e8f1fb\"", "shape=box, fillcolor=\"#fdf3e3\"",
        "shape=box, fillcolor=\"#f0f2f5\"", "shape=ellipse, fillcolor=\"#e6f6e4\""}; /* by pp_node_role */
    const pp_picture_node *n = &picture->nodes.at[i];
    pp_text_add(out, "  n%u [%s, label=\"", i, looks[n->role]);
    add_escaped(out, n->title);
    pp_text_add(out, "\\n");
    add_escaped(out, n->text);
    if (n->bytes[0]) pp_text_add(out, "\\n");
    add_escaped(out, n->bytes);
    pp_text_add(out, "\", tooltip=\"");
    add_escaped(out, n->detail);
    pp_text_add(out, "\"];\n");
}

static void add_edge(const pp_picture_edge *e, pp_text *out)
{
    pp_text_add(out, "  n%u -> n%u [label=\"", e->from, e->to);
    add_escaped(out, e->label);
    if (e->why) {
        pp_text_add(out, "\\nnot fused: %s\", tooltip=\"", e->why);
        add_escaped(out, e->detail);
        pp_text_add(out, "\", color=\"#c2410c\", style=dashed];\n");
    } else {
        pp_text_add(out, "\"];\n");
    }
}

void pp_picture_dot(const pp_picture *picture, pp_text *out)
{
    pp_text_add(out, "digraph ppto {\n  label=\"");
    add_escaped(out, picture->title);
    pp_text_add(
        out, "\";\n  labelloc=t;\n  node [style=\"filled,rounded\", fontname=\"sans-serif\", fontsize=11];\n"
             "  edge [fontname=\"sans-serif\", fontsize=9];\n");
    for (uint32_t i = 0; i < picture->nodes.n; i++) add_node(picture, i, out);
    for (size_t i = 0; i < picture->edges.n; i++) add_edge(&picture->edges.at[i], out);
    pp_text_add(out, "}\n");
}
