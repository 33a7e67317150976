"""What the worker does for runs on its own: timers and time limits, unfinished results, and waits for changes."""
