// The public header as C++: every declaration has C linkage and needs no cast that C++ refuses.
#include <weft.h>

#include <cstring>

int main()
{
    weft_update_info info{};
    info.size = sizeof info;
    weft_status status = WEFT_E_CONFIG;
    weft_scope scope = weft_status_scope(status);
    return scope != WEFT_SCOPE_CALL || std::strcmp(weft_status_name(status), "config") != 0 || info.changed != 0;
}
