"""The interface of engines: their calls, who intercepts and records them, and which engines there are."""
