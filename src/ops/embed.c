/* SPDX-License-Identifier: Apache-2.0
 * Build-time program: embed NAME INPUT OUTPUT turns a file into a C file that defines
 *     const char NAME[];            the bytes and a final NUL
 *     const size_t NAME_size;       their number without it
 * Characters one by one rather than a string literal: literals have a length limit in ISO C.
 * Runs on the build machine only; it is no part of the library. */
#include <stdio.h>

static void embed(const char *name, FILE *in, FILE *out)
{
    size_t n = 0;
    fprintf(out, "#include <stddef.h>\nextern const char %s[];\nextern const size_t %s_size;\n", name, name);
    fprintf(out, "const char %s[] = {", name);
    for (int c; (c = getc(in)) != EOF; n++)
        fprintf(out, "%s'\\x%02x',", n % 12 == 0 ? "\n" : "", (unsigned)c);
    fprintf(out, "0};\nconst size_t %s_size = %zu;\n", name, n);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: embed NAME INPUT OUTPUT\n");
        return 2;
    }
    FILE *in = fopen(argv[2], "rb"), *out = fopen(argv[3], "wb");
    if (in == NULL || out == NULL) {
        perror(in == NULL ? argv[2] : argv[3]);
        return 1;
    }
    embed(argv[1], in, out);
    int bad = ferror(in) != 0 || ferror(out) != 0;
    fclose(in);
    bad |= fclose(out) != 0;
    return bad;
}
