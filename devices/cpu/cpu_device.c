/* SPDX-License-Identifier: Apache-2.0
 * The CPU as a device: the block interpreter behind the table of devices/device.h. Opening picks a set of
 * block loops and proves it (cpu_probe.c); all work is done in interp_*.c. */
#include <stdio.h>

#include "devices/cpu/cpu_probe.h"
#include "devices/cpu/interp.h"
#include "devices/cpu/loop_store.h"
#include "devices/cpu/topology.h"

static void cpu_close(pp_device *device)
{
    if (device != NULL && device->tier != PP_TIER_INTERP) pp_loop_store_leave();
    pp_free(device);
}

static size_t stream_bytes(void)
{
    const size_t share = pp_topology_l3() / 8;
    return share < PP_STREAM_LEAST ? PP_STREAM_LEAST : share > PP_STREAM_MOST ? PP_STREAM_MOST : share;
}

static size_t near_bytes(void)
{
    const size_t l2 = pp_topology_l2();
    return l2 < PP_NEAR_LEAST ? PP_NEAR_LEAST : l2 > PP_NEAR_MOST ? PP_NEAR_MOST : l2;
}

static void choose_tier(const pp_device_options *options, pp_device *device)
{
    const bool now = options->tier == PP_TIER_JIT;
    pp_error why = {0};
    if (device->count_bytes || options->tier == PP_TIER_INTERP) return;
    if (pp_loop_store_enter(device->set->name, now, &why) == PPTO_OK)
        device->tier = options->tier;
    else if (now && options->no_code != NULL)
        *options->no_code = why;
}

static ppto_status cpu_open(const pp_device_options *options, pp_device **out, pp_error *err)
{
    const char *simd = options != NULL ? options->simd : NULL;
    *out = NULL;
    const pp_block_set *set = pp_blocks_find(simd);
    if (set == NULL)
        return pp_fail(err, PPTO_E_UNSUPPORTED, "the cpu device has no instruction set '%s' on this machine",
                       simd != NULL ? simd : "baseline");
    PP_TRY(pp_cpu_probe(set, err));
    pp_device *device = pp_calloc(1, sizeof *device);
    if (device == NULL) return pp_fail(err, PPTO_E_NOMEM, "out of memory");
    device->set = set;
    device->count_bytes = options != NULL && options->count_bytes;
    device->stream_bytes = stream_bytes();
    device->near_bytes = near_bytes();
    device->costs = options != NULL && options->costs != NULL ? *options->costs : pp_usual_costs;
    device->grain = options != NULL ? options->grain : 0;
    if (options != NULL) choose_tier(options, device);
    snprintf(device->text, sizeof device->text, "block interpreter, %s", set->name);
    *out = device;
    return PPTO_OK;
}

static const char *cpu_describe(const pp_device *device)
{
    return device->text;
}

const pp_device_class pp_cpu_device = {
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .describe = cpu_describe,
    .compile = pp_interp_compile,
    .kernel_destroy = pp_interp_kernel_destroy,
    .launch_create = pp_interp_launch_create,
    .launch_destroy = pp_interp_launch_destroy,
    .resize = pp_interp_resize,
    .bind = pp_interp_bind,
    .run = pp_interp_run,
    .counted = pp_interp_counted,
    .count_code = pp_interp_count_code,
};
