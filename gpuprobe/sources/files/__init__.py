"""From paths to streams of bytes: files, folders, archives, compression, journals."""
