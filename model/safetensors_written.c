/* safetensors_written.c - whether a file has all of its bytes, or only their place, which reads as zeros. */
#include "model.h"

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/status.h"

typedef unsigned long long ull;

/* File systems that may compress, and so need fewer blocks than bytes: btrfs, ZFS, bcachefs, F2FS. All know holes. */
static bool may_compress(int file)
{
    static const uint32_t kinds[] = {0x9123683e, 0x2fc12fc1, 0xca451a4e, 0xf2f52010};
    struct statfs facts;
    bool found = false;
    for (size_t i = 0; fstatfs(file, &facts) == 0 && i < sizeof kinds / sizeof *kinds; i++)
        found = found || (uint32_t)facts.f_type == kinds[i];
    return found;
}

/* Bytes in front of the first that was never written. A file system that does not know tells by blocks alone. */
static uint64_t bytes_written(const weft_mapped *mapped)
{
    struct stat facts;
    const off_t hole = lseek(mapped->file, 0, SEEK_HOLE);
    uint64_t written = hole >= 0 && (uint64_t)hole < mapped->bytes ? (uint64_t)hole : mapped->bytes;
    if (!may_compress(mapped->file) && fstat(mapped->file, &facts) == 0 && (uint64_t)facts.st_blocks * 512 < written)
        written = (uint64_t)facts.st_blocks * 512;
    return written;
}

weft_status weft_model_written(const weft_model *model)
{
    for (uint64_t i = 0; i < model->file_count; i++) {
        const weft_mapped *mapped = &model->files[i];
        const uint64_t written = bytes_written(mapped);
        if (written < mapped->bytes)
            return weft_fail_quiet(
                WEFT_E_FILE,
                "%s: not written yet, or sparse: the disk has %llu of its %llu bytes; of a file that "
                "is whole, rename it into its place",
                mapped->path, (ull)written, (ull)mapped->bytes);
    }
    return WEFT_OK;
}
