"""The figures of a book, beside ours."""
