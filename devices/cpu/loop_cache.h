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

/* A short text under a name of its own (letters, digits, '-', '.') beside the objects, read and written by
 * the same rules. get: with a 0 behind it; false: not there, not ours, damaged or longer. put: path is where
 * it was put, or why it was not (room for 4200). */
bool pp_cache_note_get(const char *name, char *text, size_t room);
bool pp_cache_note_put(const char *name, const char *text, char *path, size_t room);

/* Takes away what turned out not to load. */
void pp_loop_cache_drop(const pp_loop *loop, const char *simd, const char *generator);

#endif
