#include "tests/support/port.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORT_FIRST 10240u /* below the ports that the system gives to any process */
#define PORT_COUNT 20000u

unsigned port_free(void)
{
    static unsigned given;
    for (unsigned i = 0; i < PORT_COUNT; i++) {
        unsigned port = PORT_FIRST + ((unsigned)getpid() * 16u + given++) % PORT_COUNT;
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        address.sin_port = htons((uint16_t)port);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool free_now = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
        if (fd >= 0)
            close(fd);
        if (free_now)
            return port;
    }
    return 0;
}
