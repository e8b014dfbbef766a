/* pack.c - for the build: pack FROM TO compresses an image of the device kernels as one frame of zstd, or unpacks one.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <zstd.h>

enum { LEVEL = 19 };

static int stop(const char *what)
{
    perror(what);
    return 1;
}

/* All bytes of a file, which the caller frees, or NULL. */
static unsigned char *read_all(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    long end = file && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    unsigned char *data = end > 0 ? malloc((size_t)end) : NULL;
    *bytes = data ? (size_t)end : 0;
    if (data && (fseek(file, 0, SEEK_SET) != 0 || fread(data, 1, *bytes, file) != *bytes)) {
        free(data);
        data = NULL;
    }
    if (file)
        fclose(file);
    return data;
}

int main(int argc, char **argv)
{
    size_t bytes;
    if (argc != 3)
        return fprintf(stderr, "usage: %s FROM TO\n", argv[0]), 2;
    unsigned char *data = read_all(argv[1], &bytes);
    if (!data)
        return stop(argv[1]);
    const unsigned long long inside = ZSTD_getFrameContentSize(data, bytes); /* an error, which is large: no frame */
    const bool packed = inside < ZSTD_CONTENTSIZE_ERROR;
    const size_t room = packed ? (size_t)inside : ZSTD_compressBound(bytes);
    unsigned char *made = malloc(room);
    size_t length = 0;
    if (made)
        length = packed ? ZSTD_decompress(made, room, data, bytes) : ZSTD_compress(made, room, data, bytes, LEVEL);
    if (length == 0 || ZSTD_isError(length))
        return stop("zstd");
    FILE *file = fopen(argv[2], "wb");
    if (!file || fwrite(made, 1, length, file) != length || fclose(file) != 0)
        return stop(argv[2]);
    free(made);
    free(data);
    return 0;
}
