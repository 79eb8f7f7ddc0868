/* SPDX-License-Identifier: Apache-2.0
 * The shipped definitions read by name: what the index says of each is what reading the whole texts gives,
 * nothing is read before it is asked for, and what fails for want of memory can be repeated. */
#include <stdio.h>

#include "graph/library_impl.h"
#include "graph_text.h"
#include "runtime/runtime.h"

static pp_library *shelved;

static void open_both(void)
{
    open_graph();
    cr_assert_eq(pp_shipped_library(&shelved), PPTO_OK);
}

static void close_both(void)
{
    pp_library_destroy(shelved);
    close_graph();
}

TestSuite(shelf, .init = open_both, .fini = close_both);

static const pp_definition *look_up(const char *name)
{
    const pp_definition *d;
    pp_error err = {.code = PPTO_OK};
    cr_assert_eq(pp_library_find(shelved, name, &d, &err), PPTO_OK, "%s: %s", name, err.text);
    return d;
}

/* "library.ppto:12:4", without the file. */
static void place_of(const pp_definition *d, char *out, size_t room)
{
    pp_error err = {.code = PPTO_OK};
    pp_unit_fail(d->owner, d->at, &err, PPTO_E_NAME, "here");
    snprintf(out, room, "%s", strchr(err.text, ':'));
}

static void expect_same(const pp_definition *a, const pp_definition *b)
{
    char place_a[512], place_b[512];
    cr_expect_str_eq(a->name, b->name);
    cr_expect_str_eq(a->doc, b->doc, "%s", a->name);
    cr_expect(a->builtin && b->builtin && a->is_fold == b->is_fold && a->n_params == b->n_params);
    cr_expect_eq(pp_library_elementwise(shelved, a), pp_library_elementwise(library, b), "%s", a->name);
    cr_expect_eq(pp_library_literal(shelved, a), pp_library_literal(library, b), "%s", a->name);
    cr_expect_eq(a->end - a->at, b->end - b->at, "%s", a->name);
    cr_expect_eq(memcmp(a->owner->source + a->at, b->owner->source + b->at, a->end - a->at), 0, "%s",
                 a->name);
    place_of(a, place_a, sizeof place_a);
    place_of(b, place_b, sizeof place_b);
    cr_expect_str_eq(place_a, place_b);
}

Test(shelf, every_definition_is_that_of_the_whole_text)
{
    pp_names all, own;
    cr_assert_eq(pp_library_names(library, &all), PPTO_OK);
    cr_assert_eq(pp_library_names(shelved, &own), PPTO_OK);
    cr_assert_eq(all.n, own.n);
    cr_expect(all.n > 400);
    for (size_t i = 0; i < all.n; i++) {
        cr_assert_str_eq(all.at[i], own.at[i]);
        expect_same(look_up(own.at[i]), find(all.at[i]));
    }
    pp_vec_free(&all);
    pp_vec_free(&own);
}

Test(shelf, an_alias_is_its_operator_read_once)
{
    const char *aliases[16], *whole[16];
    cr_expect(look_up("mul") == look_up("multiply") && look_up("multiply") == look_up("mul"));
    cr_expect(look_up("no_such_operator") == NULL);
    size_t n = pp_library_aliases(shelved, "divide", aliases, 16);
    cr_expect_eq(n, pp_library_aliases(library, "divide", whole, 16));
    cr_expect(n == 2 && strcmp(aliases[0], "div") == 0 && strcmp(aliases[1], "true_divide") == 0);
}

Test(shelf, names_are_known_without_reading)
{
    const pp_heap_counters before = pp_heap_count();
    cr_expect_eq(pp_library_owner(shelved, "softmax"), PP_NAME_SHIPPED);
    cr_expect_eq(pp_library_owner(shelved, "mul"), PP_NAME_SHIPPED);
    cr_expect_eq(pp_library_owner(shelved, "softmix"), PP_NAME_FREE);
    cr_expect_str_eq(pp_library_nearest(shelved, "sftmax"), "softmax");
    cr_expect_str_eq(pp_library_nearest(shelved, "sinn"), "sin", "not sign: of two as near the more alike");
    cr_expect_eq(pp_heap_count().allocations, before.allocations);
}

static ppto_status define_text(const char *text, pp_error *err)
{
    pp_unit *unit;
    PP_TRY(pp_parse(text, strlen(text), "own.ppto", PP_PARSE_LIBRARY, &unit, err));
    return pp_library_add(shelved, unit, pp_unit_destroy, false, err);
}

Test(shelf, definitions_of_a_user_stand_beside_it)
{
    pp_error err = {.code = PPTO_OK};
    const char *aliases[16];
    cr_assert_eq(define_text("op twice(x: any) = add(x, x)\nalias plus = add\nalias two = twice\n", &err),
                 PPTO_OK, "%s", err.text);
    cr_expect(pp_library_elementwise(shelved, look_up("twice")), "by the index' word on add");
    cr_expect(look_up("plus") == look_up("add") && look_up("two") == look_up("twice"));
    cr_expect_eq(pp_library_owner(shelved, "twice"), PP_NAME_DEFINED);
    cr_expect_eq(pp_library_aliases(shelved, "add", aliases, 16), 1);
    cr_expect_eq(define_text("op softmax(x: any) = x\n", &err), PPTO_E_NAME);
    cr_expect(strstr(err.text, "taken by a shipped operator") != NULL, "%s", err.text);
    pp_error_clear(&err);
    cr_expect_eq(define_text("alias mul = add\n", &err), PPTO_E_NAME);
    pp_error_clear(&err);
    cr_expect_eq(define_text("op bad(x: any) = softmax(relu(x)) + gone(x)\n", &err), PPTO_E_NAME);
    cr_expect(look_up("bad") == NULL && look_up("relu") != NULL && look_up("two") == look_up("twice"));
}

Test(shelf, want_of_memory_leaves_nothing_behind)
{
    for (uint64_t n = 1;; n++) {
        const pp_definition *d = NULL;
        pp_error err = {.code = PPTO_OK};
        pp_heap_fail_at(n, false);
        ppto_status status = pp_library_find(shelved, n % 2 ? "mul" : "softmax", &d, &err);
        pp_heap_fail_at(0, false);
        if (status == PPTO_OK && n > 40) break;
        cr_assert(status == PPTO_OK ? d != NULL : status == PPTO_E_NOMEM && d == NULL && err.text[0]);
        pp_library_destroy(shelved);
        cr_assert_eq(pp_shipped_library(&shelved), PPTO_OK);
    }
    cr_expect_str_eq(look_up("mul")->name, "multiply");
}

/* What the functions and folds of a flat graph compute. */
static uint64_t meaning(const pp_flat *flat)
{
    uint64_t hash = 0;
    for (uint32_t id = 0; id < flat->prims.n; id++) {
        const pp_prim *p = pp_flat_prim(flat, id);
        hash = pp_hash_mix(hash, (uint64_t)p->kind << 8 | p->op);
        if (p->kind == PP_P_MAP && p->op == PP_CALL) hash = pp_hash_mix(hash, p->u.function->hash);
        if (p->kind != PP_P_REDUCE && p->kind != PP_P_SCAN) continue;
        hash = pp_hash_mix(hash, p->u.fold.monoid->lift->hash);
        hash = pp_hash_mix(hash, p->u.fold.monoid->join->hash);
    }
    return hash;
}

Test(shelf, a_library_that_lacked_memory_once_works_again)
{
    const char *text =
        "softmax(gelu(x[1:] * 0.5), axis=0) @ transpose(x) + sum(x ** 2.5) + sum(x ** 3) + sum(astype(x, "
        "i32) << 2) + sum(x < 1) + mean(x)";
    ppto_status status = PPTO_E_NOMEM;
    uint64_t right, made;
    cr_assert_eq(record_and_expand(library, text, meaning, &right), PPTO_OK);
    for (uint64_t n = 1; status != PPTO_OK; n += 1 + n / 300) {
        pp_library_destroy(shelved);
        cr_assert_eq(pp_shipped_library(&shelved), PPTO_OK);
        pp_heap_fail_at(n, false);
        status = record_and_expand(shelved, text, meaning, &made);
        pp_heap_fail_at(0, false);
        cr_assert(status == PPTO_OK || status == PPTO_E_NOMEM, "allocation %llu: %s", (unsigned long long)n,
                  ppto_status_name(status));
        ppto_status again = record_and_expand(shelved, text, meaning, &made);
        cr_assert_eq(again, PPTO_OK, "after allocation %llu: %s", (unsigned long long)n,
                     ppto_status_name(again));
        cr_assert_eq(made, right, "after allocation %llu", (unsigned long long)n);
    }
}
