/* standin_object.c - what is open under watch, and how often the rules bit. */
#ifndef WEFT_NO_FABRIC
#include "tests/support/standin_inside.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static standin_object *objects;
static standin_counts counts;

double standin_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void standin_broken(const char *provider, const char *rule)
{
    fprintf(stderr, "stand-in of %s: %s\n", provider, rule);
    abort();
}

/* ---- counts */

static void count_one(uint64_t *which)
{
    pthread_mutex_lock(&lock);
    ++*which;
    pthread_mutex_unlock(&lock);
}

void standin_count_refused(void)
{
    count_one(&counts.refused);
}

void standin_count_overtaken(void)
{
    count_one(&counts.overtaken);
}

void standin_count_withheld(void)
{
    count_one(&counts.withheld);
}

void standin_count_stalled(void)
{
    count_one(&counts.stalled);
}

standin_counts standin_counted(void)
{
    pthread_mutex_lock(&lock);
    standin_counts now = counts;
    pthread_mutex_unlock(&lock);
    return now;
}

/* ---- objects */

void *standin_of(const struct fid *fid)
{
    pthread_mutex_lock(&lock);
    standin_object *object = objects;
    while (object && object->fid != fid)
        object = object->next;
    pthread_mutex_unlock(&lock);
    if (!object)
        standin_broken("libfabric", "an object that is not open");
    return object;
}

static int close_object(struct fid *fid)
{
    standin_object *object = standin_of(fid);
    if (object->on_close)
        object->on_close(object);
    int error = object->real_base->close(fid);
    if (error)
        return error;
    pthread_mutex_lock(&lock);
    for (standin_object **at = &objects; *at; at = &(*at)->next)
        if (*at == object) {
            *at = object->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    free(object);
    return 0;
}

void standin_watch(standin_object *object, struct fid *fid, const standin_rules *rules)
{
    object->fid = fid;
    object->rules = rules;
    object->real_base = fid->ops;
    object->base = *fid->ops;
    object->base.close = close_object;
    fid->ops = &object->base;
    pthread_mutex_lock(&lock);
    object->next = objects;
    objects = object;
    pthread_mutex_unlock(&lock);
}

void *standin_take(size_t bytes)
{
    void *memory = calloc(1, bytes);
    if (!memory)
        abort();
    return memory;
}
#else
typedef int standin_object_is_absent;
#endif
