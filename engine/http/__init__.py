"""The HTTP endpoint of `pkb serve --http`: on loopback alone, for OpenAI's clients and for the page."""
