/* SPDX-License-Identifier: Apache-2.0
 * The memory nodes of a context's machine (devices/cpu/machine.h) as scheduler and memory need them. */
#ifndef PP_DOMAINS_H
#define PP_DOMAINS_H

#include "devices/cpu/machine.h"
#include "runtime/runtime.h"

/* Read at the first use. E_NOMEM; a wrong description was refused when the context was created. */
ppto_status pp_context_machine(ppto_context *ctx, pp_machine **out, pp_error *err);
/* For an executor: as many workers as the settings ask for. */
ppto_status pp_context_domains(ppto_context *ctx, pp_domains *out, pp_error *err);
/* From then on the pool's blocks are placed, where there are several nodes. E_VALUE for a node that is not
 * there. */
ppto_status pp_context_place(ppto_context *ctx, pp_error *err);
/* The slab is split as its buffers lie; nothing where nothing is placed. */
void pp_instance_place(pp_instance *in, const pp_layout_buffer *rows, size_t n);
extern const pp_placement pp_scratch_placement; /* each worker has its own part of it */
/* The word for where memory lies, "" on one node, and whether it was bound there. */
void pp_placing_tell(const ppto_context *ctx, char domain[PP_PAGES_ROOM], bool *bound);
/* What one task of a group reads, about. */
size_t pp_group_task_bytes(const pp_plan *plan, uint32_t g, const pp_instance_group *group);

#endif
