/* Says of each file named on standard input what this library makes of it: a line a file,
 *
 *   ok[ NAME DTYPE SIZES BYTES]...   names and bytes in hexadecimal, sizes joined by commas, "-" for nothing
 *   refused STATUS TEXT
 *
 * and writes the weights of one that it takes to FILE.saved, under their own header. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "layout/layout.h"
#include "model/safetensors.h"

static void put_hex(const void *data, uint64_t bytes)
{
    if (bytes == 0)
        putchar('-');
    for (uint64_t i = 0; i < bytes; i++)
        printf("%02x", ((const uint8_t *)data)[i]);
}

static void put_tensor(const weft_layout_entry *entry, const weft_piece *piece)
{
    putchar(' ');
    put_hex(entry->tensor.name, strlen(entry->tensor.name));
    printf(" %s ", entry->row->name);
    if (entry->tensor.rank == 0)
        putchar('-');
    for (uint32_t i = 0; i < entry->tensor.rank; i++)
        printf("%s%llu", i ? "," : "", (unsigned long long)entry->tensor.shape[i]);
    putchar(' ');
    put_hex(piece->data, entry->bytes);
}

static weft_status put_model(const char *path, const weft_model *model)
{
    const weft_layout *layout = weft_model_layout(model);
    char saved[4200];
    uint64_t count, bytes;
    const weft_piece *pieces = weft_model_pieces(model, &count);
    const void *header = weft_model_header(model, &bytes);
    snprintf(saved, sizeof saved, "%s.saved", path);
    printf("ok");
    for (uint64_t t = 0; t < count; t++)
        put_tensor(&layout->entries[t], &pieces[t]);
    putchar('\n');
    return weft_model_save(model, header, bytes, saved);
}

int main(void)
{
    char path[4096];
    while (fgets(path, sizeof path, stdin)) {
        weft_model *model = NULL;
        path[strcspn(path, "\n")] = 0;
        weft_status status = weft_model_open(path, 0, &model);
        if (status != WEFT_OK)
            printf("refused %s %s\n", weft_status_name(status), weft_last_error());
        else if (put_model(path, model) != WEFT_OK)
            return fprintf(stderr, "%s\n", weft_last_error()), 1;
        weft_model_close(model);
    }
    return fflush(stdout) != 0;
}
