# What `cmake --install` puts where; pkg-config and CMake package files go with it.
include(CMakePackageConfigHelpers)

install(TARGETS weft weft_static weft_command EXPORT weft
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES include/weft.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY conf/ DESTINATION ${CMAKE_INSTALL_DATADIR}/weft/conf)
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
install(EXPORT weft NAMESPACE weft:: FILE weftTargets.cmake DESTINATION ${package_dir})
configure_package_config_file(cmake/weftConfig.cmake.in weftConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(weftConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/weftConfig.cmake ${PROJECT_BINARY_DIR}/weftConfigVersion.cmake
    DESTINATION ${package_dir})

list(TRANSFORM WEFT_LINK_NAMES PREPEND "-l" OUTPUT_VARIABLE private_libraries)
list(JOIN private_libraries " " WEFT_PRIVATE_LIBRARIES)
# Relative, so that an install into another prefix is found as it lies.
file(RELATIVE_PATH WEFT_PC_TO_PREFIX "/p/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/p")
configure_file(cmake/weft.pc.in weft.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/weft.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
