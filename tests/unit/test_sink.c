/* SPDX-License-Identifier: Apache-2.0
 * src/files: input files as they are opened; output files that appear whole or not at all, whatever stops the
 * writer. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files/fdio.h"
#include "files/sink.h"
#include "files/source.h"

static ppto_status write_word(int fd, void *arg, pp_error *err)
{
    return pp_files_write(fd, arg, strlen(arg), err);
}

static ppto_status write_and_fail(int fd, void *arg, pp_error *err)
{
    PP_TRY(write_word(fd, arg, err));
    return pp_fail(err, PPTO_E_IO, "stop");
}

static void expect_content(const char *path, const char *wanted)
{
    char content[64] = "";
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file);
    cr_expect_not_null(fgets(content, sizeof content, file));
    fclose(file);
    cr_expect_str_eq(content, wanted);
}

Test(files_output, a_pipe_has_several_names)
{
    char folder[] = "npy_pipesXXXXXX", name[40];
    int ends[2];
    cr_assert(mkdtemp(folder) != NULL && chdir(folder) == 0);
    cr_assert(mkfifo("one", 0600) == 0 && mkfifo("other", 0600) == 0 && pipe(ends) == 0);
    cr_expect(pp_files_same("one", "./one") && !pp_files_same("one", "other"));
    snprintf(name, sizeof name, "/dev/fd/%d", ends[1]);
    cr_expect(pp_files_same(name, name) && !pp_files_same(name, "one"));
    cr_assert(dup2(ends[1], STDOUT_FILENO) >= 0);
    cr_expect(pp_files_same("-", "/dev/stdout") && pp_files_same("-", name) && pp_files_same("-:raw", "-"));
    cr_expect(!pp_files_same("-", "one"));
    cr_expect(pp_files_same("x.npz:a", "x.npz:b") && pp_files_same("./x.npz:b", "x.npz"), "members of one");
    cr_expect(pp_files_same("x.raw:f32[3]", "./x.raw:f32[4]") && !pp_files_same("x.npz:a", "y.npz:a"));
    cr_expect(!pp_files_same("/dev/null", "/dev/null"), "nothing is lost there");
    cr_assert(unlink("one") == 0 && unlink("other") == 0 && chdir("..") == 0 && rmdir(folder) == 0);
}

Test(files_output, appears_whole_and_keeps_links_and_permissions)
{
    char folder[] = "npy_outputXXXXXX";
    struct stat facts;
    cr_assert_not_null(mkdtemp(folder));
    cr_assert_eq(chdir(folder), 0);
    cr_expect_eq(pp_files_write_atomic("a", write_word, "first", NULL, NULL), PPTO_OK);
    expect_content("a", "first");
    cr_assert(chmod("a", 0640) == 0 && symlink("a", "link") == 0);
    cr_expect_eq(pp_files_write_atomic("link", write_word, "second", NULL, NULL), PPTO_OK);
    expect_content("a", "second");
    cr_expect(lstat("link", &facts) == 0 && S_ISLNK(facts.st_mode));
    cr_assert(symlink("not_yet", "early") == 0 && pp_files_same("early", "./not_yet"));
    cr_expect_eq(pp_files_write_atomic("early", write_word, "third", NULL, NULL), PPTO_OK);
    cr_expect(lstat("early", &facts) == 0 && S_ISLNK(facts.st_mode), "the link stays");
    cr_expect(lstat("not_yet", &facts) == 0 && S_ISREG(facts.st_mode), "its end is there now");
    cr_assert(unlink("early") == 0 && unlink("not_yet") == 0);
    cr_expect(stat("a", &facts) == 0 && (facts.st_mode & 0777) == 0640);
    pp_error err = {0};
    cr_expect_eq(pp_files_write_atomic("a", write_and_fail, "half", NULL, &err), PPTO_E_IO);
    expect_content("a", "second");
    cr_expect_eq(pp_files_write_atomic("b", write_and_fail, "half", NULL, NULL), PPTO_E_IO);
    cr_assert(unlink("a") == 0 && unlink("link") == 0 && chdir("..") == 0);
    cr_expect_eq(rmdir(folder), 0, "temporary files are left");
}

/* Only what is unfinished goes; what can have no name while it is open leaves nothing anyway. */
Test(files_output, a_handler_may_abandon_what_is_unfinished)
{
    char folder[] = "npy_outputXXXXXX";
    pp_sink open[40];
    cr_assert_not_null(mkdtemp(folder));
    cr_assert_eq(chdir(folder), 0);
    cr_expect_eq(pp_files_write_atomic("a", write_word, "first", NULL, NULL), PPTO_OK);
    for (int i = 0; i < 40; i++) cr_assert_eq(pp_sink_open(&open[i], i ? "b" : "a", 10, NULL, NULL), PPTO_OK);
    bool known = pp_sinks_abandon_all();
    cr_expect(known || open[39].temporary != NULL, "only names can be too many");
    expect_content("a", "first");
    for (int i = 0; i < 40; i++) pp_sink_abandon(&open[i], NULL);
    cr_expect(pp_sinks_abandon_all());
    cr_assert(unlink("a") == 0 && chdir("..") == 0);
    cr_expect_eq(rmdir(folder), 0, "temporary files are left");
}

Test(files_output, reports_what_cannot_be_written)
{
    pp_error err = {0};
    cr_expect_eq(pp_files_write_atomic("no/such/folder/x", write_word, "x", NULL, &err), PPTO_E_IO);
    cr_expect_not_null(strstr(err.text, "No such file"));
    cr_expect_eq(pp_files_write_atomic("/", write_word, "x", NULL, NULL), PPTO_E_IO);
    cr_expect_eq(pp_files_write_atomic("/dev/full", write_word, "x", NULL, NULL), PPTO_E_LIMIT);
    cr_expect_eq(pp_files_write_atomic("/dev/null", write_word, "x", NULL, NULL), PPTO_OK);
}

static char folder[] = "sinkXXXXXX";

static void enter(void)
{
    cr_assert_not_null(mkdtemp(folder));
    cr_assert_eq(chdir(folder), 0);
}

/* Removes the files named; nothing else may be there. */
static void leave(const char *a, const char *b)
{
    if (a != NULL) cr_assert_eq(unlink(a), 0);
    if (b != NULL) cr_assert_eq(unlink(b), 0);
    cr_assert_eq(chdir(".."), 0);
    cr_expect_eq(rmdir(folder), 0, "temporary files are left");
}

Test(files_output, takes_writes_at_offsets_in_any_order)
{
    enter();
    for (int known = 0; known < 2; known++)
        for (int sync = 0; sync < 2; sync++) {
            pp_sink sink;
            cr_assert_eq(pp_sink_open(&sink, "a", known ? 10 : -1, NULL, NULL), PPTO_OK);
            cr_expect(!sink.stream && (known == sync || access("a", F_OK) == 0));
            cr_expect_eq(pwrite(sink.fd, "56789", 5, 5), 5);
            cr_expect_eq(pwrite(sink.fd, "01234", 5, 0), 5);
            cr_expect_eq(pp_sink_finish(&sink, sync, NULL), PPTO_OK);
            expect_content("a", "0123456789");
        }
    leave("a", NULL);
}

Test(files_output, leaves_nothing_when_abandoned)
{
    pp_sink sink;
    enter();
    cr_assert_eq(pp_sink_open(&sink, "a", 100, NULL, NULL), PPTO_OK);
    pp_sink_abandon(&sink, NULL);
    cr_expect_neq(access("a", F_OK), 0);
    cr_expect_eq(pp_files_write_atomic("a", write_word, "old", NULL, NULL), PPTO_OK);
    cr_assert_eq(pp_sink_open(&sink, "a", 100, NULL, NULL), PPTO_OK);
    pp_sink_abandon(&sink, NULL);
    expect_content("a", "old");
    leave("a", NULL);
}

Test(files_output, writes_in_place_what_is_no_file)
{
    pp_sink sink;
    static const char *const paths[] = {"/dev/null", "/dev/full", "/dev/fd/1"};
    for (size_t i = 0; i < 3; i++) {
        cr_assert_eq(pp_sink_open(&sink, paths[i], 100, NULL, NULL), PPTO_OK, "%s", paths[i]);
        cr_expect(sink.stream && sink.temporary == NULL);
        cr_expect_eq(pp_sink_finish(&sink, true, NULL), PPTO_OK, "%s", paths[i]);
    }
}

Test(files_output, says_that_the_disk_is_full_before_anything_is_written)
{
    pp_sink sink;
    pp_error err = {0};
    enter();
    cr_assert(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &(struct rlimit){1000000, 1000000}), 0);
    cr_expect_eq(pp_sink_open(&sink, "a", 1000001, NULL, &err), PPTO_E_LIMIT);
    cr_expect_str_eq(err.text, "cannot take room for it: File too large");
    leave(NULL, NULL);
}

Test(files_output, names_what_stands_in_its_way)
{
    pp_sink sink;
    pp_error err = {0};
    enter();
    cr_assert_eq(mkdir("d", 0777), 0);
    cr_expect_eq(pp_sink_open(&sink, "d", -1, NULL, &err), PPTO_E_IO);
    cr_expect_str_eq(err.text, "cannot write: Is a directory");
    pp_error_clear(&err);
    cr_expect_eq(pp_sink_open(&sink, "none/a", -1, NULL, &err), PPTO_E_IO);
    cr_expect_str_eq(err.text, "cannot create a file in its folder: No such file or directory");
    cr_assert_eq(rmdir("d"), 0);
    leave(NULL, NULL);
}

/* Replaces the file for ever, in small steps, with 1000 equal bytes. */
static void replace_for_ever(void)
{
    for (char c = 'a';; c = c == 'z' ? 'a' : (char)(c + 1)) {
        char bytes[100];
        pp_sink sink;
        memset(bytes, c, sizeof bytes);
        if (pp_sink_open(&sink, "a", 1000, NULL, NULL) != PPTO_OK) _exit(1);
        for (int i = 9; i >= 0; i--) {
            if (pwrite(sink.fd, bytes, sizeof bytes, i * 100) != 100) _exit(1);
            usleep(50); /* renaming takes longer than writing, and cannot be interrupted */
        }
        if (pp_sink_finish(&sink, false, NULL) != PPTO_OK) _exit(2);
    }
}

/* Removes what a killed writer left; how many there were, -1 for a name that does not say what it is. */
static int remove_temporaries(void)
{
    int n = 0;
    DIR *here = opendir(".");
    for (struct dirent *entry; (entry = readdir(here)) != NULL;) {
        const char *name = entry->d_name;
        size_t length = strlen(name);
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, "a") == 0) continue;
        bool known = strncmp(name, ".ppto-", 6) == 0 && length > 4 && strcmp(name + length - 4, ".tmp") == 0;
        unlink(name);
        n = known && n >= 0 ? n + 1 : -1;
    }
    closedir(here);
    return n;
}

Test(files_output, is_old_or_new_when_the_writer_is_killed)
{
    enter();
    cr_expect_eq(pp_files_write_atomic("a", write_word, "old", NULL, NULL), PPTO_OK);
    for (int i = 0; i < 60; i++) {
        pid_t child = fork();
        if (child == 0) replace_for_ever();
        struct stat facts;
        while (stat("a", &facts) == 0 && facts.st_size != 1000) usleep(100); /* it is at work */
        usleep((useconds_t)(500 + i * 37));
        cr_assert(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
        char bytes[1001];
        int fd = open("a", O_RDONLY);
        ssize_t n = read(fd, bytes, sizeof bytes);
        close(fd);
        cr_expect(n == 1000 || (n == 3 && memcmp(bytes, "old", 3) == 0), "%d bytes", (int)n);
        for (ssize_t k = 1; k < n && n == 1000; k++) cr_assert_eq(bytes[k], bytes[0]);
        int temporaries = remove_temporaries();
        cr_expect(temporaries == 0 || temporaries == 1);
    }
    leave("a", NULL);
}

/* ---- input files
 * ------------------------------------------------------------------------------------------------ */

Test(files_input, knows_what_has_offsets_and_a_size)
{
    pp_source source;
    enter();
    cr_expect_eq(pp_files_write_atomic("a", write_word, "twelve bytes", NULL, NULL), PPTO_OK);
    cr_expect_eq(pp_files_write_atomic("empty", write_word, "", NULL, NULL), PPTO_OK);
    cr_expect_eq(pp_source_open(&source, "a", NULL), PPTO_OK);
    cr_expect(!source.stream && source.size == 12 && source.start == 0);
    pp_source given;
    cr_expect_eq(lseek(source.fd, 4, SEEK_SET), 4);
    cr_expect_eq(pp_source_of(&given, source.fd, NULL), PPTO_OK);
    cr_expect(!given.stream && given.size == 12 && given.start == 4);
    pp_source_close(&given);
    cr_expect_eq(lseek(source.fd, 0, SEEK_CUR), 4, "closing leaves a given descriptor open");
    pp_source_close(&source);
    static const char *const streams[] = {"empty", "/dev/null", "/dev/zero", "/proc/self/status"};
    for (size_t i = 0; i < 4; i++) {
        cr_expect_eq(pp_source_open(&source, streams[i], NULL), PPTO_OK, "%s", streams[i]);
        cr_expect(source.stream && source.size == -1, "%s", streams[i]);
        pp_source_close(&source);
    }
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    cr_expect_eq(pp_source_of(&source, ends[0], NULL), PPTO_OK);
    cr_expect(source.stream && source.size == -1);
    leave("a", "empty");
}

Test(files_input, refuses_what_cannot_be_read_with_a_reason)
{
    static const char *const cases[][2] = {{"no/such/file", "cannot open: No such file or directory"},
                                           {"/", "cannot read: Is a directory"}};
    for (size_t i = 0; i < 2; i++) {
        pp_source source;
        pp_error err = {0};
        cr_expect_eq(pp_source_open(&source, cases[i][0], &err), PPTO_E_IO);
        cr_expect_str_eq(err.text, cases[i][1]);
        cr_expect_eq(source.fd, -1);
    }
    pp_source source;
    cr_expect_eq(pp_source_of(&source, 987, NULL), PPTO_E_IO);
}

static void keep(const pp_files_watch *watch, int fd)
{
    *(int *)(uintptr_t)watch->arg = fd; /* the test's own */
}

/* It has no name any more, and who watches closes it when there is time. */
Test(files_output, is_closed_by_who_watches_when_it_is_given_up)
{
    pp_sink sink;
    int given = -1;
    const pp_files_watch watch = {.arg = &given, .close = keep};
    enter();
    cr_assert_eq(pp_sink_open(&sink, "a", 100, &watch, NULL), PPTO_OK);
    int fd = sink.fd;
    pp_sink_abandon(&sink, &watch);
    cr_expect_eq(given, fd);
    cr_expect_eq(close(fd), 0);
    leave(NULL, NULL);
}
