"""Real servers for the tests: from the environment, from Docker, or from the package registries."""
