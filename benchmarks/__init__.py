"""How fast and how lean gpuprobe is: ratios to other programs, measured in the same run."""
