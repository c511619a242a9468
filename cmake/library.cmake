# SPDX-License-Identifier: BSD-3-Clause
#
# libtutti.so and libtutti.a from one set of objects. Everything is position-independent and hidden; what the public
# headers mark TUTTI_API is exported, and the version script holds even that to the prefix tutti_.

file(GLOB_RECURSE library_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.c)
file(GLOB isa_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/kernels/isa/*.c)
list(FILTER library_sources EXCLUDE REGEX "/src/kernels/isa/")
list(FILTER library_sources EXCLUDE REGEX "/src/[a-z/]+/plugin/") # a plug-in file each

# Compiles `sources` into an object library with the settings that both libraries share.
function(tutti_add_objects target)
    add_library(${target} OBJECT ${ARGN})
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
    target_link_libraries(${target} PRIVATE tutti_options)
    set_property(GLOBAL APPEND PROPERTY tutti_objects $<TARGET_OBJECTS:${target}>)
endfunction()

tutti_add_objects(tutti_objects ${library_sources})
set_property(SOURCE ${PROJECT_SOURCE_DIR}/src/backends/plugin_file.c APPEND PROPERTY COMPILE_DEFINITIONS
    TTI_LIBRARY_FOLDER="${CMAKE_INSTALL_LIBDIR}")

# The kernels: the same files once per instruction set, chosen between at run time. No contraction to fused
# multiply-add, and no assumption about traps or rounding that would let a set give other bits than another.
set(isa_names base)
set(isa_flags_base "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    list(APPEND isa_names avx2 avx512)
    set(isa_flags_avx2 -march=x86-64-v3)
    set(isa_flags_avx512 -march=x86-64-v4 -mprefer-vector-width=512)
endif()
if(isa_sources)
    # This check takes half of the time to compile them, and AddressSanitizer sees each access beyond a tensor. An option of
    # a source comes behind those of its target.
    if(TUTTI_SANITIZE STREQUAL "address,undefined")
        set_property(SOURCE ${isa_sources} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=pointer-overflow)
    elseif(TUTTI_SANITIZE STREQUAL "thread" AND CMAKE_C_COMPILER_ID STREQUAL "GNU") # kernels/dispatch.h says why
        set(folds ${isa_sources})
        list(FILTER folds INCLUDE REGEX "/fold_[a-z0-9]+\\.c$")
        set_property(SOURCE ${folds} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=thread)
    endif()
    foreach(isa IN LISTS isa_names)
        tutti_add_objects(tutti_isa_${isa} ${isa_sources})
        target_compile_definitions(tutti_isa_${isa} PRIVATE TTI_ISA=${isa})
        target_compile_options(tutti_isa_${isa} PRIVATE
            -O3 -g1 -ffp-contract=off -fno-trapping-math -fno-math-errno ${isa_flags_${isa}})
    endforeach()
endif()
get_property(all_objects GLOBAL PROPERTY tutti_objects)

# The target cannot be called `tutti`: that is the program.
add_library(tutti_shared SHARED ${all_objects})
add_library(tutti_static STATIC ${all_objects})
add_library(tutti::tutti ALIAS tutti_shared)
add_library(tutti::static ALIAS tutti_static)
set_target_properties(tutti_shared PROPERTIES
    OUTPUT_NAME tutti EXPORT_NAME tutti VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
    LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/tutti.map)
set_target_properties(tutti_static PROPERTIES OUTPUT_NAME tutti EXPORT_NAME static)

foreach(target tutti_shared tutti_static)
    set_target_properties(${target} PROPERTIES LINKER_LANGUAGE C ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}
        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
    target_include_directories(${target} PUBLIC
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()

# nodelete: threads of the library may still run when a plug-in host closes it. now + relro: nothing writable that a
# stray pointer could turn into a call.
target_link_options(tutti_shared PRIVATE
    -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/tutti.map
    -Wl,-z,nodelete -Wl,-z,defs -Wl,-z,now -Wl,-z,relro -Wl,--as-needed)
target_link_libraries(tutti_shared PRIVATE $<BUILD_INTERFACE:tutti_options> Threads::Threads ${CMAKE_DL_LIBS})
target_link_libraries(tutti_static PRIVATE $<BUILD_INTERFACE:tutti_options> Threads::Threads ${CMAKE_DL_LIBS})
