/* SPDX-License-Identifier: Apache-2.0
 * Pictures as SVG. Widths of texts are guessed from the number of characters: no font is at hand, and a guess
 * that is a little wide only cuts a label early. */
#include "base/svg.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    double size;
} styles[] = {{"p", 12}, {"s", 10.5}, {"h", 16}, {"b", 12}, {"i", 11}, {"t", 12}, {"w", 10.5}};

static const char sheet[] =
    "<style>\n"
    "svg{background:#fff}\n"
    "text{font-family:system-ui,'DejaVu Sans',Helvetica,Arial,sans-serif;fill:#1b1f24}\n"
    ".p{font-size:12px}.s{font-size:10.5px;fill:#5b6570}.h{font-size:16px;font-weight:600}"
    ".b{font-size:12px;font-weight:600}.i{font-size:11px;fill:#10141a}"
    ".t{font-size:12px;font-weight:600;fill:#10141a}.w{font-size:10.5px;fill:#b93c08}\n"
    ".g{fill:#fff}.r{stroke:#d7dce2;fill:none}.e{stroke:#6b7682;stroke-width:1.2;fill:none}"
    ".m{stroke:#c2410c;stroke-width:1.2;stroke-dasharray:5 3;fill:none}\n"
    "@media(prefers-color-scheme:dark){svg{background:#14181d}text{fill:#e6e9ed}.s{fill:#9aa5b1}"
    ".i,.t{fill:#10141a}.w{fill:#fb923c}.g{fill:#14181d}.r{stroke:#323a44}.e{stroke:#8d99a6}"
    ".m{stroke:#fb923c}}\n"
    "</style>\n";

void pp_svg_begin(pp_text *out, double width, double height, const char *title)
{
    pp_text_add(out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
                "viewBox=\"0 0 %.0f %.0f\" role=\"img\">\n<title>",
                width, height, width, height);
    pp_text_xml(out, title);
    pp_text_add(out, "</title>\n%s", sheet);
}

void pp_svg_end(pp_text *out)
{
    pp_text_add(out, "</svg>\n");
}

void pp_svg_text(pp_text *out, double x, double y, pp_svg_style style, pp_svg_anchor anchor, const char *text)
{
    static const char *const anchors[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};
    pp_text_add(out, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\"%s>", styles[style].name, x, y,
                anchors[anchor]);
    pp_text_xml(out, text);
    pp_text_add(out, "</text>\n");
}

static size_t characters(const char *text)
{
    size_t n = 0;
    for (; *text != '\0'; text++) n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

double pp_svg_text_width(pp_svg_style style, const char *text)
{
    return (double)characters(text) * styles[style].size * 0.56;
}

void pp_svg_text_in(pp_text *out, double x, double y, double room, pp_svg_style style, const char *text)
{
    size_t n = characters(text), fit = room > 0 ? (size_t)(room / (styles[style].size * 0.56)) : 0, at = 0;
    char cut[256];
    if (n <= fit && n != 0) {
        pp_svg_text(out, x, y, style, PP_SVG_START, text);
        return;
    }
    if (fit < 4) return;
    for (size_t seen = 0; text[at] != '\0' && at < sizeof cut - 8; at++) {
        if (((unsigned char)text[at] & 0xc0) != 0x80 && ++seen == fit) break;
        cut[at] = text[at];
    }
    memcpy(cut + at, "\xe2\x80\xa6", 4);
    pp_svg_text(out, x, y, style, PP_SVG_START, cut);
}

void pp_svg_box(pp_text *out, double x, double y, double width, double height, double radius,
                const char *fill, const char *tip)
{
    pp_text_add(out, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\"", x, y, width, height);
    if (radius > 0) pp_text_add(out, " rx=\"%.1f\"", radius);
    pp_text_add(out, " fill=\"%s\"", fill);
    if (tip == NULL) {
        pp_text_add(out, "/>\n");
        return;
    }
    pp_text_add(out, "><title>");
    pp_text_xml(out, tip);
    pp_text_add(out, "</title></rect>\n");
}

void pp_svg_back(pp_text *out, double x, double y, double width, double height)
{
    pp_text_add(out, "<rect class=\"g\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n", x, y,
                width, height);
}

void pp_svg_rule(pp_text *out, double x1, double y1, double x2, double y2)
{
    pp_text_add(out, "<path class=\"r\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", x1, y1, x2, y2);
}

void pp_svg_mark(pp_text *out, double x1, double y1, double x2, double y2, const char *tip)
{
    pp_text_add(out, "<path class=\"m\" d=\"M%.1f %.1fL%.1f %.1f\"><title>", x1, y1, x2, y2);
    pp_text_xml(out, tip);
    pp_text_add(out, "</title></path>\n");
}

const char *pp_svg_colour(uint32_t i)
{
    static const char *const colours[] = {"#7cb5ec", "#f7a35c", "#90d67f", "#e58fb1", "#b39ddb", "#f2d15c",
                                          "#6fd0c5", "#ef8a80", "#a3b1c2", "#c5d86d", "#d7a77b", "#8fa8f0"};
    return colours[i % (sizeof colours / sizeof *colours)];
}

double pp_svg_tick(double range, int most)
{
    static const double steps[] = {2, 2.5, 2}; /* 1, 2, 5, 10 */
    double tick = 1;
    if (!(range > 0) || range > 1e300) return 1;
    while (tick * most > range) tick /= 10;
    for (int i = 0; tick * most < range; i++) tick *= steps[i % 3];
    return tick;
}
