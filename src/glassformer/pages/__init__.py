"""HTML pages: escaped tables, and standalone files with a content security policy."""
