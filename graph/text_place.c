/* SPDX-License-Identifier: Apache-2.0
 * See text_place.h. A character is counted at its first byte, so a block may begin inside of one. */
#include "graph/text_place.h"

enum { BLOCK = 256 };

/* Walks from a mark over the bytes [begin, end). */
static void walk(const char *text, size_t begin, size_t end, pp_text_mark *mark)
{
    for (size_t i = begin; i < end; i++) {
        if (text[i] == '\n')
            *mark = (pp_text_mark){mark->line + 1, 0};
        else
            mark->column += ((unsigned char)text[i] & 0xc0) != 0x80;
    }
}

static pp_text_mark mark_of(const pp_text_places *places, size_t block)
{
    return block == 0 ? (pp_text_mark){0, 0} : places->marks.at[block - 1];
}

ppto_status pp_text_place(pp_text_places *places, uint32_t at, uint32_t *line, uint32_t *column)
{
    const char *text = places->unit->source;
    size_t offset = at < places->unit->length ? at : places->unit->length, block = offset / BLOCK;
    while (places->marks.n < block) {
        size_t known = places->marks.n;
        pp_text_mark next = mark_of(places, known);
        walk(text, known * BLOCK, (known + 1) * BLOCK, &next);
        PP_TRY(pp_vec_push(&places->marks, next));
    }
    pp_text_mark mark = mark_of(places, block);
    walk(text, block * BLOCK, offset, &mark);
    *line = mark.line + 1 + places->unit->lines_above;
    *column = mark.column + 1;
    return PPTO_OK;
}
