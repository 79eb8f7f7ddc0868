/* SPDX-License-Identifier: Apache-2.0
 * The floating-point environment of a thread: round to nearest, subnormals kept, no traps, for the length of
 * a run. A host may have set flush-to-zero, another rounding or unmasked traps; bits must not depend on that,
 * and the host must get back what it had, sticky flags included. Only the registers that the primitives use
 * are touched (MXCSR, FPCR and FPSR); elsewhere the rounding direction of the C library. */
#include "ops/scalar.h"

#if defined(__x86_64__)

enum { MXCSR_DEFAULT = 0x1f80 }; /* all exceptions masked, no flags, nearest, no FTZ, no DAZ */

static void set_mxcsr(uint32_t value)
{
    __asm__ volatile("ldmxcsr %0" : : "m"(value) : "memory");
}

void pp_fenv_enter(pp_fenv *saved)
{
    uint32_t mxcsr;
    __asm__ volatile("stmxcsr %0" : "=m"(mxcsr) : : "memory");
    *saved = (pp_fenv){.word = {mxcsr}};
    set_mxcsr(MXCSR_DEFAULT);
}

void pp_fenv_leave(const pp_fenv *saved)
{
    set_mxcsr((uint32_t)saved->word[0]);
}

#elif defined(__aarch64__)

static void set_registers(uint64_t fpcr, uint64_t fpsr)
{
    __asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %1" : : "r"(fpcr), "r"(fpsr) : "memory");
}

void pp_fenv_enter(pp_fenv *saved)
{
    uint64_t fpcr, fpsr;
    __asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(fpcr), "=r"(fpsr) : : "memory");
    *saved = (pp_fenv){.word = {fpcr, fpsr}};
    set_registers(0, 0);
}

void pp_fenv_leave(const pp_fenv *saved)
{
    set_registers(saved->word[0], saved->word[1]);
}

#else

#include <fenv.h>

_Static_assert(sizeof(fexcept_t) <= sizeof(uint64_t), "the flags fit a word");

void pp_fenv_enter(pp_fenv *saved)
{
    *saved = (pp_fenv){.word = {(uint64_t)fegetround()}};
    fegetexceptflag((fexcept_t *)(void *)&saved->word[1], FE_ALL_EXCEPT);
    fesetround(FE_TONEAREST);
}

void pp_fenv_leave(const pp_fenv *saved)
{
    fesetround((int)saved->word[0]);
    fesetexceptflag((const fexcept_t *)(const void *)&saved->word[1], FE_ALL_EXCEPT);
}

#endif
