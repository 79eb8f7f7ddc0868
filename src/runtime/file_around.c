/* SPDX-License-Identifier: Apache-2.0
 * Files around the page cache (file_around.h): the rule, of runs by pieces and of whole files alike, and the
 * memory of whole files. Blocks go between the disk and memory as they are, so an array that is loaded or
 * stored lies in its pages as in its file: behind as many bytes as a header has. */
#include "runtime/file_around.h"

#include <string.h>

#include "devices/cpu/topology.h"
#include "files/formats.h"
#include "scheduler/io.h"

enum { NEVER_MUCH = 256 << 20, LARGE_PART = 8, KEPT_PART = 2, ALIGNED = 64 };

/* Bytes that the machine, or the control group of the process, has for us and for the cache; 0: unknown. */
static uint64_t memory(void)
{
    uint64_t granted = pp_topology_memory_limit(""), all = pp_topology_memory();
    return granted != 0 && granted < all ? granted : all;
}

bool pp_file_goes_around(const ppto_context *ctx, uint64_t bytes, bool write, bool again)
{
    const char *asked = ctx->settings.page_cache;
    if (strcmp(asked, "around") == 0) return true;
    if (strcmp(asked, "read-around") == 0) return !write;
    if (strcmp(asked, "through") == 0 || bytes < NEVER_MUCH) return false;
    uint64_t all = memory();
    return all != 0 && bytes > all / (again ? KEPT_PART : LARGE_PART);
}

size_t pp_file_lead(int64_t data_at)
{
    return data_at >= 0 && data_at % ALIGNED == 0 ? (size_t)data_at % PP_IO_BLOCK : SIZE_MAX;
}

size_t pp_file_lead_of_result(const ppto_context *ctx, const char *path, ppto_dtype dtype, int rank,
                              const int64_t *shape, uint64_t bytes)
{
    const pp_files_entry entry = {NULL, dtype, rank, shape, NULL};
    pp_file_name name = {0};
    pp_text head = {0};
    if (!path || !pp_file_goes_around(ctx, bytes, true, false)) return SIZE_MAX;
    if (!pp_files_by_pieces(path) || pp_files_flow(path)) return SIZE_MAX;
    bool told = pp_files_head(path, &entry, &name, &head, NULL) == PPTO_OK;
    size_t lead = told ? pp_file_lead((int64_t)head.n) : SIZE_MAX;
    if (told) {
        pp_file_name_free(&name);
        pp_text_free(&head);
    }
    return lead;
}
