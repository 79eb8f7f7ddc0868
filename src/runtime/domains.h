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
/* What one task of a group reads, about. */
size_t pp_group_task_bytes(const pp_plan *plan, uint32_t g, const pp_instance_group *group);

#endif
