/* SPDX-License-Identifier: Apache-2.0
 * What tools that watch memory are told of the pool: which bytes of a block may be touched, and until when.
 * They see the pool's blocks as one mapping otherwise, and would miss a use behind the end or after the
 * release.
 *
 * AddressSanitizer is told when the build has it; Valgrind when its header was there (a few instructions that
 * do nothing outside of it). A free block may be touched by the pool alone, and only its head. Everything of
 * these tools is in this file. */
#ifndef PP_POISON_H
#define PP_POISON_H

#include <stdbool.h>
#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define PP_HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PP_HAS_ASAN 1
#endif
#endif
#ifdef PP_HAS_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#endif

#if defined(__has_include) && !defined(PP_HAS_ASAN)
#if __has_include(<valgrind/memcheck.h>)
#define PP_HAS_VALGRIND 1
#include <valgrind/memcheck.h>
#endif
#endif
#ifndef PP_HAS_VALGRIND
#define RUNNING_ON_VALGRIND 0
#define VALGRIND_CREATE_MEMPOOL(pool, zone, zeroed) ((void)(pool))
#define VALGRIND_DESTROY_MEMPOOL(pool) ((void)(pool))
#define VALGRIND_MEMPOOL_ALLOC(pool, at, bytes) ((void)(pool), (void)(at), (void)(bytes))
#define VALGRIND_MEMPOOL_FREE(pool, at) ((void)(pool), (void)(at))
#define VALGRIND_MAKE_MEM_NOACCESS(at, bytes) ((void)(at), (void)(bytes))
#define VALGRIND_MAKE_MEM_UNDEFINED(at, bytes) ((void)(at), (void)(bytes))
#endif

/* Does anybody listen? Else the calls below are not worth making. */
static inline bool pp_poison_open(void *pool)
{
    VALGRIND_CREATE_MEMPOOL(pool, 0, 0);
#ifdef PP_HAS_ASAN
    return true;
#else
    return RUNNING_ON_VALGRIND != 0;
#endif
}

static inline void pp_poison_close(void *pool)
{
    VALGRIND_DESTROY_MEMPOOL(pool);
}

/* The block is out: `bytes` of its `rounded` ones may be used. */
static inline void pp_poison_taken(void *pool, void *block, size_t bytes, size_t rounded)
{
    ASAN_POISON_MEMORY_REGION(block, rounded);
    ASAN_UNPOISON_MEMORY_REGION(block, bytes);
    VALGRIND_MAKE_MEM_NOACCESS(block, rounded);
    VALGRIND_MEMPOOL_ALLOC(pool, block, bytes);
}

/* It is back: only its first `head` bytes may be used, by the pool. */
static inline void pp_poison_given(void *pool, void *block, size_t rounded, size_t head)
{
    ASAN_POISON_MEMORY_REGION(block, rounded);
    ASAN_UNPOISON_MEMORY_REGION(block, head);
    VALGRIND_MEMPOOL_FREE(pool, block);
    VALGRIND_MAKE_MEM_UNDEFINED(block, head);
}

/* It goes back to the system, where others may get its addresses. */
static inline void pp_poison_forget(void *block, size_t rounded)
{
    ASAN_UNPOISON_MEMORY_REGION(block, rounded);
}

#endif
