/* SPDX-License-Identifier: Apache-2.0
 * A loader for the little that our objects contain: relocatable ELF of x86-64 with code, constants, and
 * relocations relative to the place between them. A full linker takes a hundred times as long for it.
 *
 * An object may come from a damaged file: every number is checked against the bytes there are before it is
 * followed. Sections are copied one after the other, code first; the code's pages become executable, all
 * become read-only. */
#define _DEFAULT_SOURCE
#include "devices/cpu_llvm/object.h"

#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"

enum { MAX_SECTIONS = 64 };

struct pp_object_code {
    char *pages;
    size_t bytes;
};

typedef struct object {
    const char *at;
    size_t bytes;
    const char *name; /* the symbol wanted */
    pp_error *err;
    Elf64_Ehdr head;
    Elf64_Shdr section[MAX_SECTIONS];
    size_t place[MAX_SECTIONS]; /* in the pages, of sections that are loaded */
    bool loaded[MAX_SECTIONS];
    size_t code_bytes, total; /* whole pages */
    const Elf64_Shdr *symbols, *names;
} object;

static ppto_status damaged(const object *o, const char *what)
{
    return pp_fail(o->err, PPTO_E_INTERNAL, "object of machine code: %s", what);
}

static bool inside(const object *o, uint64_t offset, uint64_t bytes)
{
    return offset <= o->bytes && bytes <= o->bytes - offset;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

static ppto_status read_head(object *o)
{
    static const unsigned char start[] = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT};
    Elf64_Ehdr *head = &o->head;
    if (o->bytes < sizeof *head) return damaged(o, "too short");
    memcpy(head, o->at, sizeof *head);
    if (memcmp(head->e_ident, start, sizeof start) != 0 || head->e_type != ET_REL ||
        head->e_machine != EM_X86_64)
        return damaged(o, "not a relocatable file of this machine");
    if (head->e_shentsize != sizeof(Elf64_Shdr) || head->e_shnum > MAX_SECTIONS ||
        !inside(o, head->e_shoff, (uint64_t)head->e_shnum * sizeof(Elf64_Shdr)))
        return damaged(o, "sections out of range");
    memcpy(o->section, o->at + head->e_shoff, head->e_shnum * sizeof *o->section);
    return PPTO_OK;
}

static bool is_loaded(const Elf64_Shdr *section)
{
    return (section->sh_flags & SHF_ALLOC) != 0 && section->sh_size > 0;
}

static ppto_status check_section(const object *o, const Elf64_Shdr *section)
{
    if (section->sh_type == SHT_NULL) return PPTO_OK;
    if (section->sh_type == SHT_NOBITS || (section->sh_flags & SHF_WRITE) != 0)
        return section->sh_size == 0 ? PPTO_OK : damaged(o, "it has data to write to");
    if (!inside(o, section->sh_offset, section->sh_size)) return damaged(o, "a section out of range");
    const uint64_t align = section->sh_addralign;
    if (align > 4096 || (align & (align - 1)) != 0) return damaged(o, "an odd alignment");
    return PPTO_OK;
}

static ppto_status read_sections(object *o)
{
    for (unsigned i = 0; i < o->head.e_shnum; i++) {
        const Elf64_Shdr *section = &o->section[i];
        PP_TRY(check_section(o, section));
        o->loaded[i] = is_loaded(section);
        if (section->sh_type != SHT_SYMTAB) continue;
        if (o->symbols != NULL || section->sh_link >= o->head.e_shnum ||
            section->sh_entsize != sizeof(Elf64_Sym))
            return damaged(o, "no proper table of symbols");
        o->symbols = section, o->names = &o->section[section->sh_link];
    }
    if (o->symbols == NULL) return damaged(o, "no symbols");
    PP_TRY(check_section(o, o->names));
    const char *names = o->at + o->names->sh_offset;
    if (o->names->sh_size == 0 || names[o->names->sh_size - 1] != '\0')
        return damaged(o, "names without an end");
    return PPTO_OK;
}

static ppto_status symbol_at(const object *o, uint64_t i, Elf64_Sym *out)
{
    if (i >= o->symbols->sh_size / sizeof *out) return damaged(o, "no such symbol");
    memcpy(out, o->at + o->symbols->sh_offset + i * sizeof *out, sizeof *out);
    return out->st_name < o->names->sh_size ? PPTO_OK : damaged(o, "a name out of range");
}

static const char *name_of(const object *o, const Elf64_Sym *symbol)
{
    return o->at + o->names->sh_offset + symbol->st_name;
}

/* Whether the symbol lies in a section that is loaded. */
static bool is_here(const object *o, const Elf64_Sym *symbol)
{
    return symbol->st_shndx < o->head.e_shnum && o->loaded[symbol->st_shndx] &&
           symbol->st_value <= o->section[symbol->st_shndx].sh_size;
}

static ppto_status find_entry(const object *o, size_t *entry)
{
    bool found = false;
    for (uint64_t i = 1; i < o->symbols->sh_size / sizeof(Elf64_Sym); i++) {
        Elf64_Sym symbol;
        PP_TRY(symbol_at(o, i, &symbol));
        if (symbol.st_shndx == SHN_UNDEF)
            return pp_fail(o->err, PPTO_E_UNSUPPORTED, "machine code: it would need %s", name_of(o, &symbol));
        if (strcmp(name_of(o, &symbol), o->name) != 0 || !is_here(o, &symbol)) continue;
        if ((o->section[symbol.st_shndx].sh_flags & SHF_EXECINSTR) == 0)
            return damaged(o, "its function is no code");
        *entry = o->place[symbol.st_shndx] + symbol.st_value;
        found = true;
    }
    return found ? PPTO_OK : damaged(o, "its function is missing");
}

/* ---- placing ------------------------------------------------------------------------------------------- */

static bool round_up(size_t *value, size_t to)
{
    size_t sum;
    if (!pp_add_size(*value, to - 1, &sum)) return false;
    *value = sum & ~(to - 1);
    return true;
}

static ppto_status place_kind(object *o, bool code)
{
    for (unsigned i = 0; i < o->head.e_shnum; i++) {
        const Elf64_Shdr *section = &o->section[i];
        if (!o->loaded[i] || ((section->sh_flags & SHF_EXECINSTR) != 0) != code) continue;
        if (!round_up(&o->total, section->sh_addralign > 0 ? section->sh_addralign : 1))
            return damaged(o, "it is too great");
        o->place[i] = o->total;
        if (!pp_add_size(o->total, section->sh_size, &o->total)) return damaged(o, "it is too great");
    }
    return round_up(&o->total, (size_t)sysconf(_SC_PAGESIZE)) ? PPTO_OK : damaged(o, "it is too great");
}

static ppto_status read_object(object *o, size_t *entry)
{
    PP_TRY(read_head(o));
    PP_TRY(read_sections(o));
    PP_TRY(place_kind(o, true));
    o->code_bytes = o->total;
    PP_TRY(place_kind(o, false));
    return find_entry(o, entry);
}

/* ---- relocation ---------------------------------------------------------------------------------------- */

static ppto_status relocate_one(const object *o, char *pages, unsigned section, const Elf64_Rela *rela)
{
    Elf64_Sym symbol;
    const uint64_t type = ELF64_R_TYPE(rela->r_info);
    PP_TRY(symbol_at(o, ELF64_R_SYM(rela->r_info), &symbol));
    if (type != R_X86_64_PC32 && type != R_X86_64_PLT32)
        return pp_fail(o->err, PPTO_E_UNSUPPORTED, "machine code: relocation %u", (unsigned)type);
    if (!is_here(o, &symbol)) return damaged(o, "a reference outside");
    const uint64_t room = o->section[section].sh_size;
    if (room < 4 || rela->r_offset > room - 4) return damaged(o, "a relocation out of range");
    const size_t at = o->place[section] + rela->r_offset;
    const int64_t to = (int64_t)(o->place[symbol.st_shndx] + symbol.st_value), from = (int64_t)at;
    const int64_t distance = (int64_t)((uint64_t)to + (uint64_t)rela->r_addend - (uint64_t)from);
    const int32_t value = (int32_t)distance;
    if (value != distance) return damaged(o, "a reference too far");
    if (pages != NULL) memcpy(pages + at, &value, sizeof value);
    return PPTO_OK;
}

/* pages NULL: only checks. */
static ppto_status relocate(const object *o, char *pages)
{
    for (unsigned i = 0; i < o->head.e_shnum; i++) {
        const Elf64_Shdr *table = &o->section[i];
        if (table->sh_type == SHT_REL) return damaged(o, "relocations of another kind");
        if (table->sh_type != SHT_RELA) continue;
        if (table->sh_info >= o->head.e_shnum) return damaged(o, "relocations of no section");
        if (!o->loaded[table->sh_info]) continue;
        for (uint64_t k = 0; k < table->sh_size / sizeof(Elf64_Rela); k++) {
            Elf64_Rela rela;
            memcpy(&rela, o->at + table->sh_offset + k * sizeof rela, sizeof rela);
            PP_TRY(relocate_one(o, pages, table->sh_info, &rela));
        }
    }
    return PPTO_OK;
}

ppto_status pp_object_check(const void *bytes, size_t n, const char *name, pp_error *err)
{
    object o = {.at = bytes, .bytes = n, .name = name, .err = err};
    size_t entry;
    PP_TRY(read_object(&o, &entry));
    return relocate(&o, NULL);
}

/* ---- loading ------------------------------------------------------------------------------------------- */

static ppto_status fill(const object *o, pp_object_code *code)
{
    for (unsigned i = 0; i < o->head.e_shnum; i++)
        if (o->loaded[i])
            memcpy(code->pages + o->place[i], o->at + o->section[i].sh_offset, o->section[i].sh_size);
    PP_TRY(relocate(o, code->pages));
    if (mprotect(code->pages, code->bytes, PROT_READ) != 0 ||
        mprotect(code->pages, o->code_bytes, PROT_READ | PROT_EXEC) != 0)
        return pp_fail(o->err, PPTO_E_UNSUPPORTED,
                       "machine code: the system does not let memory be executed");
    return PPTO_OK;
}

ppto_status pp_object_load(const void *bytes, size_t n, const char *name, pp_object_code **out, void **entry,
                           pp_error *err)
{
    object o = {.at = bytes, .bytes = n, .name = name, .err = err};
    size_t at;
    *out = NULL;
    PP_TRY(read_object(&o, &at));
    pp_object_code *code = pp_calloc(1, sizeof *code);
    if (code == NULL) return pp_fail(err, PPTO_E_NOMEM, "machine code: no memory");
    code->bytes = o.total;
    code->pages = mmap(NULL, o.total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ppto_status status = PPTO_OK;
    if (code->pages == MAP_FAILED) {
        code->pages = NULL;
        status = pp_fail(err, PPTO_E_NOMEM, "machine code: no memory");
    }
    if (status == PPTO_OK) status = fill(&o, code);
    if (status != PPTO_OK) {
        pp_object_unload(code);
        return status;
    }
    *entry = code->pages + at;
    *out = code;
    return PPTO_OK;
}

void pp_object_unload(pp_object_code *code)
{
    if (code == NULL) return;
    if (code->pages != NULL) munmap(code->pages, code->bytes);
    pp_free(code);
}
