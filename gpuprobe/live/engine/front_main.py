"""Run by path, by a Python without site-packages: finds the package, and becomes the front."""

import sys

if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    from gpuprobe.live.engine.front import main

    main(sys.argv[2:])
