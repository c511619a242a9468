# SPDX-License-Identifier: BSD-3-Clause
#
# Doubles of libnccl.so.2 and librccl.so.1 over those of the drivers (README.md), one folder for each level: old ones lack
# the functions that came later. Where nccl.h is installed, the compiler holds them against it.

file(GLOB nccl_sources CONFIGURE_DEPENDS nccl_*.c)
find_path(TUTTI_NCCL_HEADERS nccl.h PATHS /usr/local/cuda/include)
mark_as_advanced(TUTTI_NCCL_HEADERS)

# Adds <folder>/<file> of that version.
function(tutti_add_nccl_double folder file level)
    tutti_add_double(${folder} ${file} nccl.map ${nccl_sources})
    target_compile_definitions(double.${folder} PRIVATE TTI_DOUBLE_LEVEL=${level} ${ARGN})
    target_compile_options(double.${folder} PRIVATE -ffp-contract=off)
    target_link_libraries(double.${folder} PRIVATE ${CMAKE_DL_LIBS} m)
    set_target_properties(double.${folder} PROPERTIES C_VISIBILITY_PRESET hidden)
    if(TUTTI_NCCL_HEADERS)
        target_compile_definitions(double.${folder} PRIVATE TTI_DOUBLE_NCCL_HEADER)
        target_include_directories(double.${folder} SYSTEM PRIVATE ${TUTTI_NCCL_HEADERS})
    endif()
endfunction()

tutti_add_nccl_double(nccl_old libnccl.so.2 20708)
tutti_add_nccl_double(nccl_middle libnccl.so.2 21805)
tutti_add_nccl_double(nccl_new libnccl.so.2 22809)
tutti_add_nccl_double(rccl_old librccl.so.1 22105 TTI_DOUBLE_RCCL)
tutti_add_nccl_double(rccl_new librccl.so.1 22803 TTI_DOUBLE_RCCL)

# Each against the driver that it belongs to.
set(selftest ${CMAKE_CURRENT_SOURCE_DIR}/selftest_nccl.c)
file(GLOB selftest_nccl_sources CONFIGURE_DEPENDS selftest_nccl*.c)
tutti_read_settings(${selftest})
add_executable(double.selftest_nccl ${selftest_nccl_sources})
set_target_properties(double.selftest_nccl PROPERTIES OUTPUT_NAME selftest_nccl
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/doubles)
target_compile_options(double.selftest_nccl PRIVATE -UNDEBUG)
target_link_libraries(double.selftest_nccl PRIVATE tutti_options Threads::Threads ${CMAKE_DL_LIBS} m)
if(TUTTI_NCCL_HEADERS)
    target_compile_definitions(double.selftest_nccl PRIVATE TTI_DOUBLE_NCCL_HEADER)
    target_include_directories(double.selftest_nccl SYSTEM PRIVATE ${TUTTI_NCCL_HEADERS})
endif()
foreach(pair cuda:nccl_old cuda:nccl_middle cuda:nccl_new hip5:rccl_old hip7:rccl_new)
    string(REGEX REPLACE ":.*" "" driver ${pair})
    string(REGEX REPLACE ".*:" "" variant ${pair})
    add_dependencies(double.selftest_nccl double.${driver} double.${variant})
    set(test_args $<TARGET_FILE:double.${driver}> $<TARGET_FILE:double.${variant}>)
    tutti_add_test(double.${variant} $<TARGET_FILE:double.selftest_nccl>)
endforeach()
