# SPDX-License-Identifier: BSD-3-Clause
#
# bench/checks_cost.c, and the two plug-in files that it compares: the library as it is, and with an engine that never polls for
# failures (src/base/failure_checks.h). All else is the same objects, linked alike.

file(GLOB_RECURSE engine_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/engine/*.c)
add_library(tutti_unchecked_engine OBJECT ${engine_sources})
set_target_properties(tutti_unchecked_engine PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
target_include_directories(tutti_unchecked_engine PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_compile_definitions(tutti_unchecked_engine PRIVATE TUTTI_NO_FAULT_CHECKS)
target_link_libraries(tutti_unchecked_engine PRIVATE tutti_options)

set(other_objects "$<FILTER:$<TARGET_OBJECTS:tutti_objects>,EXCLUDE,/src/engine/>")
foreach(isa IN LISTS isa_names)
    list(APPEND other_objects $<TARGET_OBJECTS:tutti_isa_${isa}>)
endforeach()
add_library(tutti_with_checks MODULE ${other_objects}
    "$<FILTER:$<TARGET_OBJECTS:tutti_objects>,INCLUDE,/src/engine/>")
add_library(tutti_without_checks MODULE ${other_objects} $<TARGET_OBJECTS:tutti_unchecked_engine>)
set_target_properties(tutti_with_checks PROPERTIES OUTPUT_NAME checked)
set_target_properties(tutti_without_checks PROPERTIES OUTPUT_NAME unchecked)
foreach(target tutti_with_checks tutti_without_checks)
    set_target_properties(${target} PROPERTIES PREFIX "" LINKER_LANGUAGE C
        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench)
    target_link_options(${target} PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/tutti.map
        -Wl,-z,nodelete -Wl,-z,defs -Wl,-z,now -Wl,-z,relro -Wl,--as-needed)
    target_link_libraries(${target} PRIVATE tutti_options Threads::Threads ${CMAKE_DL_LIBS})
endforeach()

add_executable(checks_cost ${PROJECT_SOURCE_DIR}/bench/checks_cost.c)
set_target_properties(checks_cost PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench)
target_include_directories(checks_cost PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(checks_cost PRIVATE tutti_options tutti_static m)
