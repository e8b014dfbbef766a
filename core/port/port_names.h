/* port_names.h - the names of all providers and backends, in the order in which they are told: sites, help texts,
 * errors and registries read these rows. A new one is a row here and a file with its table. */
#ifndef WEFT_CORE_PORT_NAMES_H
#define WEFT_CORE_PORT_NAMES_H

/* Providers by weft's name and by the symbol in weft_provider_SYMBOL: FABRIC those of libfabric, which have a
 * weft_profile_SYMBOL too, OWN those of weft's own. The loop comes last, because no site should mean it. */
#define WEFT_EACH_PROVIDER(FABRIC, OWN)                                                                                \
    FABRIC("tcp", tcp)                                                                                                 \
    FABRIC("tcp-rxm", tcp_rxm)                                                                                         \
    OWN("stream", stream)                                                                                              \
    FABRIC("verbs", verbs)                                                                                             \
    FABRIC("efa", efa)                                                                                                 \
    FABRIC("efa-direct", efa_direct)                                                                                   \
    FABRIC("shm", shm)                                                                                                 \
    OWN("loop", loop)

/* Backends by name and by the symbol in weft_backend_SYMBOL. Devices have a weft_gpu_driver_SYMBOL. */
#define WEFT_EACH_BACKEND(HOST, DEVICE) HOST("host", host) DEVICE("cuda", cuda) DEVICE("hip", hip)

/* " | tcp | tcp-rxm | ...", to be put behind other words. */
#define WEFT_NAME_OR(name, symbol) " | " name
#define WEFT_OR_PROVIDERS          WEFT_EACH_PROVIDER(WEFT_NAME_OR, WEFT_NAME_OR)
#define WEFT_OR_BACKENDS           WEFT_EACH_BACKEND(WEFT_NAME_OR, WEFT_NAME_OR)

#define WEFT_NAME_NONE(name, symbol)

#endif
