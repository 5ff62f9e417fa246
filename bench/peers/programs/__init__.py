"""Programs that run inside the environments of the peers; each prints a JSON object per measured point."""
