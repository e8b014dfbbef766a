# The command weft: a client of weft.h and of model/, with the library linked in. A folder of tools/ is a group of verbs.
file(GLOB sources CONFIGURE_DEPENDS tools/*.c tools/*/*.c tools/bench/*/*.c)
add_executable(weft_command ${sources} $<TARGET_OBJECTS:weft_model>)
set_target_properties(weft_command PROPERTIES OUTPUT_NAME weft)
target_compile_definitions(weft_command PRIVATE _GNU_SOURCE)
target_include_directories(weft_command PRIVATE core ${PROJECT_SOURCE_DIR})
target_link_libraries(weft_command PRIVATE weft_harness weft_static weft_dep_jansson weft_dep_zstd m)
weft_fabric_folder(weft_command)
