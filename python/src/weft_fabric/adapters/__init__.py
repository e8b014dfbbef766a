"""weft as the transport of a framework: weft_fabric.adapters.verl, .nemo_rl and .sglang. Each imports its framework."""
