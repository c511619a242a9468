# SPDX-License-Identifier: BSD-3-Clause
#
# Installation: headers, both libraries, the program, and what pkg-config and find_package(tutti) read. The tree may be
# moved after installation: nothing in it names the prefix, except the pkg-config file where that is its custom.

include(CMakePackageConfigHelpers)

install(DIRECTORY include/tutti DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(TARGETS tutti_shared tutti_static EXPORT tutti
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET tutti)
    install(TARGETS tutti RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/tutti)
install(EXPORT tutti NAMESPACE tutti:: FILE tutti-targets.cmake DESTINATION ${package_folder})
configure_package_config_file(cmake/tutti-config.cmake.in ${PROJECT_BINARY_DIR}/tutti-config.cmake
    INSTALL_DESTINATION ${package_folder} NO_SET_AND_CHECK_MACRO)
# Before 1.0.0 a new minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tutti-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tutti-config.cmake ${PROJECT_BINARY_DIR}/tutti-config-version.cmake
    DESTINATION ${package_folder})

# pkg-config replaces ${pcfiledir} by where it found the file, so that even this one may be moved.
cmake_path(SET libdir NORMALIZE "/${CMAKE_INSTALL_LIBDIR}/pkgconfig")
cmake_path(RELATIVE_PATH libdir BASE_DIRECTORY "/" OUTPUT_VARIABLE pc_folder)
string(REGEX REPLACE "[^/]+" ".." pc_up "${pc_folder}")
configure_file(cmake/tutti.pc.in ${PROJECT_BINARY_DIR}/tutti.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tutti.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
