#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A chain as C in a program of its own (export.c): the same bits as the library gives. $PPTO is the command, $CC a compiler.
set -eu
: "${PPTO:=ppto}"
: "${CC:=cc}"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
cd "$temp"

"$PPTO" explain 'softmax(x * t)' 'x=f32[N,512]' t=0.5 --stage source >kernel.c
sed -n '/what kernel_0 is called with/,/\*\//p' kernel.c
$CC -O2 -ffp-contract=off "$here/export.c" kernel.c -lm -o program

"$PPTO" run x 'x=f32[100,512]:normal(1)' -o x.raw
"$PPTO" run 'softmax(x * t)' 'x=x.raw:f32[N,512]' t=0.5 -o want.raw
./program <x.raw >got.raw
cmp want.raw got.raw
echo "the program gives the bits of ppto: $(wc -c <got.raw) bytes"
