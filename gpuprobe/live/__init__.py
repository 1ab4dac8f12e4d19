"""The live half: what asks the machine while the engine runs, and never hangs or slows it."""
