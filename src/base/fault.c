/* SPDX-License-Identifier: Apache-2.0
 * The switch of the planted faults. Empty in every ordinary build. */
#include "base/fault.h"

#ifdef PP_FAULTS
int pp_fault_active = PP_FAULT_NONE;
#endif
