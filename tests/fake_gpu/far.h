/* far.h - fleets whose weights lie in memory of devices that only the drivers of the tests reach. */
#ifndef WEFT_TESTS_FAKE_FAR_H
#define WEFT_TESTS_FAKE_FAR_H

#include "tests/support/fleet.h"

#include "tests/fake_gpu/world.h"

/* Memory of two devices of each vendor. */
extern const fleet_far far_cuda_0, far_cuda_1, far_hip_0, far_hip_1;

/* As fleet_open and fleet_close, over drivers that are loaded anew; in the end nothing of them is left open. */
fleet *far_fleet_open(fleet_size size, const char *const *overrides);
void far_fleet_close(fleet *f);

#endif
