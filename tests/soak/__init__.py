"""Long runs over real mail, left out of `make test`."""
