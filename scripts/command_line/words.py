# SPDX-License-Identifier: BSD-3-Clause
"""For the scripts in Python that have hardly any options: what words.sh is for those in sh."""
import sys


def refuse(why):
    print(f"{sys.argv[0].split('/')[-1]}: {why}; {sys.argv[0]} --help shows the usage", file=sys.stderr)
    sys.exit(2)


def take_words(usage, most=None, options=()):
    """The words of the command line. Prints `usage` and ends the script for --help and -h; ends it with 2 for other
    options than `options` and for more than `most` words.
    """
    words = sys.argv[1:]
    for word in words:
        if word in ("-h", "--help"):
            print(usage.strip())
            sys.exit(0)
        if word.startswith("-") and word not in options:
            refuse(f"there is no option {word}")
    if most is not None and len(words) > most:
        refuse(f"{len(words)} arguments are too many")
    return words
