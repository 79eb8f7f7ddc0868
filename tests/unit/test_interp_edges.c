/* SPDX-License-Identifier: Apache-2.0
 * The block interpreter at its edges: random programs, memory shared by inputs and outputs, empty domains,
 * folds of states, scans that are kept, tables, counted bytes, and what a run may not do (allocate). */
#include "interp_build.h"
#include "tests/support/interp_functions.h"

static const pp_instr cube_code[] = {PARAM(PPTO_F32, 0),
                                     {.op = PP_MUL, .dtype = PPTO_F32, .a = 0, .b = 0},
                                     {.op = PP_MUL, .dtype = PPTO_F32, .a = 1, .b = 0}};
static pp_function cube_f32 = FUNCTION(cube_code, numbers, 1, PPTO_F32);

static void hash_functions(void)
{
    pp_function *const all[] = {&same_f32, &add_f32, &cube_f32};
    hash_each(all, sizeof all / sizeof all[0]);
}
TestSuite(interp_edges, .init = hash_functions, .timeout = 300);

static pp_fold sum_fold(uint32_t input)
{
    return sum_of(input, NULL);
}

/* ---- random maps ----------------------------------------------------------------------------- */

static const ppto_dtype dtypes[] = {PPTO_BOOL, PPTO_I8, PPTO_I32, PPTO_I64, PPTO_U16, PPTO_F32, PPTO_F64};
static const pp_op ops[] = {PP_ADD,  PP_SUB,  PP_MUL,   PP_FMA, PP_MIN, PP_MAX, PP_NEG,
                            PP_ABS,  PP_LT,   PP_EQ,    PP_AND, PP_XOR, PP_SHL, PP_SELECT,
                            PP_CAST, PP_CAST, PP_FLOOR, PP_DIV, PP_NOT};
enum { N_OPS = sizeof ops / sizeof ops[0], N_DTYPES = sizeof dtypes / sizeof dtypes[0] };

/* A value of that dtype among [first, n), or a cast of the last one. */
static uint32_t pick(program_builder *b, uint64_t *seed, ppto_dtype dtype)
{
    for (unsigned tries = 0; tries < 20; tries++) {
        const uint32_t at = (uint32_t)(next_random(seed) % b->p.n_code);
        if (b->code[at].dtype == dtype) return at;
    }
    return prog_op(b, PP_CAST, dtype, (uint32_t)(next_random(seed) % b->p.n_code), 0, 0, 0);
}

static void random_op(program_builder *b, uint64_t *seed)
{
    const pp_op op = ops[next_random(seed) % N_OPS];
    const ppto_dtype dtype = dtypes[next_random(seed) % N_DTYPES];
    uint32_t operand[3] = {0};
    if (op == PP_CAST) {
        prog_op(b, op, dtype, (uint32_t)(next_random(seed) % b->p.n_code), 0, 0, 0);
        return;
    }
    if (!pp_scalar_accepts(op, dtype)) return;
    for (unsigned i = 0; i < pp_scalar_find(op)->arity; i++)
        operand[i] = pick(b, seed, op == PP_SELECT && i == 0 ? PPTO_BOOL : dtype);
    prog_op(b, op, pp_scalar_result(op, dtype), operand[0], operand[1], operand[2], 0);
}

static void random_map(uint64_t seed)
{
    static program_builder b;
    static const char *const orders[] = {"012", "021", "210", "102", "0-12", "201"};
    static const char *const views[] = {"012", "0", "1", "2", "01", "12", "02", ""};
    int64_t shape[3];
    for (unsigned d = 0; d < 3; d++) {
        const uint64_t r = next_random(&seed);
        shape[d] = (int64_t)(r % 4 == 0   ? 1
                             : r % 4 == 1 ? 2 + r / 4 % 3
                             : r % 4 == 2 ? 5 + r / 4 % 30
                                          : 40 + r / 4 % 150);
    }
    prog_start(&b, PP_FRAME_MAP);
    for (unsigned d = 0; d < 3; d++) prog_axis(&b, PP_AXIS_OUTER, shape[d]);
    for (unsigned i = 0; i < 4; i++) {
        const char *view = i == 0 ? "012" : views[next_random(&seed) % 8];
        const uint32_t rank = (uint32_t)strlen(view);
        int64_t sizes[3] = {0};
        for (uint32_t d = 0; d < rank; d++) sizes[d] = shape[view[d] - '0'];
        const uint32_t t = prog_tensor(&b, dtypes[next_random(&seed) % N_DTYPES], false,
                                       rank == 3 ? orders[next_random(&seed) % 6] : NULL, rank, sizes);
        prog_fill(&b, t, seed);
    }
    b.p.n_args = 1;
    b.args[0] = 0x40490fdb;
    const uint32_t out[2] = {prog_tensor(&b, PPTO_F32, true, orders[next_random(&seed) % 3], 3, shape),
                             prog_tensor(&b, PPTO_I64, true, NULL, 3, shape)};
    prog_stage(&b, false);
    static const char *const by_rank[] = {"", NULL, NULL, "012"};
    for (uint32_t t = 0; t < 4; t++) {
        char view[4] = "";
        for (uint32_t d = 0, from = 0; d < b.tensors[t].rank; d++)
            for (uint32_t a = from; a < 3; a++)
                if (shape[a] == b.shape[t][d]) {
                    view[d] = (char)('0' + a), view[d + 1] = '\0';
                    from = a + 1;
                    break;
                }
        prog_load(&b, t, by_rank[b.tensors[t].rank] != NULL ? by_rank[b.tensors[t].rank] : view);
    }
    prog_op(&b, PP_ARG, PPTO_F32, 0, 0, 0, 0);
    prog_const(&b, PPTO_I32, 5);
    for (unsigned i = 0; i < 14; i++) random_op(&b, &seed);
    const uint32_t v0 = pick(&b, &seed, PPTO_F32), v1 = pick(&b, &seed, PPTO_I64);
    prog_store(&b, out[0], "012", v0);
    prog_store(&b, out[1], "012", v1);
    prog_stage_end(&b);
    char name[64];
    snprintf(name, sizeof name, "random map %dx%dx%d", (int)shape[0], (int)shape[1], (int)shape[2]);
    prog_compare(&b, name);
    prog_free(&b);
}

Test(interp_edges, random_maps)
{
    for (uint64_t seed = 1; seed <= 60; seed++) random_map(seed * 7919);
}

/* ---- shared memory --------------------------------------------------------------------------- */

/* y = x + 1 over x's memory, and z = x too: z must see the old x. */
Test(interp_edges, an_output_may_lie_over_an_input)
{
    static program_builder b;
    for (int64_t n = 1; n < 20000; n = n * 7 + 1) {
        prog_start(&b, PP_FRAME_MAP);
        prog_axis(&b, PP_AXIS_OUTER, n);
        const uint32_t x = prog_tensor(&b, PPTO_I32, false, NULL, 1, &n);
        const uint32_t y = prog_tensor(&b, PPTO_I32, true, NULL, 1, &n),
                       z = prog_tensor(&b, PPTO_I32, true, NULL, 1, &n);
        prog_fill(&b, x, 5);
        int32_t *old = malloc(b.bytes[x]);
        memcpy(old, b.owned[x], b.bytes[x]);
        b.refs[y].data = b.owned[x];
        prog_stage(&b, false);
        const uint32_t v = prog_load(&b, x, "0"), one = prog_const(&b, PPTO_I32, 1);
        prog_store(&b, y, "0", prog_op(&b, PP_ADD, PPTO_I32, v, one, 0, 0));
        prog_store(&b, z, "0", v);
        prog_stage_end(&b);
        cr_assert_eq(prog_run(&b, &pp_cpu_device, NULL, 2, false).status, PPTO_OK);
        for (int64_t i = 0; i < n; i++) {
            cr_assert_eq(((int32_t *)b.owned[x])[i], (int32_t)((uint32_t)old[i] + 1u));
            cr_assert_eq(((int32_t *)b.owned[z])[i], old[i]);
        }
        free(old);
        prog_free(&b);
    }
}

/* y = x + 1 over x's memory, and z of x, of y or of both, computed before y or after it. */
static void over_an_input(int64_t n, unsigned form)
{
    static program_builder b;
    prog_start(&b, PP_FRAME_MAP);
    prog_axis(&b, PP_AXIS_OUTER, n);
    const uint32_t x = prog_tensor(&b, PPTO_I32, false, NULL, 1, &n);
    const uint32_t y = prog_tensor(&b, PPTO_I32, true, NULL, 1, &n),
                   z = prog_tensor(&b, PPTO_I32, true, NULL, 1, &n);
    prog_fill(&b, x, form);
    uint32_t *old = malloc(b.bytes[x]);
    memcpy(old, b.owned[x], b.bytes[x]);
    b.refs[y].data = b.owned[x];
    prog_stage(&b, false);
    const uint32_t v = prog_load(&b, x, "0"), one = prog_const(&b, PPTO_I32, 1);
    const uint32_t before = prog_op(&b, PP_MUL, PPTO_I32, v, v, 0, 0);
    const uint32_t sum = prog_op(&b, PP_ADD, PPTO_I32, v, one, 0, 0);
    const uint32_t with[] = {before, v, sum, prog_op(&b, PP_MUL, PPTO_I32, form == 3 ? v : sum, sum, 0, 0)};
    prog_store(&b, y, "0", sum);
    prog_store(&b, z, "0", prog_op(&b, PP_ADD, PPTO_I32, with[form], one, 0, 0));
    prog_stage_end(&b);
    cr_assert_eq(prog_run(&b, &pp_cpu_device, NULL, 2, false).status, PPTO_OK);
    for (int64_t i = 0; i < n; i++) {
        const uint32_t w = old[i], s = w + 1u, of[] = {w * w, w, s, w * s};
        cr_assert_eq(((uint32_t *)b.owned[x])[i], s, "form %u, %u of %d", form, (unsigned)i, (int)n);
        cr_assert_eq(((uint32_t *)b.owned[z])[i], of[form] + 1u, "form %u, %u of %d", form, (unsigned)i,
                     (int)n);
    }
    free(old);
    prog_free(&b);
}

Test(interp_edges, an_input_is_taken_over_after_its_last_look)
{
    for (unsigned form = 0; form < 4; form++)
        for (int64_t n = 1; n < 20000; n = n * 7 + 1) over_an_input(n, form);
}

/* ---- folds ----------------------------------------------------------------------------------- */

Test(interp_edges, nothing_is_folded)
{
    static program_builder b;
    for (unsigned c = 0; c < 4; c++) {
        const int64_t shape[] = {c & 2 ? 0 : 5, c & 2 ? 7 : 0};
        prog_start(&b, c & 1 ? PP_FRAME_ROWS : PP_FRAME_LANES);
        prog_axis(&b, PP_AXIS_OUTER, shape[0]);
        prog_axis(&b, PP_AXIS_INNER, shape[1]);
        const uint32_t x = prog_tensor(&b, PPTO_F32, false, NULL, 2, shape);
        const uint32_t out = prog_tensor(&b, PPTO_F32, true, NULL, 1, shape);
        prog_stage(&b, true);
        prog_fold(&b, sum_fold(prog_load(&b, x, "01")));
        prog_stage_end(&b);
        prog_stage(&b, false);
        prog_store(&b, out, "0", prog_op(&b, PP_STATE, PPTO_F32, 0, 0, 0, 0));
        prog_stage_end(&b);
        cr_expect_eq(prog_run(&b, &pp_cpu_device, NULL, 3, false).status, PPTO_OK);
        prog_free(&b);
    }
}

/* Rows that are states already; a scan whose result is kept and read by a later stage; a table. */
Test(interp_edges, states_kept_scans_and_tables)
{
    static program_builder b;
    static const uint64_t entries[4] = {0x3f800000, 0x40000000, 0xbf800000, 0x7fc00000};
    for (unsigned c = 0; c < 12; c++) {
        static const int64_t lengths[] = {3, 300, 9000};
        const int64_t shape[] = {c & 1 ? 4 : 37, lengths[c / 4]};
        const bool rows = c & 2;
        prog_start(&b, rows ? PP_FRAME_ROWS : PP_FRAME_LANES);
        prog_axis(&b, PP_AXIS_OUTER, shape[0]);
        prog_axis(&b, PP_AXIS_INNER, shape[1]);
        const uint32_t x = prog_tensor(&b, PPTO_F32, false, rows ? "10" : NULL, 2, shape);
        const uint32_t out = prog_tensor(&b, PPTO_F32, true, NULL, 2, shape),
                       sum = prog_tensor(&b, PPTO_F32, true, NULL, 1, shape);
        prog_fill(&b, x, c);
        b.buffers[b.p.n_buffers++] = (pp_buffer){PPTO_F32};
        b.tables[b.p.n_tables++] = (pp_table){PPTO_F32, 4, entries};
        prog_stage(&b, true);
        const uint32_t v = prog_load(&b, x, "01");
        const uint32_t at = prog_affine(&b, 0, PP_NONE);
        prog_term(&b, 0, 3);
        prog_term(&b, 1, 1);
        const uint32_t looked =
            prog_op(&b, PP_TABLE, PPTO_F32, prog_op(&b, PP_INDEX, PPTO_I64, 0, 0, 0, at), 0, 0, 0);
        const uint32_t scaled = prog_op(&b, PP_MUL, PPTO_F32, looked, v, 0, 0);
        pp_fold scan = sum_fold(scaled);
        scan.law = PP_LAW_SCAN;
        prog_fold(&b, scan);
        prog_fold(&b, (pp_fold){.n_states = 1,
                                .n_inputs = 1,
                                .state = {PPTO_F32},
                                .input = {v},
                                .joined = true,
                                .join = &add_f32,
                                .finish = &cube_f32});
        prog_op(&b, PP_KEEP, PPTO_F32, prog_op(&b, PP_SCANNED, PPTO_F32, 0, 0, 0, 0), 0, 0, 0);
        prog_stage_end(&b);
        prog_stage(&b, true);
        const uint32_t kept = prog_op(&b, PP_BUFFER, PPTO_F32, 0, 0, 0, 0);
        const uint32_t last = prog_op(&b, PP_STATE, PPTO_F32, 0, 0, 0, 0);
        prog_store(&b, out, "01", prog_op(&b, PP_DIV, PPTO_F32, kept, last, 0, 0));
        prog_stage_end(&b);
        prog_stage(&b, false);
        prog_store(&b, sum, "0", prog_op(&b, PP_STATE, PPTO_F32, 0, 0, 0, 1));
        prog_stage_end(&b);
        prog_compare(&b, rows ? "kept scan, rows" : "kept scan, lanes");
        prog_free(&b);
    }
}

/* One row of a sum; to be freed. */
static uint32_t make_long_sum(program_builder *b, int64_t length)
{
    const int64_t shape[] = {1, length};
    prog_start(b, PP_FRAME_LANES);
    prog_axis(b, PP_AXIS_OUTER, shape[0]);
    prog_axis(b, PP_AXIS_INNER, shape[1]);
    const uint32_t x = prog_tensor(b, PPTO_F32, false, NULL, 2, shape);
    const uint32_t out = prog_tensor(b, PPTO_F32, true, NULL, 1, shape);
    prog_fill(b, x, 1);
    for (int64_t i = 0; i < shape[1]; i++) ((float *)b->owned[x])[i] = (float)(i % 1001);
    prog_stage(b, true);
    prog_fold(b, sum_fold(prog_load(b, x, "01")));
    prog_stage_end(b);
    prog_stage(b, false);
    prog_store(b, out, "0", prog_op(b, PP_STATE, PPTO_F32, 0, 0, 0, 0));
    prog_stage_end(b);
    return out;
}

Test(interp_edges, a_long_sum_is_split_over_workers)
{
    static program_builder b;
    const uint32_t out = make_long_sum(&b, 3000000);
    cr_assert_eq(prog_run(&b, &pp_cpu_device, NULL, 1, false).phases, 1);
    const float whole = *(float *)b.owned[out];
    cr_assert_eq(prog_run(&b, &pp_cpu_device, NULL, 2, true).phases, 2);
    cr_assert_eq(*(float *)b.owned[out], whole);
    prog_free(&b);
}

Test(interp_edges, what_a_wake_costs_decides_whether_a_sum_is_split)
{
    static program_builder b;
    const uint32_t out = make_long_sum(&b, 3000000);
    pp_costs costs = pp_usual_costs;
    const pp_device_options options = {.costs = &costs};
    costs.at[PP_COST_WAKE_NS] = 1e9;
    cr_expect_eq(prog_run(&b, &pp_cpu_device, &options, 2, false).phases, 1);
    const float whole = *(float *)b.owned[out];
    costs.at[PP_COST_WAKE_NS] = 1;
    cr_expect_eq(prog_run(&b, &pp_cpu_device, &options, 2, false).phases, 2);
    cr_expect_eq(*(float *)b.owned[out], whole);
    prog_free(&b);
}

Test(interp_edges, little_work_is_not_shared)
{
    const pp_costs *costs = &pp_usual_costs;
    const double wake = costs->at[PP_COST_WAKE_NS];
    cr_expect_not(pp_cost_shares(costs, wake, wake / 2, 1), "less than a wake");
    cr_expect_not(pp_cost_shares(costs, 10 * wake, 5 * wake, 5), "a wake for each phase");
    cr_expect(pp_cost_shares(costs, 10 * wake, 5 * wake, 1));
    cr_expect_not(pp_cost_shares(costs, 1000 * wake, 1000 * wake, 1), "nothing is gained");
    cr_expect_eq(pp_cost_tasks(costs, wake, 8), 1);
    for (double ns = 1; ns < 1e12; ns *= 3)
        cr_expect_leq(pp_cost_tasks(costs, ns, 2), pp_cost_tasks(costs, ns * 3, 2), "%g ns", ns);
    cr_expect_leq(pp_cost_tasks(costs, 1e300, 2), 16, "few enough tasks for two workers");
}

/* ---- costs ----------------------------------------------------------------------------------- */

/* Broadcast operands count at their stored size, once; what lies outside a guard is not touched. */
Test(interp_edges, bytes_are_counted_once)
{
    static program_builder b;
    const int64_t shape[] = {40, 50};
    const pp_device_options options = {.count_bytes = true};
    prog_start(&b, PP_FRAME_MAP);
    prog_axis(&b, PP_AXIS_OUTER, shape[0]);
    prog_axis(&b, PP_AXIS_OUTER, shape[1]);
    const uint32_t x = prog_tensor(&b, PPTO_F32, false, "10", 2, shape),
                   y = prog_tensor(&b, PPTO_F32, false, NULL, 1, shape + 1);
    const uint32_t out = prog_tensor(&b, PPTO_F32, true, NULL, 2, shape);
    prog_stage(&b, false);
    const uint32_t v = prog_load(&b, x, "01"), w = prog_load(&b, y, "1");
    const uint32_t guarded = b.code[w].imm, at = prog_affine(&b, 0, PP_NONE);
    prog_term(&b, 1, 1);
    b.accesses[guarded].first_guard = b.p.n_guards;
    b.accesses[guarded].n_guards = 1;
    b.guards[b.p.n_guards++] = (pp_guard){at, prog_slot(&b, 10), prog_slot(&b, 30)};
    prog_store(&b, out, "01", prog_op(&b, PP_ADD, PPTO_F32, v, w, 0, 0));
    prog_stage_end(&b);
    const run_outcome got = prog_run(&b, &pp_cpu_device, &options, 2, false);
    cr_expect_eq(got.reads, (40 * 50 + 20) * 4, "%d", (int)got.reads);
    cr_expect_eq(got.writes, 40 * 50 * 4, "%d", (int)got.writes);
    prog_free(&b);
}

/* The same sizes again: no allocation in resize, bind and run; other sizes, then the first again: the same
 * bytes. */
Test(interp_edges, a_launch_is_reused)
{
    static program_builder b;
    int64_t n = 1000;
    pp_error err = {0};
    pp_device *device;
    pp_kernel *kernel;
    pp_launch *launch;
    pp_geometry geometry;
    prog_start(&b, PP_FRAME_MAP);
    prog_axis(&b, PP_AXIS_OUTER, n);
    const uint32_t x = prog_tensor(&b, PPTO_F32, false, NULL, 1, &n),
                   out = prog_tensor(&b, PPTO_F32, true, NULL, 1, &n);
    prog_fill(&b, x, 3);
    prog_stage(&b, false);
    const uint32_t v = prog_load(&b, x, "0");
    prog_store(&b, out, "0", prog_call(&b, &cube_f32, 1, &v));
    prog_stage_end(&b);
    const pp_binding binding = {b.slots, b.refs, b.args};
    cr_assert_eq(pp_cpu_device.open(NULL, &device, &err), PPTO_OK);
    cr_assert_eq(pp_cpu_device.compile(device, &b.p, &kernel, &err), PPTO_OK);
    cr_assert_eq(pp_cpu_device.launch_create(kernel, &launch, &err), PPTO_OK);
    cr_assert_eq(pp_cpu_device.resize(launch, &binding, 1, &geometry, &err), PPTO_OK);
    void *scratch = pp_alloc_aligned(64, 1 << 20);
    const uint64_t before = pp_heap_count().allocations;
    cr_assert_eq(pp_cpu_device.resize(launch, &binding, 1, &geometry, &err), PPTO_OK);
    cr_assert_leq(geometry.scratch_bytes, 1 << 20);
    cr_assert_eq(pp_cpu_device.bind(launch, &binding, NULL), PPTO_OK);
    cr_assert_eq(pp_cpu_device.run(launch, 0, 0, scratch, &err, NULL), PPTO_OK);
    cr_assert_eq(pp_heap_count().allocations, before);
    float *first = malloc(b.bytes[out]);
    memcpy(first, b.owned[out], b.bytes[out]);
    for (int64_t size = 10; size <= 1000; size *= 10) {
        memset(b.owned[out], 0, b.bytes[out]);
        b.slots[b.axes[0].size] = size;
        b.shape[x][0] = b.shape[out][0] = size;
        cr_assert_eq(pp_cpu_device.resize(launch, &binding, 1, &geometry, &err), PPTO_OK);
        cr_assert_eq(pp_cpu_device.bind(launch, &binding, NULL), PPTO_OK);
        cr_assert_eq(pp_cpu_device.run(launch, 0, 0, scratch, &err, NULL), PPTO_OK);
        cr_expect_eq(memcmp(first, b.owned[out], (size_t)size * sizeof *first), 0);
    }
    free(first);
    pp_free(scratch);
    pp_cpu_device.launch_destroy(launch);
    pp_cpu_device.kernel_destroy(kernel);
    pp_cpu_device.close(device);
    prog_free(&b);
}

/* Every allocation may fail: a status, nothing leaks. */
Test(interp_edges, failing_allocations)
{
    static program_builder b;
    const int64_t shape[] = {20, 30};
    prog_start(&b, PP_FRAME_LANES);
    prog_axis(&b, PP_AXIS_OUTER, shape[0]);
    prog_axis(&b, PP_AXIS_INNER, shape[1]);
    const uint32_t x = prog_tensor(&b, PPTO_F32, false, NULL, 2, shape),
                   out = prog_tensor(&b, PPTO_F32, true, NULL, 1, shape);
    b.buffers[b.p.n_buffers++] = (pp_buffer){PPTO_F32};
    prog_stage(&b, true);
    const uint32_t v = prog_load(&b, x, "01"), e = prog_call(&b, &cube_f32, 1, &v);
    prog_op(&b, PP_KEEP, PPTO_F32, e, 0, 0, 0);
    prog_fold(&b, sum_fold(e));
    prog_stage_end(&b);
    prog_stage(&b, true);
    prog_fold(&b, sum_fold(prog_op(&b, PP_BUFFER, PPTO_F32, 0, 0, 0, 0)));
    prog_stage_end(&b);
    prog_stage(&b, false);
    prog_store(&b, out, "0", prog_op(&b, PP_STATE, PPTO_F32, 0, 0, 0, 1));
    prog_stage_end(&b);
    const pp_binding binding = {b.slots, b.refs, b.args};
    const pp_device_options options = {.grain = 1};
    const int64_t live = pp_heap_count().live;
    bool done = false;
    for (uint64_t n = 1; !done && n < 5000; n++) {
        pp_error err = {0};
        pp_device *device = NULL;
        pp_kernel *kernel = NULL;
        pp_launch *launch = NULL;
        pp_geometry geometry;
        pp_heap_fail_at(n, false);
        done = pp_cpu_device.open(&options, &device, &err) == PPTO_OK &&
               pp_cpu_device.compile(device, &b.p, &kernel, &err) == PPTO_OK &&
               pp_cpu_device.launch_create(kernel, &launch, &err) == PPTO_OK &&
               pp_cpu_device.resize(launch, &binding, 2, &geometry, &err) == PPTO_OK;
        if (!done) cr_expect_eq(err.code, PPTO_E_NOMEM, "allocation %d: %s", (int)n, err.text);
        pp_heap_fail_at(0, false);
        pp_cpu_device.launch_destroy(launch);
        pp_cpu_device.kernel_destroy(kernel);
        pp_cpu_device.close(device);
        cr_assert_eq(pp_heap_count().live, live, "allocation %d leaks", (int)n);
    }
    cr_expect(done);
    prog_free(&b);
}
