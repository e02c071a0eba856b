"""Idle runs: background jobs that make the next answers faster. Each kind has a module that plans and runs its jobs."""
