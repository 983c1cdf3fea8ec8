"""Images made ready for networks: sets of them, some of which need no download, and how they are varied."""
