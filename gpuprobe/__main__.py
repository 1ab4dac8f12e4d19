"""`python -m gpuprobe`."""

from gpuprobe.cli import main

if __name__ == "__main__":
    main(prog_name="gpuprobe")
