/* wire_fabric.c - what HELLO says of the other end's fabric library, held against this end's. */
#include "base/log.h"
#include "base/status.h"
#include "wire/wire.h"

weft_status weft_wire_check_fabric(const weft_wire_hello *hello, const weft_link_facts *facts)
{
    uint32_t theirs = hello->fabric, ours = facts->version;
    if (!theirs || !ours || theirs >> 16 == ours >> 16)
        return WEFT_OK;
    if (facts->one_major)
        return weft_fail(WEFT_E_REFUSED,
                         "%s comes with libfabric %u.%u, this end has %u.%u: provider %s does not work between majors; "
                         "install one of them at both ends, or name provider tcp, which does",
                         hello->name, theirs >> 16, theirs & 0xffff, ours >> 16, ours & 0xffff, hello->provider);
    weft_log(WEFT_LOG_INFO, "%s comes with libfabric %u.%u, this end has %u.%u: provider %s works between the two",
             hello->name, theirs >> 16, theirs & 0xffff, ours >> 16, ours & 0xffff, hello->provider);
    return WEFT_OK;
}
