/* SPDX-License-Identifier: Apache-2.0
 * What the library found on this machine (ppto_runtime_info) and whether it computes as it should
 * (ppto_selfcheck). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "devices/cpu/loop_cache.h"
#include "devices/cpu/loop_store.h"
#include "devices/cpu/topology.h"
#include "memory/memcheck.h"
#include "runtime/domains.h"
#include "runtime/report.h"
#include "scheduler/io.h"

enum { MAX_FACTS = 16 };

typedef struct part { /* a device or module that may be there */
    const char *name;
    bool available;
    char why_not[160];
    const char *path; /* of its file; NULL: it has none */
} part;

typedef struct facts {
    const ppto_context *ctx;
    pp_topology machine;
    part device[MAX_FACTS], module[MAX_FACTS];
    size_t n_devices, n_modules;
    unsigned quota;        /* CPUs of the control group, 0: no limit */
    uint64_t ram, granted; /* bytes; of the control group. 0: unknown, no limit */
    long online;
    uint32_t threads, asked; /* may run at once; were wanted */
    pp_machine *nodes;
    char cpus[256], mems[256]; /* of the cpusets, "": none */
    char placement[PP_PAGES_ROOM];
    const char *describes; /* the context's device */
    pp_io_facts io;
    pp_loop_cache_facts codes;
    const char *uv_pool; /* UV_THREADPOOL_SIZE; NULL: not set */
} facts;

static void add_part(part *list, size_t *n, const char *name, bool available, const char *why_not)
{
    if (*n == MAX_FACTS) return;
    part *p = &list[(*n)++];
    p->name = name;
    p->available = available;
    p->path = NULL;
    snprintf(p->why_not, sizeof p->why_not, "%.159s", available ? "" : why_not);
}

static bool has_executor(const char *name)
{
    for (size_t i = 0; pp_executor_at(i); i++)
        if (strcmp(pp_executor_at(i), name) == 0) return true;
    return false;
}

static void find_devices(facts *f)
{
    static const char *const later[] = {"opencl", "cuda"};
    for (size_t i = 0; pp_device_at(i); i++) {
        const pp_device_class *class_of = pp_device_at(i);
        pp_device_options options = {.simd = f->ctx->settings.o.simd};
        pp_device *device = NULL;
        pp_error err = {0};
        bool opens = class_of == f->ctx->device_class || class_of->open(&options, &device, &err) == PPTO_OK;
        class_of->close(device);
        add_part(f->device, &f->n_devices, class_of->name, opens, err.text);
    }
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++)
        if (!pp_device_find(later[i]))
            add_part(f->device, &f->n_devices, later[i], false, "not built into this library");
}

static void find_modules(facts *f)
{
    static const char *const later[] = {"cuda", "opencl", "mpi"};
    pp_error err = {0};
    const bool llvm = pp_loop_store_generator(&err) != NULL;
    add_part(f->module, &f->n_modules, "tbb", has_executor("tbb"), "built without oneTBB");
    add_part(f->module, &f->n_modules, "npz", pp_files_reads(PP_FORMAT_NPZ), "built without libzip");
    add_part(f->module, &f->n_modules, "safetensors", pp_files_reads(PP_FORMAT_SAFETENSORS),
             "built without jansson");
    add_part(f->module, &f->n_modules, "memcheck", pp_memcheck_reads(),
             "reports are written, but not read: built without jansson");
    add_part(f->module, &f->n_modules, "llvm", llvm, err.text);
    f->module[f->n_modules - 1].path = pp_loop_module_path();
    pp_loop_cache_look(&f->codes);
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++)
        add_part(f->module, &f->n_modules, later[i], false, "not built into this library");
}

static void find_nodes(ppto_context *ctx, facts *f)
{
    pp_error err = {0};
    char room[PP_PAGES_ROOM];
    snprintf(f->placement, sizeof f->placement, "%s", pp_pages_text(&ctx->settings.pages, room));
    if (pp_context_machine(ctx, &f->nodes, &err) == PPTO_OK) pp_machine_probe(f->nodes);
    if (!pp_topology_cpuset("", "cpus", f->cpus, sizeof f->cpus)) f->cpus[0] = '\0';
    if (!pp_topology_cpuset("", "mems", f->mems, sizeof f->mems)) f->mems[0] = '\0';
}

static void find_facts(ppto_context *ctx, facts *f)
{
    *f = (facts){.ctx = ctx, .quota = pp_topology_quota(""), .online = sysconf(_SC_NPROCESSORS_ONLN)};
    f->ram = pp_topology_memory();
    f->granted = pp_topology_memory_limit("");
    pp_topology_read(&f->machine);
    f->threads = pp_executor_width(ctx->executor);
    f->asked = ctx->workers;
    find_nodes(ctx, f);
    f->describes = ctx->device_class->describe(ctx->device);
    pthread_mutex_lock(&ctx->lock);
    pp_io_describe(ctx->io, &f->io);
    pthread_mutex_unlock(&ctx->lock);
    f->uv_pool = getenv("UV_THREADPOOL_SIZE");
    find_devices(f);
    find_modules(f);
}

/* ---- as JSON
 * ------------------------------------------------------------------------------------------------------------
 */

static void json_or_null(const char *text, pp_text *out)
{
    if (text && *text)
        pp_text_json(out, text);
    else
        pp_text_add(out, "null");
}

static void json_parts(const char *key, const part *list, size_t n, pp_text *out)
{
    pp_text_add(out, "  \"%s\": [", key);
    for (size_t i = 0; i < n; i++) {
        pp_text_add(out, "%s\n    {\"name\": \"%s\", \"available\": %s, \"why_not\": ", i ? "," : "",
                    list[i].name, list[i].available ? "true" : "false");
        if (list[i].available)
            pp_text_add(out, "null");
        else
            pp_text_json(out, list[i].why_not);
        pp_text_add(out, ", \"path\": ");
        json_or_null(list[i].path, out);
        pp_text_add(out, "}");
    }
    pp_text_add(out, "]");
}

static void json_list(const char *key, const char *list, pp_text *out)
{
    pp_text_add(out, ", \"%s\": ", key);
    json_or_null(list, out);
}

static uint32_t workers_of(const facts *f, const pp_node *node)
{
    if (f->nodes->n_domains == 1 && node->domain == 0) return f->threads;
    const pp_domains *domains = pp_executor_domains(f->ctx->executor);
    return node->domain < domains->n ? domains->workers[node->domain] : 0;
}

static void json_nodes(const facts *f, pp_text *out)
{
    pp_text_add(out, "  \"nodes\": [");
    for (uint32_t i = 0; i < f->nodes->n_nodes; i++) {
        const pp_node *node = &f->nodes->node[i];
        pp_text_add(out,
                    "%s\n    {\"number\": %u, \"cpus\": %u, \"cpu_list\": \"%s\", \"bytes\": %" PRIu64
                    ", \"workers\": %" PRIu32 "}",
                    i ? "," : "", node->number, node->cpus, node->list, node->bytes, workers_of(f, node));
    }
    pp_text_add(out,
                "],\n  \"binding\": {\"threads\": \"%s\", \"memory\": \"%s\"},\n  \"placement\": \"%s\",\n",
                pp_binding_text(f->nodes->threads), pp_binding_text(f->nodes->memory), f->placement);
}

static void json_bytes(const char *key, uint64_t bytes, pp_text *out)
{
    pp_text_add(out, "\"%s\": ", key);
    if (bytes != 0)
        pp_text_add(out, "%" PRIu64, bytes);
    else
        pp_text_add(out, "null");
}

static void json_memory(const facts *f, pp_text *out)
{
    pp_text_add(out, "  \"memory\": {");
    json_bytes("ram_bytes", f->ram, out);
    pp_text_add(out, ", ");
    json_bytes("cgroup_bytes", f->granted, out);
    pp_text_add(out, ", ");
    json_bytes("limit_bytes", f->ctx->settings.o.memory_limit, out);
    pp_text_add(out, "},\n");
}

static void json_io(const facts *f, pp_text *out)
{
    const pp_io_facts *io = &f->io;
    pp_text_add(out, "  \"io\": {\"engine\": \"%s\", \"library\": ", io->name);
    json_or_null(io->library, out);
    pp_text_add(out, ", \"library_version\": ");
    json_or_null(io->version, out);
    pp_text_add(out, ", \"threads\": %" PRIu32 ", \"uv_threadpool_size\": ", io->pool);
    json_or_null(f->uv_pool, out);
    pp_text_add(out,
                ",\n    \"piece_bytes\": %zu, \"in_flight_pieces\": %" PRIu32
                ", \"in_flight_pieces_of_a_file\": %" PRIu32 ", \"in_flight_bytes\": %zu},\n",
                io->piece, io->depth, io->per_file, io->max_bytes);
}

static void json_codes(const pp_loop_cache_facts *c, pp_text *out)
{
    pp_text_add(out, "  \"code_cache\": {\"folder\": ");
    json_or_null(c->folder, out);
    pp_text_add(out, ", \"why_not\": ");
    json_or_null(c->why_not, out);
    pp_text_add(out, ", \"exists\": %s, \"writable\": %s, \"files\": %" PRIu64 ", \"bytes\": %" PRIu64 "},\n",
                c->there ? "true" : "false", c->writable ? "true" : "false", c->files, c->bytes);
}

static void json_info(const facts *f, pp_text *out)
{
    pp_text_add(out,
                "{\n  \"schema\": \"ppto-info/1\",\n  \"version\": \"%s\",\n  \"threads\": %" PRIu32
                ",\n  \"threads_asked\": %" PRIu32 ",\n  \"executors\": [",
                ppto_version(), f->threads, f->asked);
    for (size_t i = 0; pp_executor_at(i); i++) pp_text_add(out, "%s\"%s\"", i ? ", " : "", pp_executor_at(i));
    pp_text_add(out, "],\n");
    json_parts("devices", f->device, f->n_devices, out);
    pp_text_add(out, ",\n  \"simd\": ");
    pp_text_json(out, f->describes);
    pp_text_add(out, ",\n  \"processor\": ");
    pp_text_json(out, f->machine.model);
    pp_text_add(out,
                ",\n  \"caches\": {\"l1d_bytes\": %zu, \"l2_bytes\": %zu, \"l3_bytes\": %zu},\n  "
                "\"numa_nodes\": %u,\n",
                f->machine.l1d, f->machine.l2, f->machine.l3, f->nodes->n_nodes);
    json_nodes(f, out);
    pp_text_add(out, "  \"limits\": {\"cgroup\": ");
    if (f->quota)
        pp_text_add(out, "%u", f->quota);
    else
        pp_text_add(out, "null");
    pp_text_add(out, ", \"affinity\": %u, \"online\": %ld", f->machine.cpus, f->online);
    json_list("cpuset_cpus", f->cpus, out);
    json_list("cpuset_mems", f->mems, out);
    pp_text_add(out, "},\n");
    json_memory(f, out);
    json_io(f, out);
    json_codes(&f->codes, out);
    json_parts("modules", f->module, f->n_modules, out);
    pp_text_add(out, "\n}\n");
}

/* ---- as text
 * --------------------------------------------------------------------------------------------------------------
 */

static void text_parts(const char *title, const part *list, size_t n, pp_text *out)
{
    for (size_t i = 0; i < n; i++)
        pp_text_add(out, "%-11s %-10s %s%s%s\n", i ? "" : title, list[i].name,
                    list[i].available ? "available" : list[i].why_not, list[i].path ? ": " : "",
                    list[i].path ? list[i].path : "");
}

static void text_binding(const char *what, int state, int reason, pp_text *out)
{
    pp_text_add(out, "%s %s", what, pp_binding_text(state));
    if (state == PP_BIND_REFUSED) pp_text_add(out, " (%s)", strerror(reason));
}

static void text_nodes(const facts *f, pp_text *out)
{
    const pp_machine *m = f->nodes;
    pp_text_add(out, "numa nodes  %u\n", m->n_nodes);
    for (uint32_t i = 0; i < m->n_nodes; i++) {
        const pp_node *node = &m->node[i];
        pp_text_add(out, "%-11s node %-5u ", "", node->number);
        pp_text_bytes(out, node->bytes);
        if (node->cpus)
            pp_text_add(out, ", CPUs %s, workers: %u\n", node->list, workers_of(f, node));
        else
            pp_text_add(out, ", no CPUs\n");
    }
    text_binding("binding     threads:", m->threads, m->threads_errno, out);
    text_binding(", memory:", m->memory, m->memory_errno, out);
    pp_text_add(out, "\nplacement   %s\n", f->placement);
}

static void text_bytes(const char *what, uint64_t bytes, const char *none, pp_text *out)
{
    pp_text_add(out, "%s", bytes ? what : none);
    if (bytes) pp_text_bytes(out, bytes);
}

static void text_limits(const facts *f, pp_text *out)
{
    pp_text_add(out, "limits      %u of %ld CPUs usable", f->machine.cpus, f->online);
    if (f->quota) pp_text_add(out, "; the control group grants %u", f->quota);
    if (*f->cpus) pp_text_add(out, "; its cpuset is %s", f->cpus);
    if (*f->mems)
        pp_text_add(out, ", memory of node%s %s", f->mems[strcspn(f->mems, ",-")] ? "s" : "", f->mems);
    pp_text_add(out, "\nmemory      ");
    text_bytes("", f->ram, "unknown", out);
    text_bytes("; the control group grants ", f->granted, "", out);
    text_bytes("; tensors may take ", f->ctx->settings.o.memory_limit, "; no limit for tensors", out);
    pp_text_add(out, "\n");
}

static void text_codes(const pp_loop_cache_facts *c, pp_text *out)
{
    pp_text_add(out, "code cache  ");
    if (c->why_not) {
        pp_text_add(out, "none%s%s: %s\n", *c->folder ? " in " : "", c->folder, c->why_not);
        return;
    }
    pp_text_add(out, "%s: ", c->folder);
    if (c->there) pp_text_bytes(out, c->bytes);
    if (c->there) pp_text_add(out, " in %" PRIu64 " file%s", c->files, c->files == 1 ? "" : "s");
    pp_text_add(out, "%s\n",
                !c->there     ? "made when code is kept"
                : c->writable ? ""
                              : ", which may only be read");
}

static void text_info(const facts *f, pp_text *out)
{
    pp_text_add(out, "ppto        %s\nprocessor   %s\nthreads     %" PRIu32, ppto_version(),
                *f->machine.model ? f->machine.model : "unknown", f->threads);
    if (f->threads < f->asked)
        pp_text_add(out, " of %" PRIu32 " asked for: executor %s allows no more", f->asked,
                    pp_executor_name(f->ctx->executor));
    pp_text_add(out, "\n");
    pp_text_add(out, "executor    %s; built in:", pp_executor_name(f->ctx->executor));
    for (size_t i = 0; pp_executor_at(i); i++) pp_text_add(out, " %s", pp_executor_at(i));
    pp_text_add(out, "\ndevice      %s: %s\n", f->ctx->device_class->name, f->describes);
    text_parts("devices", f->device, f->n_devices, out);
    pp_text_add(out, "caches      L1d %zu, L2 %zu, L3 %zu bytes\n", f->machine.l1d, f->machine.l2,
                f->machine.l3);
    text_nodes(f, out);
    text_limits(f, out);
    pp_text_add(out, "files       ");
    pp_io_facts_text(&f->io, out);
    pp_text_add(out, ", %zu bytes in all%s%s\n", f->io.max_bytes,
                f->uv_pool ? "; UV_THREADPOOL_SIZE is " : "", f->uv_pool ? f->uv_pool : "");
    text_parts("modules", f->module, f->n_modules, out);
    text_codes(&f->codes, out);
}

ppto_status ppto_runtime_info(ppto_context *ctx, bool json, char **text)
{
    pp_error err = {0};
    pp_text out = {0};
    facts f;
    if (!text) return pp_report_new(PPTO_E_VALUE, "ppto_runtime_info: text is NULL");
    *text = NULL;
    if (pp_context_device(ctx, &err) != PPTO_OK) return pp_report(&err);
    find_facts(ctx, &f);
    if (!f.nodes) return pp_report_new(PPTO_E_NOMEM, "no memory for the topology");
    if (json)
        json_info(&f, &out);
    else
        text_info(&f, &out);
    return pp_report_give(&out, text);
}
