/* SPDX-License-Identifier: Apache-2.0
 * Objects on disk: found again by what they were made from and nothing else; folders and files that are not
 * ours alone, and whatever a crash may leave, are as if there were nothing. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "devices/cpu/loop_cache.h"

static char base[64], folder[96];

static void make_base(void)
{
    strcpy(base, "/tmp/ppto-cache-XXXXXX");
    cr_assert(mkdtemp(base) != NULL);
    snprintf(folder, sizeof folder, "%s/a/ppto", base);
    setenv("PPTO_CACHE_DIR", folder, 1);
}

static void remove_base(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", base);
    cr_assert_eq(system(command), 0);
}

TestSuite(loop_cache, .init = make_base, .fini = remove_base);

/* out 0 = in 0 + number. */
typedef struct sample {
    pp_stream in, out;
    pp_instr code[4];
    uint64_t number;
    pp_loop loop;
} sample;

static void make(sample *s, uint64_t number)
{
    *s = (sample){.in = {.dtype = PPTO_U32},
                  .out = {.dtype = PPTO_U32},
                  .code = {{.op = PP_PARAM, .dtype = PPTO_U32},
                           {.op = PP_CONST, .dtype = PPTO_U32},
                           {.op = PP_ADD, .dtype = PPTO_U32, .b = 1},
                           {.op = PP_STORE, .dtype = PPTO_U32, .a = 2}},
                  .number = number};
    s->loop = (pp_loop){.in = &s->in,
                        .n_in = 1,
                        .out = &s->out,
                        .n_out = 1,
                        .code = s->code,
                        .n_code = 4,
                        .consts = &s->number,
                        .n_consts = 1};
    s->loop.hash = pp_loop_hash(&s->loop);
}

static const char object[] = "an object of machine code";

static void put(const sample *s)
{
    pp_loop_cache_put(&s->loop, "avx2", "LLVM 0", object, sizeof object);
}

static bool get_by(const sample *s, const char *simd, const char *generator)
{
    void *found = NULL;
    size_t bytes = 0;
    if (!pp_loop_cache_get(&s->loop, simd, generator, &found, &bytes)) return false;
    cr_assert_eq(bytes, sizeof object);
    cr_assert_eq(memcmp(found, object, bytes), 0, "other bytes");
    pp_free(found);
    return true;
}

static bool get(const sample *s)
{
    return get_by(s, "avx2", "LLVM 0");
}

/* The path of the only file; how many there are. */
static int only_file(char path[512])
{
    DIR *dir = opendir(folder);
    int n = 0;
    if (dir == NULL) return 0;
    for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        if (e->d_name[0] == '.') continue;
        snprintf(path, 512, "%s/%s", folder, e->d_name);
        n++;
    }
    closedir(dir);
    return n;
}

Test(loop_cache, gives_back_what_was_put_in_a_private_folder)
{
    sample s;
    struct stat about;
    char path[512];
    make(&s, 1);
    cr_assert_not(get(&s));
    put(&s);
    cr_assert(get(&s));
    cr_assert_eq(stat(folder, &about), 0);
    cr_assert_eq(about.st_mode & 0777, 0700);
    cr_assert_eq(only_file(path), 1, "one file, and no private name is left");
    cr_assert_eq(stat(path, &about), 0);
    cr_assert_eq(about.st_mode & 0777, 0600);
}

Test(loop_cache, another_loop_generator_or_instruction_set_is_not_there)
{
    sample s, other;
    make(&s, 1), make(&other, 2);
    put(&s);
    cr_assert_not(get(&other));
    cr_assert_not(get_by(&s, "avx512", "LLVM 0"));
    cr_assert_not(get_by(&s, "avx2", "LLVM 1"));
    cr_assert(get(&s));
    pp_loop_cache_drop(&s.loop, "avx2", "LLVM 0");
    cr_assert_not(get(&s));
}

Test(loop_cache, an_empty_variable_switches_it_off)
{
    sample s;
    char path[512];
    make(&s, 1);
    setenv("PPTO_CACHE_DIR", "", 1);
    put(&s);
    cr_assert_not(get(&s));
    cr_assert_eq(only_file(path), 0);
}

static size_t size_of(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 ? (size_t)about.st_size : 0;
}

Test(loop_cache, a_file_cut_anywhere_is_missing_and_removed)
{
    sample s;
    char path[512];
    make(&s, 1);
    put(&s);
    cr_assert_eq(only_file(path), 1);
    const size_t whole = size_of(path);
    for (size_t n = 0; n < whole; n++) {
        put(&s);
        cr_assert_eq(truncate(path, (off_t)n), 0);
        cr_assert_not(get(&s), "cut at %zu of %zu", n, whole);
        cr_assert_neq(access(path, F_OK), 0, "cut at %zu: it stays", n);
    }
}

Test(loop_cache, a_file_with_a_wrong_bit_anywhere_is_missing)
{
    sample s;
    char path[512];
    make(&s, 1);
    put(&s);
    cr_assert_eq(only_file(path), 1);
    const size_t whole = size_of(path);
    for (size_t n = 0; n < whole; n++) {
        put(&s);
        char byte;
        const int fd = open(path, O_RDWR);
        cr_assert(fd >= 0 && pread(fd, &byte, 1, (off_t)n) == 1);
        byte ^= 16;
        cr_assert_eq(pwrite(fd, &byte, 1, (off_t)n), 1);
        close(fd);
        cr_assert_not(get(&s), "byte %zu of %zu", n, whole);
    }
}

Test(loop_cache, a_folder_that_others_may_write_to_or_that_is_a_link_is_not_used)
{
    sample s;
    char link[160];
    make(&s, 1);
    put(&s);
    cr_assert(get(&s));
    cr_assert_eq(chmod(folder, 0770), 0);
    cr_assert_not(get(&s), "writable by the group");
    cr_assert_eq(chmod(folder, 0702), 0);
    cr_assert_not(get(&s), "writable by everybody");
    cr_assert_eq(chmod(folder, 0755), 0);
    cr_assert(get(&s), "to read it is fine");
    snprintf(link, sizeof link, "%s/link", base);
    cr_assert_eq(symlink(folder, link), 0);
    setenv("PPTO_CACHE_DIR", link, 1);
    cr_assert_not(get(&s), "a link");
}

Test(loop_cache, a_file_that_is_a_link_or_writable_by_others_is_not_used)
{
    sample s;
    char path[512], moved[640];
    make(&s, 1);
    put(&s);
    cr_assert_eq(only_file(path), 1);
    snprintf(moved, sizeof moved, "%s/moved", base);
    cr_assert_eq(rename(path, moved), 0);
    cr_assert_eq(symlink(moved, path), 0);
    cr_assert_not(get(&s), "a link");
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(rename(moved, path), 0);
    cr_assert_eq(chmod(path, 0620), 0);
    cr_assert_not(get(&s), "writable by the group");
}

Test(loop_cache, what_another_user_owns_is_not_used)
{
    sample s;
    char path[512];
    if (geteuid() != 0) cr_skip_test("needs root, to give a file away");
    make(&s, 1);
    put(&s);
    cr_assert_eq(only_file(path), 1);
    cr_assert_eq(chown(path, 1, 1), 0);
    cr_assert_not(get(&s), "the file");
    put(&s);
    cr_assert(get(&s));
    cr_assert_eq(chown(folder, 1, 1), 0);
    cr_assert_not(get(&s), "the folder");
}

Test(loop_cache, nowhere_to_write_is_no_failure)
{
    sample s;
    make(&s, 1);
    setenv("PPTO_CACHE_DIR", "/proc/nowhere/ppto", 1);
    put(&s);
    cr_assert_not(get(&s));
    setenv("PPTO_CACHE_DIR", "/dev/null", 1);
    put(&s);
    cr_assert_not(get(&s));
}

/* In a child, where it may become another user and have limits of its own. 0: as it should be. */
static int in_child(int (*fn)(void))
{
    int status = 0;
    const pid_t child = fork();
    if (child == 0) _exit(fn());
    cr_assert_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int read_only(void)
{
    sample s, other;
    make(&s, 1), make(&other, 2);
    if (geteuid() == 0 && setuid(65534) != 0) return 2;
    put(&other);
    return get(&s) && !get(&other) ? 0 : 1;
}

Test(loop_cache, a_folder_that_is_read_only_gives_what_is_there)
{
    sample s;
    char path[512], parent[80];
    make(&s, 1);
    put(&s);
    cr_assert_eq(only_file(path), 1);
    snprintf(parent, sizeof parent, "%s/a", base);
    if (geteuid() == 0) { /* root writes where it likes */
        cr_assert_eq(chmod(base, 0711) | chmod(parent, 0711), 0);
        cr_assert_eq(chown(path, 65534, 65534) | chown(folder, 65534, 65534), 0);
    }
    cr_assert_eq(chmod(folder, 0500), 0);
    cr_assert_eq(in_child(read_only), 0);
    cr_assert_eq(chmod(folder, 0700), 0);
}

static int full_disk(void)
{
    const struct rlimit none = {0, 0};
    sample s;
    make(&s, 1);
    if (signal(SIGXFSZ, SIG_IGN) == SIG_ERR || setrlimit(RLIMIT_FSIZE, &none) != 0) return 2;
    put(&s);
    return get(&s) ? 1 : 0;
}

Test(loop_cache, a_full_disk_leaves_nothing_and_is_no_failure)
{
    sample s;
    char path[512];
    make(&s, 2);
    put(&s);
    cr_assert_eq(in_child(full_disk), 0);
    cr_assert_eq(only_file(path), 1, "what could not be written is there");
    cr_assert(get(&s));
}

/* Puts and gets without end; exit status 1 when it got something wrong. */
static void work(void)
{
    for (unsigned i = 0;; i++) {
        sample s;
        void *found = NULL;
        size_t bytes = 0;
        make(&s, i % 4);
        put(&s);
        if (!pp_loop_cache_get(&s.loop, "avx2", "LLVM 0", &found, &bytes)) continue;
        if (bytes != sizeof object || memcmp(found, object, bytes) != 0) _exit(1);
        pp_free(found);
    }
}

Test(loop_cache, processes_that_are_killed_in_between_harm_nobody)
{
    enum { WORKERS = 3, ROUNDS = 20 };
    for (int round = 0; round < ROUNDS; round++) {
        pid_t child[WORKERS];
        for (int i = 0; i < WORKERS; i++) {
            child[i] = fork();
            if (child[i] == 0) work();
        }
        usleep(3000);
        for (int i = 0; i < WORKERS; i++) {
            int status = 0;
            kill(child[i], SIGKILL);
            cr_assert_eq(waitpid(child[i], &status, 0), child[i]);
            cr_assert(WIFSIGNALED(status), "a worker read something wrong");
        }
    }
    for (unsigned i = 0; i < 4; i++) {
        sample s;
        make(&s, i);
        (void)get(&s); /* there or not, but whole */
        put(&s);
        cr_assert(get(&s));
    }
}
