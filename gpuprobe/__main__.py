"""`python -m gpuprobe`, and what the script `gpuprobe` calls."""

# What `signal` is made of, and there at once, so that a Ctrl-C meets as little unguarded code as it
# can: for the names alone that module loads `enum`.
import _signal as signal  # type: ignore[import-not-found]


def main() -> None:
    """Run the command line; a Ctrl-C while it is still being loaded ends it without a traceback."""
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if usual:  # else it is ignored, as for what a script starts in the background
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from gpuprobe.cli import main as command_line

    if usual:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    command_line(prog_name="gpuprobe")


if __name__ == "__main__":
    main()
