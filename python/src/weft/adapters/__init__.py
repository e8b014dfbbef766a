"""weft as the transport of a framework. Each module is for one, and imports it: weft.adapters.verl, .nemo_rl, .sglang."""
