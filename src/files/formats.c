/* SPDX-License-Identifier: Apache-2.0
 * One array of a file (formats.h): names, and each format's reader and writer behind one face. */
#define _XOPEN_SOURCE 700
#include <string.h>
#include <unistd.h>

#include "files/formats.h"
#include "files/raw.h"

/* ---- names ----------------------------------------------------------------------------------------------
 */

static const struct {
    const char *ending;
    pp_format format;
} endings[] = {{".npz", PP_FORMAT_NPZ},
               {".safetensors", PP_FORMAT_SAFETENSORS},
               {".raw", PP_FORMAT_RAW},
               {".bin", PP_FORMAT_RAW}};

enum { MOST_OF_NPZ = 65535 - 4 }; /* bytes of a name: with .npy their number has 16 bits */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool pp_file_is_standard(const char *text)
{
    return text[0] == '-' && (text[1] == '\0' || text[1] == ':');
}

/* The format, and where the path ends. */
static pp_format format_of(const char *text, size_t *length)
{
    *length = strlen(text);
    if (pp_file_is_standard(text) && text[1] == ':') {
        *length = 1;
        return PP_FORMAT_RAW;
    }
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t n = strlen(endings[i].ending);
        for (const char *at = strstr(text, endings[i].ending); at != NULL;
             at = strstr(at + 1, endings[i].ending)) {
            if (at[n] != '\0' && at[n] != ':') continue;
            *length = (size_t)(at - text) + n;
            return endings[i].format;
        }
    }
    return PP_FORMAT_NPY;
}

bool pp_files_reads(pp_format format)
{
#ifdef PP_WITH_ZIP
    if (format == PP_FORMAT_NPZ) return true;
#endif
#ifdef PP_WITH_JANSSON
    if (format == PP_FORMAT_SAFETENSORS) return true;
#endif
    return format == PP_FORMAT_NPY || format == PP_FORMAT_RAW;
}

ppto_status pp_file_name_read(const char *text, pp_file_name *out, pp_error *err)
{
    size_t length;
    *out = (pp_file_name){.format = format_of(text, &length)};
    if (text[length] == ':' && text[length + 1] == '\0')
        return pp_fail(err, PPTO_E_VALUE,
                       out->format == PP_FORMAT_RAW
                           ? "what is in it must follow the :, as in FILE.raw:f32[N,512]"
                           : "the name of an array must follow the :");
    out->path = pp_strdup(text);
    if (out->path == NULL) return pp_fail(err, PPTO_E_NOMEM, "out of memory");
    if (text[length] == ':') out->name = out->path + length + 1;
    out->path[length] = '\0';
    return PPTO_OK;
}

void pp_file_name_free(pp_file_name *name)
{
    pp_free(name->path);
    *name = (pp_file_name){0};
}

/* ---- reading --------------------------------------------------------------------------------------------
 */

static ppto_status open_npy(pp_reader *r, pp_error *err)
{
    PP_TRY(pp_npy_read_header(r->source.fd, &r->info, err));
    if (r->source.stream) return PPTO_OK;
    r->data_at = (int64_t)lseek(r->source.fd, 0, SEEK_CUR);
    r->in_place = !r->info.fortran;
    return PPTO_OK;
}

/* As short a read as that of a header. Where the first read of a file is a long one, the system has what it
 * reads ahead come by single pages, in twice the time (docs/performance.md). */
static void read_little(const pp_source *source)
{
    char first;
    ssize_t got = pread(source->fd, &first, 1, (off_t)source->start);
    (void)got; /* whoever reads the data tells */
}

static ppto_status open_raw(pp_reader *r, const char *what, pp_error *err)
{
    int64_t size = r->source.stream ? -1 : r->source.size - r->source.start;
    PP_TRY(pp_raw_describe(what, size, &r->info, err));
    if (r->source.stream) return PPTO_OK;
    r->data_at = r->source.start;
    r->in_place = true;
    read_little(&r->source);
    return PPTO_OK;
}

static ppto_status open_archive(pp_reader *r, const pp_file_name *name, pp_error *err)
{
    if (r->source.stream)
        return pp_fail(err, PPTO_E_FORMAT,
                       "an archive cannot be read from a pipe, a device or an empty file");
    if (name->format == PP_FORMAT_NPZ) return pp_npz_open(&r->source, name->name, &r->npz, &r->info, err);
    PP_TRY(pp_safetensors_find(&r->source, name->name, &r->info, &r->data_at, err));
    r->in_place = true;
    return PPTO_OK;
}

/* Another name for an array is only looked for where a file may have several. */
static ppto_status open_source(pp_reader *r, const pp_file_name *name, pp_error *err)
{
    const char *ending = strstr(name->path, ".npy:");
    if (pp_file_is_standard(name->path)) return pp_source_of(&r->source, STDIN_FILENO, err);
    if (name->format == PP_FORMAT_NPY && ending != NULL && access(name->path, F_OK) != 0)
        return pp_fail(err, PPTO_E_VALUE, "an NPY file holds one array, without a name: leave out %.100s",
                       ending + strlen(".npy"));
    return pp_source_open(&r->source, name->path, err);
}

ppto_status pp_reader_open(pp_reader *r, const char *text, pp_error *err)
{
    pp_file_name name;
    *r = (pp_reader){.source = {.fd = -1}, .data_at = -1};
    PP_TRY(pp_file_name_read(text, &name, err));
    ppto_status status = open_source(r, &name, err);
    if (status == PPTO_OK) {
        status = name.format == PP_FORMAT_NPY   ? open_npy(r, err)
                 : name.format == PP_FORMAT_RAW ? open_raw(r, name.name, err)
                                                : open_archive(r, &name, err);
        r->in_order = !r->info.fortran && (r->npz != NULL || r->source.stream);
        if (status != PPTO_OK) pp_reader_close(r);
    }
    pp_file_name_free(&name);
    return status;
}

/* So many bytes of a descriptor. */
typedef struct stretch {
    int fd;
    int64_t left;
} stretch;

static ppto_status read_stretch(void *arg, void *bytes, size_t n, size_t *got, const pp_files_watch *watch,
                                pp_error *err)
{
    stretch *s = arg;
    if ((int64_t)n > s->left) n = (size_t)s->left;
    PP_TRY(pp_files_read_by(watch, s->fd, bytes, n, got, err));
    s->left -= (int64_t)*got;
    return PPTO_OK;
}

static int64_t left_in_stretch(void *arg)
{
    return ((stretch *)arg)->left;
}

ppto_status pp_reader_read(pp_reader *r, void *dst, const pp_files_watch *watch, pp_error *err)
{
    if (r->npz != NULL) return pp_npz_read(r->npz, &r->info, dst, watch, err);
    if (r->source.stream || r->data_at < 0) return pp_npy_read_data(r->source.fd, &r->info, dst, watch, err);
    if (lseek(r->source.fd, (off_t)r->data_at, SEEK_SET) < 0)
        return pp_fail(err, PPTO_E_IO, "cannot be read where its data begin");
    stretch s = {r->source.fd, (int64_t)r->info.bytes};
    const pp_files_from from = {read_stretch, left_in_stretch, &s};
    return pp_npy_data_from(&from, &r->info, dst, watch, err);
}

ppto_status pp_reader_next(pp_reader *r, void *bytes, size_t n, size_t *got, pp_error *err)
{
    return r->npz != NULL ? pp_npz_next(r->npz, bytes, n, got, err)
                          : pp_files_read_some(r->source.fd, bytes, n, got, err);
}

ppto_status pp_reader_end(pp_reader *r, pp_error *err)
{
    unsigned char more;
    size_t got;
    PP_TRY(pp_reader_next(r, &more, 1, &got, err));
    return got == 0 ? PPTO_OK : pp_fail(err, PPTO_E_FORMAT, "bytes follow the array");
}

void pp_reader_close(pp_reader *r)
{
    pp_npz_close(r->npz);
    if (r->source.fd >= 0) pp_source_close(&r->source);
    *r = (pp_reader){.source = {.fd = -1}};
}

/* ---- writing --------------------------------------------------------------------------------------------
 */

typedef struct save_job {
    pp_format format;
    const pp_files_entry *entries;
    size_t n;
    const pp_files_watch *watch;
} save_job;

static ppto_status write_all(int fd, void *arg, pp_error *err)
{
    const save_job *job = arg;
    const pp_files_entry *e = job->entries;
    if (job->format == PP_FORMAT_SAFETENSORS) return pp_safetensors_write(fd, e, job->n, job->watch, err);
    if (job->format == PP_FORMAT_NPY)
        return pp_npy_write(fd, e->dtype, e->rank, e->shape, e->data, job->watch, err);
    if (job->format == PP_FORMAT_RAW)
        return pp_raw_write(fd, e->dtype, e->rank, e->shape, e->data, job->watch, err);
    if (lseek(fd, 0, SEEK_CUR) < 0) return pp_fail(err, PPTO_E_IO, "an NPZ file cannot be written to a pipe");
    return pp_npz_write(fd, e, job->n, job->watch, err);
}

/* The ending of the last part of a path, with its dot: letters and digits, a letter first. "" where there is
 * none; six of them are what mkstemp puts there. */
static const char *ending_of(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    if (dot == NULL || dot == name || !is_letter(dot[1])) return "";
    size_t n = 1;
    while (is_letter(dot[n]) || (dot[n] >= '0' && dot[n] <= '9')) n++;
    return dot[n] == '\0' && n != 1 + 6 ? dot : "";
}

/* Would unpacking the archive write outside of the folder where that is done? */
static bool leaves_its_folder(const char *name)
{
    bool leaves = name[0] == '/';
    for (const char *part = name; !leaves && part != NULL; part = strchr(part, '/')) {
        part += *part == '/';
        leaves = strncmp(part, "..", 2) == 0 && (part[2] == '\0' || part[2] == '/');
    }
    return leaves;
}

/* Whether an array of an archive that others can read may have the name; NULL is made up. */
static ppto_status can_name(pp_format format, const char *name, pp_error *err)
{
    if (name == NULL || (format != PP_FORMAT_NPZ && format != PP_FORMAT_SAFETENSORS)) return PPTO_OK;
    if (*name == '\0') return pp_fail(err, PPTO_E_VALUE, "the name of an array is empty");
    if (!pp_text_is_utf8(name)) return pp_fail(err, PPTO_E_VALUE, "the name of an array is no UTF-8");
    if (format == PP_FORMAT_NPZ && strlen(name) > MOST_OF_NPZ)
        return pp_fail(err, PPTO_E_VALUE, "a name of more than %d bytes has no room in an NPZ file",
                       MOST_OF_NPZ);
    if (format == PP_FORMAT_NPZ && leaves_its_folder(name))
        return pp_fail(err, PPTO_E_VALUE,
                       "%.100s is no name for an array of an NPZ file: who unpacks it would write elsewhere",
                       name);
    if (format == PP_FORMAT_SAFETENSORS && strcmp(name, "__metadata__") == 0)
        return pp_fail(err, PPTO_E_VALUE, "no array of a safetensors file can have the name __metadata__");
    return PPTO_OK;
}

ppto_status pp_files_can_write(const char *text, pp_error *err)
{
    size_t length;
    const char *ending = ending_of(text);
    pp_format format = format_of(text, &length);
    if (format != PP_FORMAT_NPY)
        return text[length] == ':' && text[length + 1] != '\0' ? can_name(format, text + length + 1, err)
                                                               : PPTO_OK;
    if (*ending == '\0' || strcmp(ending, ".npy") == 0 || pp_sink_flows(text)) return PPTO_OK;
    return pp_fail(err, PPTO_E_VALUE,
                   "the end of the name says the format, and %.20s is none: .npy, .npz, .safetensors, .raw "
                   "(.bin), or no ending for NPY",
                   ending);
}

/* What is in a raw file that is written is the result's to say. */
static ppto_status nothing_said(const pp_file_name *name, pp_error *err)
{
    if (name->name == NULL || (pp_file_is_standard(name->path) && strcmp(name->name, "raw") == 0))
        return PPTO_OK;
    return pp_fail(err, PPTO_E_VALUE, "a raw file takes what the result is: :%s has no meaning", name->name);
}

ppto_status pp_files_save(const char *text, const pp_files_entry *entries, size_t n,
                          const pp_files_watch *watch, pp_error *err)
{
    pp_file_name name;
    PP_TRY(pp_files_can_write(text, err));
    PP_TRY(pp_file_name_read(text, &name, err));
    pp_files_entry only;
    save_job job = {name.format, entries, n, watch};
    ppto_status status = PPTO_OK;
    if (name.format == PP_FORMAT_RAW) status = nothing_said(&name, err);
    bool single = name.format == PP_FORMAT_NPY || name.format == PP_FORMAT_RAW;
    if (status == PPTO_OK && n != 1 && (single || name.name != NULL || n == 0))
        status = pp_fail(err, PPTO_E_VALUE, "it cannot hold %zu arrays", n);
    if (status == PPTO_OK && name.name != NULL) {
        only = *entries;
        only.name = name.name;
        job.entries = &only;
    }
    for (size_t i = 0; i < n && status == PPTO_OK; i++)
        status = can_name(name.format, job.entries[i].name, err);
    if (status == PPTO_OK) status = pp_files_write_atomic(name.path, write_all, &job, watch, err);
    pp_file_name_free(&name);
    return status;
}

bool pp_files_by_pieces(const char *text)
{
    size_t length;
    return format_of(text, &length) != PP_FORMAT_NPZ;
}

bool pp_files_flow(const char *text)
{
    pp_file_name name;
    bool flows = pp_file_name_read(text, &name, NULL) == PPTO_OK && pp_sink_flows(name.path);
    pp_file_name_free(&name);
    return flows;
}

bool pp_files_in_order(const char *text)
{
    size_t length;
    return format_of(text, &length) == PP_FORMAT_NPZ && pp_files_reads(PP_FORMAT_NPZ) && !pp_files_flow(text);
}

ppto_status pp_files_begin_in_order(const char *text, const pp_files_watch *watch, pp_file_name *file,
                                    pp_sink *sink, pp_error *err)
{
    *sink = (pp_sink){.fd = -1};
    PP_TRY(pp_files_can_write(text, err));
    PP_TRY(pp_file_name_read(text, file, err));
    ppto_status status = pp_sink_open(sink, file->path, -1, watch, err);
    if (status == PPTO_OK && sink->stream) {
        status = pp_fail(err, PPTO_E_IO, "an NPZ file cannot be written to a pipe");
        pp_sink_abandon(sink, watch);
    }
    if (status != PPTO_OK) pp_file_name_free(file);
    return status;
}

static ppto_status npy_head(const pp_files_entry *e, pp_text *head, pp_error *err)
{
    char bytes[PP_NPY_HEADER];
    size_t n, data;
    PP_TRY(pp_npy_make_header(e->dtype, e->rank, e->shape, bytes, &n, &data, err));
    pp_text_add(head, "%*s", (int)n, ""); /* room; the header has bytes of any value */
    if (head->failed) return pp_fail(err, PPTO_E_NOMEM, "out of memory");
    memcpy(head->at, bytes, n);
    return PPTO_OK;
}

ppto_status pp_files_head(const char *text, const pp_files_entry *entry, pp_file_name *file, pp_text *head,
                          pp_error *err)
{
    size_t order;
    PP_TRY(pp_file_name_read(text, file, err));
    pp_files_entry own = *entry;
    if (file->name != NULL) own.name = file->name;
    ppto_status status = file->format == PP_FORMAT_NPY   ? npy_head(&own, head, err)
                         : file->format == PP_FORMAT_RAW ? nothing_said(file, err)
                         : file->format == PP_FORMAT_SAFETENSORS
                             ? pp_safetensors_head(&own, 1, &order, head, err)
                             : pp_fail(err, PPTO_E_UNSUPPORTED, "an NPZ file is written from first to last");
    if (status != PPTO_OK) {
        pp_text_free(head);
        pp_file_name_free(file);
    }
    return status;
}

ppto_status pp_files_begin(const char *text, const pp_files_entry *entry, size_t bytes,
                           const pp_files_watch *watch, pp_sink *sink, size_t *data_at, pp_error *err)
{
    pp_file_name file = {0};
    pp_text head = {0};
    *sink = (pp_sink){.fd = -1};
    PP_TRY(pp_files_head(text, entry, &file, &head, err));
    *data_at = head.n;
    ppto_status status = pp_sink_open(sink, file.path, (int64_t)(head.n + bytes), watch, err);
    if (status == PPTO_OK) {
        status = pp_files_write_by(watch, sink->fd, head.at, head.n, err);
        if (status != PPTO_OK) pp_sink_abandon(sink, watch);
    }
    pp_file_name_free(&file);
    pp_text_free(&head);
    return status;
}
