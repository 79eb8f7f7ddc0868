/* SPDX-License-Identifier: Apache-2.0
 * Threads that look up every shipped operator of one library at once, each in another order, while one adds
 * definitions that call them: all get the same definition under a name, whoever read it. */
#include <stdio.h>
#include <string.h>

#include "lang/parser.h"
#include "runtime/runtime.h"

enum { THREADS = 4, ROUNDS = 3, MAX_NAMES = 1000 };

static pp_library *library;
static pp_names names;

typedef struct looker {
    pthread_t thread;
    unsigned number;
    const pp_definition *found[MAX_NAMES];
    bool failed;
} looker;

static void define_one(looker *me, size_t i)
{
    char text[200];
    pp_unit *unit;
    pp_error err = {0};
    int n = snprintf(text, sizeof text, "op own_%u_%zu(x: any) = softmax(relu(x)) * exp(x) + gelu(x)\n",
                     me->number, i);
    if (pp_parse(text, (size_t)n, "own.ppto", PP_PARSE_LIBRARY, &unit, &err) != PPTO_OK ||
        pp_library_add(library, unit, pp_unit_destroy, false, &err) != PPTO_OK)
        me->failed = true;
}

static void *look_up_all(void *arg)
{
    looker *me = arg;
    for (size_t k = 0; k < names.n && !me->failed; k++) {
        const size_t i = (k * (2 * me->number + 1) * 7 + me->number * 101) % names.n;
        const pp_definition *d;
        me->failed = pp_library_find(library, names.at[i], &d, NULL) != PPTO_OK || d == NULL ||
                     strcmp(d->name, names.at[i]) != 0 ||
                     pp_library_owner(library, names.at[i]) != PP_NAME_SHIPPED;
        if (!me->failed) (void)pp_library_elementwise(library, d);
        me->found[i] = d;
        if (k % 100 == 50) define_one(me, k);
    }
    return NULL;
}

static bool agree(const looker *all)
{
    for (size_t i = 0; i < names.n; i++) {
        const pp_definition *first = NULL;
        for (int t = 0; t < THREADS; t++) {
            if (first != NULL && all[t].found[i] != NULL && all[t].found[i] != first) return false;
            if (first == NULL) first = all[t].found[i];
        }
    }
    return true;
}

static bool round_of_threads(void)
{
    static looker all[THREADS];
    bool good = true;
    memset(all, 0, sizeof all);
    if (pp_shipped_library(&library) != PPTO_OK) return false;
    if (pp_library_names(library, &names) != PPTO_OK || names.n > MAX_NAMES) return false;
    for (unsigned t = 0; t < THREADS; t++) {
        all[t].number = t;
        pthread_create(&all[t].thread, NULL, look_up_all, &all[t]);
    }
    for (unsigned t = 0; t < THREADS; t++) {
        pthread_join(all[t].thread, NULL);
        good = good && !all[t].failed;
    }
    good = good && agree(all);
    pp_vec_free(&names);
    pp_library_destroy(library);
    return good;
}

int main(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        if (!round_of_threads()) {
            fprintf(stderr, "race_library: round %d failed\n", i);
            return 1;
        }
    }
    puts("passed");
    return 0;
}
