# SPDX-License-Identifier: BSD-3-Clause
#
# Each folder of examples/ that holds C files is one program, linked with the shared library as a user would do it; it may
# have folders in it. The files of examples/common/ are part of each.

find_package(ZLIB REQUIRED) # the data sets are compressed

# One thread a rank: the serial build of OpenBLAS (Debian: libopenblas-serial-dev), or any other.
find_path(OPENBLAS_INCLUDE_DIR cblas.h PATH_SUFFIXES openblas-serial openblas)
find_library(OPENBLAS_LIBRARY openblas PATH_SUFFIXES openblas-serial)

file(GLOB common_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/common/*.c)
add_library(examples_common OBJECT ${common_sources})
target_link_libraries(examples_common PRIVATE tutti_options tutti_shared)

file(GLOB example_folders CONFIGURE_DEPENDS LIST_DIRECTORIES true ${PROJECT_SOURCE_DIR}/examples/*)
foreach(folder IN LISTS example_folders)
    file(GLOB example_sources CONFIGURE_DEPENDS ${folder}/*.c ${folder}/*/*.c ${folder}/*/*/*.c)
    get_filename_component(name ${folder} NAME)
    if(NOT IS_DIRECTORY ${folder} OR NOT example_sources OR name STREQUAL "common")
        continue()
    endif()
    if(name STREQUAL "gpt" AND NOT (OPENBLAS_INCLUDE_DIR AND OPENBLAS_LIBRARY))
        message(STATUS "examples/gpt is not built; missing: OpenBLAS (Debian: libopenblas-serial-dev)")
        continue()
    endif()
    add_executable(example_${name} ${example_sources})
    set_target_properties(example_${name} PROPERTIES OUTPUT_NAME ${name}
        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/examples)
    target_include_directories(example_${name} PRIVATE ${PROJECT_SOURCE_DIR}/examples ${folder})
    target_link_libraries(example_${name} PRIVATE tutti_options tutti_shared examples_common ZLIB::ZLIB m)
    if(name STREQUAL "gpt")
        target_include_directories(example_gpt PRIVATE ${folder}/model ${folder}/inference)
        target_include_directories(example_gpt SYSTEM PRIVATE ${OPENBLAS_INCLUDE_DIR})
        if(NOT TUTTI_SANITIZE) # its loops are worth vectorising
            target_compile_options(example_gpt PRIVATE $<$<CONFIG:Release>:-O3> -fno-math-errno)
        endif()
        target_link_libraries(example_gpt PRIVATE ${OPENBLAS_LIBRARY})
    endif()
endforeach()
