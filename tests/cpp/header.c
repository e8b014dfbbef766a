/* The public header alone, as strict C11, linked against the shared library. */
#include <weft.h>

#include <string.h>

int main(void)
{
    weft_options options = {.size = sizeof options};
    weft_piece piece = {0};
    return options.log || piece.data || strcmp(weft_status_name(WEFT_OK), "ok") || !weft_version_string()[0];
}
