/* SPDX-License-Identifier: Apache-2.0
 * Random programs as a whole: work, pruning, names and text. */
#include "generate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool fz_infer_all(fz_program *program)
{
    int64_t work = 0;
    for (int i = 0; i < program->n; i++) {
        if (!fz_infer(program, &program->node[i])) return false;
        work += fz_work(program, &program->node[i]);
    }
    return work <= FZ_WORK;
}

int64_t fz_work(const fz_program *program, const fz_node *node)
{
    int64_t work = fz_elements(&node->type);
    for (int i = 0; i < node->n_args; i++) {
        if (node->arg[i] < 0) continue;
        const fz_type *t = &program->node[node->arg[i]].type;
        int64_t n = fz_elements(t);
        if (node->op == FZ_MATMUL && i == 0 && t->rank > 0) n = work * t->size[t->rank - 1];
        if (node->op == FZ_TENSORDOT && i == 0)
            for (int k = 0; k < node->ints[0]; k++)
                work *= t->size[t->rank - 1 - k] > 0 ? t->size[t->rank - 1 - k] : 1;
        work = n > work ? n : work;
    }
    return work + 1;
}

void fz_prune(fz_program *program)
{
    int at[FZ_NODES];
    bool used[FZ_NODES] = {false};
    for (int i = 0; i < program->n_outputs; i++) used[program->output[i]] = true;
    for (int i = program->n - 1; i >= 0; i--)
        for (int k = 0; used[i] && k < program->node[i].n_args; k++)
            if (program->node[i].arg[k] >= 0) used[program->node[i].arg[k]] = true;
    int n = 0;
    for (int i = 0; i < program->n; i++) {
        if (!used[i]) continue;
        fz_node node = program->node[i];
        for (int k = 0; k < node.n_args; k++)
            if (node.arg[k] >= 0) node.arg[k] = at[node.arg[k]];
        at[i] = n;
        program->node[n++] = node;
    }
    program->n = n;
    for (int i = 0; i < program->n_outputs; i++) program->output[i] = at[program->output[i]];
}

int fz_statements(const fz_program *program)
{
    int n = 0;
    for (int i = 0; i < program->n; i++) n += program->node[i].op > FZ_NUMBER;
    return n;
}

bool fz_has_numbers(const fz_program *program)
{
    for (int i = 0; i < program->n; i++)
        if (program->node[i].op == FZ_NUMBER) return true;
    return false;
}

const char *fz_name(const fz_program *program, int node, char room[16])
{
    fz_op op = program->node[node].op;
    snprintf(room, 16, "%c%d", op == FZ_INPUT ? 'x' : op == FZ_NUMBER ? 'n' : 'v', node);
    return room;
}

static void print_list(FILE *out, const int64_t *at, int n)
{
    fputc('[', out);
    for (int i = 0; i < n; i++) fprintf(out, "%s%lld", i ? ", " : "", (long long)at[i]);
    fputc(']', out);
}

static void print_number(FILE *out, double value)
{
    if (value == floor(value))
        fprintf(out, "%lld", (long long)value);
    else
        fprintf(out, "%.17g", value);
}

static void print_binary(FILE *out, const fz_program *p, const fz_node *n)
{
    char a[16], b[32], room[16];
    const char *sign = fz_binary[n->variant].name, *left = a, *right = b;
    fz_name(p, n->arg[0], a);
    if (n->arg[1] >= 0)
        snprintf(b, sizeof b, "%s", fz_name(p, n->arg[1], room));
    else if (n->value == floor(n->value))
        snprintf(b, sizeof b, "%lld", (long long)n->value);
    else
        snprintf(b, sizeof b, "%.17g", n->value);
    if (n->arg[1] < 0 && n->flag) left = b, right = a;
    bool call = (sign[0] >= 'a' && sign[0] <= 'z');
    fprintf(out, call ? "%2$s(%1$s, %3$s)" : "%1$s %2$s %3$s", left, sign, right);
}

static void print_slice(FILE *out, const fz_node *n)
{
    fputc('[', out);
    for (int i = 0; 4 * i < n->n_ints; i++) {
        const int64_t *s = n->ints + 4 * i;
        int64_t stop = s[1] + s[2] * s[3];
        if (i) fputs(", ", out);
        if (s[0] == 0) {
            fputc(':', out);
        } else if (s[0] == 2) {
            fprintf(out, "%lld", (long long)s[1]);
        } else {
            fprintf(out, "%lld:", (long long)s[1]);
            if (stop >= 0) fprintf(out, "%lld", (long long)stop);
            if (s[3] != 1) fprintf(out, ":%lld", (long long)s[3]);
        }
    }
    fputc(']', out);
}

static void print_pad(FILE *out, const char *a, const fz_node *n)
{
    static const char *const modes[] = {"constant", "edge", "reflect", "symmetric", "wrap"};
    fprintf(out, "pad(%s, [", a);
    for (int i = 0; i < n->n_ints; i += 2)
        fprintf(out, "%s[%lld, %lld]", i ? ", " : "", (long long)n->ints[i], (long long)n->ints[i + 1]);
    fprintf(out, "], %s", modes[n->variant]);
    if (n->variant == 0) {
        fputs(", ", out);
        print_number(out, n->value);
    }
    fputc(')', out);
}

static void print_fold(FILE *out, const char *a, const fz_node *n)
{
    const char *name = n->op == FZ_NORM ? fz_norms[n->variant].name : fz_reduction[n->variant].name;
    fprintf(out, "%s(%s", name, a);
    if (n->n_ints >= 0) {
        fputs(strcmp(name, "normalize") == 0 ? ", axes=" : ", axis=", out);
        print_list(out, n->ints, n->n_ints);
    } else if (strcmp(name, "logsumexp") == 0) {
        fputs(", axis=all", out);
    }
    fputs(n->op == FZ_REDUCE && n->flag ? ", keepdims=true)" : ")", out);
}

static void print_call(FILE *out, const fz_program *p, const char *name, const fz_node *n)
{
    char room[16];
    fprintf(out, "%s(", name);
    for (int i = 0; i < n->n_args; i++) fprintf(out, "%s%s", i ? ", " : "", fz_name(p, n->arg[i], room));
}

static void print_listed(FILE *out, const char *name, const char *a, const fz_node *n)
{
    fprintf(out, "%s(%s, ", name, a);
    print_list(out, n->ints, n->n_ints);
    fputc(')', out);
}

static void print_joined(FILE *out, const fz_program *p, const fz_node *n)
{
    char room[16];
    fputs(n->op == FZ_CONCAT ? "concat([" : "stack([", out);
    for (int i = 0; i < n->n_args; i++) fprintf(out, "%s%s", i ? ", " : "", fz_name(p, n->arg[i], room));
    fprintf(out, "], %lld)", (long long)n->ints[0]);
}

void fz_print_node(FILE *out, const fz_program *p, const fz_node *n)
{
    static const char *const scans[] = {"sum", "prod", "max", "min"};
    char a[16], b[16];
    long long i0 = (long long)n->ints[0], i1 = (long long)n->ints[1];
    if (n->n_args > 0) fz_name(p, n->arg[0], a);
    if (n->n_args > 1 && n->arg[1] >= 0) fz_name(p, n->arg[1], b);
    switch (n->op) {
    case FZ_UNARY: fprintf(out, "%s(%s)", fz_unary[n->variant].name, a); break;
    case FZ_BINARY: print_binary(out, p, n); break;
    case FZ_WHERE: print_call(out, p, "where", n), fputc(')', out); break;
    case FZ_FMA: print_call(out, p, "fma", n), fputc(')', out); break;
    case FZ_LAYER_NORM: print_call(out, p, "layer_norm", n), fputc(')', out); break;
    case FZ_CAST: fprintf(out, "astype(%s, %s)", a, ppto_dtype_name(n->to)); break;
    case FZ_CLIP: fprintf(out, "clip(%s, %lld, %lld)", a, i0, i1); break;
    case FZ_PERMUTE: print_listed(out, "permute_dims", a, n); break;
    case FZ_RESHAPE: print_listed(out, "reshape", a, n); break;
    case FZ_FLIP: print_listed(out, "flip", a, n); break;
    case FZ_EXPAND: print_listed(out, "expand_dims", a, n); break;
    case FZ_SQUEEZE: print_listed(out, "squeeze", a, n); break;
    case FZ_BROADCAST: print_listed(out, "broadcast_to", a, n); break;
    case FZ_TILE: print_listed(out, "tile", a, n); break;
    case FZ_SLICE: fputs(a, out), print_slice(out, n); break;
    case FZ_CONCAT:
    case FZ_STACK: print_joined(out, p, n); break;
    case FZ_PAD: print_pad(out, a, n); break;
    case FZ_TAKE:
        fprintf(out, "take(%s, remainder(%s, %lld), axis=%lld)", a, b,
                (long long)p->node[n->arg[0]].type.size[n->ints[0]], i0);
        break;
    case FZ_REPEAT: fprintf(out, "repeat(%s, %lld, %lld)", a, i0, i1); break;
    case FZ_ROLL: fprintf(out, "roll(%s, %lld, %lld)", a, i0, i1); break;
    case FZ_DIFF: fprintf(out, "diff(%s, axis=%lld)", a, i0); break;
    case FZ_TRIANGLE: fprintf(out, "%s(%s, %lld)", n->variant ? "triu" : "tril", a, i0); break;
    case FZ_SCAN: fprintf(out, "cumulative_%s(%s, %lld)", scans[n->variant], a, i0); break;
    case FZ_REDUCE:
    case FZ_NORM: print_fold(out, a, n); break;
    case FZ_MATMUL: fprintf(out, "%s @ %s", a, b); break;
    case FZ_VECDOT: fprintf(out, "vecdot(%s, %s)", a, b); break;
    case FZ_TENSORDOT: fprintf(out, "tensordot(%s, %s, %lld)", a, b, i0); break;
    case FZ_OUTER: fprintf(out, "outer(%s, %s)", a, b); break;
    default: break;
    }
}

void fz_print(FILE *out, const fz_program *program)
{
    char room[16];
    for (int i = 0; i < program->n; i++) {
        const fz_node *n = &program->node[i];
        fz_name(program, i, room);
        if (n->op == FZ_NUMBER) {
            fprintf(out, "# %s = %.17g, then %.17g", room, fz_number(n, 0), fz_number(n, 1));
        } else if (n->op == FZ_INPUT) {
            fprintf(out, "input %s: %s", room, ppto_dtype_name(n->type.dtype));
            print_list(out, n->type.size, n->type.rank);
        } else {
            fprintf(out, "%s = ", room);
            fz_print_node(out, program, n);
        }
        fputc('\n', out);
    }
    for (int i = 0; i < program->n_outputs; i++) {
        fz_name(program, program->output[i], room);
        fprintf(out, "%sy%d = %s", i ? ", " : "output ", i, room);
    }
    fputc('\n', out);
}

char *fz_text(const fz_program *program)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) abort();
    fz_print(out, program);
    fclose(out);
    return text;
}
