"""weft as the transport of a framework: weft_fabric.adapters.verl and .nemo_rl. Each imports its framework."""
