# SPDX-License-Identifier: BSD-3-Clause
#
# Each folder of examples/ that holds C files is one program, linked with the shared library as a user would do it.

find_package(ZLIB REQUIRED) # the data sets are compressed
file(GLOB example_folders CONFIGURE_DEPENDS LIST_DIRECTORIES true ${PROJECT_SOURCE_DIR}/examples/*)
foreach(folder IN LISTS example_folders)
    file(GLOB example_sources CONFIGURE_DEPENDS ${folder}/*.c)
    if(NOT IS_DIRECTORY ${folder} OR NOT example_sources)
        continue()
    endif()
    get_filename_component(name ${folder} NAME)
    add_executable(example_${name} ${example_sources})
    set_target_properties(example_${name} PROPERTIES OUTPUT_NAME ${name}
        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/examples)
    target_link_libraries(example_${name} PRIVATE tutti_options tutti_shared ZLIB::ZLIB m)
endforeach()
