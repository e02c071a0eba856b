"""The page of `pkb serve --http`: plain files that a browser runs as they are. Nothing here is imported."""
