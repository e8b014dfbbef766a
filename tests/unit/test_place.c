/* The places of devices, read from a made-up sysfs: two sockets, a switch with a NIC and an accelerator below it, RDMA
 * devices of two kinds. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "providers/interface.h"
#include "providers/place.h"
#include "tests/support/folder.h"

#define NIC_NEAR "0000:17:00.0" /* below the switch of GPU_NEAR */
#define GPU_NEAR "0000:18:00.0"
#define GPU_ROOT "0000:20:00.0" /* another port of the same root complex */
#define GPU_NODE "0000:40:00.0" /* another root complex of the same node */
#define GPU_FAR  "0000:b1:00.0"
#define VGA      "0000:03:00.0"
#define VIRTIO   "0000:00:03.0"

static char root[256];

static void folder(const char *path)
{
    char all[512], part[512];
    snprintf(all, sizeof all, "%s%s", root, path);
    for (size_t i = strlen(root) + 1; i <= strlen(all); i++)
        if (all[i] == '/' || !all[i]) {
            snprintf(part, sizeof part, "%.*s", (int)i, all);
            mkdir(part, 0700);
        }
}

static void file(const char *path, const char *name, const char *text)
{
    char all[768];
    folder(path);
    snprintf(all, sizeof all, "%s%s/%s", root, path, name);
    FILE *f = fopen(all, "w");
    assert_non_null(f);
    fprintf(f, "%s\n", text);
    fclose(f);
}

static void lead(const char *from, const char *to)
{
    char target[512], link[512];
    snprintf(link, sizeof link, "%s%s", root, from);
    snprintf(target, sizeof target, "%s%s", root, to);
    assert_int_equal(symlink(target, link), 0);
}

static void device(const char *bus, const char *path, const char *class, const char *node)
{
    char link[128];
    file(path, "class", class);
    file(path, "numa_node", node);
    snprintf(link, sizeof link, "/sys/bus/pci/devices/%s", bus);
    lead(link, path);
}

static int make(void **state)
{
    (void)state;
    folder_open(root, sizeof root);
    folder("/sys/bus/pci/devices");
    folder("/sys/class/net/eth0");
    folder("/sys/class/net/lo");
    folder("/sys/bus/pci/drivers/efa");
    folder("/sys/bus/pci/drivers/mlx5_core");
    device(NIC_NEAR, "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/" NIC_NEAR, "0x020700", "0");
    device(GPU_NEAR, "/sys/devices/pci0000:15/0000:15:01.0/0000:16:01.0/" GPU_NEAR, "0x030200", "0");
    device(GPU_ROOT, "/sys/devices/pci0000:15/0000:15:02.0/" GPU_ROOT, "0x120000", "0");
    device(GPU_NODE, "/sys/devices/pci0000:3f/0000:3f:01.0/" GPU_NODE, "0x030200", "0");
    device(GPU_FAR, "/sys/devices/pci0000:b0/0000:b0:01.0/" GPU_FAR, "0x030200", "1");
    device(VGA, "/sys/devices/pci0000:00/" VGA, "0x030000", "-1");
    device(VIRTIO, "/sys/devices/pci0000:00/" VIRTIO, "0x020000", "-1");
    folder("/sys/devices/pci0000:00/" VIRTIO "/virtio0");
    lead("/sys/class/net/eth0/device", "/sys/devices/pci0000:00/" VIRTIO "/virtio0");
    file("/sys/class/infiniband/mlx5_0/ports/1/gids", "0", "fe80:0000:0000:0000:ba59:9fff:fe00:0001");
    file("/sys/class/infiniband/mlx5_0/ports/1/gids", "1", "0000:0000:0000:0000:0000:0000:0000:0000");
    file("/sys/class/infiniband/mlx5_0/ports/1/gids", "2", "0000:0000:0000:0000:0000:ffff:0a01:0005");
    file("/sys/class/infiniband/mlx5_1/ports/1/gids", "0", "fe80:0000:0000:0000:ba59:9fff:fe00:0002");
    file("/sys/class/infiniband/mlx5_1/ports/1/gids", "1", "febf:0000:0000:0000:ba59:9fff:fe00:0002");
    folder("/sys/class/infiniband/rdmap16s27/device");
    lead("/sys/class/infiniband/rdmap16s27/device/driver", "/sys/bus/pci/drivers/efa");
    return 0;
}

static int unmake(void **state)
{
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -r '%s'", root);
    return system(command);
}

static void the_distance_is_told_by_what_two_devices_share(void **state)
{
    (void)state;
    assert_int_equal(weft_place_distance(root, NIC_NEAR, GPU_NEAR), WEFT_DISTANCE_BRIDGE);
    assert_int_equal(weft_place_distance(root, NIC_NEAR, NIC_NEAR), WEFT_DISTANCE_BRIDGE);
    assert_int_equal(weft_place_distance(root, NIC_NEAR, GPU_ROOT), WEFT_DISTANCE_COMPLEX);
    assert_int_equal(weft_place_distance(root, NIC_NEAR, GPU_NODE), WEFT_DISTANCE_NODE);
    assert_int_equal(weft_place_distance(root, NIC_NEAR, GPU_FAR), WEFT_DISTANCE_FAR);
    assert_int_equal(weft_place_distance(root, GPU_FAR, NIC_NEAR), WEFT_DISTANCE_FAR);
    assert_int_equal(weft_place_distance(root, NIC_NEAR, VGA), WEFT_DISTANCE_UNKNOWN);
    assert_int_equal(weft_place_distance(root, NIC_NEAR, ""), WEFT_DISTANCE_UNKNOWN);
    assert_int_equal(weft_place_distance(root, "0000:99:00.0", GPU_FAR), WEFT_DISTANCE_UNKNOWN);
    for (weft_distance d = WEFT_DISTANCE_UNKNOWN; d <= WEFT_DISTANCE_FAR; d++)
        assert_true(weft_distance_text(d)[0]);
}

static void nodes_are_read(void **state)
{
    (void)state;
    assert_int_equal(weft_place_node(root, NIC_NEAR), 0);
    assert_int_equal(weft_place_node(root, GPU_FAR), 1);
    assert_int_equal(weft_place_node(root, VGA), -1);
    assert_int_equal(weft_place_node(root, ""), -1);
    assert_int_equal(weft_place_node(root, "0000:99:00.0"), -1);
}

static void an_interface_has_the_address_of_its_device(void **state)
{
    (void)state;
    char bus[WEFT_PLACE_BUS];
    weft_place_of_interface(root, "eth0", bus);
    assert_string_equal(bus, VIRTIO);
    weft_place_of_interface(root, "lo", bus);
    assert_string_equal(bus, "");
    weft_place_of_interface(root, "nosuch0", bus);
    assert_string_equal(bus, "");
}

static void accelerators_come_in_the_order_of_their_addresses(void **state)
{
    (void)state;
    char list[8][WEFT_PLACE_BUS];
    assert_int_equal(weft_place_accelerators(root, list, 8), 4);
    assert_string_equal(list[0], GPU_NEAR);
    assert_string_equal(list[1], GPU_ROOT);
    assert_string_equal(list[2], GPU_NODE);
    assert_string_equal(list[3], GPU_FAR);
    memset(list, 0, sizeof list);
    assert_int_equal(weft_place_accelerators(root, list, 2), 4);
    assert_string_equal(list[0], GPU_NEAR);
    assert_string_equal(list[1], GPU_ROOT);
    assert_string_equal(list[2], "");
    assert_int_equal(weft_place_accelerators(root, NULL, 0), 4);
    assert_int_equal(weft_place_accelerators("/nowhere", list, 8), 0);
}

static void rdma_devices_are_told_by_their_driver(void **state)
{
    (void)state;
    char names[64];
    assert_int_equal(weft_place_rdma(root, WEFT_DEVICE_EFA, names, sizeof names), 1);
    assert_string_equal(names, "rdmap16s27");
    assert_int_equal(weft_place_rdma(root, WEFT_DEVICE_RDMA, names, sizeof names), 2);
    assert_non_null(strstr(names, "mlx5_0"));
    assert_non_null(strstr(names, "mlx5_1"));
    assert_int_equal(weft_place_rdma(root, WEFT_DEVICE_NONE, names, sizeof names), 0);
    assert_string_equal(names, "");
    assert_int_equal(weft_place_rdma(root, WEFT_DEVICE_RDMA, names, 4), 2);
    assert_int_equal(weft_place_rdma("/nowhere", WEFT_DEVICE_RDMA, names, sizeof names), 0);
}

static void gids_that_others_can_reach_are_counted(void **state)
{
    (void)state;
    assert_int_equal(weft_place_gids(root, "mlx5_0"), 1);
    assert_int_equal(weft_place_gids(root, "mlx5_1"), 0);
    assert_int_equal(weft_place_gids(root, "rdmap16s27"), -1);
    assert_true(weft_place_pin_limit() > 0);
}

static void addresses_that_others_can_reach_have_a_text(void **state)
{
    static const char *const texts[] = {"fd00:1::5", "fe80::1", "febf::1", "::1"};
    char numeric[WEFT_INTERFACE_TEXT];
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_int_equal(inet_pton(AF_INET6, texts[i], &v6.sin6_addr), 1);
        const bool reached = weft_interface_text((const struct sockaddr *)&v6, numeric);
        assert_true(reached == (texts[i][1] != 'e') && (!reached || strcmp(numeric, texts[i]) == 0));
    }
    assert_false(weft_interface_text(NULL, numeric));
    v6.sin6_family = AF_UNIX;
    assert_false(weft_interface_text((const struct sockaddr *)&v6, numeric));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_distance_is_told_by_what_two_devices_share),
        cmocka_unit_test(nodes_are_read),
        cmocka_unit_test(an_interface_has_the_address_of_its_device),
        cmocka_unit_test(accelerators_come_in_the_order_of_their_addresses),
        cmocka_unit_test(rdma_devices_are_told_by_their_driver),
        cmocka_unit_test(gids_that_others_can_reach_are_counted),
        cmocka_unit_test(addresses_that_others_can_reach_have_a_text),
    };
    return cmocka_run_group_tests(tests, make, unmake);
}
