/* SPDX-License-Identifier: Apache-2.0
 * devices/cpu/machine: domains of machines this one is not (synthetic and XML descriptions of hwloc), of this
 * one under an affinity mask, and what binding does and says where it is allowed and where not. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "devices/cpu/machine.h"

/* NULL: built without hwloc. */
static pp_machine *machine_of(const char *description)
{
    pp_machine *machine;
    pp_error err = {0};
    ppto_status status = pp_machine_open(description, &machine, &err);
    if (status == PPTO_E_UNSUPPORTED) cr_skip_test("built without hwloc");
    cr_assert_eq(status, PPTO_OK, "%s: %s", description, err.text);
    return machine;
}

/* "nodes: cpus of each; domains: node of each", as "2,0 | 0" */
static void expect_shape(const char *description, const char *expected)
{
    pp_machine *machine = machine_of(description);
    pp_text text = {0};
    for (uint32_t i = 0; i < machine->n_nodes; i++)
        pp_text_add(&text, "%s%u", i > 0 ? "," : "", machine->node[i].cpus);
    pp_text_add(&text, " |");
    for (uint32_t d = 0; d < machine->n_domains; d++) {
        pp_text_add(&text, " %u", machine->node_of[d]);
        cr_expect_eq(machine->node[machine->node_of[d]].domain, d);
    }
    cr_expect_str_eq(text.at, expected, "%s: %s", description, text.at);
    pp_text_free(&text);
    pp_machine_close(machine);
}

Test(machine, domains_are_nodes_with_cpus_of_their_own)
{
    expect_shape("node:2 core:1 pu:1", "1,1 | 0 1");
    expect_shape("pack:2 l3:1 [numa] core:1 pu:1", "1,1 | 0 1");
    expect_shape("pack:1 [numa][numa] core:2 pu:1", "2,0 | 0");
    expect_shape("pack:2 [numa][numa] core:3 pu:2", "6,0,6,0 | 0 2");
    expect_shape("node:3 core:2 pu:2", "4,4,4 | 0 1 2");
    expect_shape("core:4 pu:1", "4 | 0");
}

Test(machine, wrong_descriptions_are_named)
{
    pp_machine *machine;
    pp_error err = {0};
    ppto_status status = pp_machine_open("no such thing", &machine, &err);
    cr_expect(status == PPTO_E_VALUE || status == PPTO_E_UNSUPPORTED);
    cr_expect_null(machine);
    cr_expect_not_null(strstr(err.text, "no such thing"), "%s", err.text);
    cr_expect_neq(pp_machine_open("this-system /nowhere.xml", &machine, NULL), PPTO_OK);
}

Test(machine, this_one_is_at_least_flat)
{
    pp_machine *machine = machine_of(NULL), *flat = machine_of("flat");
    cr_expect(machine->n_domains >= 1 && machine->n_nodes >= machine->n_domains && machine->this_system);
    cr_expect(flat->n_domains == 1 && flat->n_nodes == 1 && flat->node[0].cpus >= 1);
    cr_expect(flat->node[0].bytes > 0 && flat->node[0].list[0] != '\0', "%s", flat->node[0].list);
    cr_expect_null(pp_machine_enter(flat, 0));
    pp_machine_probe(flat);
    cr_expect(flat->threads == PP_BIND_NONE && flat->memory == PP_BIND_NONE);
    pp_machine_close(machine);
    pp_machine_close(flat);
}

static const char two_nodes[] =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
    "<topology version=\"2.0\"><object type=\"Machine\" os_index=\"0\" cpuset=\"0x0000000f\" "
    "complete_cpuset=\"0x0000000f\" allowed_cpuset=\"0x0000000f\" nodeset=\"0x00000003\" "
    "complete_nodeset=\"0x00000003\" allowed_nodeset=\"0x00000003\" gp_index=\"1\">\n%s%s</object>"
    "<support name=\"discovery.pu\"/><support name=\"discovery.numa\"/></topology>\n";

static void package(char *out, size_t size, int i)
{
    int mask = i == 0 ? 7 : 8, id = 10 * i + 10;
    int n = snprintf(out, size,
                     "<object type=\"Package\" os_index=\"%d\" cpuset=\"0x%08x\" complete_cpuset=\"0x%08x\" "
                     "nodeset=\"0x%08x\" complete_nodeset=\"0x%08x\" gp_index=\"%d\">"
                     "<object type=\"NUMANode\" os_index=\"%d\" cpuset=\"0x%08x\" complete_cpuset=\"0x%08x\" "
                     "nodeset=\"0x%08x\" complete_nodeset=\"0x%08x\" gp_index=\"%d\" local_memory=\"4096\"/>",
                     i, mask, mask, 1 << i, 1 << i, id, i, mask, mask, 1 << i, 1 << i, id + 1);
    for (int cpu = i == 0 ? 0 : 3; cpu < (i == 0 ? 3 : 4); cpu++)
        n += snprintf(out + n, size - (size_t)n,
                      "<object type=\"PU\" os_index=\"%d\" cpuset=\"0x%08x\" complete_cpuset=\"0x%08x\" "
                      "nodeset=\"0x%08x\" complete_nodeset=\"0x%08x\" gp_index=\"%d\"/>",
                      cpu, 1 << cpu, 1 << cpu, 1 << i, 1 << i, id + 2 + cpu);
    snprintf(out + n, size - (size_t)n, "</object>\n");
}

Test(machine, a_stored_description_is_read)
{
    char path[] = "machine-XXXXXX.xml", packages[2][4096];
    int fd = mkstemps(path, 4);
    cr_assert_geq(fd, 0);
    FILE *file = fdopen(fd, "w");
    for (int i = 0; i < 2; i++) package(packages[i], sizeof packages[i], i);
    fprintf(file, two_nodes, packages[0], packages[1]);
    fclose(file);
    expect_shape(path, "3,1 | 0 1");
    unlink(path);
}

/* ---- binding ------------------------------------------------------------------------------------ */

static cpu_set_t affinity(void)
{
    cpu_set_t set;
    cr_assert_eq(sched_getaffinity(0, sizeof set, &set), 0);
    return set;
}

Test(machine, nothing_is_bound_to_another_machine)
{
    cpu_set_t before = affinity();
    pp_machine *machine = machine_of("node:2 core:1 pu:1");
    static char page[4096] __attribute__((aligned(4096)));
    const uint32_t nodes[] = {0, 1};
    cr_expect(!machine->this_system);
    cr_expect_null(pp_machine_enter(machine, 1));
    cpu_set_t after = affinity();
    cr_expect(CPU_EQUAL(&before, &after));
    cr_expect_eq(pp_machine_here(machine), 0u);
    cr_expect_eq(pp_machine_bind(machine, page, sizeof page, nodes, 2, false), -1);
    cr_expect(machine->threads == PP_BIND_FOREIGN && machine->memory == PP_BIND_FOREIGN);
    cr_expect_str_eq(pp_binding_text(machine->memory), "not this system");
    pp_machine_close(machine);
}

/* Two of this machine's CPUs as nodes of their own. */
static pp_machine *split_in_two(void)
{
    cpu_set_t set = affinity();
    if (!CPU_ISSET(0, &set) || !CPU_ISSET(1, &set)) cr_skip_test("CPUs 0 and 1 are not ours");
    return machine_of("this-system node:2 core:1 pu:1");
}

Test(machine, a_thread_is_bound_on_entry_and_as_before_when_it_leaves)
{
    cpu_set_t before = affinity();
    pp_machine *machine = split_in_two();
    for (uint32_t d = 0; d < 2; d++) {
        void *entered = pp_machine_enter(machine, d);
        cpu_set_t inside = affinity();
        if (machine->threads == PP_BIND_REFUSED) cr_skip_test("the system refuses to bind threads");
        cr_expect_not_null(entered);
        cr_expect(CPU_COUNT(&inside) == 1 && CPU_ISSET(d, &inside));
        cr_expect_eq(pp_machine_here(machine), d);
        cr_expect_null(pp_machine_enter(machine, d), "it is there already");
        pp_machine_leave(machine, entered);
        cpu_set_t after = affinity();
        cr_expect(CPU_EQUAL(&before, &after));
    }
    cr_expect_eq(machine->threads, PP_BIND_BOUND);
    pp_machine_close(machine);
}

Test(machine, an_affinity_mask_of_one_cpu_leaves_one_domain)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(1, &one);
    pp_machine_close(split_in_two());
    cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
    pp_machine *machine = machine_of("this-system node:2 core:1 pu:1");
    cr_expect_eq(machine->n_nodes, 2u);
    cr_expect_eq(machine->n_domains, 1u);
    cr_expect_eq(machine->node_of[0], 1u);
    cr_expect_str_eq(machine->node[1].list, "1");
    pp_machine_close(machine);
}

Test(machine, memory_that_cannot_be_bound_is_used_all_the_same)
{
    pp_machine *machine = split_in_two();
    const size_t bytes = (size_t)1 << 20;
    const uint32_t nodes[] = {1, 0};
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(at, MAP_FAILED);
    int result = pp_machine_bind(machine, at, bytes, nodes, 1, false); /* there may be no node 1 here */
    cr_expect_geq(result, 0);
    cr_expect_eq(machine->memory, result == 0 ? PP_BIND_BOUND : PP_BIND_REFUSED);
    cr_expect_eq(machine->memory_errno, result);
    (void)pp_machine_bind(machine, at, bytes, nodes, 2, false);
    memset(at, 1, bytes);
    munmap(at, bytes);
    pp_machine_probe(machine);
    cr_expect_neq(machine->memory, PP_BIND_NONE);
    pp_machine_close(machine);
}

/* Before hwloc gets it: it would take minutes, or crash. */
Test(machine, descriptions_beyond_any_machine_are_refused)
{
    static const char *const fine[] = {"",
                                       "node:64 core:8 pu:8",
                                       "pack:64 [numa] core:64 pu:1",
                                       "core:4096 pu:1",
                                       "pack:2(memory=1GB) core:2(indexes=0,2,1,3) pu:1",
                                       "no such thing"},
                             *const large[] = {"node:65 pu:1",
                                               "pu:4097",
                                               "core:1000 pu:1000",
                                               "node:8 [numa] pu:99",
                                               "2 3 700",
                                               "pack:33[numa][numa] pu:1",
                                               "pu:99999999999999999999999999"};
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++)
        cr_expect_eq(pp_topology_check_synthetic(fine[i], NULL), PPTO_OK, "%s", fine[i]);
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        pp_error err = {0};
        ppto_status status = pp_topology_check_synthetic(large[i], &err);
        bool is_fine = i == 3; /* 8 nodes, and 8 more of 99 CPUs each */
        cr_expect_eq(status, is_fine ? PPTO_OK : PPTO_E_VALUE, "%s", large[i]);
        cr_expect(is_fine || strstr(err.text, "at most"), "%s: %s", large[i], err.text);
    }
}

static ppto_status check_xml(const char *text)
{
    char path[] = "machine_XXXXXX.xml";
    int fd = mkstemps(path, 4);
    pp_error err = {0};
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    ppto_status status = pp_topology_check_xml(path, &err);
    cr_expect(status == PPTO_OK || strstr(err.text, path), "%s", err.text);
    unlink(path);
    return status;
}

Test(machine, damaged_xml_is_refused)
{
    static const char *const fine[] = {
        "<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">\n"
        " <!-- <none> -->\n <object type=\"Machine\" os_index='0'><object type=\"PU\"/></object> "
        "a\n</topology>\n",
        "<topology></topology>"};
    static const char *const broken[] = {"",
                                         "no XML",
                                         "<topology>",
                                         "<topology><object></topology>",
                                         "<topology></object></topology>",
                                         "<topology a></topology>",
                                         "<topology a=\"b></topology>",
                                         "<topology a=\"<\"></topology>",
                                         "<topology></topology><topology></topology>",
                                         "<topology></topology",
                                         "<topology",
                                         "<machine></machine>",
                                         "<topology/ >",
                                         "<!-- <topology></topology>",
                                         "text <topology></topology>",
                                         "<></>"};
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++)
        cr_expect_eq(check_xml(fine[i]), PPTO_OK, "%s", fine[i]);
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        cr_expect_eq(check_xml(broken[i]), PPTO_E_VALUE, "%s", broken[i]);
    pp_text deep = {0};
    for (int i = 0; i < 5000; i++) pp_text_add(&deep, "<topology>");
    cr_expect_eq(check_xml(deep.at), PPTO_E_VALUE);
    pp_text_free(&deep);
    cr_expect_eq(pp_topology_check_xml("nowhere.xml", NULL), PPTO_E_VALUE);
}

Test(machine, this_system_alone_is_this_one)
{
    pp_machine *machine = NULL;
    pp_error err = {0};
    cr_assert_eq(pp_machine_open("this-system", &machine, &err), PPTO_OK, "%s", err.text);
    cr_expect(machine->this_system && machine->n_domains >= 1);
    pp_machine_close(machine);
}
