/* SPDX-License-Identifier: Apache-2.0
 * A timeline as text: a line for every batch, a letter for every part that it was in. */
#ifndef PP_OVERLAP_DRAW_H
#define PP_OVERLAP_DRAW_H

/* ends[i * parts + k]: seconds from the start until part k of batch i was done, of `total`. A part begins
 * when the one before it is done, of the batch and on its stream. letters: of the parts */
void overlap_timeline(int batches, int parts, const double *ends, double total, const char *letters);

#endif
