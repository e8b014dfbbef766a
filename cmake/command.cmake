# The command weft: a client of weft.h and of model/, with the library linked in. What `weft bench` times beneath weft.h
# is in bench/codec, bench/fabric and bench/gpu.
file(GLOB sources CONFIGURE_DEPENDS tools/*.c bench/codec/*.c bench/fabric/*.c bench/gpu/*.c)
add_executable(weft_command ${sources} $<TARGET_OBJECTS:weft_model>)
set_target_properties(weft_command PROPERTIES OUTPUT_NAME weft)
target_compile_definitions(weft_command PRIVATE _GNU_SOURCE)
target_include_directories(weft_command PRIVATE core ${PROJECT_SOURCE_DIR})
target_link_libraries(weft_command PRIVATE weft_static weft_dep_jansson weft_dep_zstd m)
weft_fabric_folder(weft_command)
