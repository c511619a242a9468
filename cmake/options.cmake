# SPDX-License-Identifier: BSD-3-Clause
#
# tutti_options: what every target of this project is compiled with (warnings, sanitizer), and nothing that a consumer
# of the installed library would inherit.

add_library(tutti_options INTERFACE)

# Empty, so that a file may say `#define _GNU_SOURCE` for itself too.
target_compile_definitions(tutti_options INTERFACE $<$<COMPILE_LANGUAGE:C>:_GNU_SOURCE=>)
target_compile_options(tutti_options INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
    "$<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes;-Wmissing-prototypes;-fno-common>")
if(TUTTI_WERROR)
    target_compile_options(tutti_options INTERFACE -Werror)
endif()

# GCC clears and copies structs of 100 to 500 bytes with string instructions, which take longer to begin than that many
# stores: a seventh of the time of a batch of messages.
include(CheckCCompilerFlag)
set(copy_strategy vector_loop:512:noalign,libcall:-1:noalign)
check_c_compiler_flag("-mmemcpy-strategy=${copy_strategy}" TUTTI_HAS_COPY_STRATEGY)
if(TUTTI_HAS_COPY_STRATEGY)
    target_compile_options(tutti_options INTERFACE
        "$<$<COMPILE_LANGUAGE:C>:-mmemcpy-strategy=${copy_strategy};-mmemset-strategy=${copy_strategy}>")
endif()

# CMake's -O3 -DNDEBUG for Release is replaced: hot loops ask for -O3 themselves, and debug information lets a user's
# profiler and debugger see into the library. Distributions strip it.
set(CMAKE_C_FLAGS_RELEASE "-O2 -g -DNDEBUG")
set(CMAKE_C_FLAGS_DEBUG "-O0 -g3")

if(TUTTI_SANITIZE)
    if(NOT TUTTI_SANITIZE MATCHES "^(address|undefined|address,undefined|thread)$")
        message(FATAL_ERROR
            "TUTTI_SANITIZE is address, undefined, address,undefined or thread, not \"${TUTTI_SANITIZE}\".")
    endif()
    set(sanitize_flags -fsanitize=${TUTTI_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    if(TUTTI_SANITIZE STREQUAL "address,undefined" AND NOT TUTTI_FUZZER)
        # Undefined behaviour is a trap, whose line AddressSanitizer prints (handle_sigill=1, on aarch64
        # handle_sigtrap=1). With sentences each check has a record of its own, 350,000 relocations in each start of a
        # process. A tree of `undefined` alone prints them, and checks the types of C++ objects. AddressSanitizer finds
        # nearly all that `null` and `object-size` find.
        list(APPEND sanitize_flags -fsanitize-undefined-trap-on-error -fno-sanitize=null,object-size)
    endif()
    # -Og -g1: stack traces need the lines only, and the tree compiles in a third of the time that -O1 -g takes.
    target_compile_options(tutti_options INTERFACE ${sanitize_flags} -Og -g1 -UNDEBUG)
    target_link_options(tutti_options INTERFACE ${sanitize_flags})
endif()

# For scripts/fuzz, with Clang.
if(TUTTI_FUZZER)
    target_compile_options(tutti_options INTERFACE -fsanitize=fuzzer-no-link)
    target_link_options(tutti_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
