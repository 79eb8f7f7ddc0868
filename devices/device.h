/* SPDX-License-Identifier: Apache-2.0
 * How one machine runs kernel programs: a small table of functions. The CPU interpreter, the reference
 * evaluator and later devices fill the same table; the scheduler sees only this header. */
#ifndef PP_DEVICE_H
#define PP_DEVICE_H

#include "base/base.h"
#include "devices/cost_model.h"

struct pp_program; /* kernel/program.h */
typedef struct pp_device pp_device;
typedef struct pp_kernel pp_kernel; /* a compiled program */
typedef struct pp_launch
    pp_launch; /* a kernel with sizes and pointers, ready to run; reused from run to run */

#define PP_MAX_PHASES 24u

/* Whether several primitives run as one loop of machine code, where it can be had; the bits are the same. */
typedef enum pp_tier {
    PP_TIER_INTERP, /* never */
    PP_TIER_AUTO,   /* as soon as it is compiled, by a thread of its own */
    PP_TIER_JIT     /* from the first run: resize compiles */
} pp_tier;

typedef struct pp_device_options {
    const char *simd;      /* "baseline", "avx2", "avx512" or NULL: the best there is */
    bool count_bytes;      /* counting mode: touched elements are counted per kernel (slow, tests only) */
    uint32_t grain;        /* elements per task, 0: chosen by the device (tests vary it) */
    pp_tier tier;          /* not in counting mode */
    const pp_costs *costs; /* of this machine, copied; NULL: the usual ones */
    pp_error *no_code;     /* why tier JIT cannot be had, which is no failure; NULL: nobody asks */
} pp_device_options;

/* One tensor of a launch. Strides in bytes, any sign, 0 for broadcast. */
typedef struct pp_tensor_ref {
    void *data;
    uint32_t rank;
    const int64_t *shape;
    const int64_t *stride;
} pp_tensor_ref;

typedef struct pp_binding {
    const int64_t *slots;         /* program.n_slots; the first three are 0, 1, -1 */
    const pp_tensor_ref *tensors; /* program.n_tensors */
    const uint64_t *args;         /* program.n_args, bits */
} pp_binding;

/* How a launch divides. Phases run one after the other, the tasks of a phase in any order on any workers. */
typedef struct pp_geometry {
    uint32_t phases;
    uint32_t tasks[PP_MAX_PHASES];
    size_t scratch_bytes; /* private to a running task, 64-byte aligned, contents undefined at its start */
    size_t shared_bytes;  /* one area for the launch (partial states between phases), 64-byte aligned */
    double task_ns;       /* rough cost of one task, for the scheduler's grain decisions */
} pp_geometry;

/* What of a launch is machine code. A count is added to. */
typedef struct pp_code_count {
    uint32_t loops, compiled; /* that could be, that are */
    uint32_t from_disk;
    int64_t compile_ns; /* these two: of those that no other launch told of before */
} pp_code_count;

typedef struct pp_device_class {
    const char *name; /* "cpu", "reference" */
    /* Opens the device and proves it (probe of the primitives). err: why not. */
    ppto_status (*open)(const pp_device_options *options, pp_device **out, pp_error *err);
    void (*close)(pp_device *device);                 /* NULL is fine */
    const char *(*describe)(const pp_device *device); /* one line, "block interpreter, avx512"; borrow */
    /* program must outlive the kernel. */
    ppto_status (*compile)(pp_device *device, const struct pp_program *program, pp_kernel **out,
                           pp_error *err);
    void (*kernel_destroy)(pp_kernel *kernel); /* NULL is fine */
    ppto_status (*launch_create)(const pp_kernel *kernel, pp_launch **out, pp_error *err);
    void (*launch_destroy)(pp_launch *launch); /* NULL is fine */
    /* Fixes the sizes: called with slots and tensor strides (data pointers may be NULL) before memory is
     * planned. workers: how many tasks may run at once (1: no need to split). Allocates only when sizes
     * differ from last time. */
    ppto_status (*resize)(pp_launch *launch, const pp_binding *binding, uint32_t workers, pp_geometry *out,
                          pp_error *err);
    /* Fixes pointers and args for the next run; sizes and strides as in the last resize. Never allocates. */
    ppto_status (*bind)(pp_launch *launch, const pp_binding *binding, void *shared);
    /* Runs one task; never allocates, never blocks. E_VALUE with the text of a failed check in err, and
     * *position. */
    ppto_status (*run)(pp_launch *launch, uint32_t phase, uint32_t task, void *scratch, pp_error *err,
                       int64_t *position);
    /* Counting mode: distinct bytes read and written by the last run of the launch. NULL: not counted. */
    void (*counted)(const pp_launch *launch, uint64_t *reads, uint64_t *writes);
    /* Of a sized launch, also while it runs, by one thread at a time. text: the loops are added to it instead
     * of what compiling them took. NULL: no machine code. */
    void (*count_code)(const pp_launch *launch, pp_code_count *count, pp_text *text);
} pp_device_class;

extern const pp_device_class pp_cpu_device;
extern const pp_device_class pp_reference_device;
const pp_device_class *pp_device_find(const char *name); /* registry.c; NULL when unknown */
const pp_device_class *pp_device_at(size_t i);           /* NULL past the last */

#endif
