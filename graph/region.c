/* SPDX-License-Identifier: Apache-2.0
 * The passes of a chunk region: which values are computed once and kept, which places there are, what a piece
 * of a pass computes. See region.h for the idea. */
#include "graph/region.h"

#include <inttypes.h>
#include <string.h>

#include "graph/region_build.h"

/* ---- places ------------------------------------------------------------------------------------------- */

static ppto_status add_place(pp_region *r, pp_place place)
{
    return pp_vec_push(&r->places, place);
}

static pp_place place_like(const pp_region *r, pp_place_kind kind, uint32_t prim, uint8_t dtype)
{
    const pp_type *type = pp_flat_type(r->flat, prim);
    pp_place place = {.kind = (uint8_t)kind, .dtype = dtype, .rank = type->rank, .number = prim};
    memcpy(place.dim, pp_trace_dims(&r->trace, prim), sizeof place.dim);
    place.cut = r->trace.cut[prim] != PP_WHOLE;
    if (place.cut) place.axis = r->trace.cut[prim];
    return place;
}

static ppto_status input_place(pp_region *r, uint32_t prim)
{
    pp_place place = place_like(r, PP_AT_INPUT, prim, pp_flat_type(r->flat, prim)->dtype);
    place.number = r->flat->prims.at[prim].number;
    return add_place(r, place);
}

static ppto_status state_places(pp_region *r, uint32_t prim)
{
    const pp_monoid *m = r->flat->prims.at[prim].u.fold.monoid;
    r->place_of[prim] = (uint32_t)r->places.n;
    for (uint32_t i = 0; i < m->n_states; i++) {
        pp_place place = place_like(r, PP_AT_STATES, prim, m->state[i]);
        memmove(place.dim + 1, place.dim, place.rank * sizeof *place.dim);
        place.dim[0] = 0; /* as many as the pieces give */
        place.rank++;
        place.cut = true;
        place.axis = 0;
        PP_TRY(add_place(r, place));
    }
    return PPTO_OK;
}

static ppto_status carry_places(pp_region *r, uint32_t prim)
{
    const pp_prim *p = &r->flat->prims.at[prim];
    uint32_t n = p->kind == PP_P_SCAN ? p->u.fold.monoid->n_states : 1;
    r->place_of[prim] = (uint32_t)r->places.n;
    for (uint32_t i = 0; i < n; i++) {
        uint8_t dtype =
            p->kind == PP_P_SCAN ? p->u.fold.monoid->state[i] : pp_flat_type(r->flat, prim)->dtype;
        pp_place place = place_like(r, PP_AT_CARRY, prim, dtype);
        if (p->kind == PP_P_SCAN) place.dim[p->axis] = 1;
        place.cut = false;
        PP_TRY(add_place(r, place));
    }
    return PPTO_OK;
}

/* Views and numbers of inputs: copied into every part that needs them, for they cost nothing. */
static void find_cheap(const pp_region *r, uint8_t *cheap)
{
    for (uint32_t id = 0; id < r->flat->prims.n; id++) {
        const pp_prim *p = &r->flat->prims.at[id];
        bool view = p->kind >= PP_P_PERMUTE && p->kind <= PP_P_BROADCAST;
        bool number = p->kind == PP_P_MAP && pp_flat_type(r->flat, id)->rank == 0;
        cheap[id] = p->kind <= PP_P_IOTA || view || number;
        for (uint32_t i = 0; i < p->n_operands; i++) cheap[id] &= cheap[pp_flat_operands(r->flat, id)[i]];
        cheap[id] &= r->trace.depth[id] == 0;
    }
}

/* What pieces read although it is whole gets a place; cut values and what is cheap do not. */
static ppto_status value_places(pp_region *r, const uint8_t *cheap, uint8_t *in_piece)
{
    for (uint32_t id = (uint32_t)r->flat->prims.n; id-- > 0;) {
        const pp_prim *p = &r->flat->prims.at[id];
        bool crosses = r->trace.cross[id];
        in_piece[id] |= r->trace.cut[id] != PP_WHOLE || crosses;
        if (!in_piece[id]) continue;
        for (uint32_t i = 0; i < p->n_operands; i++) {
            uint32_t x = pp_flat_operands(r->flat, id)[i];
            if (r->trace.cut[x] != PP_WHOLE || r->place_of[x] != PP_NONE) continue;
            in_piece[x] |= cheap[x];
            if (cheap[x] || (r->flat->prims.at[x].kind == PP_P_CONTRACT && r->trace.cross[x])) continue;
            if (r->flat->prims.at[x].kind == PP_P_REDUCE || r->flat->prims.at[x].kind == PP_P_SCAN) continue;
            r->place_of[x] = (uint32_t)r->places.n;
            PP_TRY(add_place(r, place_like(r, PP_AT_VALUE, x, pp_flat_type(r->flat, x)->dtype)));
        }
    }
    return PPTO_OK;
}

static ppto_status row_place(pp_region *r, uint32_t prim)
{
    pp_place place = place_like(r, PP_AT_ROW, prim, pp_flat_type(r->flat, prim)->dtype);
    place.cut = false; /* all of it is one row */
    r->row_of[prim] = (uint32_t)r->places.n;
    return add_place(r, place);
}

static ppto_status make_places(pp_region *r)
{
    size_t n = r->flat->prims.n;
    uint8_t *cheap = pp_calloc(n + 1, 2);
    if (!cheap) return PPTO_E_NOMEM;
    ppto_status status = add_place(r, (pp_place){.kind = PP_AT_START, .dtype = PPTO_I64});
    for (uint32_t id = 0; status == PPTO_OK && id < n; id++) {
        const pp_prim *p = &r->flat->prims.at[id];
        if (p->kind == PP_P_INPUT)
            status = input_place(r, id);
        else if (r->trace.cross[id])
            status = p->kind == PP_P_REDUCE ? state_places(r, id) : carry_places(r, id);
        if (status == PPTO_OK && r->trace.kept[id]) status = row_place(r, id);
    }
    find_cheap(r, cheap);
    if (status == PPTO_OK) status = value_places(r, cheap, cheap + n);
    for (uint32_t i = 0; status == PPTO_OK && i < r->flat->outputs.n; i++) {
        uint32_t id = r->flat->outputs.at[i];
        pp_place place = place_like(r, PP_AT_OUTPUT, id, pp_flat_type(r->flat, id)->dtype);
        place.number = i;
        status = add_place(r, place);
    }
    pp_free(cheap);
    return status;
}

static uint32_t output_place(const pp_region *r, uint32_t number)
{
    return (uint32_t)(r->places.n - r->flat->outputs.n + number);
}

bool pp_region_repeats(const pp_region *r, uint32_t number)
{
    for (uint32_t i = 0; i < number; i++)
        if (r->flat->outputs.at[i] == r->flat->outputs.at[number]) return true;
    return false;
}

/* ---- passes ------------------------------------------------------------------------------------------- */

/* The pass in which a crossing prim is computed. */
static uint32_t pass_of(const pp_region *r, uint32_t prim)
{
    return r->trace.depth[prim] - (r->flat->prims.at[prim].kind != PP_P_SCAN);
}

static bool is_cut_output(const pp_region *r, uint32_t prim)
{
    if (r->trace.cut[prim] == PP_WHOLE) return false;
    for (size_t i = 0; i < r->flat->outputs.n; i++)
        if (r->flat->outputs.at[i] == prim) return true;
    return false;
}

bool pp_region_is_root(const pp_region *r, uint32_t pass, uint32_t prim)
{
    bool crosses = r->trace.cross[prim] && r->flat->prims.at[prim].kind != PP_P_SCAN;
    bool wanted = r->trace.depth[prim] == pass && (r->trace.kept[prim] || is_cut_output(r, prim));
    return wanted || (crosses && pass_of(r, prim) == pass);
}

/* What the roots of a pass are made of, piece by piece: a scan below a crossing of a later pass runs there
 * again. */
static ppto_status find_running(pp_region *r, uint32_t pass)
{
    size_t n = r->flat->prims.n;
    uint8_t *runs = r->passes[pass].runs = pp_arena_alloc(&r->arena, n + 1);
    if (!runs) return PPTO_E_NOMEM;
    memset(runs, 0, n + 1);
    for (uint32_t id = (uint32_t)n; id-- > 0;) {
        runs[id] |= pp_region_is_root(r, pass, id);
        for (uint32_t k = 0; runs[id] && !r->trace.takes[id] && k < r->flat->prims.at[id].n_operands; k++) {
            uint32_t x = pp_flat_operands(r->flat, id)[k];
            runs[x] |= r->trace.cut[x] != PP_WHOLE;
        }
    }
    return PPTO_OK;
}

static ppto_status plan_pass(pp_region *r, uint32_t pass, uint32_t *culprit, pp_error *err)
{
    pp_region_pass *p = &r->passes[pass];
    p->most = INT64_MAX;
    p->least = 1;
    PP_TRY(find_running(r, pass));
    for (uint32_t id = 0; id < r->flat->prims.n; id++) {
        int64_t least, most;
        if (pp_region_is_root(r, pass, id) && pp_region_rows(r, id) > p->rows)
            p->rows = pp_region_rows(r, id);
        uint8_t kind = r->flat->prims.at[id].kind;
        p->any |= r->trace.kept[id] && r->trace.depth[id] == pass;
        if (!r->trace.cross[id] || !p->runs[id]) continue;
        ppto_status status = pp_region_limits(r, id, &least, &most, err);
        if (status != PPTO_OK) *culprit = id;
        PP_TRY(status);
        if (least > p->least) p->least = least;
        if (most < p->most) p->most = most;
        p->carries |= kind != PP_P_REDUCE;
        p->any |= kind != PP_P_SCAN;
        if (kind != PP_P_REDUCE) continue;
        pp_tree tree = {.first = r->place_of[id], .n = r->flat->prims.at[id].u.fold.monoid->n_states};
        PP_TRY(pp_region_joined(r, r->flat->prims.at[id].u.fold.monoid, false, &tree.joined));
        PP_TRY(pp_vec_push(&p->trees, tree));
    }
    for (size_t i = 0; i < r->flat->outputs.n; i++) {
        uint32_t id = r->flat->outputs.at[i];
        p->any |= r->trace.cut[id] != PP_WHOLE && r->trace.depth[id] == pass;
    }
    if (p->most >= p->least) return PPTO_OK;
    return pp_fail(err, PPTO_E_UNSUPPORTED,
                   "no length of a piece suits all that runs along the axis that is cut");
}

/* Ends a build; a part that failed is no part. */
static ppto_status built(pp_build *b, ppto_status status)
{
    if (status != PPTO_OK) pp_part_free(b->part);
    pp_build_close(b);
    return status;
}

ppto_status pp_region_whole(pp_region *r, uint32_t depth, pp_part *part, pp_error *err)
{
    pp_build b;
    uint8_t *root = pp_calloc(r->flat->prims.n + 1, 1);
    if (!root) return PPTO_E_NOMEM;
    ppto_status status = pp_build_open(&b, r, part, err);
    if (status == PPTO_OK) {
        b.now_pass = depth;
        for (uint32_t id = 0; id < r->flat->prims.n; id++) {
            uint32_t place = r->place_of[id];
            root[id] =
                place != PP_NONE && r->places.at[place].kind == PP_AT_VALUE && r->trace.depth[id] == depth;
        }
        status = pp_build_copy(&b, root);
        for (uint32_t id = 0; status == PPTO_OK && id < r->flat->prims.n; id++)
            if (root[id]) status = pp_build_write(&b, r->place_of[id], b.made[id]);
    }
    pp_free(root);
    return built(&b, status);
}

ppto_status pp_region_last(pp_region *r, pp_part *out, pp_error *err)
{
    pp_build b;
    uint8_t *root = pp_calloc(r->flat->prims.n + 1, 1);
    if (!root) return PPTO_E_NOMEM;
    ppto_status status = pp_build_open(&b, r, out, err);
    b.now_pass = r->trace.depths;
    for (size_t i = 0; i < r->flat->outputs.n; i++)
        root[r->flat->outputs.at[i]] = r->trace.cut[r->flat->outputs.at[i]] == PP_WHOLE;
    if (status == PPTO_OK) status = pp_build_copy(&b, root);
    for (uint32_t i = 0; status == PPTO_OK && i < r->flat->outputs.n; i++)
        if (root[r->flat->outputs.at[i]] && !pp_region_repeats(r, i))
            status = pp_build_write(&b, output_place(r, i), b.made[r->flat->outputs.at[i]]);
    pp_free(root);
    return built(&b, status);
}

/* Writes a root's rows of the piece to a place, when it has some. */
static ppto_status write_rows(pp_build *b, uint32_t id, uint32_t place)
{
    pp_rows rows = pp_region_root_rows(b->region, id, b->start, b->spans->rows);
    for (uint32_t i = 0; rows.from < rows.to && i < b->spans->at.n; i++) {
        uint32_t taken;
        if (b->spans->at.at[i].prim != id || !b->spans->at.at[i].root) continue;
        PP_TRY(pp_build_take(b, i, rows, &taken));
        return pp_build_write(b, place, taken);
    }
    return PPTO_OK;
}

ppto_status pp_region_piece(pp_region *r, uint32_t pass, const pp_spans *spans, const pp_rows *now,
                            int64_t start, bool first, pp_part *out, pp_error *err)
{
    pp_build b;
    ppto_status status = pp_build_open(&b, r, out, err);
    b.spans = spans;
    b.now = now;
    b.start = start;
    b.first = first;
    b.now_pass = pass;
    if (status == PPTO_OK) status = pp_build_copy_piece(&b);
    for (uint32_t i = 0; status == PPTO_OK && i < r->flat->outputs.n; i++) {
        uint32_t id = r->flat->outputs.at[i];
        if (r->trace.cut[id] != PP_WHOLE && r->trace.depth[id] == pass && !pp_region_repeats(r, i))
            status = write_rows(&b, id, output_place(r, i));
    }
    for (uint32_t id = 0; status == PPTO_OK && id < r->flat->prims.n; id++)
        if (r->trace.kept[id] && r->trace.depth[id] == pass) status = write_rows(&b, id, r->row_of[id]);
    if (status == PPTO_OK) status = pp_sizes_status(pp_types_sizes(out->types));
    if (status == PPTO_OK) status = pp_flat_verify(&out->flat, err);
    return built(&b, status);
}

/* ---- trees -------------------------------------------------------------------------------------------- */

/* Those of one piece. */
static int64_t units_of(const pp_region *r, const pp_tree *tree, int64_t rows)
{
    uint32_t prim = r->places.at[tree->first].number, x = pp_flat_operands(r->flat, prim)[0];
    const pp_prim *p = &r->flat->prims.at[prim];
    if (pp_region_one_unit(r, prim)) return 1;
    int64_t n = rows;
    int64_t block = p->rows ? PP_ROW_BLOCK : PP_LANE_BLOCK;
    for (uint32_t i = r->trace.cut[x] + 1u; i < pp_flat_type(r->flat, x)->rank; i++)
        if (p->u.fold.axes >> i & 1) n *= pp_trace_dims(&r->trace, x)[i];
    return (n + block - 1) / block;
}

int64_t pp_region_units(const pp_region *r, const pp_tree *tree, int64_t rows)
{
    int64_t all = pp_region_rows(r, r->places.at[tree->first].number), rest = all % rows;
    return all / rows * units_of(r, tree, rows) + (rest != 0 ? units_of(r, tree, rest) : 0);
}

static ppto_status add_level(pp_build *b, const pp_tree *tree, int64_t n)
{
    uint32_t x[4], pairs[4], out[4];
    for (uint32_t i = 0; i < tree->n; i++) {
        PP_TRY(pp_build_read(b, tree->first + i, &x[i]));
        pp_shape shape = pp_build_shape(b, x[i]);
        PP_TRY(pp_build_slice(b, x[i], 0, 0, n / 2 * 2, &pairs[i]));
        memmove(shape.dim + 2, shape.dim + 1, (shape.rank - 1) * sizeof *shape.dim);
        shape.rank++;
        shape.dim[0] = n / 2;
        shape.dim[1] = 2;
        PP_TRY(pp_build_reshape(b, pairs[i], &shape, &pairs[i]));
    }
    PP_TRY(pp_build_fold(b, PP_P_REDUCE, tree->joined, 1, pp_build_shape(b, pairs[0]).rank > 2, pairs, out));
    for (uint32_t i = 0; i < tree->n; i++) {
        if (n % 2 != 0) {
            uint32_t last;
            PP_TRY(pp_build_slice(b, x[i], 0, n - 1, 1, &last));
            PP_TRY(pp_build_concat(b, 0, (uint32_t[]){out[i], last}, 2, &out[i]));
        }
        PP_TRY(pp_build_write(b, tree->first + i, out[i]));
    }
    return PPTO_OK;
}

ppto_status pp_region_level(pp_region *r, const pp_tree *tree, int64_t n, pp_part *out, pp_error *err)
{
    pp_build b;
    ppto_status status = pp_build_open(&b, r, out, err);
    b.units = n;
    if (status == PPTO_OK) status = add_level(&b, tree, n);
    return built(&b, status);
}

/* ---- making ------------------------------------------------------------------------------------------- */

static ppto_status fill(pp_region *r, uint32_t *culprit, pp_error *err)
{
    size_t n = r->flat->prims.n;
    r->place_of = pp_arena_alloc(&r->arena, (n + 1) * sizeof *r->place_of);
    r->passes = pp_arena_alloc(&r->arena, r->trace.depths * sizeof *r->passes);
    r->row_of = pp_arena_alloc(&r->arena, (n + 1) * sizeof *r->row_of);
    if (!r->place_of || !r->passes || !r->row_of) return PPTO_E_NOMEM;
    memset(r->place_of, 0xff, (n + 1) * sizeof *r->place_of);
    memset(r->row_of, 0xff, (n + 1) * sizeof *r->row_of);
    PP_TRY(make_places(r));
    for (uint32_t pass = 0; pass < r->trace.depths; pass++) PP_TRY(plan_pass(r, pass, culprit, err));
    return PPTO_OK;
}

ppto_status pp_region_create(const pp_flat *flat, const int64_t *names, const uint64_t *literals,
                             uint32_t seed, pp_region **out, uint32_t *culprit, pp_error *err)
{
    pp_region *r = pp_calloc(1, sizeof *r);
    size_t n_names = pp_sizes_names(pp_types_sizes(flat->types));
    *culprit = PP_NONE;
    if (!r) return PPTO_E_NOMEM;
    r->flat = flat;
    r->literals = literals;
    r->seed = seed;
    r->names = pp_arena_alloc(&r->arena, (n_names + 1) * sizeof *names);
    ppto_status status = r->names ? PPTO_OK : PPTO_E_NOMEM;
    if (status == PPTO_OK && n_names) memcpy(r->names, names, n_names * sizeof *names);
    if (status == PPTO_OK) status = pp_trace_cut(flat, names, seed, &r->trace, culprit, err);
    if (status == PPTO_OK) status = fill(r, culprit, err);
    if (status != PPTO_OK) {
        pp_region_destroy(r);
        return status;
    }
    *out = r;
    return PPTO_OK;
}

void pp_region_destroy(pp_region *r)
{
    if (!r) return;
    for (uint32_t pass = 0; r->passes && pass < r->trace.depths; pass++) pp_vec_free(&r->passes[pass].trees);
    pp_trace_free(&r->trace);
    pp_vec_free(&r->places);
    pp_vec_free(&r->monoids);
    pp_arena_free(&r->arena);
    pp_free(r);
}
