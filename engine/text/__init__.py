"""Language: words, sentences, dates, and what a question asks for. Knows no bank and no model."""
