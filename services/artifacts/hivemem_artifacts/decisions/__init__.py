"""The rules: pure functions from the newest heads, a command and the time to what is appended, or a refusal."""
