"""The HTTP endpoint of `pkb serve --http`: for OpenAI's clients and the page, on loopback unless told otherwise."""
