"""Declarations of weft.h for cffi. Change the header, and run `python3 declare.py`."""

VERSION = "0.1.0"

DECLARATIONS = """\
#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 1
#define WEFT_VERSION_PATCH 0
#define WEFT_MAX_RANK 16
#define WEFT_MAX_NAME 511
#define WEFT_THRESHOLDS_MAX 15
#define WEFT_STRIDES_MAX 3
#define WEFT_SOURCES_MAX 64
#define WEFT_ATTACHMENT_MAX 268435456
#define WEFT_BIND_EMPTY 1
#define WEFT_COMMIT_HOLD 1
#define WEFT_COMMIT_QUEUE 2
#define WEFT_RAILS_MAX 8
typedef enum weft_status {
WEFT_OK = 0,
WEFT_AGAIN = 1,
WEFT_E_ARGUMENT = -10,
WEFT_E_CONFIG = -11,
WEFT_E_LAYOUT = -12,
WEFT_E_STATE = -13,
WEFT_E_FILE = -14,
WEFT_E_TIMEOUT = -15,
WEFT_E_MISSING = -16,
WEFT_E_PEER_LOST = -20,
WEFT_E_REFUSED = -21,
WEFT_E_PROTOCOL = -22,
WEFT_E_UNREACHABLE = -23,
WEFT_E_CORRUPT = -30,
WEFT_E_CHECK = -31,
WEFT_E_BASE = -32,
WEFT_E_TARGET = -33,
WEFT_E_BUDGET = -34,
WEFT_E_PASSED = -35,
WEFT_E_MEMORY = -40,
WEFT_E_SYSTEM = -41,
WEFT_E_PROVIDER = -42,
WEFT_E_DEVICE = -43
} weft_status;
typedef enum weft_scope {
WEFT_SCOPE_NONE = 0,
WEFT_SCOPE_CALL = 1,
WEFT_SCOPE_PEER = 2,
WEFT_SCOPE_VERSION = 3,
WEFT_SCOPE_SESSION = 4
} weft_scope;
const char *weft_status_name(weft_status status);
weft_scope weft_status_scope(weft_status status);
const char *weft_version_string(void);
const char *weft_last_error(void);
typedef enum weft_log_level {
WEFT_LOG_ERROR = 0,
WEFT_LOG_WARN = 1,
WEFT_LOG_INFO = 2,
WEFT_LOG_DEBUG = 3
} weft_log_level;
typedef void (*weft_log_fn)(void *user, weft_log_level level, const char *line);
typedef struct weft_site weft_site;
weft_status weft_site_load(const char *path, const char *const *overrides, size_t override_count,
weft_site **site);
void weft_site_free(weft_site *site);
weft_status weft_site_get(const weft_site *site, const char *peer, const char *key, char *text,
size_t capacity);
weft_status weft_site_peer_name(const weft_site *site, size_t index, const char **name);
typedef enum weft_dtype {
WEFT_BOOL = 1,
WEFT_U8 = 2,
WEFT_I8 = 3,
WEFT_F8_E4M3 = 4,
WEFT_F8_E5M2 = 5,
WEFT_F8_E8M0 = 6,
WEFT_F4 = 7,
WEFT_F6_E2M3 = 8,
WEFT_F6_E3M2 = 9,
WEFT_I16 = 10,
WEFT_U16 = 11,
WEFT_F16 = 12,
WEFT_BF16 = 13,
WEFT_I32 = 14,
WEFT_U32 = 15,
WEFT_F32 = 16,
WEFT_I64 = 17,
WEFT_U64 = 18,
WEFT_F64 = 19,
WEFT_C64 = 20,
WEFT_F8_E4M3FNUZ = 21,
WEFT_F8_E5M2FNUZ = 22
} weft_dtype;
typedef struct weft_tensor {
const char *name;
weft_dtype dtype;
uint32_t rank;
const uint64_t *shape;
} weft_tensor;
typedef struct weft_layout weft_layout;
weft_status weft_layout_create(const weft_tensor *tensors, uint64_t count, weft_layout **layout);
void weft_layout_free(weft_layout *layout);
void weft_layout_hash(const weft_layout *layout, uint64_t hash[2]);
uint64_t weft_layout_count(const weft_layout *layout);
uint64_t weft_layout_bytes(const weft_layout *layout);
weft_status weft_layout_tensor(const weft_layout *layout, uint64_t index, weft_tensor *tensor);
uint64_t weft_layout_tensor_bytes(const weft_layout *layout, uint64_t index);
weft_status weft_layout_match(const weft_layout *layout, const weft_layout *other, uint64_t *order);
weft_status weft_layout_fetch(const weft_site *site, const char *peer, uint32_t deadline_ms,
weft_layout **layout);
typedef struct weft_piece {
uint64_t tensor;
uint64_t first;
uint64_t count;
void *data;
} weft_piece;
typedef struct weft_slice {
uint64_t tensor;
uint64_t row;
uint64_t rows;
uint64_t column;
uint64_t columns;
} weft_slice;
typedef struct weft_stride {
uint64_t extent;
uint64_t stride;
} weft_stride;
typedef struct weft_block {
weft_slice slice;
void *data;
weft_stride row[WEFT_STRIDES_MAX];
weft_stride column[WEFT_STRIDES_MAX];
weft_dtype memory;
uint32_t flags;
} weft_block;
typedef struct weft_session weft_session;
typedef struct weft_version {
uint64_t run;
uint64_t number;
uint64_t root;
} weft_version;
typedef struct weft_trainer_source {
const char *address;
const weft_slice *slices;
uint64_t slice_count;
} weft_trainer_source;
typedef struct weft_options {
size_t size;
weft_log_fn log;
void *log_user;
uint64_t first_version;
uint64_t incarnation;
const weft_slice *slices;
uint64_t slice_count;
uint32_t wants;
uint32_t source_count;
const weft_trainer_source *sources;
uint32_t source;
uint64_t run;
uint32_t tells_away;
uint32_t device;
} weft_options;
weft_status weft_trainer_open(const weft_site *site, const weft_layout *layout, const weft_options *options,
weft_session **session);
weft_status weft_rollout_open(const weft_site *site, const char *peer, const weft_layout *layout,
const weft_options *options, weft_session **session);
weft_status weft_bind(weft_session *session, const weft_piece *pieces, uint64_t count, const void *attachment,
uint64_t attachment_bytes, uint32_t flags);
weft_status weft_bind_blocks(weft_session *session, const weft_block *blocks, uint64_t count,
const void *attachment, uint64_t attachment_bytes, uint32_t flags);
weft_status weft_unbind(weft_session *session);
weft_status weft_close(weft_session *session);
typedef struct weft_update_info {
size_t size;
weft_version base;
weft_version target;
const char *level;
uint64_t elements;
uint64_t changed;
uint64_t dense_bytes;
uint64_t bytes;
double diff_ms;
double encode_ms;
} weft_update_info;
typedef struct weft_publish_options {
size_t size;
const void *attachment;
uint64_t attachment_bytes;
void (*weights_free)(void *user);
void *user;
} weft_publish_options;
weft_status weft_publish(weft_session *session, uint64_t version, void *stream,
const weft_publish_options *options, weft_update_info *info);
weft_status weft_wait(weft_session *session, uint64_t version, const char *const *peers, size_t count,
uint32_t deadline_ms);
typedef enum weft_staged_kind {
WEFT_STAGED_UPDATE = 1,
WEFT_STAGED_SNAPSHOT = 2
} weft_staged_kind;
typedef struct weft_staged_info {
size_t size;
weft_staged_kind kind;
weft_version base;
weft_version target;
uint64_t changed;
uint64_t bytes;
double receive_ms;
double decode_ms;
uint32_t encoded;
double pause_ms;
} weft_staged_info;
weft_status weft_staged(weft_session *session, uint32_t deadline_ms, weft_staged_info *info);
weft_status weft_want(weft_session *session, uint64_t number);
weft_status weft_offered(weft_session *session, uint64_t after, uint32_t deadline_ms, uint64_t *number);
weft_status weft_commit(weft_session *session, uint64_t version, void *stream, uint32_t flags,
weft_version *held);
typedef enum weft_settlement {
WEFT_SETTLE_KEEP = 1,
WEFT_SETTLE_UNDO = 2
} weft_settlement;
weft_status weft_settle(weft_session *session, weft_settlement how, void *stream, weft_version *held);
weft_status weft_attachment(weft_session *session, const void **data, uint64_t *bytes);
weft_status weft_scrub(weft_session *session);
weft_status weft_held(weft_session *session, weft_version *held);
typedef enum weft_peer_state {
WEFT_PEER_JOINING = 1,
WEFT_PEER_CATCHING_UP = 2,
WEFT_PEER_LIVE = 3,
WEFT_PEER_LOST = 4
} weft_peer_state;
const char *weft_peer_state_name(weft_peer_state state);
typedef struct weft_rail_info {
char address[64];
uint32_t connections;
uint32_t up;
uint64_t writes;
uint64_t bytes;
uint64_t resent_bytes;
uint64_t failures;
} weft_rail_info;
typedef struct weft_peer_info {
size_t size;
char name[64];
weft_peer_state state;
const char *provider;
char backend[24];
const char *level;
weft_version held;
uint64_t lag;
uint64_t bucket_bytes;
uint64_t bytes;
uint64_t snapshot_bytes;
uint64_t update_bytes;
double rate_bytes_s;
double rtt_ms;
double send_ms;
double apply_ms;
double commit_ms;
double apply_bytes_s;
double bucket_cost_ms;
uint32_t streams;
const char *bucket_bound;
char via[64];
double lag_ms;
uint32_t rail_count;
weft_rail_info rails[WEFT_RAILS_MAX];
} weft_peer_info;
weft_status weft_peers(weft_session *session, weft_peer_info *peers, size_t capacity, size_t *count);
typedef struct weft_stats_info {
size_t size;
uint64_t versions;
uint64_t bytes_sent;
uint64_t snapshot_bytes;
uint64_t memory_bytes;
uint64_t allocations;
uint64_t events_lost;
uint64_t peers_joined;
uint64_t peers_lost;
uint64_t journal_bytes;
uint64_t undone;
uint64_t check_failures;
char listen[64];
char backend[24];
char provider[24];
uint64_t merges;
double merge_ms;
uint32_t rail_count;
weft_rail_info rails[WEFT_RAILS_MAX];
uint64_t recorded;
uint64_t unrecorded;
double away_ms;
} weft_stats_info;
weft_status weft_stats(weft_session *session, weft_stats_info *stats);
typedef enum weft_event_kind {
WEFT_EVENT_JOINED = 1,
WEFT_EVENT_LOST = 2,
WEFT_EVENT_HELD = 3,
WEFT_EVENT_STAGED = 4,
WEFT_EVENT_RESYNC = 5,
WEFT_EVENT_GOODBYE = 6,
WEFT_EVENT_NOTHING = 7,
WEFT_EVENT_LAGGING = 8,
WEFT_EVENT_RAIL = 9,
WEFT_EVENT_UNSETTLED = 10
} weft_event_kind;
typedef struct weft_event {
size_t size;
weft_event_kind kind;
weft_status status;
char peer[64];
weft_version version;
char text[192];
} weft_event;
weft_status weft_events(weft_session *session, weft_event *event);
void weft_interrupt(weft_session *session);
weft_status weft_progress(weft_session *session, uint32_t deadline_ms);
typedef struct weft_sink {
void *user;
weft_status (*write)(void *user, const void *data, uint64_t bytes);
} weft_sink;
typedef struct weft_source {
void *user;
weft_status (*read)(void *user, uint64_t offset, void *data, uint64_t bytes);
uint64_t bytes;
} weft_source;
typedef struct weft_work {
size_t size;
uint32_t threads;
weft_status (*progress)(void *user, uint64_t done, uint64_t total);
void *user;
uint64_t memory_bytes;
} weft_work;
typedef struct weft_diff_options {
size_t size;
const char *level;
weft_version base;
weft_version target;
const void *attachment;
uint64_t attachment_bytes;
const char *names;
} weft_diff_options;
weft_status weft_diff(const weft_layout *layout, const weft_piece *base, uint64_t base_count,
const weft_piece *target, uint64_t target_count, const weft_diff_options *options,
const weft_work *work, const weft_sink *sink, weft_update_info *info);
typedef struct weft_update_file weft_update_file;
weft_status weft_update_open(const char *path, const weft_source *source, weft_update_file **update);
void weft_update_close(weft_update_file *update);
typedef struct weft_update_header {
size_t size;
weft_version base;
weft_version target;
const char *level;
uint64_t layout[2];
uint64_t elements;
uint64_t dense_bytes;
uint64_t tensors;
uint64_t changed;
uint64_t bytes;
uint64_t frame_bytes;
uint64_t frames;
uint64_t attachment_bytes;
uint32_t run_shift;
int named;
} weft_update_header;
weft_status weft_update_describe(weft_update_file *update, weft_update_header *header);
uint32_t weft_update_thresholds(const weft_update_file *update, weft_dtype dtype,
uint32_t thresholds[WEFT_THRESHOLDS_MAX]);
weft_status weft_update_layout(weft_update_file *update, const weft_layout **layout, int *named);
weft_status weft_update_attachment(const weft_update_file *update, void *data, uint64_t capacity,
uint64_t *bytes);
typedef struct weft_update_tensor {
uint64_t changed;
double bytes;
} weft_update_tensor;
weft_status weft_update_tensors(weft_update_file *update, const weft_layout *layout, const weft_piece *pieces,
uint64_t piece_count, weft_update_tensor *tensors, int *exact);
typedef struct weft_apply_info {
size_t size;
weft_version version;
uint64_t changed;
double digest_ms;
double decode_ms;
double apply_ms;
} weft_apply_info;
weft_status weft_update_apply(weft_update_file *update, const weft_layout *layout, const weft_piece *pieces,
uint64_t count, const weft_work *work, weft_apply_info *info);
weft_status weft_update_rewrite(weft_update_file *update, const weft_layout *layout, const weft_piece *pieces,
uint64_t count, const weft_work *work, const weft_sink *sink,
weft_apply_info *info);
weft_status weft_update_merge(weft_update_file *const *updates, size_t count, const weft_layout *layout,
const weft_piece *base, uint64_t base_count, const char *level,
const weft_work *work, const weft_sink *sink, weft_update_info *info);
weft_status weft_update_invert(weft_update_file *update, const weft_layout *layout, const weft_piece *base,
uint64_t base_count, const char *level, const void *attachment,
uint64_t attachment_bytes, const weft_work *work, const weft_sink *sink,
weft_update_info *info);
weft_status weft_digest_tensors(const weft_layout *layout, const weft_piece *pieces, uint64_t count,
const weft_work *work, uint64_t *tensors, uint64_t *root);
typedef struct weft_store weft_store;
typedef struct weft_store_options {
size_t size;
int create;
uint64_t anchors;
} weft_store_options;
weft_status weft_store_open(const char *place, const weft_store_options *options, weft_store **store);
void weft_store_close(weft_store *store);
weft_status weft_store_refresh(weft_store *store);
weft_status weft_store_wait(weft_store *store, uint32_t timeout_ms);
weft_status weft_store_view(weft_store *store, const weft_layout *layout, const weft_slice *slices,
uint64_t count);
typedef struct weft_store_entry {
weft_version version;
weft_version base;
uint64_t update_bytes;
uint64_t anchor_bytes;
uint64_t time_s;
int damaged;
int reachable;
uint64_t merge_bytes;
uint64_t tight_bytes;
} weft_store_entry;
weft_status weft_store_list(const weft_store *store, weft_store_entry *entries, size_t capacity,
size_t *count);
weft_status weft_store_layout(weft_store *store, const weft_version *version, weft_layout **layout);
weft_status weft_store_attachment(weft_store *store, const weft_version *version, void *data,
uint64_t capacity, uint64_t *bytes);
typedef struct weft_store_info {
size_t size;
weft_version version;
uint64_t files;
uint64_t anchors;
uint64_t bytes;
uint64_t damaged;
} weft_store_info;
weft_status weft_store_apply(weft_store *store, const weft_version *version, const weft_layout *layout,
const weft_piece *pieces, uint64_t count, const weft_work *work,
weft_store_info *info);
weft_status weft_store_apply_blocks(weft_store *store, const weft_version *version, const weft_layout *layout,
const weft_block *blocks, uint64_t count, const weft_work *work,
weft_store_info *info);
typedef struct weft_store_put_options {
size_t size;
weft_version base;
weft_version target;
const void *attachment;
uint64_t attachment_bytes;
const char *level;
} weft_store_put_options;
weft_status weft_store_put(weft_store *store, const weft_layout *layout, const weft_piece *base,
uint64_t base_count, const weft_piece *target, uint64_t target_count,
const weft_store_put_options *options, const weft_work *work,
weft_update_info *info);
typedef struct weft_store_fault {
const char *file;
weft_version version;
weft_status status;
const char *text;
} weft_store_fault;
weft_status weft_store_check(weft_store *store, const weft_work *work,
weft_status (*report)(void *user, const weft_store_fault *fault), void *user,
uint64_t *faults);
typedef struct weft_store_copied {
size_t size;
uint64_t files;
uint64_t bytes;
uint64_t there;
} weft_store_copied;
weft_status weft_store_copy(weft_store *from, weft_store *to, const weft_work *work,
weft_status (*report)(void *user, const weft_store_fault *fault), void *user,
uint64_t *faults, weft_store_copied *copied);
typedef struct weft_store_keep {
size_t size;
uint64_t versions;
uint64_t bytes;
uint64_t age_s;
uint64_t grace_s;
} weft_store_keep;
weft_status weft_store_trim(weft_store *store, const weft_store_keep *keep, uint64_t *removed);
typedef struct weft_device_info {
char backend[16];
int device;
char name[96];
char detail[192];
uint64_t memory_bytes;
int usable;
} weft_device_info;
weft_status weft_devices(weft_device_info *devices, size_t capacity, size_t *count);
typedef struct weft_provider_info {
char provider[16];
char fabric[48];
char address[64];
char detail[192];
uint64_t message_bytes;
int usable;
} weft_provider_info;
weft_status weft_providers(weft_provider_info *providers, size_t capacity, size_t *count, char *library);
"""
