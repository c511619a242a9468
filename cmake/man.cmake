# SPDX-License-Identifier: BSD-3-Clause
#
# Manual pages, made by scripts/man_pages: section 3 from the headers, section 1 from what the program's --help says, by
# help2man. Where a tool is missing, its section is left out, and nothing else changes.

find_package(Python3 COMPONENTS Interpreter QUIET)
find_program(TUTTI_HELP2MAN help2man)
set(man_pages ${PROJECT_SOURCE_DIR}/scripts/man_pages)
set(man_folder ${PROJECT_BINARY_DIR}/man)

# A section: its tool, and what it is made from.
function(tutti_add_man section)
    cmake_parse_arguments(PARSE_ARGV 1 man "" "" "INPUTS;WORDS")
    add_custom_command(OUTPUT ${man_folder}/man${section}.stamp
        COMMAND ${Python3_EXECUTABLE} ${man_pages} ${section} ${man_folder}/man${section} ${man_WORDS}
        COMMAND ${CMAKE_COMMAND} -E touch ${man_folder}/man${section}.stamp
        DEPENDS ${man_INPUTS} ${man_pages} VERBATIM)
    add_custom_target(man${section} ALL DEPENDS ${man_folder}/man${section}.stamp)
    install(DIRECTORY ${man_folder}/man${section} DESTINATION ${CMAKE_INSTALL_MANDIR})
endfunction()

# Trees with sanitizers need no manual pages.
if(TUTTI_SANITIZE)
    return()
endif()
if(Python3_FOUND)
    file(GLOB man_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/tutti/*.h ${PROJECT_SOURCE_DIR}/include/tutti/*.hpp)
    list(REMOVE_ITEM man_headers ${PROJECT_SOURCE_DIR}/include/tutti/dlpack.h) # not ours
    tutti_add_man(3 INPUTS ${man_headers} WORDS ${man_headers})
else()
    message(STATUS "Manual pages are left out: there is no Python (Debian: python3)")
endif()
if(NOT TARGET tutti OR NOT Python3_FOUND)
    message(STATUS "Manual pages of the program are left out: it is not built, or there is no Python")
elseif(CMAKE_CROSSCOMPILING)
    message(STATUS "Manual pages of the program are left out: help2man has to run it, and it is for another machine")
elseif(NOT TUTTI_HELP2MAN)
    message(STATUS "Manual pages of the program are left out: there is no help2man (Debian: help2man)")
else()
    tutti_add_man(1 INPUTS tutti WORDS $<TARGET_FILE:tutti> ${TUTTI_HELP2MAN})
endif()
