/* SPDX-License-Identifier: Apache-2.0
 * Captured with the unwinder of the C library: programs are built without frame pointers on our platforms, so
 * walking those would end in the first frame. It may load a library when called first, which is done when the
 * table is made. Equal stacks are stored once: a loop records one. The frames of the library itself, where it
 * is a shared one, are left out: they would tell equal calls of the program apart. */
#define _GNU_SOURCE
#include "base/stack.h"

#include <pthread.h>
#include <string.h>

#if defined(__has_include)
#if __has_include(<execinfo.h>) && __has_include(<link.h>)
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#define CAN_UNWIND 1
#endif
#endif
#ifndef CAN_UNWIND
#define CAN_UNWIND 0
#endif

enum { MOST_STACKS = 1 << 20, OWN_FRAMES = 2 /* capture and pp_stacks_here */, OWN_ROOM = 16 };

typedef struct stack_row {
    void **frames;
    size_t n;
} stack_row;

struct pp_stacks {
    pthread_mutex_t lock;   /* no other one is taken under it */
    PP_VEC(stack_row) rows; /* [0] is empty */
    pp_map map;
    pp_arena arena;
    uintptr_t own_from, own_to; /* code of the shared library; equal: it is part of the program */
};

#if CAN_UNWIND
static int find_own(struct dl_phdr_info *info, size_t size, void *arg)
{
    pp_stacks *s = arg;
    uintptr_t here = (uintptr_t)&pp_stacks_here;
    (void)size;
    if (info->dlpi_name == NULL || info->dlpi_name[0] == '\0') return 0; /* the program */
    for (int i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, to = from + info->dlpi_phdr[i].p_memsz;
        if (info->dlpi_phdr[i].p_type != PT_LOAD || here < from || here >= to) continue;
        s->own_from = from;
        s->own_to = to;
    }
    return 0;
}
#else
static int find_own(void *info, size_t size, void *arg)
{
    (void)info, (void)size, (void)arg;
    return 0;
}
static void dl_iterate_phdr(int (*visit)(void *, size_t, void *), void *arg)
{
    (void)visit, (void)arg;
}
#endif

static __attribute__((noinline)) int capture(void **frames, int room)
{
#if CAN_UNWIND
    return backtrace(frames, room);
#else
    (void)frames, (void)room;
    return 0;
#endif
}

pp_stacks *pp_stacks_create(void)
{
    const stack_row none = {NULL, 0};
    void *frame[1];
    pp_stacks *s = pp_calloc(1, sizeof *s);
    if (s == NULL) return NULL;
    if (pp_vec_push(&s->rows, none) != PPTO_OK || pthread_mutex_init(&s->lock, NULL) != 0) {
        pp_vec_free(&s->rows);
        pp_free(s);
        return NULL;
    }
    (void)capture(frame, 1);
    (void)dl_iterate_phdr(find_own, s);
    return s;
}

void pp_stacks_destroy(pp_stacks *s)
{
    if (s == NULL) return;
    pthread_mutex_destroy(&s->lock);
    pp_vec_free(&s->rows);
    pp_map_free(&s->map);
    pp_arena_free(&s->arena);
    pp_free(s);
}

typedef struct question {
    const pp_stacks *stacks;
    const stack_row *wanted;
} question;

static bool equal(const void *context, uint32_t value)
{
    const question *q = context;
    const stack_row *row = &q->stacks->rows.at[value];
    return row->n == q->wanted->n && memcmp(row->frames, q->wanted->frames, row->n * sizeof(void *)) == 0;
}

static uint32_t add(pp_stacks *s, uint64_t hash, const stack_row *row)
{
    stack_row own = {pp_arena_alloc(&s->arena, row->n * sizeof(void *)), row->n};
    uint32_t number = (uint32_t)s->rows.n;
    if (own.frames == NULL || number >= MOST_STACKS || pp_vec_push(&s->rows, own) != PPTO_OK) return 0;
    memcpy(own.frames, row->frames, row->n * sizeof(void *));
    return pp_map_insert(&s->map, hash, number) == PPTO_OK ? number : 0;
}

__attribute__((noinline)) uint32_t pp_stacks_here(pp_stacks *s, int skip)
{
    void *frames[PP_STACK_FRAMES + OWN_ROOM];
    uint32_t number;
    if (s == NULL) return 0;
    skip += OWN_FRAMES;
    int n = capture(frames, PP_STACK_FRAMES + OWN_ROOM);
    while (skip < n && (uintptr_t)frames[skip] - s->own_from < s->own_to - s->own_from) skip++;
    if (n <= skip) return 0;
    stack_row row = {frames + skip, (size_t)(n - skip)};
    uint64_t hash = pp_hash_bytes(row.frames, row.n * sizeof(void *), 0);
    pthread_mutex_lock(&s->lock);
    if (!pp_map_find(&s->map, hash, equal, &(question){s, &row}, &number)) number = add(s, hash, &row);
    pthread_mutex_unlock(&s->lock);
    return number;
}

size_t pp_stacks_frames(pp_stacks *s, uint32_t stack, void *const **frames)
{
    *frames = NULL;
    if (s == NULL) return 0;
    pthread_mutex_lock(&s->lock);
    stack_row row = stack < s->rows.n ? s->rows.at[stack] : (stack_row){NULL, 0};
    pthread_mutex_unlock(&s->lock);
    *frames = row.frames;
    return row.n;
}

pp_frame_info pp_stack_frame(void *address)
{
    pp_frame_info info = {NULL, NULL, 0};
#if CAN_UNWIND
    Dl_info found;
    struct link_map *map = NULL;
    if (dladdr1(address, &found, (void **)&map, RTLD_DL_LINKMAP) == 0) return info;
    info.module = found.dli_fname;
    info.function = found.dli_sname;
    info.offset = (uint64_t)((uintptr_t)address - (map != NULL ? (uintptr_t)map->l_addr : 0));
#else
    (void)address;
#endif
    return info;
}
