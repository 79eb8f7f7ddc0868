/* SPDX-License-Identifier: Apache-2.0
 * src/base: status and error record, heap, checked sizes, vectors, arena, map, text, clock. No tensors here.
 * Sections are titled with the .c file that implements them. */
#ifndef PP_BASE_H
#define PP_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ppto/types.h"

#define PP_UNUSED __attribute__((unused))
#define PP_MUST_USE __attribute__((warn_unused_result))
#define PP_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* ---- status.c
 * ---------------------------------------------------------------------------------------------- */

/* The record of one failure. The first failure wins: pp_fail on a record that holds one keeps it.
 * `text` is one or more lines without a final newline. Fixed storage, so that NOMEM can be reported. */
typedef struct pp_error {
    ppto_status code;
    char text[2048];
    ppto_site site; /* of the call that failed; file NULL when unknown */
} pp_error;

/* Records code and text into *err (NULL is accepted) unless it already holds an error. Returns code. */
ppto_status pp_fail(pp_error *err, ppto_status code, const char *format, ...) PP_PRINTF(3, 4);
/* The same for a failed call of the system, with errno: "what: reason". E_LIMIT when a disk is full or a
 * quota or file size limit is reached, else E_IO. */
ppto_status pp_fail_errno(pp_error *err, const char *what, int number);
ppto_status pp_errno_status(int number);
/* Makes it a record of no failure, whatever it was; the text is not zeroed, which `= {0}` would do. */
void pp_error_clear(pp_error *err);
/* "file:line" or "file:line:column" in out, "" when the place is not known; gives out. */
enum { PP_SITE_ROOM = 320 };
const char *pp_site_text(const ppto_site *site, char *out, size_t room);

/* Forward a failure to the caller. */
#define PP_TRY(expression)                                                                                   \
    do {                                                                                                     \
        ppto_status pp_try_status = (expression);                                                            \
        if (pp_try_status != PPTO_OK) return pp_try_status;                                                  \
    } while (0)

/* ---- heap.c : the only caller of malloc
 * ---------------------------------------------------------------------- */

void *pp_alloc(size_t bytes) PP_MUST_USE;               /* NULL on failure; 0 bytes gives a valid pointer */
void *pp_calloc(size_t count, size_t size) PP_MUST_USE; /* zeroed, overflow-checked */
void *pp_realloc(void *p, size_t bytes) PP_MUST_USE;
void *pp_alloc_aligned(size_t alignment, size_t bytes) PP_MUST_USE; /* free with pp_free */
void *pp_alloc_for_good(size_t bytes) PP_MUST_USE; /* of the process: not counted, never given back */
void pp_free(void *p);                             /* NULL is fine */
char *pp_strdup(const char *text) PP_MUST_USE;

/* Test hooks and counters of the seam. fail_at(n): the n-th allocation from now fails (1 = the next), once or
 * for good. */
typedef struct pp_heap_counters {
    uint64_t allocations; /* successful calls so far */
    uint64_t frees;
    int64_t live; /* blocks not freed */
} pp_heap_counters;
pp_heap_counters pp_heap_count(void);
void pp_heap_fail_at(uint64_t n, bool and_all_after); /* 0 switches it off */
bool pp_heap_refuses(void); /* the same countdown for memory that is not malloc's: true, this one must fail */
void pp_heap_poison(bool on); /* fill fresh and freed blocks */

/* ---- checked.h is a header of its own: checked size arithmetic
 * ------------------------------------------------- */

/* ---- vec.c : growable arrays
 * --------------------------------------------------------------------------------- */

#define PP_VEC(T)                                                                                            \
    struct {                                                                                                 \
        T *at;                                                                                               \
        size_t n, cap;                                                                                       \
    }
ppto_status pp_vec_reserve_raw(void **at, size_t *cap, size_t item, size_t want);
#define pp_vec_reserve(v, want) pp_vec_reserve_raw((void **)&(v)->at, &(v)->cap, sizeof *(v)->at, (want))
/* Appends x; an expression of type ppto_status. */
#define pp_vec_push(v, x)                                                                                    \
    (pp_vec_reserve((v), (v)->n + 1) == PPTO_OK ? ((void)((v)->at[(v)->n++] = (x)), PPTO_OK) : PPTO_E_NOMEM)
#define pp_vec_free(v) (pp_free((v)->at), (v)->at = NULL, (v)->n = (v)->cap = 0)

/* ---- arena.c : bump allocation, freed as a whole
 * -------------------------------------------------------------- */

typedef struct pp_arena_block pp_arena_block;
typedef struct pp_arena {
    pp_arena_block *head;
    size_t used, size; /* of the head block */
} pp_arena;            /* zero-initialised is empty */
void *pp_arena_alloc(pp_arena *arena,
                     size_t bytes) PP_MUST_USE; /* zeroed, 16-byte aligned; NULL on failure */
void *pp_arena_copy(pp_arena *arena, const void *from,
                    size_t bytes) PP_MUST_USE; /* from may be NULL for none */
char *pp_arena_strndup(pp_arena *arena, const char *text, size_t n) PP_MUST_USE;
void pp_arena_free(pp_arena *arena);

/* ---- map.c : hash map from a 64-bit hash to a 32-bit value; the caller compares keys
 * ----------------------------- */

typedef struct pp_map {
    uint64_t *hash; /* stored hashes, 0 = empty (a real 0 is stored as 1) */
    uint32_t *value;
    size_t n, cap; /* cap is 0 or a power of two */
} pp_map;
typedef bool (*pp_map_equal)(const void *context, uint32_t value);
/* True and *value set when an entry has that hash and equal(context, value) (NULL: hash alone decides). */
bool pp_map_find(const pp_map *map, uint64_t hash, pp_map_equal equal, const void *context, uint32_t *value);
ppto_status pp_map_insert(pp_map *map, uint64_t hash, uint32_t value) PP_MUST_USE;
void pp_map_clear(pp_map *map); /* keeps the room: as many insertions as there were cannot fail */
void pp_map_free(pp_map *map);
uint64_t pp_hash_bytes(const void *bytes, size_t n, uint64_t seed);
static inline uint64_t pp_hash_mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 32);
}

/* ---- text.c : growing text
 * ------------------------------------------------------------------------------------- */

/* As vsnprintf, snprintf, strtod and strtof in the C locale, whatever the program has set. */
int pp_vsnprintf(char *to, size_t room, const char *format, va_list args);
int pp_snprintf(char *to, size_t room, const char *format, ...) PP_PRINTF(3, 4);
double pp_read_f64(const char *text, char **end);
float pp_read_f32(const char *text, char **end);

/* A failed append sets `failed` and later appends do nothing: check once at the end. at is always
 * NUL-terminated or NULL. */
typedef struct pp_text {
    char *at;
    size_t n, cap;
    bool failed;
} pp_text;
void pp_text_add(pp_text *text, const char *format, ...) PP_PRINTF(2, 3);
void pp_text_addv(pp_text *text, const char *format, va_list args);
void pp_text_json(pp_text *text, const char *string); /* a quoted, escaped JSON string */
void pp_text_xml(pp_text *text, const char *string);  /* as it stands between tags or in quotes */
void pp_text_bytes(pp_text *text, uint64_t bytes);    /* "1.50 MiB", "12 B" */
void pp_text_time(pp_text *text, int64_t ns);         /* "1.25 ms", "480 ns" */
bool pp_text_is_utf8(const char *string);
void pp_text_utf8(pp_text *text, const char *string);         /* what is no UTF-8 becomes U+FFFD */
void pp_text_raw(pp_text *text, const void *bytes, size_t n); /* any bytes */
void pp_text_free(pp_text *text);
/* How many bytes to insert, remove, change or swap with the next (optimal string alignment: Boytsov,
 * "Indexing methods for approximate dictionary searching", 2011); at most 64 bytes of each are compared. */
unsigned pp_text_distance(const char *a, const char *b);
/* "Did you mean": start with {.to = word}; of the names shown, `name` is the one at the least distance, if
 * that is at most 2 (1 where the word has fewer than 4 bytes), and of equals the first that begins most like
 * the word; else NULL. A name that begins with the word (of 3 bytes or more) is at distance 1. */
typedef struct pp_nearest {
    const char *to, *name;
    unsigned distance;
    size_t ends;
} pp_nearest;
void pp_text_nearer(pp_nearest *nearest, const char *name);

/* ---- log.c
 * ------------------------------------------------------------------------------------------------------ */

/* Sink of log lines; NULL fn drops them. Levels: 0 errors, 1 warnings, 2 information, 3 the lowering stage by
 * stage. */
typedef struct pp_log {
    void (*fn)(void *arg, int level, const char *line);
    void *arg;
    int level;
} pp_log;
void pp_log_line(const pp_log *log, int level, const char *format, ...) PP_PRINTF(3, 4);

/* ---- clock.c
 * ---------------------------------------------------------------------------------------------------- */

int64_t pp_clock_ns(void); /* monotonic */

#endif
