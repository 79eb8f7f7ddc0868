/* SPDX-License-Identifier: Apache-2.0
 * The C text of a kernel, compiled by the system compiler, gives the bits that the library gives. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/runtime.h"

typedef void (*kernel_fn)(const int64_t *slot, void *const *data, const int64_t *const *stride,
                          const uint64_t *arg, int64_t *failed);

static kernel_fn compile(const pp_program *program, char folder[64])
{
    static int count; /* a name of its own for each: the loader keeps them */
    pp_text source = {0};
    char path[128], command[512];
    cr_assert_eq(pp_program_render(program, "kernel", &source), PPTO_OK);
    snprintf(path, sizeof path, "%s/kernel.c", folder);
    FILE *f = fopen(path, "w");
    fwrite(source.at, 1, source.n, f);
    fclose(f);
    pp_text_free(&source);
    snprintf(command, sizeof command,
             "cc -std=c99 -O2 -ffp-contract=off -fno-math-errno -fno-trapping-math -fPIC -shared -o "
             "%s/kernel%d.so %s -lm",
             folder, ++count, path);
    cr_assert_eq(system(command), 0, "%s", command);
    snprintf(path, sizeof path, "%s/kernel%d.so", folder, count);
    void *lib = dlopen(path, RTLD_NOW);
    cr_assert_not_null(lib, "%s", dlerror());
    return (kernel_fn)(uintptr_t)dlsym(lib, "kernel");
}

/* Runs the only kernel of the program again, as compiled text, into fresh memory. */
static void check(ppto_program *p, const ppto_array *want, const char *text, char folder[64])
{
    cr_assert_eq(p->plan->fused.groups.n, 1, "%s: %zu kernels", text, p->plan->fused.groups.n);
    const pp_lowered *l = &p->plan->lowered[0];
    pp_instance_group *g = &p->instance->groups[0];
    kernel_fn fn = compile(l->program, folder);
    void *data[16];
    int64_t strides[16][PPTO_MAX_RANK], failed[3] = {0};
    const int64_t *stride[16];
    void *result = NULL;
    for (size_t t = 0; t < l->tensors.n; t++) {
        int64_t size = (int64_t)ppto_dtype_size((ppto_dtype)l->program->tensors[t].dtype);
        data[t] = g->tensors[t].data;
        for (uint32_t d = 0; d < g->tensors[t].rank; d++) strides[t][d] = g->tensors[t].stride[d] / size;
        stride[t] = strides[t];
        if (l->tensors.at[t].output) data[t] = result = calloc(want->bytes + 64, 1);
    }
    fn(g->slots, data, stride, g->args, failed);
    cr_expect(memcmp(result, want->data, want->bytes) == 0, "%s: the compiled text gives other bits", text);
    free(result);
}

Test(source, compiled_text_gives_the_same_bits)
{
    static const char *const texts[] = {
        "(x * y + 0.5) * x - y",
        "softmax(x)",
        "softmax(x, axis=0)",
        "softmax(x @ x.T) @ x",
        "layer_norm(x + y, x[0], y[0])",
        "sum(exp(x))",
        "var(x, axis=0)",
        "argmax(x, axis=1)",
        "cumulative_sum(x, axis=1)",
        "cumulative_sum(x, axis=0) * 2",
        "relu(x @ y.mT + 1)",
        "x @ y[0]",
        "x[1:, ::-1] - y[:-1]",
        "concat([x, y], axis=1) * 3",
        "pad(x, [[1, 2], [0, 3]]) + 1",
        "gelu(x) * sin(y)",
        "log(abs(x)) ** 3",
    };
    char folder[64] = "/tmp/ppto-source-XXXXXX", command[128];
    ppto_context *ctx;
    ppto_options o = PPTO_OPTIONS_INIT;
    int64_t shape[2] = {21, 333};
    if (system("cc --version >/dev/null 2>&1") != 0) cr_skip_test("no system compiler");
    o.executor = "serial";
    cr_assert_not_null(mkdtemp(folder));
    cr_assert_eq(ppto_context_create(&ctx, &o), PPTO_OK);
    ppto_array *x = ppto_array_fill(ctx, PPTO_F32, 2, shape, "uniform(-3,3,1)", "x");
    ppto_array *y = ppto_array_fill(ctx, PPTO_F32, 2, shape, "uniform(-3,3,2)", "y");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ppto_graph *g = ppto_graph_create(ctx);
        ppto_program *p = NULL;
        ppto_array *out = NULL;
        ppto_input(g, "x", PPTO_F32, "N, C");
        ppto_input(g, "y", PPTO_F32, "N, C");
        ppto_tensor *t = ppto_expr(g, texts[i]);
        cr_assert_eq(ppto_compile(1, &t, &p), PPTO_OK, "%s: %s", texts[i], ppto_error_text(ctx));
        cr_assert_eq(ppto_program_bind_name(p, "x", x), PPTO_OK);
        cr_assert_eq(ppto_program_bind_name(p, "y", y), PPTO_OK);
        cr_assert_eq(ppto_program_run(p, &out), PPTO_OK, "%s: %s", texts[i], ppto_error_text(ctx));
        check(p, out, texts[i], folder);
        ppto_array_release(out);
        ppto_program_destroy(p);
        ppto_graph_destroy(g);
    }
    ppto_array_release(x);
    ppto_array_release(y);
    ppto_context_destroy(ctx);
    snprintf(command, sizeof command, "rm -r %s", folder);
    cr_expect_eq(system(command), 0);
}
