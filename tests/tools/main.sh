#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The program itself: help, version, unknown commands.
. "$(dirname "$0")/common.inc"

run_tutti
check_status 2 "no command"
check_line err '^Usage: tutti COMMAND' "no command"

for word in --help -h help; do
    run_tutti "$word"
    check_status 0 "$word"
    for command in run check info; do
        check_line out "^  $command +[a-z]" "$word lists $command"
    done
done

for word in --version -V version; do
    run_tutti "$word"
    check_status 0 "$word"
    check_line out '^tutti [0-9]+\.[0-9]+\.[0-9]+$' "$word"
done

for words in "--help x" "help run x" "--version x" "-V x"; do
    run_tutti $words
    check_status 2 "$words"
    check_line err "^tutti: 'x' is one argument too many for ${words%% *}\$" "$words"
done

for command in run check info; do
    run_tutti help "$command"
    check_status 0 "help $command"
    cp "$work/out" "$work/first"
    check_line out "^Usage: tutti $command" "help $command"
    run_tutti "$command" --help
    check_status 0 "$command --help"
    check_equal "$(cat "$work/out")" "$(cat "$work/first")" "help $command is $command --help"
done

# On a full disk.
for words in --help --version 'help trace' 'run --help' 'run -n 2 --dry-run true' 'bench --help' 'check --list' \
    'check --backend local -n 2 --quick --filter barrier'; do
    "$tutti" $words >/dev/full 2>"$work/err" </dev/null
    status=$?
    case $words in
    run*) check_status 125 "$words" ;;
    *) check_status 1 "$words" ;;
    esac
    check_line err '^tutti( [a-z]+)?: standard output cannot be written$' "$words"
done

run_tutti frobnicate
check_status 2 "an unknown command"
check_line err "^tutti: there is no command 'frobnicate'; .tutti --help. lists them$" "an unknown command"
run_tutti help frobnicate
check_status 2 "help for an unknown command"

finish
