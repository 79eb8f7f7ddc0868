/* SPDX-License-Identifier: Apache-2.0
 * Pictures as SVG: shapes appended to a text, one a line, so that two pictures can be compared as text. Every
 * string is escaped here. Lengths are pixels, y grows downwards. Nothing outside the file is needed: fonts
 * are named by family, colours follow the viewer's light or dark scheme. */
#ifndef PP_SVG_H
#define PP_SVG_H

#include "base/base.h"

/* title: of the document, for readers and tooltips. */
void pp_svg_begin(pp_text *out, double width, double height, const char *title);
void pp_svg_end(pp_text *out);

typedef enum pp_svg_style {                /* of texts */
                            PP_SVG_PLAIN,  /* 12 px */
                            PP_SVG_SMALL,  /* 10.5 px, grey */
                            PP_SVG_HEAD,   /* 16 px, bold */
                            PP_SVG_BOLD,   /* 12 px */
                            PP_SVG_INSIDE, /* 11 px, dark: on a coloured box */
                            PP_SVG_TITLE,  /* 12 px, bold, dark: the same */
                            PP_SVG_WARN    /* 10.5 px, orange */
} pp_svg_style;
typedef enum pp_svg_anchor { PP_SVG_START, PP_SVG_MIDDLE, PP_SVG_END } pp_svg_anchor;

void pp_svg_text(pp_text *out, double x, double y, pp_svg_style style, pp_svg_anchor anchor,
                 const char *text);
/* The same, cut with an ellipsis to about `room`; nothing when not three characters fit. */
void pp_svg_text_in(pp_text *out, double x, double y, double room, pp_svg_style style, const char *text);
double pp_svg_text_width(pp_svg_style style, const char *text); /* about */

/* A box; fill: a colour; tip: a tooltip of lines, NULL: none. */
void pp_svg_box(pp_text *out, double x, double y, double width, double height, double radius,
                const char *fill, const char *tip);
/* A box of the background's colour: under a text that lies on a line. */
void pp_svg_back(pp_text *out, double x, double y, double width, double height);
/* A thin line of the scheme's grid. */
void pp_svg_rule(pp_text *out, double x1, double y1, double x2, double y2);

/* A dashed line of the scheme's warning colour, with a tooltip. */
void pp_svg_mark(pp_text *out, double x1, double y1, double x2, double y2, const char *tip);

/* Colours that are told apart, by number; after twelve they come again. */
const char *pp_svg_colour(uint32_t i);

/* The least 1, 2 or 5 times a power of ten that divides `range` into at most `most` parts. */
double pp_svg_tick(double range, int most);

#endif
