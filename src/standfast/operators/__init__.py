"""HOW a question is answered: a folder per question, a file per way."""
