/* site_keys.c - the key table: every key of the site file, its type, default, bounds and the text of the manual. */
#include "site/site_keys.h"

#include <ctype.h>
#include <string.h>

#include "port/port_names.h"

#define KIB  (UINT64_C(1) << 10)
#define MIB  (UINT64_C(1) << 20)
#define GIB  (UINT64_C(1) << 30)
#define SEC  UINT64_C(1000)
#define MBIT UINT64_C(125000)
#define GBIT UINT64_C(125000000)

#define SITE(field)     .offset = offsetof(weft_site, field), .width = sizeof(((weft_site *)0)->field)
#define PEER(field)     .offset = offsetof(weft_site_peer, field), .width = sizeof(((weft_site_peer *)0)->field)
#define PROVIDER(field) .offset = offsetof(weft_site_provider, field), .width = sizeof(((weft_site_provider *)0)->field)
#define CUT(field)      .offset = offsetof(weft_site_cut, field), .width = sizeof(((weft_site_cut *)0)->field)
#define SOURCE(field)   .offset = offsetof(weft_site_trainer, field), .width = sizeof(((weft_site_trainer *)0)->field)
#define BOUNDS(a, b)    .low = (a), .high = (b)
#define WORD(text, n)   .word = (text), .word_number = (n)

#define BACKENDS  "auto" WEFT_OR_BACKENDS
#define KERNELS   "auto | portable | avx2 | avx512"
#define DEADLINES "1ms..86400s"
#define PATH      "a path of at most 255 bytes, or empty"
#define KEY_PATH  "a path of at most 255 bytes in which * is the peer's name, or empty"

/* clang-format off */
static const weft_site_field fields[] = {
    {{"site", "name", WEFT_KEY_TEXT, "weft", "a name of 1 to 63 of a-z 0-9 _ -", false,
      "What logs call this site."}, SITE(name), .rule = WEFT_TEXT_NAME},

    {{"trainer", "listen", WEFT_KEY_TEXT, "127.0.0.1:7117", "host:port, port 0..65535, IPv6 in brackets", false,
      "Where the trainer listens for its peers and where rollouts dial: the control plane, one TCP connection a peer. "
      "Port 0 takes any free one (the trainer says which). A host beyond loopback needs [security] mode = tls or "
      "open. A name may be known, or be another address, later: rollouts look it up anew whenever they reach nobody."},
     SITE(trainer.listen), .rule = WEFT_TEXT_LISTEN},
    {{"trainer", "address", WEFT_KEY_TEXT, "", "1 to 8 different IPs or interfaces between commas, or empty", false,
      "Local addresses of the trainer's fabric endpoints, which carry the weights: IPs or names of interfaces. Each "
      "is a rail; a peer uses as many as its own address names, in this order. Of several one will do: the others may "
      "be away, and are used when they are back. Empty takes the host of listen, if that is an IP.\n"
      "Peers of a provider that has an address of its own ([provider.NAME] below) are served from that."},
     SITE(trainer.address), .rule = WEFT_TEXT_ADDRESS},
    {{"trainer", "backend", WEFT_KEY_CHOICE, "auto", BACKENDS, false,
      "Where the weights live and what works on them. auto takes cuda or hip where the process already works with "
      "such a device (a CUDA context is active, ROCm is loaded and has a device), else host."}, SITE(trainer.backend)},
    {{"trainer", "kernels", WEFT_KEY_CHOICE, "auto", KERNELS, false,
      "Which loops the host backend runs. auto takes the widest that the processor has; naming one that it lacks is "
      "an error."}, SITE(trainer.kernels)},
    {{"trainer", "device", WEFT_KEY_COUNT, "current", "current or 0..255", false,
      "Number of the accelerator; current takes the one that the program names, or the caller's current one."}, SITE(trainer.device), BOUNDS(0, 255), WORD("current", UINT64_MAX)},
    {{"trainer", "device_memory", WEFT_KEY_SIZE, "auto", "auto or 384MiB..1024GiB", true,
      "Bytes of the accelerator's memory that weft takes at most, half of it for batches of work; what does not fit "
      "is an error when the session opens or binds. auto takes what it wants: 768 MiB for batches, and the change "
      "lists."},
     SITE(trainer.device_memory), BOUNDS(384 * MIB, 1024 * GIB), WORD("auto", 0)},
    {{"trainer", "shadow", WEFT_KEY_CHOICE, "auto", "auto | host | device", true,
      "Where the trainer keeps the bits published last, as many bytes as the model has: host memory, or the memory of "
      "the device that has the weights, which is faster and costs that much of it. device needs such a backend. auto "
      "takes the device if the shadow fits half of the memory that is free there when the session opens, and logs "
      "what that costs."},
     SITE(trainer.shadow)},
    {{"trainer", "journal", WEFT_KEY_SIZE, "auto", "auto or 16MiB..1024GiB", false,
      "Memory that keeps encoded updates, in flight and for peers that are behind. An update that does not fit goes "
      "out as a snapshot, with a warning that names the size it would take. auto has room for four updates that "
      "change 4 % of the elements, or 8 % where that takes at most a sixteenth of the host's memory; twice the model "
      "or 256MiB, the smaller, in any case; and no more than a quarter of the memory that is available beside the "
      "copy of the weights, but never less than 16MiB or 32 of the layout's largest frames. The log says what it "
      "comes to and why, and `weft check SITE --model FILE` says it before."},
     SITE(trainer.journal), BOUNDS(16 * MIB, 1024 * GIB), WORD("auto", 0)},
    {{"trainer", "threads", WEFT_KEY_COUNT, "auto", "auto or 1..64", false,
      "Threads that find and encode what changed, the one that publishes included. auto takes half of the CPUs that "
      "the process may use, at most 8. The bytes do not depend on it. Where a device finds and encodes the changes, four "
      "of them at most copy its frames."},
     SITE(trainer.threads), BOUNDS(1, 64), WORD("auto", 0)},
    {{"trainer", "max_peers", WEFT_KEY_COUNT, "64", "1..4096", false,
      "Peers at most at one time, listed ones and those that a pattern admits together. By tcp each takes six "
      "descriptors of the trainer's process, by tcp-rxm fifteen, and five or fourteen for each further rail and "
      "stream: a warning says so when the process may not open that many."}, SITE(trainer.max_peers), BOUNDS(1, 4096)},
    {{"trainer", "join_deadline", WEFT_KEY_TIME, "30s", DEADLINES, true,
      "How long `weft trainer --versions` waits for the site's peers before the first version goes out."},
     SITE(trainer.join_deadline_ms), BOUNDS(1, 86400 * SEC)},
    {{"trainer", "store", WEFT_KEY_TEXT, "", PATH, false,
      "Folder, or s3://BUCKET/PREFIX, that each version is written to, beside publish: an update for each, and now "
      "and then an anchor, which has all bits. A trainer that comes back with weights of the store leads its rollouts "
      "to these without a snapshot. What the disk cannot take is told, and is a gap that the next anchor closes. "
      "Empty: no store."}, SITE(trainer.store), .rule = WEFT_TEXT_ANY},
    {{"trainer", "store_versions", WEFT_KEY_COUNT, "any", "any or 1..1000000", false,
      "Versions that the store keeps. Older ones go, as far as an anchor lies after them, and an hour after they were "
      "written."},
     SITE(trainer.store_versions), BOUNDS(1, 1000000), WORD("any", 0)},
    {{"trainer", "store_bytes", WEFT_KEY_SIZE, "any", "any or 1MiB..1048576GiB", false,
      "Bytes that the store keeps; older versions go in the same way."},
     SITE(trainer.store_bytes), BOUNDS(MIB, 1024 * 1024 * GIB), WORD("any", 0)},
    {{"trainer", "store_level", WEFT_KEY_CHOICE, "fast", "fast | tight", false,
      "Level of the store's updates. `tight` writes a smaller update beside each one of level fast. Readers that go "
      "forward take the smaller one. The trainer compares the bits of both versions once more for it, on a thread of "
      "lower priority."},
     SITE(trainer.store_level)},

    {{"peer", "address", WEFT_KEY_TEXT, "", "1 to 8 different IPs or interfaces between commas, or empty", false,
      "Local addresses of the rollout's fabric endpoints: IPs or names of interfaces on the rollout's host. The first "
      "is joined with the first of [trainer] address, the second with the second, and so on: buckets go over all of "
      "these rails at once, and over those that are left when one fails. Each needs a subnet of its own. Name the "
      "ones near the device (`weft check` tells which), or near1, near2, ... for the nearest. Empty takes the one "
      "that reaches the trainer. By tcp and tcp-rxm, what lies neither at the host that a peer joins from nor in a "
      "subnet of the trainer's has to stand here as an IP in the trainer's own site file: the trainer dials no other."},
     PEER(address), .rule = WEFT_TEXT_ADDRESS},
    {{"peer", "provider", WEFT_KEY_CHOICE, "tcp", "auto" WEFT_OR_PROVIDERS, false,
      "Fabric that carries the data. The named one is used, or there is an error: nothing is replaced silently. auto "
      "chooses, and logs at info what it chose and why. stream goes by connections that the rollout makes to the port "
      "it joins by: for rollouts that nobody can reach, and for links that leave the building. loop is within one "
      "process, for tests."}, PEER(provider)},
    {{"peer", "backend", WEFT_KEY_CHOICE, "auto", BACKENDS, false,
      "As in [trainer], for the rollout."}, PEER(backend)},
    {{"peer", "kernels", WEFT_KEY_CHOICE, "auto", KERNELS, false,
      "As in [trainer], for the rollout."}, PEER(kernels)},
    {{"peer", "device", WEFT_KEY_COUNT, "current", "current or 0..255", false,
      "As in [trainer], for the rollout."}, PEER(device), BOUNDS(0, 255), WORD("current", UINT64_MAX)},
    {{"peer", "device_memory", WEFT_KEY_SIZE, "auto", "auto or 384MiB..1024GiB", true,
      "As in [trainer], for the rollout."},
     PEER(device_memory), BOUNDS(384 * MIB, 1024 * GIB), WORD("auto", 0)},
    {{"peer", "bucket", WEFT_KEY_SIZE, "auto", "auto or 64KiB..1GiB", false,
      "Bytes of one bucket, the unit that is sent, acknowledged and applied. auto follows the measured link between "
      "bucket_min and bucket_max; a size fixes it, and must lie between the two."},
     PEER(bucket), BOUNDS(64 * KIB, GIB), WORD("auto", 0)},
    {{"peer", "bucket_start", WEFT_KEY_SIZE, "512KiB", "64KiB..1GiB", true,
      "What auto starts with while nothing is measured, kept between bucket_min and bucket_max. A peer that comes "
      "back starts from what was measured before."},
     PEER(bucket_start), BOUNDS(64 * KIB, GIB)},
    {{"peer", "bucket_min", WEFT_KEY_SIZE, "64KiB", "64KiB..1GiB", true,
      "Smallest bucket that auto may choose."}, PEER(bucket_min), BOUNDS(64 * KIB, GIB)},
    {{"peer", "bucket_max", WEFT_KEY_SIZE, "auto", "auto or 64KiB..1GiB", false,
      "Largest bucket, and the memory of one slot at the rollout. It must hold the layout's largest frame; if it does "
      "not, joining fails and names the size needed. auto is 4MiB, less for a model that is smaller, and no less than "
      "bucket_min."},
     PEER(bucket_max), BOUNDS(64 * KIB, GIB), WORD("auto", 0)},
    {{"peer", "window", WEFT_KEY_COUNT, "4", "1..256", false,
      "Slots at the rollout, that is buckets under way at once: it holds window x bucket_max bytes. A long link wants "
      "window x bucket at least rate x round trip."},
     PEER(window), BOUNDS(1, 256)},
    {{"peer", "streams", WEFT_KEY_COUNT, "1", "1..8", false,
      "Connections that carry the data side by side, so many on each rail, 8 in all. One is enough near by; a long "
      "fat link, where one TCP connection does not fill the line, wants several. Where trainer and rollout say "
      "different numbers the smaller counts."},
     PEER(streams), BOUNDS(1, 8)},
    {{"peer", "staging", WEFT_KEY_SIZE, "auto", "auto or 1MiB..1024GiB", false,
      "Memory at the rollout for a decoded update and scratch: 8 bytes for each bf16 element that changes, 12 for "
      "f32. An update beyond it is kept encoded (see encoded), or is served as a snapshot, and the trainer's log "
      "names the size that would have served. auto has room for updates of 4 % of the elements, or 8 % where that "
      "takes at most a sixteenth of the memory; for every element or 256MiB, the smaller, in any case; and no more "
      "than a quarter of the memory that is available to the rollout, or a sixteenth of the device's where the "
      "weights lie in one. The log says what it comes to and why, and `weft check SITE --model FILE` says it before."},
     PEER(staging), BOUNDS(MIB, 1024 * GIB), WORD("auto", 0)},
    {{"peer", "encoded", WEFT_KEY_SIZE, "auto", "auto or 0GiB..1024GiB", true,
      "Memory at the rollout, always of the host, for the frames of an update whose change lists exceed staging: "
      "about 1.2 bytes for each element that changes. Such an update comes as level fast, and its commit decodes "
      "again, so the commit takes longer. A larger one is served as a snapshot. auto is half of staging, or none "
      "where staging holds every update. Memory is touched only as frames come. 0GiB: none."},
     PEER(encoded), BOUNDS(0, 1024 * GIB), WORD("auto", UINT64_MAX)},
    {{"peer", "level", WEFT_KEY_CHOICE, "auto", "auto | full | pairs | fast | tight", false,
      "How updates are coded for this peer. full sends whole tiles; pairs sends index and value; fast sends gaps and "
      "differences; tight sends positions by the exponent of what the peer holds, a third smaller than fast, for more "
      "work at both ends. auto takes the one that is held soonest by the measured link and decoding, counts what "
      "encoding it for this peer alone would take, and says so when it changes."}, PEER(level)},
    {{"peer", "snapshot_coding", WEFT_KEY_CHOICE, "auto", "auto | planes | verbatim", true,
      "How the tiles of a snapshot are coded for this peer. planes packs them (a bf16 model takes two thirds of its "
      "bytes); verbatim sends them as they are; auto packs for a link that is slower than packing, as measured or as "
      "rate_limit says."},
     PEER(snapshot_coding)},
    {{"peer", "rate_limit", WEFT_KEY_RATE, "none", "none or 1Mbit/s..10000Gbit/s", false,
      "The trainer sends to this peer no faster, nor does a relay that it is behind. A relay's limit at the trainer "
      "holds for all that goes through it."},
     PEER(rate_limit), BOUNDS(MBIT, 10000 * GBIT), WORD("none", 0)},
    {{"peer", "max_lag", WEFT_KEY_COUNT, "none", "none or 1..1000000", false,
      "Versions that the peer may lack, of those published since it joined, before lag_action is taken. A peer that "
      "is behind takes what it lacks as one update, whatever this says."},
     PEER(max_lag), BOUNDS(1, 1000000), WORD("none", 0)},
    {{"peer", "lag_action", WEFT_KEY_CHOICE, "warn", "warn | drop", false,
      "What happens when it lacks more: warn logs and raises the event LAGGING, once; drop loses the peer as well. It "
      "may join again."}, PEER(lag_action)},
    {{"peer", "heartbeat", WEFT_KEY_TIME, "5s", "100ms..3600s", false,
      "Silence after which the peer is lost. Lost peers may join again at any time."}, PEER(heartbeat_ms), BOUNDS(100, 3600 * SEC)},
    {{"peer", "via", WEFT_KEY_TEXT, "trainer", "trainer, or 1 to 4 peers between commas", false,
      "Relays that this peer joins through: what it and the others behind a relay take is sent to the relay once. The "
      "first that answers within heartbeat is taken, in this order at every join; each has a section of its own with "
      "relay in it."},
     PEER(via), .rule = WEFT_TEXT_VIA},
    {{"peer", "last_resort", WEFT_KEY_CHOICE, "trainer", "trainer | none", true,
      "Where a peer with via turns when no relay that it names answers."}, PEER(last_resort)},
    {{"peer", "relay", WEFT_KEY_TEXT, "", "host:port, IPv6 in brackets, or empty", false,
      "Where this peer listens for those behind it, and passes on to them what it receives, bit for bit; empty: no "
      "relay. With several sources those behind it join source 0 at this port, source 1 at the next one, and so on. "
      "No port may be that of another relay of the host too, or of a trainer."},
     PEER(relay), .rule = WEFT_TEXT_LISTEN},
    {{"peer", "relay_memory", WEFT_KEY_SIZE, "256MiB", "1MiB..1024GiB", false,
      "Relay's memory for passing on, taken at open. Half of it, in blocks of bucket_max, buffers the updates that "
      "all take at once: a peer behind the relay that falls back further drops out and is served alone. The other "
      "half is two slots of bucket_max per peer behind the relay, and so bounds how many there are: at most 64."},
     PEER(relay_memory), BOUNDS(MIB, 1024 * GIB)},
    {{"peer", "key_file", WEFT_KEY_TEXT, "", KEY_PATH, false,
      "With [security] mode = tls, the key by which this peer proves its name, so that a stolen one opens no other "
      "name. The trainer needs all keys, a relay its own and those of the peers behind it, a rollout its own. Empty "
      "takes [security] key_file. One line in [peers] will do for all: key_file = /etc/weft/keys/*."},
     PEER(key_file), .rule = WEFT_TEXT_ANY},
    {{"peer", "key_file_next", WEFT_KEY_TEXT, "", KEY_PATH, false,
      "Second key that is accepted for this peer while keys change. The file may be absent."},
     PEER(key_file_next), .rule = WEFT_TEXT_ANY},

    {{"provider", "address", WEFT_KEY_TEXT, "", "1 to 8 different IPs or interfaces between commas, or empty", false,
      "Where the trainer sends from to peers of this provider, if not from [trainer] address: a site whose peers come "
      "by several providers names an address for each, as ib0 in [provider.verbs] and rdmap16s27 in [provider.efa]. "
      "Relays send from the first of them too, else from the host that they listen at; where one calls its device "
      "otherwise, override it there. What peers receive at is their own address."},
     PROVIDER(address), .rule = WEFT_TEXT_ADDRESS},
    {{"provider", "chunk", WEFT_KEY_SIZE, "auto", "auto or 4KiB..1GiB", true,
      "Largest single write; auto takes what weft knows to serve this provider best."},
     PROVIDER(chunk), BOUNDS(4 * KIB, GIB), WORD("auto", 0)},
    {{"provider", "depth", WEFT_KEY_COUNT, "auto", "auto or 1..65536", true,
      "Writes in flight per endpoint; auto as above."},
     PROVIDER(depth), BOUNDS(1, 65536), WORD("auto", 0)},
    {{"provider", "ports", WEFT_KEY_TEXT, "auto", "auto, or LOW-HIGH within 1024..65535", false,
      "TCP ports that the fabric endpoints of this host listen on, for firewalls: one per peer, address and stream at "
      "the trainer, one per address and stream at a rollout. tcp and tcp-rxm alone. auto takes any free one."},
     PROVIDER(ports), .rule = WEFT_TEXT_PORTS},

    {{"cut", "tensors", WEFT_KEY_TEXT, "", "patterns of tensors' names between commas, or empty", false,
      "Tensors that the cut is for, as shell patterns between commas. Empty: all, where by is layer or expert; else "
      "none. With no other key the tensors stay whole, and can be taken apart from the others."},
     CUT(tensors), .rule = WEFT_TEXT_ANY},
    {{"cut", "rows", WEFT_KEY_COUNT, "none", "none or 1..65536", false,
      "Equal parts of the rows, for weights that engines split by output (q, k, v, gate, up, embedding). A vector is "
      "parted as a bias of such rows."}, CUT(rows), BOUNDS(1, 65536), WORD("none", 0)},
    {{"cut", "columns", WEFT_KEY_COUNT, "none", "none or 1..65536", false,
      "Equal parts of the columns, for weights that engines split by input (o, down)."}, CUT(columns), BOUNDS(1, 65536), WORD("none", 0)},
    {{"cut", "middle", WEFT_KEY_COUNT, "none", "none or 1..65536", false,
      "Equal parts of the last dimension but one, within each index of the dimensions before it: stacked experts."},
     CUT(middle), BOUNDS(1, 65536), WORD("none", 0)},
    {{"cut", "pad", WEFT_KEY_COUNT, "none", "none or 1..4294967296", false,
      "The size is rounded up to a multiple of this before it is parted, as engines pad vocabularies. The last parts "
      "are shorter, or empty."},
     CUT(pad), BOUNDS(1, UINT64_C(1) << 32), WORD("none", 0)},
    {{"cut", "by", WEFT_KEY_CHOICE, "none", "none | rows | columns | middle | layer | expert", false,
      "rows, columns and middle: parts begin at the numbers of at. layer: blocks of layers for pipeline stages begin "
      "at them, by the number after \"layers.\", \"layer.\", \"blocks.\", \"block.\" or \"h.\" in a name. expert: groups of "
      "experts, by the number after \"experts.\"."}, CUT(by)},
    {{"cut", "at", WEFT_KEY_TEXT, "", "1 to 128 rising numbers between commas, or empty", false,
      "Where parts begin. A leading 0 may be left out."}, CUT(at), .rule = WEFT_TEXT_NUMBERS},
    {{"cut", "groups", WEFT_KEY_COUNT, "none", "none or 1..65536", false,
      "Equal groups of experts, with by = expert."}, CUT(groups), BOUNDS(1, 65536), WORD("none", 0)},

    {{"source", "listen", WEFT_KEY_TEXT, "", "host:port, port 0..65535, IPv6 in brackets, or empty", false,
      "Where this trainer listens. Empty: where [trainer] listen says."},
     SOURCE(listen), .rule = WEFT_TEXT_LISTEN},
    {{"source", "holding", WEFT_KEY_TEXT, "", "a path of at most 255 bytes, or empty", false,
      "Share file of what this trainer contributes, for `weft trainer --source R` and for every rollout."}, SOURCE(holding), .rule = WEFT_TEXT_ANY},

    {{"session", "progress", WEFT_KEY_CHOICE, "thread", "thread | manual", false,
      "Who moves the data: a thread of weft's own, or the caller through weft_progress, at least every io_deadline "
      "while something is on its way."}, SITE(session.progress)},
    {{"session", "connect_deadline", WEFT_KEY_TIME, "30s", DEADLINES, true,
      "How long a rollout tries to reach the trainer before it gives up, counted anew while that says that it is not "
      "ready yet; and how long either end waits at open for links that are not up yet."},
     SITE(session.connect_deadline_ms), BOUNDS(1, 86400 * SEC)},
    {{"session", "close_deadline", WEFT_KEY_TIME, "2s", DEADLINES, true,
      "How long closing waits for goodbyes."}, SITE(session.close_deadline_ms), BOUNDS(1, 86400 * SEC)},
    {{"session", "io_deadline", WEFT_KEY_TIME, "10s", DEADLINES, true,
      "A bucket that makes no progress for this long loses the peer; one that has landed has this, a heartbeat and 16 "
      "times what it should take."},
     SITE(session.io_deadline_ms), BOUNDS(1, 86400 * SEC)},
    {{"session", "device_deadline", WEFT_KEY_TIME, "120s", "1s..86400s", true,
      "How long a job waits for other work on the device before it fails. A device with few queues comes to weft's "
      "work after a collective that stands in front (CUDA_DEVICE_MAX_CONNECTIONS = 1, ROCm). The job ends with "
      "timeout, with the weights as they were, and the device is not lost."},
     SITE(session.device_deadline_ms), BOUNDS(SEC, 86400 * SEC)},

    {{"commit", "snapshot", WEFT_KEY_CHOICE, "in_place", "in_place | staged", false,
      "Where a snapshot lands. in_place receives it over the weights, inside the caller's commit: until it is whole "
      "the rollout holds nothing. staged keeps the old weights until then, at the price of as much memory again."},
     SITE(commit.snapshot)},
    {{"commit", "verify", WEFT_KEY_CHOICE, "touched", "touched | full", false,
      "Which weights are compared with what is held before an update is staged. touched looks at the elements that it "
      "changes; full reads all weights for every update and finds a bit that rotted anywhere."},
     SITE(commit.verify)},
    {{"commit", "deadline", WEFT_KEY_TIME, "30s", DEADLINES, true,
      "A commit that receives a snapshot fails when nothing arrives for this long."},
     SITE(commit.deadline_ms), BOUNDS(1, 86400 * SEC)},

    {{"security", "mode", WEFT_KEY_CHOICE, "loopback", "loopback | open | tls", false,
      "loopback refuses to listen beyond this machine. open accepts that anyone who reaches the port may join and "
      "read the weights: for networks that are closed by other means. tls lets in only who proves a name, by TLS 1.3, "
      "and shows rollouts that the trainer is the trainer. Names are proved by keys that both ends have, or by "
      "certificates. Weights are secret with provider = stream, and go in plain by the others (docs/SECURITY.md)."},
     SITE(security)},
    {{"security", "key_file", WEFT_KEY_TEXT, "", KEY_PATH, false,
      "With mode = tls, the key of all peers that have none of their own. `weft key FILE` makes one; the trainer and "
      "each rollout need a copy, which nobody else may read. Whoever has the key may take any of those names. Read at "
      "each new connection."},
     SITE(proof.key_file), .rule = WEFT_TEXT_ANY},
    {{"security", "key_file_next", WEFT_KEY_TEXT, "", KEY_PATH, false,
      "Second key that is accepted, by the trainer and by relays, while keys change. The file may be absent."},
     SITE(proof.key_file_next), .rule = WEFT_TEXT_ANY},
    {{"security", "ca", WEFT_KEY_TEXT, "", PATH, false,
      "With mode = tls and certificates instead of keys: a PEM file of those that are trusted to sign them. All three "
      "files are looked at for each new connection."},
     SITE(proof.ca), .rule = WEFT_TEXT_ANY},
    {{"security", "certificate", WEFT_KEY_TEXT, "", PATH, false,
      "PEM file of this end's certificate and its chain. The certificate needs the peer's name as a DNS name among "
      "its alternative names; the trainer's needs trainer. Each host has its own file here."},
     SITE(proof.certificate), .rule = WEFT_TEXT_ANY},
    {{"security", "key", WEFT_KEY_TEXT, "", PATH, false,
      "PEM file of the private key for the certificate, without a password, which nobody else may read."},
     SITE(proof.key), .rule = WEFT_TEXT_ANY},
    {{"security", "replace", WEFT_KEY_CHOICE, "no", "no | yes", false,
      "With mode = tls, whether a live peer's name goes to a second connection that proves it. no refuses the second "
      "as long as the first lives, so who stole a key throws nobody out. yes is for engines that are moved faster "
      "than a heartbeat."}, SITE(replace)},
    {{"security", "guests", WEFT_KEY_COUNT, "512", "1..512", true,
      "What connections may take that have not said who they are yet, at the trainer and at each relay. Connections "
      "at one time: one more costs one of the host with most its place."},
     SITE(guests.most), BOUNDS(1, 512)},
    {{"security", "guests_per_address", WEFT_KEY_COUNT, "128", "1..512", true,
      "The same of one address: one more is closed. Rollouts behind one translation of addresses share it."},
     SITE(guests.of_address), BOUNDS(1, 512)},
    {{"security", "guest_deadline", WEFT_KEY_TIME, "5s", "100ms..60s", true,
      "Time within which a connection proves its name and says who it is."},
     SITE(guests.deadline_ms), BOUNDS(100, 60 * SEC)},
    {{"security", "guest_bytes", WEFT_KEY_SIZE, "64KiB", "4KiB..1MiB", true,
      "With mode = tls, bytes that a connection may send before its name is proved. Long chains of certificates need "
      "more."},
     SITE(guests.bytes), BOUNDS(4 * KIB, MIB)},

    {{"log", "level", WEFT_KEY_CHOICE, "info", "error | warn | info | debug", false,
      "The least important lines still written: error someone must act; warn a peer or version lost; info a line per "
      "version; debug per bucket."}, SITE(log_level)},
};
/* clang-format on */

#define NAME(name, symbol) name,
static const char *const providers[] = {WEFT_EACH_PROVIDER(NAME, NAME)};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

_Static_assert(COUNT(fields) <= WEFT_SITE_ROWS, "a section has an index per row");
_Static_assert(sizeof(weft_choice_level) == sizeof(unsigned), "choices land as unsigned");
_Static_assert(sizeof(weft_choice_replace) == sizeof(unsigned), "choices land as unsigned");
_Static_assert(sizeof(weft_choice_last) == sizeof(unsigned), "choices land as unsigned");
_Static_assert(sizeof(weft_choice_coding) == sizeof(unsigned), "choices land as unsigned");
_Static_assert(sizeof(weft_choice_by) == sizeof(unsigned), "choices land as unsigned");
_Static_assert(sizeof(weft_log_level) == sizeof(unsigned), "choices land as unsigned");

const weft_site_field *weft_site_field_at(uint64_t index)
{
    return index < COUNT(fields) ? &fields[index] : NULL;
}

/* Keys of earlier checkouts, and what serves their users now. */
static const struct {
    const char *section, *key, *now;
} removed[] = {
    {"trainer", "model", "this key is gone: give weft trainer --model FILE"},
};

const char *weft_site_removed(const char *section, const char *key)
{
    for (size_t i = 0; i < COUNT(removed); i++)
        if (!strcmp(removed[i].section, section) && !strcmp(removed[i].key, key))
            return removed[i].now;
    return NULL;
}

uint64_t weft_site_field_index(const weft_site_field *field)
{
    return (uint64_t)(field - fields);
}

const weft_key *weft_key_at(size_t index)
{
    return index < COUNT(fields) ? &fields[index].key : NULL;
}

const char *weft_site_provider_at(uint64_t index)
{
    return index < COUNT(providers) ? providers[index] : NULL;
}

const weft_site_field *weft_site_field_of(const char *section, const char *key)
{
    for (size_t i = 0; i < COUNT(fields); i++) {
        if (!strcmp(fields[i].key.section, section) && !strcmp(fields[i].key.key, key))
            return &fields[i];
    }
    return NULL;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

uint32_t weft_site_distance(const char *a, const char *b)
{
    uint32_t row[WEFT_SITE_NAME];
    uint32_t na = (uint32_t)strnlen(a, WEFT_SITE_NAME - 1), nb = (uint32_t)strnlen(b, WEFT_SITE_NAME - 1);
    for (uint32_t j = 0; j <= nb; j++)
        row[j] = j;
    for (uint32_t i = 1; i <= na; i++) {
        uint32_t corner = row[0];
        row[0] = i;
        for (uint32_t j = 1; j <= nb; j++) {
            int differ = tolower((unsigned char)a[i - 1]) != tolower((unsigned char)b[j - 1]);
            uint32_t replaced = corner + (differ ? 1 : 0);
            corner = row[j];
            row[j] = least(replaced, least(row[j], row[j - 1]) + 1);
        }
    }
    return row[nb];
}

const char *weft_site_field_near(const char *section, const char *key)
{
    const char *near = NULL;
    uint32_t best = (uint32_t)strnlen(key, WEFT_SITE_NAME - 1) / 3 + 2;
    for (size_t i = 0; i < COUNT(fields); i++) {
        if (strcmp(fields[i].key.section, section))
            continue;
        uint32_t distance = weft_site_distance(fields[i].key.key, key);
        if (distance < best) {
            best = distance;
            near = fields[i].key.key;
        }
    }
    return near;
}
