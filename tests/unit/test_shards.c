/* Sharded models: the order of their tensors, what their index may say, and their way to disk and back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/model.h"
#include "tests/support/model_scratch.h"

static char model_folder[600];
static char name[900];

static const char *in_folder(const char *file)
{
    snprintf(name, sizeof name, "%s/%s", model_folder, file);
    return name;
}

static void shard_write(const char *file, const char *json, uint64_t data)
{
    file_write_padded(json, data);
    assert_int_equal(rename(path, in_folder(file)), 0);
}

#define INDEX(map) "{\"metadata\": {\"total_size\": 42}, \"weight_map\": {" map "}}\n"

static void index_write(const char *json)
{
    bytes_write(in_folder(WEFT_MODEL_INDEX), json, strlen(json));
}

/* The second file holds what comes first by name, and the index names it first. */
static int three_shards(void **state)
{
    (void)state;
    snprintf(model_folder, sizeof model_folder, "%s/model", folder);
    assert_int_equal(mkdir(model_folder, 0700), 0);
    shard_write("m-2.safetensors", "{" T("a", "BF16", "[5]", 0, 10) "}", 10);
    shard_write("m-1.safetensors", "{" T("z", "F32", "[2]", 0, 8) "," T("y", "U8", "[3]", 8, 11) "}", 11);
    shard_write("m-3.safetensors", "{" T("none", "F64", "[0]", 0, 0) "}", 0);
    index_write(INDEX("\"a\":\"m-2.safetensors\", \"none\":\"m-3.safetensors\", \"y\":\"m-1.safetensors\","
                      "\"z\":\"m-1.safetensors\""));
    return 0;
}

static int shards_remove(void **state)
{
    (void)state;
    static const char *const files[] = {"m-1.safetensors", "m-2.safetensors", "m-3.safetensors", WEFT_MODEL_INDEX};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        unlink(in_folder(files[i]));
    return rmdir(model_folder);
}

static weft_model *opened(const char *where)
{
    weft_model *model = NULL;
    if (weft_model_open(where, 0, &model) != WEFT_OK)
        fail_msg("refused: %s", weft_last_error());
    return model;
}

static void refused(weft_status status, const char *text)
{
    weft_model *model = NULL;
    assert_int_equal(weft_model_open(model_folder, 0, &model), status);
    if (!strstr(weft_last_error(), text))
        fail_msg("wanted \"%s\", got \"%s\"", text, weft_last_error());
}

static void tensors_go_by_file(void **state)
{
    static const char *const wanted[] = {"z", "y", "a", "none"};
    (void)state;
    weft_model *model = opened(model_folder);
    weft_tensor tensor;
    uint64_t count;
    assert_int_equal(weft_layout_count(weft_model_layout(model)), 4);
    for (uint64_t t = 0; t < 4; t++) {
        assert_int_equal(weft_layout_tensor(weft_model_layout(model), t, &tensor), WEFT_OK);
        assert_string_equal(tensor.name, wanted[t]);
    }
    const weft_piece *pieces = weft_model_pieces(model, &count);
    assert_int_equal(count, 4);
    assert_int_equal(((const uint8_t *)pieces[1].data)[2], 10); /* data count up from 0 in each file */
    assert_int_equal(((const uint8_t *)pieces[2].data)[9], 9);
    weft_model *by_index = opened(in_folder(WEFT_MODEL_INDEX));
    uint64_t one[2], two[2];
    weft_layout_hash(weft_model_layout(model), one);
    weft_layout_hash(weft_model_layout(by_index), two);
    assert_memory_equal(one, two, sizeof one);
    weft_model_close(by_index);
    weft_model_close(model);
}

static void same_bytes(const char *one, const char *two)
{
    static uint8_t a[1 << 16], b[1 << 16];
    FILE *left = fopen(one, "rb"), *right = fopen(two, "rb");
    assert_true(left && right);
    size_t length = fread(a, 1, sizeof a, left);
    assert_int_equal(fread(b, 1, sizeof b, right), length);
    assert_memory_equal(a, b, length);
    fclose(left);
    fclose(right);
}

static void save_is_byte_identical(void **state)
{
    static const char *const files[] = {"m-1.safetensors", "m-2.safetensors", "m-3.safetensors", WEFT_MODEL_INDEX};
    char copy[700], file[800];
    uint64_t bytes;
    (void)state;
    weft_model *model = opened(model_folder);
    const void *attachment = weft_model_header(model, &bytes);
    snprintf(copy, sizeof copy, "%s/copy", folder);
    assert_int_equal(weft_model_save(model, attachment, bytes, copy), WEFT_OK);
    assert_int_equal(weft_model_save(model, attachment, bytes, copy), WEFT_E_FILE);
    assert_non_null(strstr(weft_last_error(), "not there yet"));
    assert_int_equal(weft_model_save(model, attachment, bytes - 1, copy), WEFT_E_LAYOUT);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(file, sizeof file, "%s/%s", copy, files[i]);
        same_bytes(in_folder(files[i]), file);
        assert_int_equal(unlink(file), 0);
    }
    assert_int_equal(rmdir(copy), 0);
    weft_model_close(model);
}

/* Files and folders may be named with as many bytes as a file system takes, beside what is unfinished of them. */
static void longest_names_are_saved(void **state)
{
    char shard[256], copy[800], file[1100], json[600];
    uint64_t bytes;
    (void)state;
    for (int length = 242; length <= 255; length++) {
        snprintf(shard, sizeof shard, "%0*d.safetensors", length - 12, 7);
        snprintf(json, sizeof json, INDEX("\"a\":\"%s\""), shard);
        shard_write(shard, "{" T("a", "BF16", "[5]", 0, 10) "}", 10);
        index_write(json);
        weft_model *model = opened(model_folder);
        const void *attachment = weft_model_header(model, &bytes);
        snprintf(copy, sizeof copy, "%s/%0*d", folder, length, 8);
        if (weft_model_save(model, attachment, bytes, copy) != WEFT_OK)
            fail_msg("a name of %d bytes: %s", length, weft_last_error());
        snprintf(file, sizeof file, "%s/%s", copy, shard);
        same_bytes(in_folder(shard), file);
        unlink(file);
        snprintf(file, sizeof file, "%s/%s", copy, WEFT_MODEL_INDEX);
        same_bytes(in_folder(WEFT_MODEL_INDEX), file);
        unlink(file);
        assert_int_equal(rmdir(copy), 0);
        assert_int_equal(unlink(in_folder(shard)), 0);
        weft_model_close(model);
    }
}

static void not_saved(const weft_model *model, const char *where, const char *text)
{
    uint64_t bytes;
    const void *attachment = weft_model_header(model, &bytes);
    weft_model_output *output = NULL; /* nothing is written yet when the error comes */
    assert_int_equal(weft_model_save_check(attachment, bytes, where), WEFT_E_FILE);
    assert_int_equal(weft_model_output_open(weft_model_layout(model), attachment, bytes, where, &output), WEFT_E_FILE);
    if (!strstr(weft_last_error(), text) || strncmp(weft_last_error(), where, 20) != 0)
        fail_msg("wanted \"%s\" about %s, got \"%s\"", text, where, weft_last_error());
}

static void where_no_folder_can_be_is_told_at_once(void **state)
{
    char empty[700], where[1100];
    (void)state;
    weft_model *model = opened(model_folder);
    snprintf(empty, sizeof empty, "%s/empty", folder);
    assert_int_equal(mkdir(empty, 0700), 0);
    static const char *const dots[] = {"/.", "/./", "/..", "/..//"};
    for (size_t i = 0; i < sizeof dots / sizeof *dots; i++) {
        snprintf(where, sizeof where, "%s%s", empty, dots[i]);
        not_saved(model, where, "is not the folder's own name");
        assert_false(weft_model_folder_fits(where));
    }
    snprintf(where, sizeof where, "%s/%0256d", empty, 1);
    not_saved(model, where, "cannot be created: File name too long");
    snprintf(where, sizeof where, "%s/%s/copy", model_folder, WEFT_MODEL_INDEX);
    not_saved(model, where, "cannot be created in ");
    not_saved(model, where, "json: Not a directory");
    snprintf(where, sizeof where, "%s/none/copy", empty);
    not_saved(model, where, "none: No such file or directory");
    weft_model_close(model);
    assert_int_equal(rmdir(empty), 0);
}

static void wrong_indexes_are_refused(void **state)
{
    (void)state;
    index_write("{");
    refused(WEFT_E_LAYOUT, "no JSON");
    index_write("{\"weight_map\": {}}");
    refused(WEFT_E_LAYOUT, "no weight_map");
    index_write(INDEX("\"a\": 1"));
    refused(WEFT_E_LAYOUT, "tensor a is no string");
    index_write(INDEX("\"a\":\"absent.safetensors\""));
    refused(WEFT_E_FILE, "absent.safetensors: cannot be opened");
    index_write(INDEX("\"a\":\"m-2.safetensors\",\"b\":\"m-2.safetensors\""));
    refused(WEFT_E_LAYOUT, "names 2 tensors, the files have 1");
    index_write(INDEX("\"a\":\"m-2.safetensors\",\"z\":\"m-1.safetensors\""));
    refused(WEFT_E_LAYOUT, "tensor y lies in m-1.safetensors, the index says nothing of it");
    unlink(in_folder(WEFT_MODEL_INDEX));
    refused(WEFT_E_FILE, "3 *.safetensors and no");
}

/* The error names the entry and its index, and says what would do. */
static void indexes_that_name_no_file_beside_them_are_told(void **state)
{
    char json[600], name_too_long[257];
    (void)state;
    snprintf(name_too_long, sizeof name_too_long, "%0256d", 7);
    const char *const names[] = {"../model/m-2.safetensors", "/m-2.safetensors", "sub/m-2.safetensors", "", ".", "..",
                                 ".m-2.safetensors",         name_too_long};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[600];
        snprintf(json, sizeof json, INDEX("\"z\":\"m-1.safetensors\",\"a\":\"%s\""), names[i]);
        index_write(json);
        snprintf(text, sizeof text,
                 "model: " WEFT_MODEL_INDEX ": weight_map: the file of tensor a is '%s': ", names[i]);
        refused(WEFT_E_LAYOUT, text);
        refused(WEFT_E_LAYOUT, "only a file beside the index can be named, by 1 to 255 bytes without a slash");
    }
    assert_int_equal(mkdir(in_folder("sub"), 0700), 0);
    index_write(INDEX("\"z\":\"m-1.safetensors\",\"a\":\"sub\""));
    refused(WEFT_E_FILE, "model: sub: is a folder, not a file; " WEFT_MODEL_INDEX " says that tensor a lies there");
    assert_int_equal(rmdir(in_folder("sub")), 0);
    refused(WEFT_E_FILE, "sub: cannot be opened: No such file or directory; " WEFT_MODEL_INDEX " says that tensor a");
    weft_model *model = NULL;
    assert_int_equal(rename(in_folder(WEFT_MODEL_INDEX), strcat(strcpy(json, model_folder), "/.i.json")), 0);
    assert_int_equal(weft_model_open(json, 0, &model), WEFT_E_FILE);
    assert_non_null(strstr(weft_last_error(), "/.i.json: an index has no dot in front of its name"));
    unlink(json);
}

static void one_file_needs_no_index(void **state)
{
    (void)state;
    unlink(in_folder(WEFT_MODEL_INDEX));
    unlink(in_folder("m-1.safetensors"));
    unlink(in_folder("m-3.safetensors"));
    weft_model *model = opened(model_folder);
    assert_int_equal(weft_layout_count(weft_model_layout(model)), 1);
    weft_model_close(model);
}

/* A link to nothing is there all the same: nothing else is taken in its place, and it is named. */
static void links_to_nothing_are_named(void **state)
{
    (void)state;
    unlink(in_folder("m-2.safetensors"));
    assert_int_equal(symlink("nothing", in_folder("m-2.safetensors")), 0);
    refused(WEFT_E_FILE, "model: m-2.safetensors: cannot be opened: it is a link that leads to nothing");
    unlink(in_folder("m-1.safetensors"));
    unlink(in_folder("m-3.safetensors"));
    unlink(in_folder(WEFT_MODEL_INDEX));
    refused(WEFT_E_FILE, "model: m-2.safetensors: cannot be opened: it is a link that leads to nothing");
    weft_model *model = NULL;
    assert_int_equal(weft_model_open(in_folder("m-2.safetensors"), 0, &model), WEFT_E_FILE);
    assert_non_null(strstr(weft_last_error(), "m-2.safetensors: cannot be opened: it is a link that leads to nothing"));
    unlink(in_folder("m-2.safetensors"));
    shard_write("m-1.safetensors", "{" T("a", "BF16", "[5]", 0, 10) "}", 10);
    assert_int_equal(symlink("nothing", in_folder(WEFT_MODEL_INDEX)), 0);
    refused(WEFT_E_FILE, "model: " WEFT_MODEL_INDEX ": cannot be opened: it is a link that leads to nothing");
}

static void cut_shards_are_refused(void **state)
{
    (void)state;
    assert_int_equal(truncate(in_folder("m-1.safetensors"), 100), 0);
    refused(WEFT_E_LAYOUT, "m-1.safetensors: cut short");
}

/* An attachment may come from a stranger: whatever is cut off or changed, nothing but refusals comes of it. */
static void attachments_are_not_trusted(void **state)
{
    uint64_t bytes;
    (void)state;
    weft_model *model = opened(model_folder);
    const uint8_t *attachment = weft_model_header(model, &bytes);
    uint8_t *copy = malloc(bytes);
    weft_shards shards;
    for (uint64_t length = 0; length < bytes; length++) {
        memcpy(copy, attachment, length); /* ends where the allocation would be read past */
        uint8_t *exact = malloc(length ? length : 1);
        memcpy(exact, attachment, length);
        assert_int_equal(weft_shards_read(exact, length, &shards), WEFT_E_LAYOUT);
        free(exact);
    }
    for (uint64_t at = 0; at < bytes; at++) {
        memcpy(copy, attachment, bytes);
        copy[at] ^= 1;
        if (weft_shards_read(copy, bytes, &shards) == WEFT_OK)
            weft_shards_close(&shards);
    }
    free(copy);
    weft_model_close(model);
}

#define shard_test(body) cmocka_unit_test_setup_teardown(body, three_shards, shards_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        shard_test(tensors_go_by_file),        shard_test(save_is_byte_identical),
        shard_test(longest_names_are_saved),   shard_test(where_no_folder_can_be_is_told_at_once),
        shard_test(wrong_indexes_are_refused), shard_test(indexes_that_name_no_file_beside_them_are_told),
        shard_test(one_file_needs_no_index),   shard_test(links_to_nothing_are_named),
        shard_test(cut_shards_are_refused),    shard_test(attachments_are_not_trusted),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
