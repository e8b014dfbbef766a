/* key.c - weft key: makes the key by which a peer and its trainer prove their names to each other. */
#include <stdio.h>

#include "security/secret.h"
#include "tools/output.h"
#include "tools/verbs.h"

int weft_verb_key(const weft_args *args)
{
    char id[WEFT_SECRET_ID];
    const char *path = args->words[0];
    weft_status status = weft_secret_make(path, id);
    if (status != WEFT_OK)
        return weft_output_error(args->json, WEFT_TOOL_INPUT, status);
    if (args->json)
        weft_output_object(json_pack("{s:o,s:s}", "key_file", weft_json_text(path), "id", id));
    else
        printf("key %s in %s: copy the file to both ends by a safe way, and name it by key_file\n", id,
               weft_output_plain(path).text);
    return WEFT_EXIT_DONE;
}
