"""The rules of memories. Each is a pure function of the current heads, a command and the time. It returns the
records to append or raises a refusal."""
