#include "tests/support/port.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORT_FIRST 10240u /* below the ports that the system gives to any process */
#define PORT_COUNT 20000u

static bool is_free(unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    address.sin_port = htons((uint16_t)port);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool is = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
    if (fd >= 0)
        close(fd);
    return is;
}

unsigned port_free_row(unsigned count)
{
    static unsigned given;
    for (unsigned i = 0; i < PORT_COUNT; i++) {
        const unsigned port = PORT_FIRST + ((unsigned)getpid() * 16u + given++) % PORT_COUNT;
        unsigned found = 0;
        while (found < count && is_free(port + found))
            found++;
        if (found == count)
            return port;
    }
    return 0;
}

unsigned port_free(void)
{
    return port_free_row(1);
}
