# SPDX-License-Identifier: Apache-2.0
# Completion of the ppto command for bash: verbs, the options a verb's own --help lists, their fixed words, files.
# Source it, or install it as /usr/share/bash-completion/completions/ppto.

_ppto()
{
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]} command=${COMP_WORDS[0]}
    local verbs='run explain bench ops show-op info compare selfcheck tune memcheck help' words=
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W "$verbs --help --version" -- "$word")
        return
    fi
    case $before in
    help) words=$verbs ;;
    --executor) words='tbb pthread serial sim' ;;
    --device) words='cpu reference' ;;
    --tier) words='auto interp jit' ;;
    --simd) words='baseline avx2 avx512' ;;
    --stage) words='summary graph simplified fused kernel plan source' ;;
    --color) words='auto always never' ;;
    --log-level) words='0 1 2 3' ;;
    --threads | --warmup | --repeat | --rtol | --atol | --memory-limit) return ;;
    esac
    if [ -z "$words" ] && [ "${word#-}" != "$word" ]; then
        words=$("$command" help "$verb" 2>/dev/null | grep -o -e '--[a-z-]*[a-z]' | sort -u)
    elif [ -z "$words" ] && [ "$verb" = show-op ]; then
        words=$("$command" ops --json 2>/dev/null | grep -o '"name": *"[^"]*"' | cut -d '"' -f 4)
    fi
    if [ -n "$words" ]; then
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
    else # bash breaks words at =, so after NAME= this is the file
        [ "$word" = '=' ] && word=
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
    fi
}
complete -F _ppto ppto
