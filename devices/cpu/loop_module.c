/* SPDX-License-Identifier: Apache-2.0
 * The module that generates machine code: where it is looked for.
 *
 * In the folders of PPTO_MODULE_PATH (not in a program with raised rights), then beside the library. The
 * first file there is counts: one that is broken or of another version is not passed over, so that nobody
 * wonders which one works. A module stays loaded: what it made of the process (static state, thread-local
 * memory) cannot be taken back. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "devices/cpu/loop_store.h"

#define MODULE "libppto-llvm.so"

enum { ROOM = 4096 };

static const pp_generator *check(const char *path, void *module, pp_error *err)
{
    const pp_generator *generator = module != NULL ? dlsym(module, "pp_generator_module") : NULL;
    if (generator == NULL) {
        const char *why = dlerror();
        pp_fail(err, PPTO_E_UNSUPPORTED, "%s", why != NULL ? why : path);
        return NULL;
    }
    if (generator->abi == PP_GENERATOR_ABI) return generator;
    pp_fail(err, PPTO_E_UNSUPPORTED, "%s: made for version %u of the interface, this library has %u", path,
            (unsigned)generator->abi, PP_GENERATOR_ABI);
    return NULL;
}

static bool is_in(const char *folder, size_t n, char path[ROOM])
{
    return n > 0 && snprintf(path, ROOM, "%.*s/" MODULE, (int)n, folder) < ROOM && access(path, F_OK) == 0;
}

static bool is_listed(const char *list, char path[ROOM])
{
    while (list != NULL && *list != '\0') {
        const size_t n = strcspn(list, ":");
        if (is_in(list, n, path)) return true;
        list += n + (list[n] == ':');
    }
    return false;
}

/* In the folder this library lies in. */
static bool is_beside(char path[ROOM])
{
    static const char here;
    Dl_info info;
    if (dladdr(&here, &info) == 0 || info.dli_fname == NULL) return false;
    const char *slash = strrchr(info.dli_fname, '/');
    return slash != NULL && is_in(info.dli_fname, (size_t)(slash - info.dli_fname), path);
}

static bool find(char path[ROOM])
{
    return is_listed(secure_getenv("PPTO_MODULE_PATH"), path) || is_beside(path);
}

bool pp_loop_module_there(void)
{
    char path[ROOM];
    return find(path);
}

static const pp_generator *found;
static char found_at[ROOM];

const char *pp_loop_module_path(void)
{
    return found != NULL ? found_at : NULL;
}

const pp_generator *pp_loop_module(pp_error *err)
{
    static pp_error why;
    static bool looked;
    if (!looked) {
        looked = true;
        if (find(found_at))
            found = check(found_at, dlopen(found_at, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE), &why);
        else
            pp_fail(&why, PPTO_E_UNSUPPORTED, "there is no " MODULE " beside the library");
    }
    if (found == NULL) pp_fail(err, PPTO_E_UNSUPPORTED, "%s", why.text);
    return found;
}
