/* SPDX-License-Identifier: Apache-2.0
 * Objects of machine code on disk, so that the next process need not compile them.
 *
 * In $PPTO_CACHE_DIR, else $XDG_CACHE_HOME/ppto, else ~/.cache/ppto; an empty PPTO_CACHE_DIR switches it off.
 * Nothing here fails: without a folder of one's own, with a full disk, with damaged files there is just
 * nothing to be had. Not by two threads at once; processes may share a folder. */
#ifndef PP_LOOP_CACHE_H
#define PP_LOOP_CACHE_H

#include "devices/cpu/loop.h"

/* The object of the loop for the instruction set by the generator of that name, in memory of pp_alloc. false:
 * not there. */
bool pp_loop_cache_get(const pp_loop *loop, const char *simd, const char *generator, void **object,
                       size_t *bytes);
void pp_loop_cache_put(const pp_loop *loop, const char *simd, const char *generator, const void *object,
                       size_t bytes);
/* What stands where objects are kept; nothing is made or changed. threads: any */
typedef struct pp_loop_cache_facts {
    char folder[4096];    /* "": none is named */
    const char *why_not;  /* nothing is kept or found; NULL: it is. Static, or of strerror */
    bool there, writable; /* a folder that is not there yet is made when the first object is kept */
    uint64_t files, bytes;
} pp_loop_cache_facts;
void pp_loop_cache_look(pp_loop_cache_facts *out);

/* Takes away what turned out not to load. */
void pp_loop_cache_drop(const pp_loop *loop, const char *simd, const char *generator);

#endif
