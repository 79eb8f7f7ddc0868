/* SPDX-License-Identifier: Apache-2.0
 * The module: LLVM behind pp_generator.
 *
 * A loop is written as vector code (emit_loop.c), verified, and given to LLVM's code generator, which selects
 * instructions and registers; no pass of an optimiser runs. The object must not refer to anything outside:
 * what would need a library call is refused, and the interpreter keeps it. LLVM never prints: its messages go
 * to the error. */
#include <string.h>

#include <llvm-c/Analysis.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>

#include "base/fault.h"
#include "devices/cpu_llvm/emit.h"
#include "devices/cpu_llvm/object.h"

/* ---- instruction sets ---------------------------------------------------------------------------------- */

#if defined(__x86_64__)
static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512cd");
}

#define TRIPLE "x86_64-unknown-linux-gnu"
static const pp_emit_target targets[] = {
    {"avx2", TRIPLE, "x86-64-v3", "-prefer-256-bit", 32, 16, false, has_avx2},
    {"avx512", TRIPLE, "x86-64-v4", "-prefer-256-bit", 64, 32, true, has_avx512},
};
#define N_TARGETS (sizeof targets / sizeof *targets)
static LLVMTargetMachineRef machines[N_TARGETS]; /* made when first wanted */

static void start_llvm(void)
{
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
}
#else
#define N_TARGETS 0
static const pp_emit_target targets[1];
static LLVMTargetMachineRef machines[1];
static void start_llvm(void) {}
#endif

static ppto_status make_machine(const pp_emit_target *target, LLVMTargetMachineRef *out, pp_error *err)
{
    LLVMTargetRef found;
    char *message = NULL;
    start_llvm();
    if (LLVMGetTargetFromTriple(target->triple, &found, &message)) {
        pp_fail(err, PPTO_E_UNSUPPORTED, "machine code: LLVM: %s", message);
        LLVMDisposeMessage(message);
        return PPTO_E_UNSUPPORTED;
    }
    *out = LLVMCreateTargetMachine(found, target->triple, target->cpu, target->features,
                                   LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelSmall);
    return *out != NULL ? PPTO_OK : pp_fail(err, PPTO_E_UNSUPPORTED, "machine code: LLVM has no such target");
}

static ppto_status find_target(const char *simd, const pp_emit_target **target, LLVMTargetMachineRef *machine,
                               pp_error *err)
{
    for (size_t i = 0; i < N_TARGETS; i++) {
        *target = &targets[i];
        if (strcmp(targets[i].simd, simd) != 0) continue;
        if (!targets[i].here())
            return pp_fail(err, PPTO_E_UNSUPPORTED, "machine code: this processor has no %s", simd);
        if (machines[i] == NULL) PP_TRY(make_machine(&targets[i], &machines[i], err));
        *machine = machines[i];
        return PPTO_OK;
    }
    return pp_fail(err, PPTO_E_UNSUPPORTED, "machine code: none is made for %s", simd);
}

static ppto_status generator_open(const char *simd, pp_error *err)
{
    const pp_emit_target *target;
    LLVMTargetMachineRef machine;
    return find_target(simd, &target, &machine, err);
}

/* ---- compiling ----------------------------------------------------------------------------------------- */

static void take_message(LLVMDiagnosticInfoRef info, void *context)
{
    pp_emit *e = context;
    if (LLVMGetDiagInfoSeverity(info) != LLVMDSError) return;
    char *text = LLVMGetDiagInfoDescription(info);
    pp_emit_fail(e, PPTO_E_UNSUPPORTED, text);
    LLVMDisposeMessage(text);
}

static void check_module(pp_emit *e)
{
    char *message = NULL;
    if (LLVMVerifyModule(e->module, LLVMReturnStatusAction, &message))
        pp_emit_fail(e, PPTO_E_INTERNAL, message);
    LLVMDisposeMessage(message);
}

static ppto_status take_object(LLVMMemoryBufferRef buffer, void *(*alloc)(size_t), void **object,
                               size_t *bytes, pp_error *err)
{
    const size_t n = LLVMGetBufferSize(buffer);
    PP_TRY(pp_object_check(LLVMGetBufferStart(buffer), n, PP_EMIT_NAME, err));
    *object = alloc(n);
    if (*object == NULL) return pp_fail(err, PPTO_E_NOMEM, "machine code: no memory");
    memcpy(*object, LLVMGetBufferStart(buffer), n);
    *bytes = n;
    return PPTO_OK;
}

static ppto_status emit_object(pp_emit *e, LLVMTargetMachineRef machine, void *(*alloc)(size_t),
                               void **object, size_t *bytes)
{
    LLVMMemoryBufferRef buffer = NULL;
    char *message = NULL;
    if (LLVMTargetMachineEmitToMemoryBuffer(machine, e->module, LLVMObjectFile, &message, &buffer)) {
        pp_emit_fail(e, PPTO_E_UNSUPPORTED, message);
        LLVMDisposeMessage(message);
        return e->status;
    }
    if (e->status == PPTO_OK) e->status = take_object(buffer, alloc, object, bytes, e->err);
    LLVMDisposeMemoryBuffer(buffer);
    return e->status;
}

static void start_module(pp_emit *e, LLVMTargetMachineRef machine)
{
    e->context = LLVMContextCreate();
    LLVMContextSetDiagnosticHandler(e->context, take_message, e);
    LLVMContextSetDiscardValueNames(e->context, true);
    e->module = LLVMModuleCreateWithNameInContext("ppto", e->context);
    e->build = LLVMCreateBuilderInContext(e->context);
    LLVMSetTarget(e->module, e->target->triple);
    const LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
    LLVMSetModuleDataLayout(e->module, layout);
    LLVMDisposeTargetData(layout);
}

static void end_module(pp_emit *e)
{
    LLVMDisposeBuilder(e->build);
    LLVMDisposeModule(e->module);
    LLVMContextDispose(e->context);
    pp_vec_free(&e->callees);
    pp_vec_free(&e->made.rows);
}

static ppto_status generator_compile(const pp_loop *loop, const char *simd, void *(*alloc)(size_t),
                                     void **object, size_t *bytes, pp_error *err)
{
    pp_emit e = {.loop = loop, .err = err};
    LLVMTargetMachineRef machine;
    PP_TRY(find_target(simd, &e.target, &machine, err));
    PP_TRY(pp_loop_verify(loop, err));
    start_module(&e, machine);
    pp_emit_loop(&e);
    if (e.status == PPTO_OK) check_module(&e);
    if (e.status == PPTO_OK) emit_object(&e, machine, alloc, object, bytes);
    end_module(&e);
    return e.status;
}

/* ---- loading ------------------------------------------------------------------------------------------- */

static ppto_status generator_load(const void *object, size_t bytes, void **handle, pp_loop_fn *fn,
                                  pp_error *err)
{
    pp_object_code *code;
    void *entry;
    *handle = NULL;
    PP_TRY(pp_object_load(object, bytes, PP_EMIT_NAME, &code, &entry, err));
    memcpy(fn, &entry, sizeof *fn); /* C has no cast from data to functions */
    *handle = code;
    return PPTO_OK;
}

static void generator_unload(void *handle)
{
    pp_object_unload(handle);
}

__attribute__((visibility("default"))) const pp_generator pp_generator_module = {
    .abi = PP_GENERATOR_ABI,
    .name = "LLVM " LLVM_VERSION_STRING,
    .open = generator_open,
    .compile = generator_compile,
    .load = generator_load,
    .unload = generator_unload,
#ifdef PP_FAULTS
    .fault = &pp_fault_active,
#endif
};
