# SPDX-License-Identifier: BSD-3-Clause
#
# Sourced by the scripts in sh and bash, before they change the folder. With --help or -h a script prints the comment at
# its head.

# take_words MOST OPTIONS WORD...: ends the script for --help and -h; ends it with 2 for other options than those in the
# list OPTIONS, and for more than MOST words.
take_words()
{
    words_most=$1
    words_options=" $2 "
    shift 2
    for word; do
        case $word in
        -h | --help)
            sed -n '3,${ /^#/!q; s/^#$//; s/^# //; p; }' "$0" | sed '1{/^$/d;}'
            exit 0
            ;;
        -?*)
            case $words_options in
            *" $word "*) ;;
            *) refuse_words "there is no option $word" ;;
            esac
            ;;
        esac
    done
    [ $# -le "$words_most" ] || refuse_words "$# arguments are too many"
}

refuse_words() # WHY
{
    echo "${0##*/}: $1; $0 --help shows the usage" >&2
    exit 2
}
