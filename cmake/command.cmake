# The command weft: a client of weft.h and of model/, with the library linked in. The measurements of `weft bench` beneath
# weft.h are in bench/fabric and bench/gpu. The verbs are objects, because programs of bench/ use some of them.
file(GLOB sources CONFIGURE_DEPENDS tools/*.c bench/fabric/*.c bench/gpu/*.c)
list(REMOVE_ITEM sources ${PROJECT_SOURCE_DIR}/tools/weft.c)
add_library(weft_tools OBJECT ${sources})
add_executable(weft_command tools/weft.c)
set_target_properties(weft_command PROPERTIES OUTPUT_NAME weft)
foreach(target weft_tools weft_command)
    target_compile_definitions(${target} PRIVATE _GNU_SOURCE)
    target_include_directories(${target} PRIVATE core ${PROJECT_SOURCE_DIR})
    target_link_libraries(${target} PRIVATE weft_static weft_dep_jansson weft_dep_zstd m)
endforeach()
target_sources(weft_command PRIVATE $<TARGET_OBJECTS:weft_tools> $<TARGET_OBJECTS:weft_model>)
weft_fabric_folder(weft_command)
