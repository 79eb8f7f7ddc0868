/* SPDX-License-Identifier: Apache-2.0
 * The timeline of overlapped batches (overlap_draw.h). */
#include <stdio.h>
#include <string.h>

#include "overlap_draw.h"

enum { WIDTH = 72 };

static void draw(char *line, double from, double to, double total, char letter)
{
    int first = (int)(from / total * WIDTH), last = (int)(to / total * WIDTH);
    for (int i = first < 0 ? 0 : first; i <= last && i < WIDTH; i++) line[i] = letter;
}

void overlap_timeline(int batches, int parts, const double *ends, double total, const char *letters)
{
    for (int i = 0; i < batches; i++) {
        const double *mine = ends + i * parts, *before = i > 0 ? mine - parts : NULL;
        char line[WIDTH + 1];
        memset(line, '.', WIDTH);
        line[WIDTH] = '\0';
        for (int part = 0; part < parts; part++) {
            double from = part > 0 ? mine[part - 1] : 0;
            if (before != NULL && before[part] > from) from = before[part];
            draw(line, from, mine[part], total, letters[part]);
        }
        printf("%3d %s\n", i, line);
    }
}
