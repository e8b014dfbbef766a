/* overhead.c - one trainer and one rollout in this process over the loop, for bench/overhead.py: what publish and
 * commit of the same versions take when C calls them.
 *
 *   overhead SITE TENSORS ELEMENTS CHANGED VERSIONS     elements and changes of each tensor
 *
 * Prints the microseconds of each publish and each commit, a version a line. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <weft.h>

enum { TENSORS_MAX = 4096 };

typedef struct model {
    uint64_t tensors, elements;
    uint16_t *memory;
    weft_piece pieces[TENSORS_MAX];
} model;

static void check(weft_status status)
{
    if (status >= 0)
        return;
    fprintf(stderr, "%s: %s\n", weft_status_name(status), weft_last_error());
    exit(1);
}

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* Mapped as bench/overhead.py maps it, because the size of pages counts for more than the language does. */
static void *zeros(uint64_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        exit(1);
    return memset(memory, 0, bytes);
}

static void model_take(model *model, uint64_t tensors, uint64_t elements)
{
    model->tensors = tensors;
    model->elements = elements;
    model->memory = zeros(tensors * elements * sizeof *model->memory);
    for (uint64_t i = 0; i < tensors; i++)
        model->pieces[i] = (weft_piece){i, 0, elements, model->memory + i * elements};
}

static weft_layout *layout_of(const model *model)
{
    static weft_tensor tensors[TENSORS_MAX];
    static char names[TENSORS_MAX][24];
    weft_layout *layout;
    for (uint64_t i = 0; i < model->tensors; i++) {
        snprintf(names[i], sizeof names[i], "layer.%llu", (unsigned long long)i);
        tensors[i] = (weft_tensor){names[i], WEFT_BF16, 1, &model->elements};
    }
    check(weft_layout_create(tensors, model->tensors, &layout));
    return layout;
}

/* Each version changes elements at equal distances, from another first one on. */
static void step(model *model, uint64_t changed, uint64_t version)
{
    uint64_t stride = model->elements / changed;
    for (uint64_t i = 0; i < model->tensors; i++)
        for (uint64_t k = 0; k < changed; k++)
            model->memory[i * model->elements + k * stride + version % stride]++;
}

static void version_time(weft_session *trainer, weft_session *rollout, uint64_t version)
{
    weft_update_info update = {.size = sizeof update};
    weft_staged_info staged = {.size = sizeof staged};
    weft_version held;
    double before = now_us();
    check(weft_publish(trainer, version, NULL, NULL, &update));
    double published = now_us();
    weft_status status = weft_staged(rollout, 60000, &staged);
    check(status);
    double start = now_us();
    if (status == WEFT_OK)
        check(weft_commit(rollout, staged.target.number, NULL, 0, &held));
    printf("%.1f %.1f\n", published - before, now_us() - start);
}

int main(int argc, char **argv)
{
    static model trained, served;
    weft_site *site;
    weft_session *trainer, *rollout;
    weft_stats_info stats = {.size = sizeof stats};
    char listen[96];
    const char *port[] = {listen};
    if (argc != 6)
        return 2;
    uint64_t tensors = strtoull(argv[2], NULL, 10), elements = strtoull(argv[3], NULL, 10);
    if (tensors > TENSORS_MAX)
        return 2;
    model_take(&trained, tensors, elements);
    model_take(&served, tensors, elements);
    weft_layout *layout = layout_of(&trained);
    check(weft_site_load(argv[1], NULL, 0, &site));
    check(weft_trainer_open(site, layout, NULL, &trainer));
    check(weft_bind(trainer, trained.pieces, tensors, NULL, 0, 0));
    check(weft_stats(trainer, &stats));
    snprintf(listen, sizeof listen, "trainer.listen=%s", stats.listen);
    weft_site_free(site);
    check(weft_site_load(argv[1], port, 1, &site));
    check(weft_rollout_open(site, "a", layout, NULL, &rollout));
    check(weft_bind(rollout, served.pieces, tensors, NULL, 0, 0));
    for (uint64_t version = 1; version <= strtoull(argv[5], NULL, 10); version++) {
        step(&trained, strtoull(argv[4], NULL, 10), version);
        version_time(trainer, rollout, version);
    }
    check(weft_close(rollout));
    check(weft_close(trainer));
    weft_layout_free(layout);
    weft_site_free(site);
    return 0;
}
