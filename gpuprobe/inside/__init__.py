"""What `gpuprobe.hook` is made of. It runs inside an engine: the standard library alone."""
