# SPDX-License-Identifier: BSD-3-Clause
#
# Plug-in files: backends that need a library which not every machine has, or which exists with several binary interfaces.
# They bring the kernels and helpers of Tutti that they use along, and export their entry point only. An MPI plug-in does
# not name its MPI library: the process has that open before (src/backends/mpi/choose.c).

function(tutti_add_plugin name)
    add_library(plugin_${name} MODULE ${ARGN})
    set_target_properties(plugin_${name} PROPERTIES PREFIX "" OUTPUT_NAME tutti-${name} C_VISIBILITY_PRESET hidden
        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib/tutti/plugins
        LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/plugin.map)
    target_include_directories(plugin_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
    target_link_libraries(plugin_${name} PRIVATE tutti_options tutti_static)
    target_link_options(plugin_${name} PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/plugin.map
        -Wl,--exclude-libs,ALL -Wl,-z,nodelete -Wl,-z,now -Wl,-z,relro -Wl,--as-needed)
    install(TARGETS plugin_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/tutti/plugins)
endfunction()

file(GLOB_RECURSE mpi_plugin_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backends/mpi/plugin/*.c)

# The folders of headers and the options for the linker that an MPI library's compiler wrapper names; empty if there is
# no such wrapper.
function(tutti_ask_mpi wrapper folders libraries)
    find_program(TUTTI_${wrapper} ${wrapper})
    mark_as_advanced(TUTTI_${wrapper})
    set(words "")
    if(TUTTI_${wrapper})
        execute_process(COMMAND ${TUTTI_${wrapper}} -show OUTPUT_VARIABLE line ERROR_QUIET RESULT_VARIABLE failed)
        if(NOT failed)
            separate_arguments(words UNIX_COMMAND "${line}")
        endif()
    endif()
    set(includes ${words})
    list(FILTER includes INCLUDE REGEX "^-I")
    list(TRANSFORM includes REPLACE "^-I" "")
    list(FILTER words INCLUDE REGEX "^-[lL]")
    set(${folders} ${includes} PARENT_SCOPE)
    set(${libraries} ${words} PARENT_SCOPE)
endfunction()

function(tutti_add_mpi_plugin flavour)
    foreach(wrapper IN LISTS ARGN)
        tutti_ask_mpi(${wrapper} folders libraries)
        if(folders)
            tutti_add_plugin(mpi-${flavour} ${mpi_plugin_sources})
            target_include_directories(plugin_mpi-${flavour} SYSTEM PRIVATE ${folders})
            target_compile_definitions(plugin_mpi-${flavour} PRIVATE TTI_MPI_FLAVOUR="${flavour}")
            return()
        endif()
    endforeach()
    string(JOIN " or " names ${ARGN})
    message(STATUS "No plug-in mpi-${flavour}: there is no ${names}")
endfunction()

if(NOT TUTTI_SANITIZE STREQUAL "thread") # no MPI library is built for it
    tutti_add_mpi_plugin(openmpi mpicc.openmpi)
    tutti_add_mpi_plugin(mpich mpicc.mpich)
    tutti_add_mpi_plugin(abi mpicc_abi)
endif()

# Gloo, which is C++.
find_path(GLOO_INCLUDE_DIR gloo/transport/tcp/unbound_buffer.h)
find_library(GLOO_LIBRARY gloo)
mark_as_advanced(GLOO_INCLUDE_DIR GLOO_LIBRARY)
include(CheckLanguage)
check_language(CXX)
if(GLOO_INCLUDE_DIR AND GLOO_LIBRARY AND CMAKE_CXX_COMPILER)
    enable_language(CXX)
    set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g -DNDEBUG")
    set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g3")
    file(GLOB_RECURSE gloo_plugin_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backends/gloo/plugin/*.cc)
    tutti_add_plugin(gloo ${gloo_plugin_sources})
    set_target_properties(plugin_gloo PROPERTIES CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS ON
        CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
    target_include_directories(plugin_gloo SYSTEM PRIVATE ${GLOO_INCLUDE_DIR})
    if(NOT EXISTS ${GLOO_INCLUDE_DIR}/gloo/common/memory.h)
        target_include_directories(plugin_gloo PRIVATE ${PROJECT_SOURCE_DIR}/src/backends/gloo/plugin/compat)
    endif()
    target_link_libraries(plugin_gloo PRIVATE ${GLOO_LIBRARY} Threads::Threads)
    # AddressSanitizer looks up the function that throws exceptions when a program starts. The plug-in loads it later.
    if(TUTTI_SANITIZE MATCHES "address")
        target_link_options(tutti_options INTERFACE LINKER:--push-state,--no-as-needed -lstdc++ LINKER:--pop-state)
    endif()
else()
    message(STATUS "No plug-in gloo: there is no Gloo (Debian: libgloo-dev) or no C++ compiler")
endif()

# PMIx, which knows the rendezvous of ranks on several hosts.
find_path(PMIX_INCLUDE_DIR pmix.h PATH_SUFFIXES pmix2/include ${CMAKE_LIBRARY_ARCHITECTURE}/pmix2/include
    HINTS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE})
find_library(PMIX_LIBRARY pmix PATH_SUFFIXES pmix2/lib)
mark_as_advanced(PMIX_INCLUDE_DIR PMIX_LIBRARY)
if(PMIX_INCLUDE_DIR AND PMIX_LIBRARY)
    tutti_add_plugin(pmix ${PROJECT_SOURCE_DIR}/src/core/launchers/plugin/pmix.c)
    target_include_directories(plugin_pmix SYSTEM PRIVATE ${PMIX_INCLUDE_DIR})
    target_link_libraries(plugin_pmix PRIVATE ${PMIX_LIBRARY})
else()
    message(STATUS "No plug-in pmix: there is no PMIx (Debian: libpmix-dev)")
endif()
