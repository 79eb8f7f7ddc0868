/* SPDX-License-Identifier: Apache-2.0
 * Numbers as text with a decimal point, whatever the locale of the program is: printf and strtod take the
 * point from it, and a library may not change it. uselocale (POSIX.1-2008) changes it for one thread. */
#define _POSIX_C_SOURCE 200809L
#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"

static pthread_once_t made = PTHREAD_ONCE_INIT;
static locale_t plain; /* never freed; NULL, which changes nothing, where there was no memory */

static void make(void)
{
    plain = newlocale(LC_ALL_MASK, "C", NULL);
}

static locale_t enter(void)
{
    pthread_once(&made, make);
    return uselocale(plain);
}

int pp_vsnprintf(char *to, size_t room, const char *format, va_list args)
{
    const locale_t before = enter();
    const int length = vsnprintf(to, room, format, args);
    uselocale(before);
    return length;
}

int pp_snprintf(char *to, size_t room, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int length = pp_vsnprintf(to, room, format, args);
    va_end(args);
    return length;
}

double pp_read_f64(const char *text, char **end)
{
    const locale_t before = enter();
    const double value = strtod(text, end);
    uselocale(before);
    return value;
}

float pp_read_f32(const char *text, char **end)
{
    const locale_t before = enter();
    const float value = strtof(text, end);
    uselocale(before);
    return value;
}
