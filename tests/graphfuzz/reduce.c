/* SPDX-License-Identifier: Apache-2.0
 * The reducer: tries changes that make a program simpler, keeps one when the program is still legal and still
 * fails on the same configuration, and repeats until no change helps. Changes: one output only, an earlier
 * node as the output, an input in place of a statement, an argument in place of a statement, smaller sizes
 * everywhere, plain strides and simpler data. A configuration with threads may fail now and then only, so a
 * candidate has three chances. */
#include "reduce.h"

#include <string.h>

#include "generate.h"

typedef struct reducer {
    fz_checker *checker;
    fz_program *best;
    fz_failure *failure;
    int budget; /* checks left */
} reducer;

static bool still_fails(reducer *r, fz_program *candidate)
{
    int config = r->failure->config;
    if (!fz_infer_all(candidate) || r->budget <= 0) return false;
    fz_prune(candidate);
    for (int chances = fz_configs[config].threads > 1 ? 3 : 1; chances > 0; chances--) {
        fz_failure failure;
        r->budget--;
        uint64_t mask = (uint64_t)1 << config;
        fz_verdict verdict = r->checker->apart ? fz_check_apart(candidate, mask, &failure)
                                               : fz_check(r->checker, candidate, mask, &failure);
        if (verdict != FZ_FAIL) continue;
        if (r->checker->clean && fz_check(r->checker->clean, candidate, mask, &(fz_failure){0}) == FZ_FAIL)
            return false;
        failure.config = config;
        *r->failure = failure;
        *r->best = *candidate;
        return true;
    }
    return false;
}

static bool one_output(reducer *r)
{
    fz_program c;
    for (int i = 0; i < r->best->n_outputs && r->best->n_outputs > 1; i++) {
        c = *r->best;
        c.output[0] = c.output[i];
        c.n_outputs = 1;
        if (still_fails(r, &c)) return true;
    }
    for (int i = 0; i < r->best->n_outputs && r->best->n_outputs > 1; i++) {
        c = *r->best;
        memmove(c.output + i, c.output + i + 1, (size_t)(c.n_outputs - i - 1) * sizeof *c.output);
        c.n_outputs--;
        if (still_fails(r, &c)) return true;
    }
    return false;
}

/* The earliest statement that fails as the only output. */
static bool earlier_output(reducer *r)
{
    if (r->best->n_outputs != 1) return false;
    for (int i = 0; i < r->best->output[0]; i++) {
        fz_program c = *r->best;
        c.output[0] = i;
        if (c.node[i].op != FZ_NUMBER && still_fails(r, &c)) return true;
    }
    return false;
}

/* Cuts the program before a statement: it becomes an input. */
static bool input_instead(reducer *r)
{
    for (int i = r->best->n - 1; i >= 0; i--) {
        fz_program c = *r->best;
        if (c.node[i].op <= FZ_NUMBER) continue;
        c.node[i] = (fz_node){
            .op = FZ_INPUT, .type = c.node[i].type, .seed = c.seed + (uint64_t)i, .fill = FZ_UNIFORM};
        if (still_fails(r, &c)) return true;
    }
    return false;
}

static bool argument_instead(reducer *r)
{
    for (int i = r->best->n - 1; i >= 0; i--)
        for (int k = 0; k < r->best->node[i].n_args; k++) {
            fz_program c = *r->best;
            int by = c.node[i].arg[k];
            if (by < 0 || c.node[by].op == FZ_NUMBER) continue;
            for (int j = 0; j < c.n; j++)
                for (int a = 0; a < c.node[j].n_args; a++)
                    if (j != i && c.node[j].arg[a] == i) c.node[j].arg[a] = by;
            for (int j = 0; j < c.n_outputs; j++)
                if (c.output[j] == i) c.output[j] = by;
            if (still_fails(r, &c)) return true;
        }
    return false;
}

/* Two inputs of one type become one. */
static bool fewer_inputs(reducer *r)
{
    for (int i = 0; i < r->best->n; i++)
        for (int j = 0; j < i; j++) {
            fz_program c = *r->best;
            if (c.node[i].op != FZ_INPUT || c.node[j].op != FZ_INPUT) continue;
            if (!fz_same_type(&c.node[i].type, &c.node[j].type)) continue;
            for (int k = i; k < c.n; k++)
                for (int a = 0; a < c.node[k].n_args; a++)
                    if (c.node[k].arg[a] == i) c.node[k].arg[a] = j;
            if (still_fails(r, &c)) return true;
        }
    return false;
}

static void replace_sizes(fz_program *p, int64_t from, int64_t to)
{
    for (int i = 0; i < p->n; i++) {
        fz_node *n = &p->node[i];
        for (int k = 0; k < n->type.rank && n->op == FZ_INPUT; k++)
            if (n->type.size[k] == from) n->type.size[k] = to;
        if (n->op == FZ_RESHAPE || n->op == FZ_BROADCAST)
            for (int k = 0; k < n->n_ints; k++)
                if (n->ints[k] == from) n->ints[k] = to;
        if (n->op != FZ_SLICE) continue;
        for (int k = 0; k < n->n_ints; k += 4) {
            int64_t *s = n->ints + k;
            int64_t first = s[3] < 0 ? s[1] + (s[2] - 1) * s[3] : s[1], step = s[3] < 0 ? -s[3] : s[3];
            if (s[0] != 1) continue;
            while (s[2] > 1 && first + (s[2] - 1) * step >= to) s[2]--;
            s[1] = s[3] < 0 ? first + (s[2] - 1) * step : first;
        }
    }
}

static bool smaller_sizes(reducer *r)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 127, 128, 256, 512};
    for (int i = 0; i < r->best->n; i++)
        for (int k = 0; k < r->best->node[i].type.rank; k++)
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                fz_program c = *r->best;
                int64_t from = c.node[i].type.size[k];
                if (sizes[s] >= from) break;
                replace_sizes(&c, from, sizes[s]);
                if (still_fails(r, &c)) return true;
            }
    return false;
}

static bool simpler_inputs(reducer *r)
{
    for (int i = 0; i < r->best->n; i++) {
        fz_program c = *r->best;
        if (c.node[i].op == FZ_INPUT && c.node[i].strides != FZ_PLAIN) {
            c.node[i].strides = FZ_PLAIN;
            if (still_fails(r, &c)) return true;
        }
        for (int fill = FZ_ONES; c.node[i].op == FZ_INPUT && fill < r->best->node[i].fill; fill++) {
            c = *r->best;
            c.node[i].fill = fill;
            if (still_fails(r, &c)) return true;
        }
    }
    return false;
}

void fz_reduce(fz_checker *checker, fz_program *program, fz_failure *failure)
{
    reducer r = {checker, program, failure, checker->apart ? 600 : 3000};
    bool (*const changes[])(reducer *) = {one_output,   earlier_output, input_instead, argument_instead,
                                          fewer_inputs, smaller_sizes,  simpler_inputs};
    bool again = true;
    while (again && r.budget > 0) {
        again = false;
        for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
            while (changes[i](&r)) again = true;
    }
}
